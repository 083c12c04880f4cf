"""The values of a parsed patch: files, hunks, lines, and what is wrong with them."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

from gagar_cli.core.text import escape_untrusted, shorten
from gagar_cli.errors import GagarError

Change = Literal["added", "deleted", "modified", "renamed", "copied"]


class PatchConflict(GagarError):  # noqa: N818 - named for what it tells, like git's word
    """A hunk that does not fit the text it is applied to; `hunk` counts from 1, 0 means the file as a whole."""

    def __init__(self, path: str, hunk: int, why: str) -> None:
        place = f"hunk {hunk}: {why}" if hunk else why
        super().__init__(f"{show_text(path)} does not apply ({place})")
        self.hunk = hunk


class PatchProblem(NamedTuple):
    """Something that is wrong with a patch."""

    line: int
    """1-based line of the patch text."""
    message: str

    def __str__(self) -> str:
        return f"patch:{self.line}: {self.message}"


class PatchLine(NamedTuple):
    """One line of a hunk."""

    marker: str
    """A blank for context, `+` or `-`."""
    text: str
    """Without the newline; a carriage return before it is kept."""
    old_line: int | None
    """1-based, in the base file; None for an added line."""
    new_line: int | None
    """1-based, in the patched file; None for a removed line."""


@dataclass(frozen=True, slots=True)
class Hunk:
    """A run of lines as its header places it."""

    old_start: int
    old_count: int
    new_start: int
    new_count: int
    section: str
    """What follows the second `@@`."""
    lines: tuple[PatchLine, ...]
    old_lacks_newline: bool = False
    """The last old line ends the base file without a newline."""
    new_lacks_newline: bool = False


@dataclass(frozen=True, slots=True)
class PatchFile:
    """What a patch does to one file."""

    old_path: str | None
    """None where the file is added."""
    new_path: str | None
    """None where the file is deleted."""
    change: Change
    old_mode: str | None = None
    new_mode: str | None = None
    """Octal, None where the patch does not say."""
    is_binary: bool = False
    hunks: tuple[Hunk, ...] = ()
    line: int = 1
    """1-based line of the patch text where the file's header starts."""

    @property
    def path(self) -> str:
        """The new path; of a deleted file the old one."""
        return self.new_path if self.new_path is not None else self.old_path or ""

    @property
    def n_added(self) -> int:
        """How many lines are added."""
        return sum(line.marker == "+" for hunk in self.hunks for line in hunk.lines)

    @property
    def n_removed(self) -> int:
        """How many lines are removed."""
        return sum(line.marker == "-" for hunk in self.hunks for line in hunk.lines)


@dataclass(frozen=True, slots=True)
class Patch:
    """All files of a patch, and what could not be read."""

    files: tuple[PatchFile, ...] = ()
    problems: tuple[PatchProblem, ...] = ()

    @property
    def n_added(self) -> int:
        """How many lines are added."""
        return sum(file.n_added for file in self.files)

    @property
    def n_removed(self) -> int:
        """How many lines are removed."""
        return sum(file.n_removed for file in self.files)


def show_text(text: str) -> str:
    """Untrusted text as it may stand in a message."""
    return shorten(escape_untrusted(text[:200], keep_newlines=False), 80)
