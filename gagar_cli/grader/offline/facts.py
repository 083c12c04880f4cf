"""What the tools have shown so far, as values: the only thing that the rules look at.

All text in here was written by a policy or comes from its repository. It is compared, counted and quoted, never obeyed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

PatchState = Literal["known", "unknown", "empty"]


class ShownLine(NamedTuple):
    """One line of untrusted text with the coordinate under which a tool showed it."""

    at: str
    text: str
    """Without the diff marker."""
    marker: str = ""
    """`+`, `-` or a blank in patches, empty elsewhere."""
    number: int = 0
    """The last number of the coordinate, without its sign."""
    base: int = 0
    """Patches only: the base file's line that this one is, or stands before."""


class Hunk(NamedTuple):
    """One hunk of a patch."""

    lines: tuple[ShownLine, ...]


class PatchedFile(NamedTuple):
    """One file of a patch; `hunks` hold what the pages seen so far have shown."""

    path: str
    change: str
    """added, deleted, modified or renamed."""
    n_added: int
    n_removed: int
    hunks: tuple[Hunk, ...]

    @property
    def lines(self) -> tuple[ShownLine, ...]:
        """The lines of all hunks."""
        return tuple(line for hunk in self.hunks for line in hunk.lines)

    @property
    def added(self) -> tuple[ShownLine, ...]:
        """The added lines."""
        return tuple(line for line in self.lines if line.marker == "+")

    @property
    def removed(self) -> tuple[ShownLine, ...]:
        """The removed lines."""
        return tuple(line for line in self.lines if line.marker == "-")


class Lead(NamedTuple):
    """A turn that the workspace's mechanical scan, or ours, found worth reading."""

    candidate: str
    turn: int
    kind: str


class Execution(NamedTuple):
    """One command that was run on a candidate's patched tree."""

    exit_code: int
    lines: tuple[ShownLine, ...]


@dataclass(frozen=True, slots=True)
class Candidate:
    """One passing trajectory as the tools showed it."""

    id: str
    patch_state: PatchState = "known"
    n_turns: int = 0
    n_output_lines: int = 0
    twins: tuple[str, ...] = ()
    """Candidates whose patch is byte-identical."""
    files: tuple[PatchedFile, ...] = ()
    digests: tuple[ShownLine, ...] = ()
    """One line a turn."""
    turns: Mapping[int, tuple[ShownLine, ...]] = field(default_factory=dict)
    """The turns that were read in full."""
    execution: Execution | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """All that is known about one group."""

    candidates: tuple[Candidate, ...] = ()
    statement: str = ""
    has_repository: bool = False
    can_run: bool = False
    names_tests: bool = False
    """Whether the task has a test command that `run_check` can run by the name `tests`."""
    leads: tuple[Lead, ...] = ()
    searches: Mapping[tuple[str, str, str], tuple[ShownLine, ...]] = field(default_factory=dict)
    """(text, where, candidate) to the lines found; a search that was not made has no entry."""

    def siblings(self, candidate: Candidate) -> tuple[Candidate, ...]:
        """The other candidates with a known patch that is not the same one."""
        return tuple(
            other
            for other in self.candidates
            if other.id != candidate.id and other.id not in candidate.twins and other.files
        )

    def found(self, text: str, where: str, candidate: str = "") -> tuple[ShownLine, ...] | None:
        """What that search found; None where it was not made."""
        return self.searches.get((text, where, candidate))
