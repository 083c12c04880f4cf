"""Which of the named inputs are native files, and which of those are attempts of their own.

A folder is searched to its depth, each file told by its content. What belongs to another file is no attempt of its own.
"""

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path

from gagar_cli.core.text import counted
from gagar_cli.errors import InputError, UsageError
from gagar_cli.io.foreign import without_shards
from gagar_cli.io.formats import FORMATS, recognise
from gagar_cli.io.formats.base import Format
from gagar_cli.io.formats.files import NativeFile
from gagar_cli.io.native_companions import broken_attempts, without_companions
from gagar_cli.io.native_found import Found, Other, refuse
from gagar_cli.io.remote import is_remote, masked
from gagar_cli.io.streams import SHARD_SUFFIXES, Opened, list_shards, show_path

SUFFIXES = (".json", ".jsonl", ".traj", ".pred", ".parquet", ".pt", ".pkl", ".jsonl.gz", ".jsonl.zst")
LOG_FOLDERS = ("trajs", "trajectories")
_MAX_FILES = 1_000_000
_MAX_SHOWN = 3
_MIN_BEGINNING = 3


def find_native(
    paths: Sequence[str], forced: str | None, stack: ExitStack, *, has_fields: bool = False
) -> tuple[list[Found], list[Other], list[str]]:
    """The native files among the named inputs, the inputs that are none, and notes.

    A folder is searched to its depth. What is kept open closes with the stack. Raises:
        InputError: a file is recognised and cannot be read, or a forced format finds nothing.
        UsageError: no such format.
    """
    if forced is not None and forced != "canonical" and forced not in FORMATS:
        raise UsageError(*_not_a_format(f"--format is {forced!r}", forced))
    if forced == "canonical":
        return [], [Other(path) for path in paths], []
    found: list[Found] = []
    others: list[Other] = []
    notes: list[str] = []
    for path in paths:
        if not path:
            raise InputError(
                "a dump is named by an empty text", "`.` is the folder where this runs, `-` standard input"
            )
        if is_remote(path):
            inside_store = [
                recognised(shard, forced, stack, has_fields=has_fields) for shard in list_shards(path)
            ]
            natives = [one for one in inside_store if isinstance(one, Found)]
            if len(inside_store) > 1 and (kept := without_companions(natives, notes, path)):
                found += kept
                notes += _unread(path, {one.path: None for one in inside_store if isinstance(one, Other)})
                continue
            for one in inside_store:
                _sort_in(one, found, others)
            continue
        if path != "-" and Path(path).is_dir():
            inside, unknown, broken = _in_folder(path, forced, stack, has_fields=has_fields)
            kept = without_companions(inside, notes, path)
            if inside and not kept:
                refuse(inside[0])
            if kept:
                found += [*kept, *broken_attempts(broken, kept, notes, path)]
                notes += _unread(path, {each: None for each in unknown if each not in broken})
            elif broken and not unknown:
                raise next(iter(broken.values()))
            else:
                others += [Other(shard, unknown.pop(shard, None)) for shard in _shards_of(path)]
            for opened in unknown.values():
                if opened is not None:
                    opened.stream.close()
            continue
        _sort_in(recognised(path, forced, stack, has_fields=has_fields), found, others)
    return found, others, notes


def _shards_of(path: str) -> list[str]:
    try:
        return list_shards(path)
    except InputError as error:
        raise without_shards(path, error) from error


def _not_a_format(what: str, name: str) -> tuple[str, str | None]:
    """An error and its hint: the nearest name, or all of them where none is near."""
    near = nearest_format(name)
    if near is None:
        return f"{what}, expected canonical, {', '.join(FORMATS)}", None
    return f"{what}, the nearest is {near}", "`gagar formats` lists all"


def nearest_format(name: str) -> str | None:
    """The format that a misspelt name stands for; None where it is like none."""
    names = ["canonical", *FORMATS]
    beginning = [each for each in names if len(name) >= _MIN_BEGINNING and each.startswith(name.lower())]
    return next(iter(beginning or get_close_matches(name.lower(), names, n=1)), None)


