"""What would come out if a cap, a tier table, the rubric's weights or the tie policy were another: variants compared.

A variant is the default with one thing changed. It is compared with the default on the passes of graded groups: how
much of their advantage it moves, whether another one is best, and Kendall's τ-b of the two orders by advantage.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Literal, NamedTuple, get_args

import numpy as np

from gagar_cli.core.batches import BoolArray, IntArray
from gagar_cli.core.caps import PAPER_LIMIT, Cap
from gagar_cli.core.double_double import FloatArray
from gagar_cli.core.judging import Trajectories
from gagar_cli.core.tier_tables import TierTable, Ties

Axis = Literal["default", "cap", "tiers", "ties", "weights"]
_MAX_PAIR_CELLS = 2**22
_DIGITS = 12
"""Advantages and scores that differ beyond this are different; what rounding leaves is a tie."""


@dataclass(frozen=True, slots=True)
class Variant:
    """One set of choices."""

    axis: Axis
    """What differs from the default."""
    name: str
    table: TierTable
    cap: Cap = "bounded"
    limit: float = PAPER_LIMIT
    weights: tuple[float, ...] | None = None
    """By dimension, to order each tier anew by the scores alone; None: as the rankings have it."""


class Comparison(NamedTuple):
    """How a variant's advantages differ from the default's, over graded groups."""

    n_groups: int
    moved: float
    """Σ |A' − A| / 2 as a share of the passes' Σ A: 1 would be all of it in other hands."""
    n_top_changed: int
    """Groups where no pass that was best is among the best: a tie that one of them is in changes nothing."""
    tau_b: float | None
    """Mean over the groups that have one; None where none has."""
    n_with_tau: int


def one_at_a_time(
    tables: Mapping[str, TierTable],
    *,
    default: str,
    limits: Sequence[float],
    weights: Sequence[tuple[str, tuple[float, ...]]],
) -> Iterator[Variant]:
    """The default first, then every variant that changes one thing: caps by limits, tables, tie policies, weights."""
    base = Variant("default", default, tables[default])
    yield base
    for cap in get_args(Cap):
        for limit in limits if cap != "none" else limits[:1]:
            name = cap if cap == "none" else f"{cap} {limit:g}"
            yield replace(base, axis="cap", name=name, cap=cap, limit=limit)
    for name, table in tables.items():
        if name != default:
            yield replace(base, axis="tiers", name=name, table=table)
    for ties in get_args(Ties):
        if ties != base.table.ties:
            yield replace(base, axis="ties", name=ties, table=replace(base.table, ties=ties))
    for name, values in weights:
        yield replace(base, axis="weights", name=name, weights=values)


def draw_weights(
    centre: Sequence[float], n_draws: int, random: Random, concentration: float
) -> list[tuple[float, ...]]:
    """Points of the simplex scattered around `centre` (Dirichlet); a larger concentration keeps them nearer."""
    drawn = []
    for _ in range(n_draws):
        parts = [random.gammavariate(concentration * share, 1.0) for share in centre]
        drawn.append(tuple(part / sum(parts) for part in parts))
    return drawn


def order_by_scores(rows: Trajectories, scores: FloatArray, weights: Sequence[float]) -> Trajectories:
    """The same tiers, each ordered by the weighted scores alone; a group that lacks a score stays as it is.

    `scores`: (n_trajectories, n_dimensions), NaN where a candidate has none.
    """
    weighted = np.round(scores @ np.asarray(weights), _DIGITS)
    is_ranked = rows.tier >= 0
    n_groups = int(rows.group.max(initial=-1)) + 1
    n_lacking = np.bincount(rows.group[is_ranked & np.isnan(weighted)], minlength=n_groups)
    is_ordered = is_ranked & (n_lacking[rows.group] == 0)
    rank = np.array(rows.rank)
    # The smallest number is the best rank; places are closed within each tier when they are used.
    _, places = np.unique(-weighted[is_ordered], return_inverse=True)
    rank[is_ordered] = places + 1
    return replace(rows, rank=rank)


def compare(
    rows: Trajectories, is_pass: BoolArray, default: FloatArray, variant: FloatArray, base: FloatArray
) -> Comparison:
    """The advantages of a variant against those of the default; `is_pass`: the passes of graded groups."""
    is_graded = np.zeros(int(rows.group.max(initial=-1)) + 1, dtype=bool)
    is_graded[rows.group[is_pass]] = True
    is_compared = is_graded[rows.group] & ~np.isnan(base)
    total = float(base[is_pass].sum())
    moved = float(np.abs(variant - base)[is_compared].sum()) / 2
    n_changed, taus = 0, []
    for members in _by_group(rows.group, is_pass):
        first, second = np.round(default[members], _DIGITS), np.round(variant[members], _DIGITS)
        was_top, is_top = (each == each.max(axis=1, keepdims=True) for each in (first, second))
        n_changed += int((~(was_top & is_top).any(axis=1)).sum())
        taus.append(tau_b_of_rows(first, second))
    tau = np.concatenate(taus) if taus else np.zeros(0)
    known = tau[~np.isnan(tau)]
    return Comparison(
        int(is_graded.sum()),
        moved / total if total else 0.0,
        n_changed,
        float(known.mean()) if len(known) else None,
        len(known),
    )


def tau_b_of_rows(first: FloatArray, second: FloatArray) -> FloatArray:
    """(n_rows,) Kendall's τ-b of each row of two (n_rows, width) arrays; NaN where one of them is all ties."""
    width = first.shape[1]
    upper = np.triu_indices(width, 1)
    signs = [np.sign(each[:, upper[0]] - each[:, upper[1]]) for each in (first, second)]
    balance = (signs[0] * signs[1]).sum(axis=1)
    n_untied = np.abs(signs[0]).sum(axis=1) * np.abs(signs[1]).sum(axis=1)
    tau = np.divide(balance, np.sqrt(n_untied), out=np.full(len(first), np.nan), where=n_untied > 0)
    return np.asarray(tau)


def _by_group(group: IntArray, is_chosen: BoolArray) -> Iterator[IntArray]:
    """(n_groups, size) positions of the chosen rows, groups of one size together."""
    chosen = np.flatnonzero(is_chosen)
    chosen = chosen[np.argsort(group[chosen], kind="stable")]
    _, starts, sizes = np.unique(group[chosen], return_index=True, return_counts=True)
    for size in np.unique(sizes).tolist():
        of_size = starts[sizes == size]
        n_at_once = max(1, _MAX_PAIR_CELLS // (size * size))
        for begin in range(0, len(of_size), n_at_once):
            yield chosen[of_size[begin : begin + n_at_once, None] + np.arange(size)]
