"""Estimators: from rewards, and factors where there are any, to advantages. Pure arrays, one batch of equal-size groups.

Every array is (n_groups, group_size); invalid trajectories are masked, not removed. Sums, means and quotients are
carried in double-doubles and rounded once, so a result is the exact one to half a unit in the last place for rewards
that are doubles. Formulas and their sources: METHODS sections 1 to 5.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

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

BoolArray = NDArray[np.bool_]
Cap = Literal["none", "paper", "bounded"]

PAPER_LIMIT = 1.5
_TOLERANCE = 1e-12
"""Relative. λ of exactly 3/2 is not capped; whatever is this near to the limit moves by no more when it is left alone."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Groups of equal size, invalid trajectories masked."""

    rewards: FloatArray
    """(n_groups, group_size) effective rewards; ignored where invalid."""
    is_valid: BoolArray
    is_passed: BoolArray
    is_graded: BoolArray
    """(n_groups,) whether the group's factors may be used; else its base advantages stand."""
    factors: DoubleDouble
    """(n_groups, group_size) q in (0, 1] of the valid passes of graded groups; ignored elsewhere."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """What an estimator makes of a batch; NaN where a trajectory is invalid or a group was left as it was."""

    advantage: FloatArray
    base: FloatArray
    """r − mean r of the valid trajectories."""
    reward_equivalent: FloatArray
    """Rewards that give `advantage` to a trainer that only subtracts the group's mean (METHODS 3)."""
    multiplier: FloatArray
    """(n_groups,) λ: a paid pass gets λ (q + t) A."""
    factor_shift: FloatArray
    """(n_groups,) t of the bounded cap; 0 under the others."""
    is_capped: BoolArray
    """(n_groups,) whether the cap changed the group."""


class _Pay(NamedTuple):
    """One cap's answer; rows that are no paid pass hold anything."""

    paid: DoubleDouble
    multiplier: DoubleDouble
    shift: FloatArray
    is_capped: BoolArray


def dr_grpo(batch: Batch, cap: Cap = "none", limit: float = PAPER_LIMIT) -> Estimate:  # noqa: ARG001 - one signature
    """A = r − mean r, without a standard deviation (METHODS 6.2); factors and cap are not looked at."""
    base, mean = _centre(batch)
    return _leave(batch, _mask(base.high, batch), mean)


def gagar(batch: Batch, cap: Cap = "bounded", limit: float = PAPER_LIMIT) -> Estimate:
    """Sum-preserving redistribution among the passes above the group's mean (METHODS 1.4, 1.5, 1.6, 5B).

    `cap`: `none` is the paper's equation 2; `paper` cuts λ at `limit` and subtracts the group's mean again; `bounded`
    raises all factors by one constant, so that no pass is amplified by more than `limit`. Under `none` and `bounded`
    every other row is bit for bit its base, and so is a group whose factors are all equal.

    Raises:
        ValueError: the cap is unknown, or the limit is not more than 1.
    """
    if cap not in _CAPS or not limit > 1:
        raise ValueError(
            f"cap {cap!r} with limit {limit}, expected one of {', '.join(_CAPS)} and a limit above 1"
        )
    base, mean = _centre(batch)
    masked = _mask(base.high, batch)
    is_candidate = batch.is_graded[:, None] & batch.is_valid & batch.is_passed
    is_paid = is_candidate & (base.high > 0)
    nothing = from_floats(np.zeros_like(base.high))
    amounts, factors = where(is_paid, base, nothing), where(is_paid, batch.factors, nothing)
    is_moved: BoolArray = np.asarray(is_paid.any(axis=1))
    pay = _CAPS[cap](amounts, factors, is_paid, is_moved, limit)

    kept = _leave(batch, masked, mean)
    is_rewritten = is_paid if cap == "paper" else is_paid & ~_is_uniform(factors, is_paid)[:, None]
    advantage = np.where(is_rewritten, pay.paid.high, masked)
    equivalent = np.where(is_rewritten, add(column(mean), pay.paid).high, kept.reward_equivalent)
    if cap == "paper":
        is_below = is_candidate & (base.high < 0) & is_moved[:, None]
        equivalent = np.where(is_below, mean.high[:, None], equivalent)
        advantage = _recentre(
            batch, where(is_paid, pay.paid, where(is_below, nothing, base)), advantage, is_below, pay
        )
    return Estimate(
        advantage=advantage,
        base=masked,
        reward_equivalent=equivalent,
        multiplier=np.where(is_moved, pay.multiplier.high, np.nan),
        factor_shift=np.where(is_moved, pay.shift, np.nan),
        is_capped=pay.is_capped,
    )


ESTIMATORS: Mapping[str, Callable[[Batch, Cap, float], Estimate]] = {"gagar": gagar, "dr-grpo": dr_grpo}


