"""Caps: how the passes of a group share their total by factor, and what bounds the share of one (METHODS 1.4, 1.6, 5).

Each cap gets the paid passes' base advantages A and factors q and answers with what each is paid. Sums are those of A
under every cap but the paper's. Arrays are (n_groups, group_size), 0 where a row is no paid pass.
"""

from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple

import numpy as np

from gagar_cli.core.batches import BoolArray
from gagar_cli.core.double_double import (
    DoubleDouble,
    FloatArray,
    add,
    column,
    divide,
    from_floats,
    multiply,
    subtract,
    sum_rows,
    where,
)
from gagar_cli.core.elementary import exp, log

Cap = Literal["none", "paper", "bounded", "waterfill", "temper", "pass-recentre"]

PAPER_LIMIT = 1.5
MAX_LIMIT = 1e6
"""Far above what any cap is for; much larger ones would overflow."""
_TOLERANCE = 1e-12
"""Relative. λ of exactly 3/2 is not capped; whatever is this near to the limit moves by no more when it is left alone."""
_MAX_NEWTON_STEPS = 200


class Shares(NamedTuple):
    """One cap's input: the paid passes of a batch."""

    amounts: DoubleDouble
    """A, 0 where a row is no paid pass."""
    factors: DoubleDouble
    """q, 0 where a row is no paid pass."""
    is_paid: BoolArray
    is_moved: BoolArray
    """(n_groups,) whether there is a paid pass."""
    total: DoubleDouble
    """(n_groups,) Σ A."""
    weighted: DoubleDouble
    """q A."""
    weighted_total: DoubleDouble
    """(n_groups,) Σ qA."""

    def with_factors(self, factors: DoubleDouble) -> "Shares":
        """The same passes with other factors."""
        weighted = multiply(factors, self.amounts)
        return self._replace(factors=factors, weighted=weighted, weighted_total=sum_rows(weighted))


def make_shares(amounts: DoubleDouble, factors: DoubleDouble, is_paid: BoolArray) -> Shares:
    """The input of a cap, of passes' amounts and factors that are 0 where `is_paid` does not hold."""
    weighted = multiply(factors, amounts)
    is_moved = np.asarray(is_paid.any(axis=1))
    return Shares(amounts, factors, is_paid, is_moved, sum_rows(amounts), weighted, sum_rows(weighted))


class Pay(NamedTuple):
    """One cap's answer; rows that are no paid pass hold anything."""

    paid: DoubleDouble
    multiplier: DoubleDouble
    shift: FloatArray
    is_capped: BoolArray


def pay_without_cap(shares: Shares, limit: float) -> Pay:
    """λ = Σ A / Σ qA, and λ q A for each: the paper's equation 2."""
    del limit
    multiplier = _divide_where(shares.is_moved, shares.total, shares.weighted_total)
    n_groups = len(shares.is_moved)
    nothing = np.zeros(n_groups)
    return Pay(multiply(column(multiplier), shares.weighted), multiplier, nothing, nothing.astype(bool))


def pay_with_cut(shares: Shares, limit: float) -> Pay:
    """λ cut at the limit, whatever the factors are: the paper's equation 7; the group's mean is subtracted later."""
    multiplier = _divide_where(shares.is_moved, shares.total, shares.weighted_total)
    is_capped = shares.is_moved & (multiplier.high > limit * (1 + _TOLERANCE))
    cut = where(is_capped, _constant(limit, len(is_capped)), multiplier)
    return Pay(multiply(column(cut), shares.weighted), cut, np.zeros(len(is_capped)), is_capped)


def pay_bounded(shares: Shares, limit: float) -> Pay:
    """Every factor raised by t = max(0, (q_max − c q̃) / (c − 1)), q̃ = Σ qA / Σ A; then as without a cap (5B)."""
    n_groups = len(shares.is_moved)
    largest = _largest(shares.factors)
    excess = subtract(largest, multiply(_constant(limit, n_groups), _mean_factor(shares)))
    is_capped = shares.is_moved & (excess.high > _TOLERANCE * largest.high)
    shift = divide(excess, subtract(_constant(limit, n_groups), _constant(1.0, n_groups)))
    shift = where(is_capped, shift, _constant(0.0, n_groups))
    free = pay_without_cap(shares.with_factors(add(shares.factors, column(shift))), limit)
    return Pay(free.paid, free.multiplier, shift.high, is_capped)


def pay_by_waterfill(shares: Shares, limit: float) -> Pay:
    """Pay w = min(c, τ q) with τ such that Σ wA = Σ A: nobody above c, ratios kept among the others (5A).

    Whoever would be above the limit is put at it, and τ is worked out again for the rest, until nobody is. The set
    only grows, for τ does, so it ends at the one solution.
    """
    n_groups = len(shares.is_moved)
    nothing = from_floats(np.zeros_like(shares.amounts.high))
    total, weighted = shares.total, shares.weighted
    is_full = np.zeros_like(shares.is_paid)
    while True:
        full = sum_rows(where(is_full, shares.amounts, nothing))
        rest = subtract(total, multiply(_constant(limit, n_groups), full))
        level = _divide_where(shares.is_moved, rest, sum_rows(where(is_full, nothing, weighted)))
        share = multiply(column(level), shares.factors)
        is_above = shares.is_paid & ~is_full & (share.high > limit * (1 + _TOLERANCE))
        if not is_above.any():
            break
        is_full |= is_above
    at_limit = multiply(column(_constant(limit, n_groups)), shares.amounts)
    paid = where(is_full, at_limit, multiply(column(level), weighted))
    return Pay(paid, level, np.zeros(n_groups), np.asarray(is_full.any(axis=1)))


