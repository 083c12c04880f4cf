"""One dump's redistribution as pure arrays: factors placed, estimators run, effects measured, invariants checked.

One entry a trajectory, in any order; groups by dense code, as `core/judging.py` left them. Groups are sorted together
and handed to the estimator in batches of one size, so no loop runs over groups.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from gagar_cli.core.batches import Batch, BoolArray, Estimate, IntArray
from gagar_cli.core.caps import PAPER_LIMIT
from gagar_cli.core.double_double import DoubleDouble, FloatArray, from_floats, multiply
from gagar_cli.core.estimators import METHODS, Options, estimate
from gagar_cli.core.factors import Places, dense_places, quality_factors
from gagar_cli.core.gagar import gagar
from gagar_cli.core.invariants import Breach, Effects, find_breaches, measure, total
from gagar_cli.core.judging import GRADINGS, Judged, Trajectories
from gagar_cli.core.tier_tables import TierTable
from gagar_cli.core.turn_methods import TURN_METHODS, Attempts, TurnAdvantages, Turns, mean_by_trajectory

_Scalar = TypeVar("_Scalar", bound=np.generic)
_MAX_BATCH_CELLS = 2**16
"""The working arrays of one batch stay in the processor's cache: a quarter less time than with 2**20."""


@dataclass(frozen=True, slots=True)
class Extras:
    """What single methods read beside rewards and ranks, one entry a trajectory; None where it is not read."""

    penalty: FloatArray | None = None
    """In (0, 1], of eligible valid passes; multiplied with the tier's factor where there is one."""
    process: FloatArray | None = None
    """NaN where there is none."""
    is_well_formed: BoolArray | None = None
    error_class: IntArray | None = None
    """Code of a failure's error, −1 where there is none."""
    turns: Turns | None = None


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


class Redistribution(NamedTuple):
    """The columns of every trajectory, and what they do."""

    columns: Columns
    effects: Effects
    paper_effects: Effects | None
    """What the paper's cap would have done; None for methods without factors."""
    breaches: list[Breach]
    """By group code; empty unless asked for."""
    by_turn: TurnAdvantages | None = None
    """For methods of turns."""


def redistribute(
    rows: Trajectories,
    judged: Judged,
    table: TierTable,
    method: str,
    options: Options,
    *,
    extras: Extras | None = None,
    is_sampled: bool = False,
    is_checked: bool = False,
) -> Redistribution:
    """The columns of every trajectory, what they do, and what the paper's cap would have done.

    `is_sampled`: groups that are not mixed get no advantage (dynamic sampling); `is_checked`: breaches are looked for.
    """
    extras = extras or Extras()
    needs = METHODS[method].needs
    columns, factors, standing = _place(rows, judged, table, extras)
    by_turn = turn_mean = None
    if extras.turns is not None and "turns" in needs:
        by_turn = _run_by_turn(rows, judged, extras.turns, method, options)
        turn_mean = mean_by_trajectory(extras.turns, by_turn.advantage, len(rows.group))
    effects, paper_effects = [], []
    breaches: list[Breach] = []
    for members in _equal_size_batches(rows.group):
        codes = rows.group[members[:, 0]]
        batch = Batch(
            rewards=judged.reward[members],
            is_valid=rows.is_valid[members],
            is_passed=judged.is_passed[members],
            is_graded=(judged.status == GRADINGS.index("graded"))[codes],
            factors=DoubleDouble(factors.high[members], factors.low[members]),
            is_eligible=_chosen(rows.is_eligible, members),
            standing=standing[members] if "order" in needs else None,
            process=_chosen(extras.process, members),
            is_well_formed=_chosen(extras.is_well_formed, members),
            error_class=_chosen(extras.error_class, members),
            turn_mean=_chosen(turn_mean, members),
        )
        made = estimate(method, batch, options)
        if is_sampled:
            made = _drop(made, ~judged.is_mixed[codes])
        _store(columns, members, made)
        effects.append(measure(batch, made))
        if is_checked:
            breaches += find_breaches(batch, made, codes)
        if "factors" in needs:
            is_paper = (method, options.cap, options.limit) == ("gagar", "paper", PAPER_LIMIT)
            paper = effects[-1] if is_paper else measure(batch, gagar(batch, "paper", PAPER_LIMIT))
            paper_effects.append(paper)
    breaches.sort(key=lambda breach: breach.group)
    paper_total = total(paper_effects) if paper_effects else None
    return Redistribution(columns, total(effects), paper_total, breaches, by_turn)