def _centre(batch: Batch) -> tuple[DoubleDouble, DoubleDouble]:
    """Rewards less their mean over valid rows, and the mean; anything on invalid rows."""
    rewards = np.where(batch.is_valid, batch.rewards, 0.0)
    n_valid = np.maximum(batch.is_valid.sum(axis=1), 1).astype(np.float64)
    mean = divide(sum_rows(from_floats(rewards)), from_floats(n_valid))
    return subtract(from_floats(rewards), column(mean)), mean


def _mask(values: FloatArray, batch: Batch) -> FloatArray:
    return np.where(batch.is_valid, values, np.nan)


def _leave(batch: Batch, masked: FloatArray, mean: DoubleDouble) -> Estimate:
    """Base advantages as they are."""
    n_groups = len(mean.high)
    unknown = np.full(n_groups, np.nan)
    rewards = _mask(batch.rewards, batch)
    return Estimate(masked, masked, rewards, unknown, unknown, np.zeros(n_groups, dtype=bool))


def _is_uniform(factors: DoubleDouble, is_paid: BoolArray) -> BoolArray:
    """(n_groups,) whether all paid passes have one factor, or there is none."""
    spread = [np.where(is_paid, part, np.nan) for part in factors]
    first = [part[np.arange(len(part)), is_paid.argmax(axis=1)][:, None] for part in spread]
    return np.asarray(((spread[0] == first[0]) & (spread[1] == first[1]) | ~is_paid).all(axis=1))


def _pay_without_cap(
    amounts: DoubleDouble, factors: DoubleDouble, is_paid: BoolArray, is_moved: BoolArray, limit: float
) -> _Pay:
    """λ = Σ A / Σ qA, and λ q A for each."""
    del is_paid, limit
    weighted = multiply(factors, amounts)
    multiplier = _divide_where(is_moved, sum_rows(amounts), sum_rows(weighted))
    n_groups = len(is_moved)
    return _Pay(
        multiply(column(multiplier), weighted), multiplier, np.zeros(n_groups), np.zeros(n_groups, dtype=bool)
    )


def _pay_with_cut(
    amounts: DoubleDouble, factors: DoubleDouble, is_paid: BoolArray, is_moved: BoolArray, limit: float
) -> _Pay:
    """λ cut at the limit, whatever the factors are; the group's mean is subtracted afterwards."""
    free = _pay_without_cap(amounts, factors, is_paid, is_moved, limit)
    is_capped = is_moved & (free.multiplier.high > limit * (1 + _TOLERANCE))
    cut = where(is_capped, from_floats(np.full(len(is_moved), limit)), free.multiplier)
    return _Pay(multiply(column(cut), multiply(factors, amounts)), cut, free.shift, is_capped)


def _pay_bounded(
    amounts: DoubleDouble, factors: DoubleDouble, is_paid: BoolArray, is_moved: BoolArray, limit: float
) -> _Pay:
    """Every factor raised by t = max(0, (q_max − c q̃) / (c − 1)), q̃ = Σ qA / Σ A; then as without a cap."""
    n_groups = len(is_moved)
    largest = _largest(factors)
    mean = _divide_where(is_moved, sum_rows(multiply(factors, amounts)), sum_rows(amounts))
    excess = subtract(largest, multiply(from_floats(np.full(n_groups, limit)), mean))
    is_capped = is_moved & (excess.high > _TOLERANCE * largest.high)
    shift = divide(excess, subtract(from_floats(np.full(n_groups, limit)), from_floats(np.ones(n_groups))))
    shift = where(is_capped, shift, from_floats(np.zeros(n_groups)))
    raised = add(factors, column(shift))
    free = _pay_without_cap(amounts, raised, is_paid, is_moved, limit)
    return _Pay(free.paid, free.multiplier, shift.high, is_capped)


_CAPS = {"none": _pay_without_cap, "paper": _pay_with_cut, "bounded": _pay_bounded}


def _recentre(
    batch: Batch, paid: DoubleDouble, advantage: FloatArray, is_below: BoolArray, pay: _Pay
) -> FloatArray:
    """`paid` minus its mean, in groups where that mean is not 0 by construction.

    Elsewhere the subtraction would only stir the last bits of the failures.
    """
    is_shifted = pay.is_capped | is_below.any(axis=1)
    total = where(batch.is_valid, paid, from_floats(np.zeros_like(advantage)))
    n_valid = np.maximum(batch.is_valid.sum(axis=1), 1).astype(np.float64)
    shift = divide(sum_rows(total), from_floats(n_valid))
    recentred = subtract(paid, column(shift)).high
    return np.where(is_shifted[:, None] & batch.is_valid, recentred, advantage)


def _divide_where(condition: BoolArray, left: DoubleDouble, right: DoubleDouble) -> DoubleDouble:
    """The quotient where the condition holds, elsewhere 1."""
    one = from_floats(np.ones(len(condition)))
    return divide(where(condition, left, one), where(condition, right, one))


def _largest(factors: DoubleDouble) -> DoubleDouble:
    """(n_groups,) the largest factor of each group; doubles that are equal have equal rests."""
    rows = np.arange(len(factors.high))
    position = factors.high.argmax(axis=1)
    return DoubleDouble(factors.high[rows, position], factors.low[rows, position])
