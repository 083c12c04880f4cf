"""What becomes of each group before any advantage: integrity applied, then graded, skipped or ungraded, and why.

One entry a trajectory, in any order; groups by dense code. Integrity comes first: before any mean a violation's reward is
that of a failure (`effective_rewards`).
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from gagar_cli.core.batches import BoolArray, IntArray
from gagar_cli.core.double_double import FloatArray
from gagar_cli.core.grouping import REASONS, count_codes, outline_groups

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
    """That line's reason; of a ranked group why it may lack a candidate, None where that is not known."""


@dataclass(frozen=True, slots=True)
class Judged:
    """Trajectories after integrity, and what becomes of each group."""

    reward: FloatArray
    """Effective: what `effective_rewards` gives."""
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
    left: dict[str, int]
    """Groups that could be ranked and are not graded, by kind of reason."""


def judge_groups(
    rows: Trajectories, verdicts: Verdicts, basis: Basis = "rankings", *, is_mix_needed: bool = True
) -> Judged:
    """Integrity applied, then whether each group is graded, skipped or ungraded, and why.

    `is_mix_needed`: whether a group without a failure is skipped even where it is ranked.
    """
    n_groups = len(verdicts.is_ranked)
    reward = effective_rewards(rows, n_groups)
    is_passed = rows.is_valid & rows.is_passed
    is_passed &= ~rows.is_violation
    outlines = outline_groups(rows.group, is_passed, ~rows.is_valid, n_groups)
    is_candidate = is_passed if rows.is_eligible is None else is_passed & rows.is_eligible
    n_candidates = outlines.n_passed
    if rows.is_eligible is not None:
        n_candidates = count_codes(rows.group, n_groups, is_candidate)
    n_placed = count_codes(rows.group, n_groups, is_candidate & (rows.tier >= 0))
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
    # Not by np.full, which makes an array of as many texts first.
    reason = np.empty(n_groups, dtype=np.object_)
    reason.fill("no_ranking" if basis == "rankings" else "not_asked")
    if basis == "rankings":
        has_line = verdicts.status != None  # noqa: E711 - element by element
        reason[has_line] = verdicts.reason[has_line]
        status[has_line & is_rankable & (verdicts.status == "skipped")] = GRADINGS.index("skipped")
        reason[verdicts.is_ranked] = "missing_candidate"
        is_told = verdicts.is_ranked & (verdicts.reason != None)  # noqa: E711 - element by element
        reason[is_told] = verdicts.reason[is_told]
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
        left=_count_kinds(reason[is_rankable & ~is_graded].tolist()),
    )


def _count_kinds(reasons: Iterable[str]) -> dict[str, int]:
    """How many there are of each, the most frequent first, by what stands before a colon: `limit`, of `limit: 40 turns`."""
    return dict(Counter(reason.partition(":")[0] for reason in reasons).most_common())


def effective_rewards(rows: Trajectories, n_groups: int) -> FloatArray:
    """The rewards with those of violations withdrawn: never above 0, nor above any reward of their group.

    A violation gets the smallest reward that its group has, its own included, and 0 where that is more. Where no attempt
    of the group failed the smallest reward of the dump's failures counts too: there is a price for failing, and what was
    copied is not to be cheaper. It counts no further below 0 than the group's own rewards are in size: a task that is
    paid in hundreds is not to set the price of one that is paid in ones.
    """
    if not rows.is_violation.any():
        return rows.reward
    is_concerned = np.zeros(n_groups, dtype=bool)
    is_concerned[rows.group[rows.is_violation]] = True
    places = np.flatnonzero(is_concerned[rows.group] & rows.is_valid)
    least = np.zeros(n_groups)
    np.minimum.at(least, rows.group[places], rows.reward[places])
    is_failure = rows.is_valid & ~rows.is_passed
    if is_failure.any():
        is_without = count_codes(rows.group, n_groups, is_failure) == 0
        size = np.zeros(n_groups)
        np.maximum.at(size, rows.group[places], np.abs(rows.reward[places]))
        price = np.maximum(rows.reward.min(where=is_failure, initial=np.inf), 0.0 - size)
        least[is_without] = np.minimum(least, price)[is_without]
    reward = rows.reward.copy()
    reward[rows.is_violation] = least[rows.group[rows.is_violation]]
    return reward
