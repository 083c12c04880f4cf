"""What becomes of each group before any advantage: integrity applied, then graded, skipped or ungraded, and why.

One entry a trajectory, in any order; groups by dense code. Integrity comes first: a violation's reward is 0 before any
mean.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from gagar_cli.core.batches import BoolArray, IntArray
from gagar_cli.core.double_double import FloatArray
from gagar_cli.core.grouping import REASONS, outline_groups

GRADINGS = ("graded", "skipped", "ungraded", "invalid")
"""Of a trajectory; a group is one of the first three."""
Basis = Literal["rankings", "penalty", "nothing"]
"""What makes the factors or the order of a group's passes: rankings, a column of penalties alone, or nothing."""


@dataclass(frozen=True, slots=True)
class Trajectories:
    """What the dump and the rankings say, one entry a trajectory."""

    group: IntArray
    reward: FloatArray
    """NaN where invalid."""
    is_valid: BoolArray
    is_passed: BoolArray
    tier: NDArray[np.int8]
    """Index into `TIERS`, −1 where the rankings do not have it."""
    rank: IntArray
    is_violation: BoolArray
    """Integrity violations among the valid passes."""
    is_eligible: BoolArray | None = None
    """Rows that may be ranked and moved; None for all."""


@dataclass(frozen=True, slots=True)
class Verdicts:
    """What the rankings say of each group, by dense code."""

    is_ranked: BoolArray
    """Whether a line of status `graded` exists."""
    status: NDArray[np.object_]
    """`skipped` or `ungraded` where a line says so, else None."""
    reason: NDArray[np.object_]
    """That line's reason."""


@dataclass(frozen=True, slots=True)
class Judged:
    """Trajectories after integrity, and what becomes of each group."""

    reward: FloatArray
    """Effective: 0 for a violation, NaN where invalid."""
    is_passed: BoolArray
    """Effective: valid, passed, no violation."""
    n_eligible: int
    """Groups that could be ranked after integrity."""
    n_by_outline: dict[str, int]
    """Groups by what they are after integrity: `eligible` and the reasons why not."""
    status: NDArray[np.int8]
    """(n_groups,) index into `GRADINGS`."""
    reason: NDArray[np.object_]
    """(n_groups,) why a group is not graded; None where it is."""
    is_mixed: BoolArray
    """(n_groups,) whether valid passes and failures are both there: what dynamic sampling keeps."""
    is_ordered: BoolArray
    """(n_groups,) whether a ranking has all eligible passes of the group, mixed or not."""


def judge_groups(
    rows: Trajectories, verdicts: Verdicts, basis: Basis = "rankings", *, is_mix_needed: bool = True
) -> Judged:
    """Integrity applied, then whether each group is graded, skipped or ungraded, and why.

    `is_mix_needed`: whether a group without a failure is skipped even where it is ranked.
    """
    n_groups = len(verdicts.is_ranked)
    reward = np.where(rows.is_violation, 0.0, rows.reward) if rows.is_violation.any() else rows.reward
    is_passed = rows.is_valid & rows.is_passed & ~rows.is_violation
    outlines = outline_groups(rows.group, is_passed, ~rows.is_valid, n_groups)
    is_candidate = is_passed if rows.is_eligible is None else is_passed & rows.is_eligible
    n_candidates = outlines.n_passed
    if rows.is_eligible is not None:
        n_candidates = np.bincount(rows.group[is_candidate], minlength=n_groups)
    n_placed = np.bincount(rows.group[is_candidate & (rows.tier >= 0)], minlength=n_groups)
    is_ordered = verdicts.is_ranked & (n_placed == n_candidates) & (n_candidates > 0)
    is_usable = {
        "rankings": is_ordered,
        "penalty": n_candidates > 0,
        "nothing": np.zeros(n_groups, dtype=bool),
    }[basis]
    is_graded = is_usable & (outlines.is_mixed | (not is_mix_needed))
    is_rankable = outlines.is_eligible & (n_candidates > 0)

    status = np.full(
        n_groups, GRADINGS.index("ungraded" if basis == "rankings" else "skipped"), dtype=np.int8
    )
    status[is_graded] = GRADINGS.index("graded")
    status[~is_graded & ~is_rankable] = GRADINGS.index("skipped")
    reason = np.full(n_groups, "no_ranking" if basis == "rankings" else "not_asked", dtype=np.object_)
    if basis == "rankings":
        has_line = verdicts.status != None  # noqa: E711 - element by element
        reason[has_line] = verdicts.reason[has_line]
        status[has_line & is_rankable & (verdicts.status == "skipped")] = GRADINGS.index("skipped")
        reason[verdicts.is_ranked] = "missing_candidate"
    reason[n_candidates == 0] = "not_eligible"
    for code, name in enumerate(REASONS[1:], 1):
        reason[outlines.reason == code] = name
    reason[is_graded] = None
    return Judged(
        reward,
        is_passed,
        int(is_rankable.sum()),
        outlines.count_by_reason(),
        status=status,
        reason=reason,
        is_mixed=outlines.is_mixed,
        is_ordered=is_ordered,
    )
