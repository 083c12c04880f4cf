"""One dump's redistribution as pure arrays: factors placed, estimators run, effects measured, invariants checked.

One entry a trajectory, in any order; groups by dense code, as `core/judging.py` left them. Groups are sorted together
and handed to the estimator in batches of one size, so no loop runs over groups and what is worked out on the way
takes the memory of one batch.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from gagar_cli.core.batches import Batch, BoolArray, Estimate, IntArray, centre
from gagar_cli.core.caps import PAPER_LIMIT
from gagar_cli.core.double_double import DoubleDouble, FloatArray, from_floats, multiply
from gagar_cli.core.estimators import METHODS, Options, estimate
from gagar_cli.core.factors import Known, Places, dense_places, quality_factors
from gagar_cli.core.gagar import gagar, share
from gagar_cli.core.invariants import Breach, Effects, find_breaches, measure, total
from gagar_cli.core.judging import GRADINGS, Judged, Trajectories
from gagar_cli.core.tier_tables import TierTable
from gagar_cli.core.turn_methods import TURN_METHODS, Attempts, TurnAdvantages, Turns, mean_by_trajectory

_Scalar = TypeVar("_Scalar", bound=np.generic)
_MAX_BATCH_CELLS = 2**15
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
    tier: NDArray[np.int8]
    rank: IntArray
    """1-based, ties shared, gaps closed."""
    is_graded: BoolArray
    factor_shift: FloatArray
    """(n_groups,) by code, as the next two."""
    multiplier: FloatArray
    is_capped: BoolArray


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


class _Taken(NamedTuple):
    """What one batch came to, beside the columns."""

    effects: Effects
    paper_effects: Effects | None
    breaches: list[Breach]


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
    run: Callable[..., Iterable[_Taken]] = map,
) -> Redistribution:
    """The columns of every trajectory, what they do, and what the paper's cap would have done.

    `is_sampled`: groups that are not mixed get no advantage (dynamic sampling); `is_checked`: breaches are looked for.
    `run` applies a function to batches, like `map`, in any order or at once.
    """
    extras = extras or Extras()
    needs = METHODS[method].needs
    columns = _empty_columns(rows.group, len(judged.status))
    placer = _Placer(rows, judged, table, extras.penalty, columns, is_ordered="order" in needs)
    by_turn = turn_mean = None
    if extras.turns is not None and "turns" in needs:
        by_turn = _run_by_turn(rows, judged, extras.turns, method, options)
        turn_mean = mean_by_trajectory(extras.turns, by_turn.advantage, len(rows.group))
    is_paper = (method, options.cap, options.limit) == ("gagar", "paper", PAPER_LIMIT)

    def take(members: IntArray) -> _Taken:
        codes = rows.group[members[:, 0]]
        factors, standing = placer.place(members, codes)
        rewards, is_valid = judged.reward[members], rows.is_valid[members]
        batch = Batch(
            rewards=rewards,
            is_valid=is_valid,
            is_passed=judged.is_passed[members],
            is_graded=judged.status[codes] == GRADINGS.index("graded"),
            factors=factors,
            is_eligible=_chosen(rows.is_eligible, members),
            standing=standing,
            process=_chosen(extras.process, members),
            is_well_formed=_chosen(extras.is_well_formed, members),
            error_class=_chosen(extras.error_class, members),
            turn_mean=_chosen(turn_mean, members),
            centred=centre(rewards, is_valid),
        )
        if "factors" in needs:
            batch = replace(batch, shares=share(batch))
        made = estimate(method, batch, options)
        if is_sampled:
            made = _drop(made, ~judged.is_mixed[codes])
        _store(columns, members, codes, made)
        effects = measure(batch, made)
        paper = None
        if "factors" in needs:
            paper = effects if is_paper else measure(batch, gagar(batch, "paper", PAPER_LIMIT))
        return _Taken(effects, paper, list(find_breaches(batch, made, codes)) if is_checked else [])

    taken = list(run(take, _equal_size_batches(rows.group)))
    papers = [each.paper_effects for each in taken if each.paper_effects is not None]
    breaches = sorted((breach for each in taken for breach in each.breaches), key=lambda breach: breach.group)
    effects = total([each.effects for each in taken])
    return Redistribution(columns, effects, total(papers) if papers else None, breaches, by_turn)


def spread_over_turns(columns: Columns, made: TurnAdvantages, turns: Turns) -> FloatArray:
    """(n_turns,) the advantage of every turn; a trajectory outside, or without an advantage, has one for all its turns."""
    whole = columns.advantage[turns.trajectory]
    return np.where(np.isnan(made.advantage) | np.isnan(whole), whole, made.advantage)


def _run_by_turn(
    rows: Trajectories, judged: Judged, turns: Turns, method: str, options: Options
) -> TurnAdvantages:
    is_eligible = np.ones_like(rows.is_valid) if rows.is_eligible is None else rows.is_eligible
    attempts = Attempts(
        rows.group.astype(np.int64), judged.reward, judged.is_passed, rows.is_valid & is_eligible
    )
    if turns.reward is not None:
        # What was won by copying or tampering counts for nothing, whichever turn it was won in.
        turns = replace(turns, reward=np.where(rows.is_violation[turns.trajectory], 0.0, turns.reward))
    chosen = {name: getattr(options, name) for name in METHODS[method].options}
    return TURN_METHODS[method](turns, attempts, chosen)


class _Placer:
    """Places the candidates of one batch after another, and fills in the columns that tell of it."""

    def __init__(
        self,
        rows: Trajectories,
        judged: Judged,
        table: TierTable,
        penalty: FloatArray | None,
        columns: Columns,
        *,
        is_ordered: bool,
    ) -> None:
        self._rows = rows
        self._judged = judged
        self._table = table
        self._penalty = penalty
        self._columns = columns
        self._is_ordered = is_ordered
        self._known: Known = {}

    def place(self, members: IntArray, codes: IntArray) -> tuple[DoubleDouble, IntArray | None]:
        """The factors, and the standing of the ranked passes where it is asked for; both shaped like `members`."""
        rows, columns = self._rows, self._columns
        is_graded = (self._judged.status[codes] == GRADINGS.index("graded"))[:, None]
        is_candidate = self._judged.is_passed[members]
        if rows.is_eligible is not None:
            is_candidate &= rows.is_eligible[members]
        is_ranked = is_candidate & self._judged.is_ordered[codes][:, None]
        group = np.broadcast_to(np.arange(len(codes))[:, None], members.shape)[is_ranked]
        ranked = members[is_ranked]
        places = dense_places(group, rows.tier[ranked], rows.rank[ranked], self._table.ties)
        factors = DoubleDouble(np.ones(members.shape), np.zeros(members.shape))
        placed = quality_factors(self._table, places, self._known)
        factors.high[is_ranked], factors.low[is_ranked] = placed.high, placed.low
        if self._penalty is not None:
            factors = multiply(factors, from_floats(np.where(is_candidate, self._penalty[members], 1.0)))

        columns.quality_factor[members] = np.where(is_candidate & is_graded, factors.high, np.nan)
        shown = ranked[is_graded[group, 0]]
        columns.tier[shown] = places.tier[is_graded[group, 0]]
        columns.rank[shown] = places.place[is_graded[group, 0]] + 1
        columns.is_graded[members] = is_graded & rows.is_valid[members]
        if not self._is_ordered:
            return factors, None
        standing = np.full(members.shape, -1, dtype=np.int64)
        standing[is_ranked] = _standing(places)
        return factors, standing


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


def _empty_columns(group: IntArray, n_groups: int) -> Columns:
    """Columns to be filled in: every trajectory is in one batch, but only some have a tier."""
    n_rows = len(group)
    largest = np.bincount(group).max() if n_rows else 0
    return Columns(
        advantage=np.empty(n_rows),
        base=np.empty(n_rows),
        reward_equivalent=np.empty(n_rows),
        quality_factor=np.empty(n_rows),
        tier=np.full(n_rows, -1, dtype=np.int8),
        rank=np.full(n_rows, -1, dtype=np.int16 if largest < 2**15 else np.int32),
        is_graded=np.empty(n_rows, dtype=bool),
        factor_shift=np.full(n_groups, np.nan),
        multiplier=np.full(n_groups, np.nan),
        is_capped=np.zeros(n_groups, dtype=bool),
    )


def _equal_size_batches(group: NDArray[np.integer]) -> Iterator[IntArray]:
    """(n_groups, group_size) positions of the trajectories of groups of one size, each group in its given order."""
    order = _by_group(group)
    sizes = np.bincount(group) if len(group) else np.zeros(0, dtype=np.int64)
    starts = np.cumsum(sizes) - sizes
    for size in np.flatnonzero(np.bincount(sizes[sizes > 0])).tolist():
        of_size = starts[sizes == size]
        n_at_once = max(1, _MAX_BATCH_CELLS // size)
        for first in range(0, len(of_size), n_at_once):
            yield order[of_size[first : first + n_at_once, None] + np.arange(size)].astype(np.int64)


def _by_group(group: NDArray[np.integer]) -> NDArray[np.uint32]:
    """The positions in the order of their groups, each group in its given order."""
    if len(group) >= 2**32:
        raise ValueError(f"{len(group):,} trajectories, expected fewer than {2**32:,}")
    # A sort of plain numbers takes a sixth of the time and half of the memory of a stable argsort.
    keys = group.astype(np.uint64)
    keys <<= np.uint64(32)
    keys |= np.arange(len(group), dtype=np.uint64)
    keys.sort()
    return keys.astype(np.uint32)


def _store(columns: Columns, members: IntArray, codes: IntArray, estimate: Estimate) -> None:
    columns.advantage[members] = estimate.advantage
    columns.base[members] = estimate.base
    columns.reward_equivalent[members] = estimate.reward_equivalent
    columns.multiplier[codes] = estimate.multiplier
    columns.factor_shift[codes] = estimate.factor_shift
    columns.is_capped[codes] = estimate.is_capped
