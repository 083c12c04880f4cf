"""GAGAR and its two neighbours: the same factors in reward space, and as weights that keep no sum."""

import numpy as np
from numpy.typing import NDArray

from gagar_cli.core.batches import Batch, BoolArray, Estimate, centre, count, leave, mask
from gagar_cli.core.caps import CAPS, MAX_LIMIT, PAPER_LIMIT, Cap, Pay, Shares, is_uniform, make_shares
from gagar_cli.core.double_double import (
    DoubleDouble,
    FloatArray,
    add,
    column,
    divide,
    from_floats,
    multiply,
    shift_exponents,
    subtract,
    sum_rows,
    where,
)

_SMALL = 1e-100


def gagar(batch: Batch, cap: Cap = "bounded", limit: float = PAPER_LIMIT) -> Estimate:
    """Sum-preserving redistribution among the passes above the group's mean (METHODS 1.4, 1.5, 1.6, 5).

    `cap`: `none` is the paper's equation 2; `paper` cuts λ at `limit` and subtracts the group's mean again; the others
    keep the sum of the passes (`core/caps.py`). Under all but `paper` every other row is bit for bit its base, and so
    is a group whose factors are all equal.

    Raises:
        ValueError: the cap is unknown, or the limit is not more than 1 and at most `MAX_LIMIT`.
    """
    if cap not in CAPS or not 1 < limit <= MAX_LIMIT:
        expected = f"expected one of {', '.join(CAPS)} and a limit above 1, at most {MAX_LIMIT:g}"
        raise ValueError(f"cap {cap!r} with limit {limit}, {expected}")
    base, mean = batch.base_and_mean
    shares, lift = batch.shares or share(batch)
    kept = leave(batch)
    is_paid = shares.is_paid
    nothing = from_floats(np.zeros_like(base.high))
    pay = CAPS[cap](shares, limit)
    pay = pay._replace(paid=shift_exponents(pay.paid, -lift))

    is_spread = np.ones_like(shares.is_moved) if cap == "paper" else ~is_uniform(shares)
    is_rewritten = is_paid & is_spread[:, None]
    advantage = np.where(is_rewritten, pay.paid.high, kept.base)
    equivalent = np.where(is_rewritten, add(column(mean), pay.paid).high, kept.reward_equivalent)
    if cap == "paper":
        is_below = batch.is_candidate & (base.high < 0) & shares.is_moved[:, None]
        equivalent = np.where(is_below, mean.high[:, None], equivalent)
        paid = where(is_paid, pay.paid, where(is_below, nothing, base))
        advantage = _recentre(batch, paid, advantage, is_below, pay)
    return Estimate(
        advantage=advantage,
        base=kept.base,
        reward_equivalent=equivalent,
        multiplier=np.where(shares.is_moved, pay.multiplier.high, np.nan),
        factor_shift=np.where(shares.is_moved, pay.shift, np.nan),
        is_capped=pay.is_capped & is_spread,
    )


def share(batch: Batch) -> tuple[Shares, NDArray[np.int64]]:
    """What the caps share out, in powers of two that `_lift` gives; the same for every cap."""
    base, _ = batch.base_and_mean
    is_paid = batch.is_candidate & (base.high > 0)
    nothing = from_floats(np.zeros_like(base.high))
    lift = _lift(np.where(is_paid, base.high, 0.0))
    amounts = shift_exponents(where(is_paid, base, nothing), lift)
    return make_shares(amounts, where(is_paid, batch.factors, nothing), is_paid), lift


def gagar_reward(batch: Batch, cap: Cap = "bounded", limit: float = PAPER_LIMIT) -> Estimate:
    """GAGAR in reward space (METHODS 3, the paper's appendix A.3): r' = mean r + A', then A = r' − mean r'.

    `advantage` is what a trainer makes of the rounded rewards in `reward_equivalent` when it subtracts the mean. It is
    `gagar`'s up to rounding, so the last bit of a failure may move.
    """
    estimate = gagar(batch, cap, limit)
    centred, _ = centre(estimate.reward_equivalent, batch.is_valid)
    return Estimate(
        mask(centred.high, batch),
        estimate.base,
        estimate.reward_equivalent,
        estimate.multiplier,
        estimate.factor_shift,
        estimate.is_capped,
    )


def downweight(batch: Batch) -> Estimate:
    """D = q A for passes, A for the others: the paper's ablation, which keeps no sum (METHODS 6.5).

    No rewards give these to a trainer that subtracts the mean: `reward_equivalent` is NaN in groups that it changes.
    """
    base, _ = centre(batch.rewards, batch.is_valid)
    kept = leave(batch)
    is_candidate = batch.is_candidate
    weighted = multiply(where(is_candidate, batch.factors, from_floats(np.ones_like(base.high))), base)
    advantage = np.where(is_candidate, weighted.high, kept.base)
    is_kept = np.asarray(((advantage == kept.base) | ~batch.is_valid).all(axis=1))
    return Estimate(
        advantage=advantage,
        base=kept.base,
        reward_equivalent=np.where(is_kept[:, None], kept.reward_equivalent, np.nan),
        multiplier=kept.multiplier,
        factor_shift=kept.factor_shift,
        is_capped=kept.is_capped,
    )


def _lift(amounts: FloatArray) -> NDArray[np.int64]:
    """(n_groups, 1) powers of two that bring the amounts of a group to about 1, where their products would have no bits left.

    Factors and limits do not care for the unit of the rewards.
    """
    largest = amounts.max(axis=1, initial=0.0, keepdims=True)
    _, exponents = np.frexp(largest)
    return np.where((largest > 0) & (largest < _SMALL), -exponents.astype(np.int64), 0)


def _recentre(
    batch: Batch, paid: DoubleDouble, advantage: FloatArray, is_below: BoolArray, pay: Pay
) -> FloatArray:
    """`paid` minus its mean, in groups where that mean is not 0 by construction.

    Elsewhere the subtraction would only stir the last bits of the failures.
    """
    is_shifted = pay.is_capped | is_below.any(axis=1)
    total = where(batch.is_valid, paid, from_floats(np.zeros_like(advantage)))
    shift = divide(sum_rows(total), from_floats(count(batch.is_valid)))
    recentred = subtract(paid, column(shift)).high
    return np.where(is_shifted[:, None] & batch.is_valid, recentred, advantage)
