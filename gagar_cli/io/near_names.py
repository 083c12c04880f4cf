"""Paths that `--field` names and no record has: the error about them, with the ones that were probably meant."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from itertools import islice
from typing import TYPE_CHECKING

from gagar_cli.core.text import escape_untrusted, shorten
from gagar_cli.errors import InputError, OutputError
from gagar_cli.io.jsonl import show_value
from gagar_cli.io.lookups import MISSING
from gagar_cli.io.mistaken import is_neither, mistaken

if TYPE_CHECKING:
    from gagar_cli.io.records import Fields
    from gagar_cli.io.sources import Place, Source

_MAX_DEPTH = 4
_MAX_PATHS = 1000
_MAX_PATH_CHARS = 200
_MAX_SHOWN = 3


def paths_of(record: Mapping[str, object]) -> list[str]:
    """The paths in a record, those of objects before those in them.

    >>> paths_of({"outcome": {"reward": 1.0}, "id": 3})
    ['outcome', 'id', 'outcome.reward']
    """
    return list(islice(_walk(record), _MAX_PATHS))


def near_paths(path: str, offered: Iterable[str]) -> list[str]:
    """Those that a misspelt path may stand for, nearest first: spelt alike, or with its last part elsewhere.

    >>> near_paths("outcome.rewad", ["outcome", "id", "outcome.reward"]), near_paths("reward", ["a.reward", "b"])
    (['outcome.reward'], ['a.reward'])
    """
    short = {each.lower(): each for each in reversed([*offered]) if len(each) <= _MAX_PATH_CHARS}
    wanted = path[:_MAX_PATH_CHARS].lower()
    alike = get_close_matches(wanted, short, n=_MAX_SHOWN, cutoff=0.7)
    last = wanted.rpartition(".")[2]
    ends = [each for each in short if each != wanted and each.rpartition(".")[2] == last]
    return [short[each] for each in dict.fromkeys([*alike, *sorted(ends, key=len)])][:_MAX_SHOWN]


def refuse_unseen(fields: "Fields", sources: Sequence["Source"], first: "tuple[int, Place] | None") -> None:
    """See that every mapped path leads somewhere; `first` is the source and the place of the first record.

    Raises:
        InputError: no record has one, with the paths that are near.
    """
    for name, path in fields.mapping.items():
        if name in fields.unseen:
            source = sources[0 if first is None else first[0]]
            hint = _hint(name, path, _offered(source, None if first is None else first[1]))
            raise InputError(f"{sources[0].name}: no record has {show_value(path)}", hint)


def explained(
    error: InputError, record: Mapping[str, object], fields: "Fields", source: "Source", place: "Place"
) -> InputError:
    """The error about the first record: what it is where it is no attempt, which path is near where one leads nowhere."""
    whole = _whole(source, place)
    if whole is not None and (other := mistaken(whole)) is not None:
        return other
    if not is_neither(error):
        return error
    for name in ("reward", "resolved"):
        path = fields.mapping.get(name)
        if path is not None and fields.find(record, name) is MISSING:
            return InputError(
                f"neither reward nor resolved: there is no {show_value(path)}",
                _hint(name, path, _offered(source, place)),
            )
    return error


def _hint(name: str, path: str, offered: Iterable[str]) -> str:
    near = [escape_untrusted(shorten(each, 80), keep_newlines=False) for each in near_paths(path, offered)]
    meant = f"; near are {', '.join(near)}" if near else ""
    return f"it was named by `--field {name}={show_value(path)[1:-1]}`{meant}"


def _offered(source: "Source", place: "Place | None") -> list[str]:
    """What a source's first record has: of a native one as it was written, too."""
    record = None if place is None else _whole(source, place)
    return [*getattr(source, "offered", ()), *(paths_of(record) if record is not None else ())]


def _whole(source: "Source", place: "Place") -> Mapping[str, object] | None:
    """A record of which only some columns, or the ends, were read."""
    try:
        return next(iter(source.read_whole([place])), None)
    except (InputError, OutputError):
        return None


def _walk(record: Mapping[str, object]) -> Iterator[str]:
    level: list[tuple[str, object]] = [("", record)]
    for _ in range(_MAX_DEPTH):
        deeper = []
        for path, value in level:
            for key, inner in value.items() if isinstance(value, Mapping) else ():
                named = f"{path}.{key}" if path else str(key)
                yield named
                deeper.append((named, inner))
        level = deeper