def _sort_in(one: "Found | Other", found: list[Found], others: list[Other]) -> None:
    if isinstance(one, Other):
        others.append(one)
    elif one.format.role in ("refused", "verdicts"):
        refuse(one)
    else:
        found.append(one)


def recognised(
    path: str, forced: str | None, stack: ExitStack, *, has_fields: bool = False
) -> "Found | Other":
    """One file, told by its content or taken for the forced format.

    `has_fields`: the user says where attempts have their fields, so a file that looks like none holds some.
    """
    try:
        file = NativeFile(path)
    except InputError as error:
        return Other(path, problem=error)  # its reader says what is wrong with it
    kept = file if file.spooled is not None else None
    if kept is not None:
        stack.callback(kept.close)
    try:
        sample = file.sample()
    except InputError as error:
        return Other(path, file.spooled, error)
    taken = (FORMATS[forced], "--format") if forced else recognise(sample, are_attempts=has_fields)
    if taken is None:
        return Other(path, file.spooled, file.problem)
    folder = run_directory_of(path, taken[0])
    return Found(path, *taken, run_directory=folder, container=sample.container, file=kept)


def run_directory_of(path: str, format_: Format) -> str:
    """The folder that holds the run of a file: above that of an instance, and above one for trajectories only."""
    above, _, name = masked(path).rpartition("/")
    folder = _resolved(above or ("/" if path.startswith("/") else "."))
    if format_.name == "harbor" or folder.name == name.split(".traj")[0].removesuffix(".pred"):
        folder = folder.parent
    return str(folder.parent if folder.name in LOG_FOLDERS else folder)


@lru_cache(maxsize=1024)
def _resolved(folder: str) -> Path:
    # Looking up every part of a path takes longer than opening a small file.
    return Path(folder).resolve()


def _in_folder(
    path: str, forced: str | None, stack: ExitStack, *, has_fields: bool
) -> tuple[list[Found], dict[str, Opened | None], dict[str, InputError]]:
    """The native files below a folder, the shards that are none, with what was expanded of them, and what cannot be read."""
    files: list[str] = []
    for folder, folders, names in os.walk(path):
        folders[:] = [name for name in folders if not name.startswith(".")]
        chosen = [name for name in names if name.endswith(SUFFIXES) and not name.startswith(".")]
        files += [str(Path(folder) / name) for name in chosen]
        if len(files) > _MAX_FILES:
            raise InputError(f"{show_path(path)}: more than {_MAX_FILES:,} files")
    found: list[Found] = []
    unknown: dict[str, Opened | None] = {}
    broken: dict[str, InputError] = {}
    for each in sorted(files, key=natural_order):
        one = recognised(each, None, stack, has_fields=has_fields) if Path(each).is_file() else None
        if isinstance(one, Found) and forced in (None, one.format.name):
            found.append(one)
        elif isinstance(one, Other):
            if each.endswith(SHARD_SUFFIXES):
                unknown[each] = one.opened
            if one.problem is not None:
                broken[each] = one.problem
    if forced is not None and not found:
        raise InputError(f"{show_path(path)}: no file of the format {forced} in this folder")
    return found, unknown, broken


def _unread(path: str, unknown: Mapping[str, object]) -> list[str]:
    """A note on shards that are of no native format beside files that are."""
    if not unknown:
        return []
    shown = ", ".join(show_path(each) for each in list(unknown)[:_MAX_SHOWN])
    what = counted(len(unknown), "of its files is", "of its files are")
    return [f"{show_path(path)}: {what} of no native format and not read: {shown}"]


def natural_order(path: str) -> list[tuple[int, int, str]]:
    """Steps count as numbers: 9.jsonl before 10.jsonl."""
    parts = []
    for part in Path(path).parts:
        digits = part.split(".")[0]
        parts.append((0, int(digits), part) if digits.isdecimal() and len(digits) < 18 else (1, 0, part))
    return parts
