"""The columns of a redistribution, and those of them that rankings fill in: tier, rank, quality factor."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gagar_cli.core.batches import BoolArray, IntArray
from gagar_cli.core.double_double import DoubleDouble, FloatArray, from_floats, multiply
from gagar_cli.core.factors import Known, Places, dense_places, quality_factors
from gagar_cli.core.judging import GRADINGS, Judged, Trajectories
from gagar_cli.core.tier_tables import TierTable


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


def empty_columns(group: IntArray, n_groups: int) -> Columns:
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


class Placer:
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
