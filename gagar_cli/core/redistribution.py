"""One dump's redistribution as pure arrays: verdicts applied, groups judged, estimators run, effects measured.

One entry a trajectory, in any order; groups by dense code. Groups are sorted together and handed to the estimator in
batches of one size, so no loop runs over groups. Integrity comes first: a violation's reward is 0 before any mean.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gagar_cli.core.double_double import DoubleDouble, FloatArray
from gagar_cli.core.estimators import ESTIMATORS, PAPER_LIMIT, Batch, BoolArray, Cap, Estimate
from gagar_cli.core.factors import TierTable, dense_places, quality_factors
from gagar_cli.core.grouping import REASONS, outline_groups

IntArray = NDArray[np.int64]
GRADINGS = ("graded", "skipped", "ungraded", "invalid")
"""Of a trajectory; a group is one of the first three."""
_MAX_BATCH_CELLS = 2**20
"""Bounds the working memory of one batch to a few hundred megabytes."""


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


class Effects(NamedTuple):
    """What a set of advantages does to the graded groups, against the base."""

    n_capped: int
    n_changed_groups: int
    """Groups with at least one advantage that is not bit for bit its base."""
    n_changed_failures: int
    """Failing trajectories whose advantage is not bit for bit its base."""
    pass_sum_error: float
    """Largest |Σ passes' advantage − Σ passes' base| of a group."""
    max_amplification: float
    """Largest advantage over base of a pass; 1 where nothing moved."""


@dataclass(frozen=True, slots=True)
class Columns:
    """The result, one entry a trajectory; NaN or −1 where there is no value."""

    advantage: FloatArray
    base: FloatArray
    reward_equivalent: FloatArray
    quality_factor: FloatArray
    factor_shift: FloatArray
    multiplier: FloatArray
    tier: NDArray[np.int8]
    rank: IntArray
    """1-based, ties shared, gaps closed."""
    is_capped: BoolArray
    is_graded: BoolArray


def judge_groups(rows: Trajectories, verdicts: Verdicts) -> Judged:
    """Integrity applied, then whether each group is graded, skipped or ungraded, and why."""
    n_groups = len(verdicts.is_ranked)
    reward = np.where(rows.is_violation, 0.0, rows.reward)
    is_passed = rows.is_valid & rows.is_passed & ~rows.is_violation
    outlines = outline_groups(rows.group, is_passed, ~rows.is_valid, n_groups)
    n_placed = np.bincount(rows.group[is_passed & (rows.tier >= 0)], minlength=n_groups)
    is_complete = n_placed == outlines.n_passed
    is_graded = verdicts.is_ranked & outlines.is_mixed & is_complete

    status = np.full(n_groups, GRADINGS.index("ungraded"), dtype=np.int8)
    status[is_graded] = GRADINGS.index("graded")
    status[~is_graded & ~outlines.is_eligible] = GRADINGS.index("skipped")
    reason = np.full(n_groups, "no_ranking", dtype=np.object_)
    has_line = verdicts.status != None  # noqa: E711 - element by element
    reason[has_line] = verdicts.reason[has_line]
    status[has_line & outlines.is_eligible & (verdicts.status == "skipped")] = GRADINGS.index("skipped")
    reason[verdicts.is_ranked] = "missing_candidate"
    for code, name in enumerate(REASONS[1:], 1):
        reason[outlines.reason == code] = name
    reason[is_graded] = None
    return Judged(
        reward,
        is_passed,
        int(outlines.is_eligible.sum()),
        outlines.count_by_reason(),
        status=status,
        reason=reason,
    )


def redistribute(
    rows: Trajectories, judged: Judged, table: TierTable, estimator: str, *, cap: Cap, limit: float
) -> tuple[Columns, Effects, Effects]:
    """The columns of every trajectory, what they do, and what the paper's cap would have done."""
    is_graded_group = judged.status == GRADINGS.index("graded")
    is_candidate = judged.is_passed & is_graded_group[rows.group]
    places = dense_places(rows.group[is_candidate], rows.tier[is_candidate], rows.rank[is_candidate])
    placed = quality_factors(table, places)
    factors = DoubleDouble(np.ones(len(rows.group)), np.zeros(len(rows.group)))
    factors.high[is_candidate], factors.low[is_candidate] = placed.high, placed.low

    columns = _empty_columns(len(rows.group))
    columns.quality_factor[is_candidate] = placed.high
    columns.tier[is_candidate] = places.tier
    columns.rank[is_candidate] = places.place + 1
    columns.is_graded[:] = is_graded_group[rows.group] & rows.is_valid
    effects, paper_effects = [], []
    for members in _equal_size_batches(rows.group):
        batch = Batch(
            rewards=judged.reward[members],
            is_valid=rows.is_valid[members],
            is_passed=judged.is_passed[members],
            is_graded=is_graded_group[rows.group[members[:, 0]]],
            factors=DoubleDouble(factors.high[members], factors.low[members]),
        )
        estimate = ESTIMATORS[estimator](batch, cap, limit)
        _store(columns, members, estimate)
        effects.append(_measure(batch, estimate))
        is_paper = (estimator, cap, limit) == ("gagar", "paper", PAPER_LIMIT)
        paper_effects.append(
            effects[-1] if is_paper else _measure(batch, ESTIMATORS["gagar"](batch, "paper", PAPER_LIMIT))
        )
    return columns, _total(effects), _total(paper_effects)