def spread_over_turns(columns: Columns, made: TurnAdvantages, turns: Turns) -> FloatArray:
    """(n_turns,) the advantage of every turn; a trajectory outside, or without an advantage, has one for all its turns."""
    whole = columns.advantage[turns.trajectory]
    return np.where(np.isnan(made.advantage) | np.isnan(whole), whole, made.advantage)


def _run_by_turn(
    rows: Trajectories, judged: Judged, turns: Turns, method: str, options: Options
) -> TurnAdvantages:
    is_eligible = np.ones_like(rows.is_valid) if rows.is_eligible is None else rows.is_eligible
    attempts = Attempts(rows.group, judged.reward, judged.is_passed, rows.is_valid & is_eligible)
    if turns.reward is not None:
        # What was won by copying or tampering counts for nothing, whichever turn it was won in.
        turns = replace(turns, reward=np.where(rows.is_violation[turns.trajectory], 0.0, turns.reward))
    chosen = {name: getattr(options, name) for name in METHODS[method].options}
    return TURN_METHODS[method](turns, attempts, chosen)


def _place(
    rows: Trajectories, judged: Judged, table: TierTable, extras: Extras
) -> tuple[Columns, DoubleDouble, IntArray]:
    """Columns with factors, tiers and ranks filled in; the factors; and the standing of the ranked passes."""
    is_eligible = np.ones_like(rows.is_valid) if rows.is_eligible is None else rows.is_eligible
    is_candidate = judged.is_passed & is_eligible
    is_graded_row = (judged.status == GRADINGS.index("graded"))[rows.group]
    is_ranked = is_candidate & judged.is_ordered[rows.group]
    places = dense_places(rows.group[is_ranked], rows.tier[is_ranked], rows.rank[is_ranked], table.ties)
    factors = DoubleDouble(np.ones(len(rows.group)), np.zeros(len(rows.group)))
    placed = quality_factors(table, places)
    factors.high[is_ranked], factors.low[is_ranked] = placed.high, placed.low
    if extras.penalty is not None:
        factors = multiply(factors, from_floats(np.where(is_candidate, extras.penalty, 1.0)))

    columns = _empty_columns(len(rows.group))
    is_shown = is_candidate & is_graded_row
    columns.quality_factor[is_shown] = factors.high[is_shown]
    columns.tier[is_ranked] = np.where(is_graded_row[is_ranked], places.tier, -1)
    columns.rank[is_ranked] = np.where(is_graded_row[is_ranked], places.place + 1, -1)
    columns.is_graded[:] = is_graded_row & rows.is_valid
    standing = np.full(len(rows.group), -1, dtype=np.int64)
    standing[is_ranked] = _standing(places)
    return columns, factors, standing


def _standing(places: Places) -> IntArray:
    """Places over all tiers: lower is better, ties share."""
    stride = int(places.place.max(initial=0)) + 1
    return places.tier.astype(np.int64) * stride + places.place


def _chosen(values: NDArray[_Scalar] | None, members: IntArray) -> NDArray[_Scalar] | None:
    return None if values is None else values[members]


def _drop(made: Estimate, is_dropped: BoolArray) -> Estimate:
    """Groups without an advantage; their base stands for comparison."""
    is_dropped = is_dropped[:, None]
    return replace(
        made,
        advantage=np.where(is_dropped, np.nan, made.advantage),
        reward_equivalent=np.where(is_dropped, np.nan, made.reward_equivalent),
    )


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