def pay_tempered(shares: Shares, limit: float) -> Pay:
    """Factors q^β with the largest β in (0, 1] that keeps q_max^β within c of the mean of q^β (5C).

    With d = ln(q_max / q), that mean over q_max^β is Σ A e^(−βd) / Σ A: convex and falling in β, so Newton's steps from
    0 rise to the root and never pass it. Two more steps in double-doubles leave nothing to be rounded but the result. λ is
    that of q^β over q_max^β.
    """
    free = pay_without_cap(shares, limit)
    largest = _largest(shares.factors)
    top = multiply(free.multiplier, largest).high
    is_capped = shares.is_moved & (top > limit * (1 + _TOLERANCE))
    if not is_capped.any():
        return free
    is_paid = shares.is_paid[is_capped]
    one = from_floats(np.ones(is_paid.shape))
    ratio = divide(_chosen(shares.factors, is_capped), column(_chosen(largest, is_capped)))
    distance = _negated(log(where(is_paid, ratio, one)))
    amounts = _chosen(shares.amounts, is_capped)
    weights = divide(amounts, column(sum_rows(amounts)))
    exponent = from_floats(_rough_exponent(weights.high, distance.high, limit))
    for _ in range(2):
        exponent = _polished(exponent, weights, distance, limit)
    raised = exp(_negated(multiply(column(exponent), distance)))
    factors = DoubleDouble(np.array(shares.factors.high), np.array(shares.factors.low))
    factors.high[is_capped], factors.low[is_capped] = raised.high, raised.low
    pay = pay_without_cap(shares.with_factors(factors), limit)
    return pay._replace(is_capped=is_capped)


def _rough_exponent(weights: FloatArray, distance: FloatArray, limit: float) -> FloatArray:
    """(n_groups,) β to the last digits of a double."""
    exponent = np.zeros(len(weights))
    for _ in range(_MAX_NEWTON_STEPS):
        terms = weights * np.exp(-exponent[:, None] * distance)
        step = (terms.sum(axis=1) - 1 / limit) / (terms * distance).sum(axis=1)
        following = np.clip(exponent + np.maximum(step, 0.0), 0.0, 1.0)
        if (following == exponent).all():
            break
        exponent = following
    return exponent


def _polished(
    exponent: DoubleDouble, weights: DoubleDouble, distance: DoubleDouble, limit: float
) -> DoubleDouble:
    """One step of Newton's in double-doubles."""
    terms = multiply(weights, exp(_negated(multiply(column(exponent), distance))))
    n_groups = len(exponent.high)
    excess = subtract(sum_rows(terms), divide(_constant(1.0, n_groups), _constant(limit, n_groups)))
    return add(exponent, divide(excess, sum_rows(multiply(terms, distance))))


def _chosen(values: DoubleDouble, rows: BoolArray) -> DoubleDouble:
    return DoubleDouble(values.high[rows], values.low[rows])


def _negated(values: DoubleDouble) -> DoubleDouble:
    return DoubleDouble(-values.high, -values.low)


def pay_with_recentred_passes(shares: Shares, limit: float) -> Pay:
    """Pay w = 1 + s (q − q̃) with s = min(1 / q̃, c): what the cut of λ takes goes back to the passes alone (5E).

    It is λ (q + t) A with λ = s and t = 1 / s − q̃. The cap is on λ as in the paper; amplification may be above c.
    """
    n_groups = len(shares.is_moved)
    free = pay_without_cap(shares, limit)
    is_capped = shares.is_moved & (free.multiplier.high > limit * (1 + _TOLERANCE))
    cut = where(is_capped, _constant(limit, n_groups), free.multiplier)
    excess = subtract(divide(_constant(1.0, n_groups), _constant(limit, n_groups)), _mean_factor(shares))
    shift = where(is_capped, excess, _constant(0.0, n_groups))
    raised = add(shares.factors, column(shift))
    paid = multiply(column(cut), multiply(raised, shares.amounts))
    return Pay(where(is_capped[:, None], paid, free.paid), cut, shift.high, is_capped)


CAPS: Mapping[str, Callable[[Shares, float], Pay]] = {
    "none": pay_without_cap,
    "paper": pay_with_cut,
    "bounded": pay_bounded,
    "waterfill": pay_by_waterfill,
    "temper": pay_tempered,
    "pass-recentre": pay_with_recentred_passes,
}


def is_uniform(shares: Shares) -> BoolArray:
    """(n_groups,) whether all paid passes have one factor, or there is none."""
    spread = [np.where(shares.is_paid, part, np.nan) for part in shares.factors]
    first = [part[np.arange(len(part)), shares.is_paid.argmax(axis=1)][:, None] for part in spread]
    is_equal = (spread[0] == first[0]) & (spread[1] == first[1])
    return np.asarray((is_equal | ~shares.is_paid).all(axis=1))


def _mean_factor(shares: Shares) -> DoubleDouble:
    """(n_groups,) q̃ = Σ qA / Σ A; 1 where nobody is paid."""
    return _divide_where(shares.is_moved, shares.weighted_total, shares.total)


def _divide_where(condition: BoolArray, left: DoubleDouble, right: DoubleDouble) -> DoubleDouble:
    """The quotient where the condition holds, elsewhere 1."""
    one = _constant(1.0, len(condition))
    return divide(where(condition, left, one), where(condition, right, one))


def _constant(value: float, n_groups: int) -> DoubleDouble:
    return from_floats(np.full(n_groups, value))


def _largest(factors: DoubleDouble) -> DoubleDouble:
    """(n_groups,) the largest factor of each group; doubles that are equal have equal rests."""
    rows = np.arange(len(factors.high))
    position = factors.high.argmax(axis=1)
    return DoubleDouble(factors.high[rows, position], factors.low[rows, position])