def _empty_columns(n_rows: int) -> Columns:
    def unknown() -> FloatArray:
        return np.full(n_rows, np.nan)

    return Columns(
        advantage=unknown(),
        base=unknown(),
        reward_equivalent=unknown(),
        quality_factor=unknown(),
        factor_shift=unknown(),
        multiplier=unknown(),
        tier=np.full(n_rows, -1, dtype=np.int8),
        rank=np.full(n_rows, -1, dtype=np.int64),
        is_capped=np.zeros(n_rows, dtype=bool),
        is_graded=np.zeros(n_rows, dtype=bool),
    )


def _equal_size_batches(group: IntArray) -> Iterator[IntArray]:
    """(n_groups, group_size) positions of the trajectories of groups of one size, each group in its given order."""
    order = np.argsort(group, kind="stable")
    sizes = np.bincount(group) if len(group) else np.zeros(0, dtype=np.int64)
    starts = np.cumsum(sizes) - sizes
    for size in np.unique(sizes[sizes > 0]).tolist():
        of_size = starts[sizes == size]
        n_at_once = max(1, _MAX_BATCH_CELLS // size)
        for first in range(0, len(of_size), n_at_once):
            yield order[of_size[first : first + n_at_once, None] + np.arange(size)]


def _store(columns: Columns, members: IntArray, estimate: Estimate) -> None:
    columns.advantage[members] = estimate.advantage
    columns.base[members] = estimate.base
    columns.reward_equivalent[members] = estimate.reward_equivalent
    columns.multiplier[members] = estimate.multiplier[:, None]
    columns.factor_shift[members] = estimate.factor_shift[:, None]
    columns.is_capped[members] = estimate.is_capped[:, None]


def _measure(batch: Batch, estimate: Estimate) -> Effects:
    is_pass = batch.is_valid & batch.is_passed
    is_changed = batch.is_valid & (estimate.advantage != estimate.base)
    drift = np.where(is_pass, estimate.advantage, 0.0).sum(axis=1) - np.where(
        is_pass, estimate.base, 0.0
    ).sum(axis=1)
    is_paid = is_pass & (estimate.base > 0)
    amplification = np.divide(
        estimate.advantage, estimate.base, out=np.ones_like(estimate.base), where=is_paid
    )
    return Effects(
        n_capped=int(estimate.is_capped.sum()),
        n_changed_groups=int(is_changed.any(axis=1).sum()),
        n_changed_failures=int((is_changed & ~batch.is_passed).sum()),
        pass_sum_error=float(np.abs(drift).max(initial=0.0)),
        max_amplification=float(amplification.max(initial=1.0)),
    )


def _total(effects: list[Effects]) -> Effects:
    return Effects(
        n_capped=sum(each.n_capped for each in effects),
        n_changed_groups=sum(each.n_changed_groups for each in effects),
        n_changed_failures=sum(each.n_changed_failures for each in effects),
        pass_sum_error=max((each.pass_sum_error for each in effects), default=0.0),
        max_amplification=max((each.max_amplification for each in effects), default=1.0),
    )
