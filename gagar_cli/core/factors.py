"""From a candidate's tier and rank to its quality factor q in (0, 1], by a tier table.

Ranks are made dense within each tier of each group first: ties share a place, gaps are closed, and only passing
candidates may be given.
"""

from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gagar_cli.core.double_double import DoubleDouble, from_fractions
from gagar_cli.core.ranking import TIERS
from gagar_cli.core.tier_tables import Linear, TierTable, Ties

_MAX_TABLE = 2**20
"""A table of this many keys is looked up sooner than the keys are sorted."""


class Places(NamedTuple):
    """Where each candidate stands in its tier."""

    tier: NDArray[np.integer]
    """Index into `TIERS`."""
    place: NDArray[np.int64]
    """0-based: ties share it, and there are no gaps."""
    n_places: NDArray[np.int64]
    """Tied groups of the candidate's tier in its group."""
    twice_position: NDArray[np.int64]
    """Twice the 0-based position that the tie policy gives; the mean of a tie's positions may be a half."""
    n_positions: NDArray[np.int64]


def dense_places(
    group: NDArray[np.integer], tier: NDArray[np.integer], rank: NDArray[np.integer], ties: Ties = "dense"
) -> Places:
    """Ranks with ties kept and gaps closed, per tier of each group.

    `group`, `tier`, `rank`: (n_candidates,) integers, in any order; a candidate appears once.
    """
    order = _order(group, tier, rank)
    opens_tier = _opens(group[order]) | _opens(tier[order])
    opens_place = opens_tier | _opens(rank[order])
    tier_number = np.cumsum(opens_tier) - 1
    place_number = np.cumsum(opens_place) - 1
    place, n_places, twice_position, n_positions = np.empty((4, len(order)), dtype=np.int64)
    place[order] = place_number - place_number[opens_tier][tier_number]
    n_places[order] = np.bincount(tier_number[opens_place])[tier_number]
    if ties == "dense":
        return Places(tier, place, n_places, 2 * place, n_places)
    first_of_tier, first_of_place = np.flatnonzero(opens_tier), np.flatnonzero(opens_place)
    n_better = first_of_place[place_number] - first_of_tier[tier_number]
    n_tied = np.bincount(place_number)[place_number]
    twice_position[order] = 2 * n_better + (n_tied - 1 if ties == "average" else 0)
    n_positions[order] = np.bincount(tier_number)[tier_number]
    return Places(tier, place, n_places, twice_position, n_positions)


Known = dict[tuple[int, int, int], tuple[float, float]]
"""Factors of one table, each as two doubles, by tier, twice the position and the number of positions."""


def quality_factors(table: TierTable, places: Places, known: Known | None = None) -> DoubleDouble:
    """The factor of every candidate, (n_candidates,), each correct to two doubles.

    `known` is looked into, and added to, by whoever asks for many candidates part by part.
    """
    if not len(places.tier):
        return from_fractions([])
    # What ties count for shows where places are steps; the other rules know the first place and the others only.
    is_stepped = np.array([isinstance(rule, Linear) for rule in table.rules])[places.tier]
    twice = np.where(is_stepped, places.twice_position, 2 * places.place)
    length = np.where(is_stepped, places.n_positions, places.n_places)
    # A table has few distinct factors however many candidates there are, so exact fractions cost nothing.
    stride = 2 * int(length.max()) + 1
    keys = (places.tier.astype(np.int64) * stride + length) * stride + twice
    distinct, which = _distinct(keys)
    known = {} if known is None else known
    parts = []
    for key in distinct.tolist():
        spot = (key // stride**2, key % stride, key // stride % stride)
        if spot not in known:
            tier, twice_position, n_positions = spot
            exact = from_fractions([table.factor(TIERS[tier], Fraction(twice_position, 2), n_positions)])
            known[spot] = (float(exact.high[0]), float(exact.low[0]))
        parts.append(known[spot])
    high, low = np.array(parts).T
    return DoubleDouble(high[which], low[which])


def _order(
    group: NDArray[np.integer], tier: NDArray[np.integer], rank: NDArray[np.integer]
) -> NDArray[np.integer]:
    """The candidates by group, tier and rank.

    One number a candidate is sorted in a sixth of the time of three columns, where 64 bits hold them all.
    """
    n_rows = len(group)
    if not n_rows:
        return np.empty(0, dtype=np.int64)
    n_tiers, n_ranks = int(tier.max()) + 1, int(rank.max()) + 1
    room = (int(group.max()) + 1) * n_tiers * n_ranks * n_rows
    if room >= 2**63 or min(group.min(), tier.min(), rank.min()) < 0:
        return np.lexsort((rank, tier, group))
    keys: NDArray[np.int64] = (group.astype(np.int64) * n_tiers + tier) * n_ranks + rank
    keys = keys * n_rows + np.arange(n_rows)
    keys.sort()
    return keys % n_rows


def _distinct(keys: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The keys that there are, ascending, and which of them each key is."""
    if keys.max() >= _MAX_TABLE:
        return np.unique(keys, return_inverse=True)
    is_there = np.zeros(int(keys.max()) + 1, dtype=bool)
    is_there[keys] = True
    return np.flatnonzero(is_there), (np.cumsum(is_there) - 1)[keys]


def _opens(values: NDArray[np.integer]) -> NDArray[np.bool_]:
    """Where a sorted array starts or changes."""
    opens = np.ones(len(values), dtype=bool)
    opens[1:] = values[1:] != values[:-1]
    return opens
