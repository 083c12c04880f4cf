"""Group outlines: how many valid and passing trajectories each group has, and whether it can be ranked.

Rows are primary rows: the segments of one trajectory are one row here. Invalid rows leave a group before anything is
counted. Order of the reasons is the order in which a group is told to be out of reach of grading.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_COUNTED_AT_ONCE = 1_048_576
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
    is_eligible: NDArray[np.bool_]
    """Whether the group can be ranked; held, as it is asked for group by group."""

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
    n_rows = count_codes(group, n_groups)
    n_valid = n_rows if is_valid.all() else count_codes(group, n_groups, is_valid)
    n_passed = count_codes(group, n_groups, is_valid & is_passed)
    conditions = [n_valid == 0, n_valid == 1, n_passed == n_valid, n_passed == 0, n_passed == 1]
    reason = np.select(conditions, np.arange(1, len(REASONS)).tolist(), default=0).astype(np.uint8)
    return GroupOutlines(n_rows, n_valid, n_passed, reason, reason == REASONS.index("eligible"))


def count_codes(
    codes: NDArray[np.integer], n_codes: int = 0, is_counted: NDArray[np.bool_] | None = None
) -> NDArray[np.int64]:
    """How often each code occurs, at least for the first `n_codes`; without a wide copy of millions of codes.

    `is_counted`: (n,) which of them count; None for all.

    >>> count_codes(np.array([2, 0, 2], dtype=np.uint32), 4).tolist()
    [1, 0, 2, 0]
    """
    n_codes = max(n_codes, int(codes.max()) + 1 if len(codes) else 0)
    counts = np.zeros(n_codes, dtype=np.int64)
    for start in range(0, len(codes), _COUNTED_AT_ONCE):
        part = codes[start : start + _COUNTED_AT_ONCE]
        if is_counted is not None:
            part = part[is_counted[start : start + _COUNTED_AT_ONCE]]
        counts += np.bincount(part, minlength=n_codes)
    return counts


def members_by_size(group: NDArray[np.integer]) -> Iterator[NDArray[np.uint32]]:
    """(n_groups, size) positions of the members of all groups of one size, for each size; each group in its given order."""
    order = rows_by_group(group)
    sizes = count_codes(group)
    starts = np.cumsum(sizes) - sizes
    for size in np.flatnonzero(np.bincount(sizes[sizes > 0])).tolist():
        of_size = starts[sizes == size]
        if len(of_size) * size == len(order):
            yield order.reshape(-1, size)
        else:
            yield order[of_size[:, None] + np.arange(size)]


def rows_by_group(group: NDArray[np.integer]) -> NDArray[np.uint32]:
    """The positions in the order of their groups, each group in its given order."""
    if len(group) >= 2**32:
        raise ValueError(f"{len(group):,} trajectories, expected fewer than {2**32:,}")
    # A sort of plain numbers takes a sixth of the time and half of the memory of a stable argsort.
    keys = group.astype(np.uint64)
    keys <<= np.uint64(32)
    keys |= np.arange(len(group), dtype=np.uint64)
    keys.sort()
    return keys.astype(np.uint32)
