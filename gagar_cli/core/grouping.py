"""Group outlines: how many valid and passing trajectories each group has, and whether it can be ranked.

Rows are primary rows: the segments of one trajectory are one row here. Invalid rows leave a group before anything is
counted. Order of the reasons is the order in which a group is told to be out of reach of grading.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

REASONS = ("eligible", "no_valid", "singleton", "all_pass", "all_fail", "lone_pass")
"""`eligible`: mixed, with at least two candidates. `singleton`: one valid trajectory. `lone_pass`: mixed, one candidate."""


def reason_of(n_valid: int, n_passed: int) -> str:
    """What one group is, by its counts: one of `REASONS`.

    >>> reason_of(4, 1)
    'lone_pass'
    """
    conditions = [n_valid == 0, n_valid == 1, n_passed == n_valid, n_passed == 0, n_passed == 1]
    return next((name for name, holds in zip(REASONS[1:], conditions, strict=True) if holds), REASONS[0])


@dataclass(frozen=True, slots=True)
class GroupOutlines:
    """One entry a group, by dense group code."""

    n_rows: NDArray[np.int64]
    """Trajectories, invalid ones too."""
    n_valid: NDArray[np.int64]
    n_passed: NDArray[np.int64]
    """Valid and passed: the candidates."""
    reason: NDArray[np.uint8]
    """Index into `REASONS`."""

    @property
    def is_eligible(self) -> NDArray[np.bool_]:
        """(n_groups,) whether the group can be ranked."""
        return np.asarray(self.reason == REASONS.index("eligible"))

    @property
    def is_mixed(self) -> NDArray[np.bool_]:
        """(n_groups,) whether at least one valid trajectory passed and one failed."""
        return (self.n_passed > 0) & (self.n_passed < self.n_valid)

    def count_by_reason(self) -> dict[str, int]:
        """Groups of every reason, those with none included."""
        counts = np.bincount(self.reason, minlength=len(REASONS))
        return {name: int(count) for name, count in zip(REASONS, counts, strict=True)}


def outline_groups(
    group: NDArray[np.integer], is_passed: NDArray[np.bool_], is_invalid: NDArray[np.bool_], n_groups: int
) -> GroupOutlines:
    """The outline of every group.

    `group`: (n_rows,) dense codes below `n_groups`; `is_passed` counts only where a row is valid.
    """
    is_valid = ~is_invalid
    n_rows = np.bincount(group, minlength=n_groups)
    n_valid = n_rows if is_valid.all() else np.bincount(group[is_valid], minlength=n_groups)
    n_passed = np.bincount(group[is_valid & is_passed], minlength=n_groups)
    conditions = [n_valid == 0, n_valid == 1, n_passed == n_valid, n_passed == 0, n_passed == 1]
    reason = np.select(conditions, np.arange(1, len(REASONS)).tolist(), default=0).astype(np.uint8)
    return GroupOutlines(n_rows, n_valid, n_passed, reason)
