"""Passing attempts that come without a change: counted, and told.

A grader has no way to tell a patch that a dump lost from one that was never made: such attempts are ranked as they are.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from gagar_cli.core.schema import Trajectory
from gagar_cli.core.text import counted
from gagar_cli.io.reading_notes import NO_PATCH


@dataclass(frozen=True, slots=True)
class PatchCount:
    """How many passing attempts have an empty patch, or none."""

    n_passing: int = 0
    n_empty: int = 0
    """Nothing but white space counts as empty."""
    n_unknown: int = 0
    has_patch: bool = False
    """Whether any attempt has one, passing or not, be it an empty one."""

    @property
    def is_lacking(self) -> bool:
        """Whether there is anything to tell."""
        return self.n_empty + self.n_unknown > 0

    def __add__(self, other: "PatchCount") -> "PatchCount":
        return PatchCount(
            self.n_passing + other.n_passing,
            self.n_empty + other.n_empty,
            self.n_unknown + other.n_unknown,
            self.has_patch or other.has_patch,
        )

    def notes(self, missing_columns: Collection[str] = (), *, is_part: bool = False) -> list[str]:
        """What is to be told; `is_part`: there are more passing attempts than were looked at."""
        is_without = "model_patch" in missing_columns
        told = [NO_PATCH] if is_without else []
        if self.n_empty:
            had = self._counted(self.n_empty, is_part=is_part)
            told.append(f"{had} an empty patch: the tests passed without a change, or the dump has lost it")
        if self.n_unknown and not is_without:
            had = self._counted(self.n_unknown, is_part=is_part)
            told.append(f"{had} no patch (null): patches are joined with `--join FILE`")
        return told

    def _counted(self, number: int, *, is_part: bool) -> str:
        if not is_part:
            return counted(number, "passing attempt has", "passing attempts have")
        of_all = counted(self.n_passing, "passing attempt")
        return f"{number:,} of {of_all} looked at {'has' if number == 1 else 'have'}"


def count_patches(trajectories: Iterable[Trajectory]) -> PatchCount:
    """The count over some attempts."""
    known = list(trajectories)
    patches = [each.model_patch for each in known if each.passed]
    return PatchCount(
        len(patches),
        sum(patch is not None and not patch.strip() for patch in patches),
        patches.count(None),
        any(each.model_patch is not None for each in known),
    )
