"""What a native format is: how it is recognised, how its records become canonical ones, and how that is told.

A format never sees the command line. It is given a sample of a file and says why it takes it; it is given the file and
yields canonical records (FORMATS.md section 6 in the design: the ecosystem's own names) with the line they come from.
What it cannot know stays out: a verdict that is missing is null or absent, never false.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from gagar_cli.errors import InputError
from gagar_cli.io.formats.files import NativeFile, Sample
from gagar_cli.io.formats.values import flag_of
from gagar_cli.io.jsonl import show_value

Record = dict[str, Any]
Role = Literal["attempts", "predictions", "verdicts", "refused"]


class Row(NamedTuple):
    """One canonical record, or why there is none, and the line (or number) of the native record."""

    line: int
    record: Record | InputError


@dataclass(frozen=True, slots=True)
class Context:
    """What a format may know of a file beside its content."""

    run: str = ""
    """The run that the file belongs to: the part of its path that tells it from others; empty for a lone file."""
    keep_raw: bool = False
    """Whether what no canonical field takes is kept as JSON text under `raw`."""
    is_grouped: bool = False
    """Whether the user says what groups the records, so that none needs a prompt for it."""
    notes: list[str] = field(default_factory=list)
    """What is to be told about the file, appended while it is read."""
    seen: dict[Any, int] = field(default_factory=dict)
    """For formats that number or compare the records of a file."""
    firsts: dict[Any, str] = field(default_factory=dict)
    """The first value of what `count` counts, as messages show it."""
    fields: Mapping[str, str] = field(default_factory=dict)
    """Canonical name to the path that the user gives for it."""
    offered: list[str] = field(default_factory=list)
    """The paths in the first record in which one that the user gives leads nowhere."""
    pass_threshold: float = 1.0
    """The smallest reward that passes."""
    columns: Sequence[str] = ()
    """Further paths that are looked for: in the canonical record, and where it lacks them in the native one."""

    def count(self, what: Any, value: object) -> None:
        """Count something of the file's records."""
        self.seen[what] = self.seen.get(what, 0) + 1
        self.firsts.setdefault(what, show_value(value))


Reader = Callable[[NativeFile, Context], Iterator[Row]]


@dataclass(frozen=True, slots=True)
class Format:
    """One native format."""

    name: str
    """As `--format` takes it."""
    title: str
    container: str
    """What lies on disk."""
    detect: Callable[[Sample], str | None]
    """Why a file is taken for this format, from its content; None where it is not."""
    read: Reader | None
    """None where the format only says a verdict, or is refused."""
    mapping: Mapping[str, str]
    """Canonical field to where it comes from, for `gagar formats`."""
    role: Role = "attempts"
    needs_join: str = ""
    """What only `--join` can add."""
    is_one_attempt: bool = False
    """Whether a file is one attempt, named after its instance."""
    is_row: bool = False
    """Whether each line of a file of lines is one attempt."""
    is_connected: bool = False
    """Whether what a line comes to depends on others: such a file is read once all of it is there."""


class Lift:
    """A native record while it is emptied: what is taken goes into the canonical record, the rest stays for `raw`."""

    def __init__(self, record: Mapping[str, Any], source: Mapping[str, Any] | None = None) -> None:
        self.source = record if source is None else source
        """The whole native record, which is not emptied."""
        self.rest: Record = dict(record)

    def peek(self, path: str, default: Any = None) -> Any:
        """The value at a dotted path; the record keeps it."""
        value: Any = self.rest
        for part in path.split("."):
            if not isinstance(value, Mapping) or part not in value:
                return default
            value = value[part]
        return value

    def take(self, path: str, default: Any = None) -> Any:
        """The value at a dotted path, which leaves the record."""
        *parents, last = path.split(".")
        holder = self.rest
        for part in parents:
            child = holder.get(part)
            if not isinstance(child, Mapping):
                return default
            holder[part] = dict(child)  # the caller's record stays as it was
            holder = holder[part]
        return holder.pop(last, default)

    def text(self, path: str) -> str | None:
        """Text at a path, taken; a value of another type stays where it is."""
        value = self.peek(path)
        return self.take(path) if isinstance(value, str) else None

    def number(self, path: str) -> float | None:
        """A number at a path, taken; a value of another type stays where it is."""
        value = self.peek(path)
        return self.take(path) if isinstance(value, int | float) and not isinstance(value, bool) else None

    def integer(self, path: str) -> int | None:
        """An integer at a path, taken, also one that is written as 12.0; a value of another type stays where it is."""
        value = self.peek(path)
        if isinstance(value, float) and value.is_integer():
            return int(self.take(path))
        return self.take(path) if isinstance(value, int) and not isinstance(value, bool) else None

    def flag(self, path: str) -> bool | None:
        """True or false at a path, also as 1 or 0, taken.

        Raises:
            InputError: something else is there.
        """
        return flag_of(self.take(path), path)


def known(**fields: Any) -> Record:
    """The fields that have a value: what is unknown stays out of the record."""
    return {name: value for name, value in fields.items() if value is not None}
