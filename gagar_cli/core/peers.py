"""The methods that GAGAR is compared with, each a plain function from a batch to an estimate (METHODS 6).

Shapes are those of `core/batches.py`. A group of one gets 0, as in TRL, NeMo and PAPO (verl gives the raw reward), and
invalid rows are left out of every statistic, as in TRL (in verl one NaN makes the group NaN).
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from gagar_cli.core.batches import (
    Batch,
    BoolArray,
    Estimate,
    centre,
    count,
    deviation,
    leave,
    mask,
)
from gagar_cli.core.double_double import FloatArray, column, divide, from_floats, multiply

Scale = Literal["std", "none"]
_Array = TypeVar("_Array")
_Keys = NDArray[np.integer[Any]]
EPSILON = 1e-6
"""verl and NeMo; TRL has 1e-4."""
_NO_SPREAD = 1e-12
"""Of the group's sum of squares: what rounding leaves of a variance that is zero."""


def dr_grpo(batch: Batch) -> Estimate:
    """A = r − mean r (Dr. GRPO; verl `norm_adv_by_std_in_grpo=False`, TRL `scale_rewards="none"`; METHODS 6.2)."""
    return leave(batch)


def grpo(batch: Batch, *, epsilon: float = EPSILON, ddof: int = 1, leave_one_out: bool = False) -> Estimate:
    """A = (r − mean r) / (std + ε) (GRPO; METHODS 6.1).

    verl and NeMo: ε 1e-6, TRL: 1e-4; all have the sample deviation, ddof 1. `leave_one_out` is NeMo's default: mean and
    deviation of the others, and no division where the others are all equal; its advantages do not sum to 0.
    """
    centred, _ = centre(batch.rewards, batch.is_valid)
    if leave_one_out:
        advantage = _without_oneself(centred.high, batch.is_valid, epsilon, ddof)
        return replace(
            _estimate(batch, advantage), reward_equivalent=mask(np.full_like(advantage, np.nan), batch)
        )
    return _estimate(batch, _scaled(batch.rewards, batch.is_valid, "std", epsilon, ddof))


def rloo(batch: Batch) -> Estimate:
    """A = r − mean of the others' r = n / (n − 1) (r − mean r) (RLOO; verl, TRL and NeMo agree; METHODS 6.3)."""
    centred, _ = centre(batch.rewards, batch.is_valid)
    n_valid = count(batch.is_valid)
    n_others = np.maximum(n_valid - 1, 1)
    ratio = divide(from_floats(n_valid), from_floats(n_others))
    return _estimate(batch, multiply(centred, column(ratio)).high)


def recode(batch: Batch, *, scale: Scale = "std", process_weight: float = 1.0) -> Estimate:
    """GRPO over R = R_fmt + R_out + w · 1[passed] R_proc (ReCode's CG-GRPO, arXiv 2508.05170; METHODS 6.6).

    R_out is 1 for a pass and 0 for a failure: the equation has no other outcome, so rewards are not read.
    `process`: of passes, in [0, 1]. w = 1 is the equation's; one note has 0.5. Passes that are not eligible, or have no
    score, get R_proc = 0. The form of a violation counts for nothing, so that no failure is worth less.
    """
    is_scored = batch.is_subject & batch.is_passed & ~np.isnan(_given(batch.process))
    is_well_formed = _given(batch.is_well_formed)
    if batch.is_violation is not None:
        is_well_formed = is_well_formed & ~batch.is_violation
    reward = is_well_formed.astype(np.float64) + batch.is_passed
    reward = reward + np.where(is_scored, process_weight * np.nan_to_num(_given(batch.process)), 0.0)
    return _estimate(batch, _scaled(reward, batch.is_valid, scale, EPSILON, 1))


def papo(
    batch: Batch,
    *,
    scale: Scale = "std",
    process_weight: float = 1.0,
    process_over: Literal["passes", "group"] = "passes",
) -> Estimate:
    """A = A_out + λ A_proc, the second among the passes alone (PAPO, arXiv 2603.26535, equations 3 to 5; METHODS 6.7).

    As in the official code a component whose deviation is at most 1e-6, or that has fewer than two members, is 0.
    `scale="none"` is its mean-only variant; `process_over="group"` its ablation with A_proc over the whole group, in which
    a violation has the lowest score there is.
    """
    process = _given(batch.process)
    if batch.is_violation is not None:
        process = np.where(batch.is_violation, 0.0, process)
    is_scored = batch.is_subject & ~np.isnan(process)
    if process_over == "passes":
        is_scored &= batch.is_passed
    outcome = _component(batch.rewards, batch.is_valid, scale)
    return _estimate(batch, outcome + process_weight * _component(process, is_scored, scale))


def edas(
    batch: Batch, *, scale: Scale = "std", alpha: float = 0.2, beta: float = 0.2, kappa: float = 2.0
) -> Estimate:
    """Failures told apart by their kind of error (EDAS, arXiv 2605.17333; METHODS 6.8); passes get the base.

    Over the W = well-formed failures of a group that have a class, with p_k the share of error k, I = −ln p, H their mean and S the mean
    |A|: A += sgn(Δ) min(|Δ|, |A| / κ), where Δ = α S (I − H) / ln |W|, −β S if there is one kind, 0 if |W| < 2.
    Defaults are the module's; the paper's recipe has α 0.4. No rewards give these to a trainer that subtracts the mean.
    """
    kept = _estimate(batch, _scaled(batch.rewards, batch.is_valid, scale, EPSILON, 1))
    base = np.nan_to_num(kept.advantage)
    classes = _given(batch.error_class)
    is_wrong = batch.is_subject & ~batch.is_passed & _given(batch.is_well_formed) & (classes >= 0)
    n_wrong = is_wrong.sum(axis=1)[:, None]
    shares = np.where(is_wrong, _count_equal(classes, is_wrong), 1) / np.maximum(n_wrong, 1)
    surprise = np.where(is_wrong, -np.log(shares), 0.0)
    entropy = surprise.sum(axis=1, keepdims=True) / np.maximum(n_wrong, 1)
    size = np.where(is_wrong, np.abs(base), 0.0).sum(axis=1, keepdims=True) / np.maximum(n_wrong, 1)
    is_one_kind = (np.where(is_wrong, shares, 1.0) == 1.0).all(axis=1, keepdims=True)
    spread = alpha * size * (surprise - entropy) / np.log(np.maximum(n_wrong, 2))
    change = np.where(is_one_kind, -beta * size, spread)
    change = np.sign(change) * np.minimum(np.abs(change), np.abs(base) / kappa)
    is_changed = is_wrong & (n_wrong > 1)
    advantage = np.where(is_changed, base + change, kept.advantage)
    is_kept = ~is_changed.any(axis=1, keepdims=True)
    return replace(
        kept, advantage=advantage, reward_equivalent=np.where(is_kept, kept.reward_equivalent, np.nan)
    )


def ranking_reward(batch: Batch, *, scale: Scale = "std", rank_weight: float = 1.0) -> Estimate:
    """GRPO over r + λ (u − ½), u the share of a pass's siblings that it beats (Groupwise Ranking Reward; METHODS 6.11).

    arXiv 2604.18892, equations 1 to 8, from a reading note. Ties count half; u − ½ is 0 for failures, for a lone pass,
    and where the passes are not ranked.
    """
    standing = _given(batch.standing)
    is_ranked = batch.is_subject & batch.is_passed & (standing >= 0)
    n_ranked = is_ranked.sum(axis=1)[:, None]
    n_not_better = _count_not_better(standing, is_ranked)
    n_tied = _count_equal(standing, is_ranked)
    n_worse = n_not_better - n_tied
    beaten = (n_worse + 0.5 * (n_tied - 1)) / np.maximum(n_ranked - 1, 1)
    auxiliary = np.where(is_ranked & (n_ranked > 1), beaten - 0.5, 0.0)
    return _estimate(
        batch, _scaled(batch.rewards + rank_weight * auxiliary, batch.is_valid, scale, EPSILON, 1)
    )


def _estimate(batch: Batch, advantage: FloatArray) -> Estimate:
    """Advantages that sum to 0 in every group, with the rewards that stand for them."""
    kept = leave(batch)
    _, mean = centre(batch.rewards, batch.is_valid)
    return replace(
        kept, advantage=mask(advantage, batch), reward_equivalent=mask(mean.high[:, None] + advantage, batch)
    )


def _scaled(values: FloatArray, is_counted: BoolArray, scale: Scale, epsilon: float, ddof: int) -> FloatArray:
    """Values less their mean, over their deviation plus ε where that is asked for."""
    centred, _ = centre(values, is_counted)
    if scale == "none":
        return centred.high
    return centred.high / (deviation(centred, is_counted, ddof) + epsilon)[:, None]


def _component(values: FloatArray, is_counted: BoolArray, scale: Scale) -> FloatArray:
    """One of PAPO's two summands, 0 where not counted and where there is nothing to compare."""
    centred, _ = centre(values, is_counted)
    is_compared = is_counted.sum(axis=1) > 1
    if scale == "none":
        return np.where(is_counted & is_compared[:, None], centred.high, 0.0)
    spread = deviation(centred, is_counted, 1)
    is_compared &= spread > EPSILON
    return np.where(is_counted & is_compared[:, None], centred.high / (spread + EPSILON)[:, None], 0.0)


def _without_oneself(centred: FloatArray, is_valid: BoolArray, epsilon: float, ddof: int) -> FloatArray:
    """Each reward less the mean of the others, over their deviation where they have one."""
    amounts = np.where(is_valid, centred, 0.0)
    n_valid = count(is_valid)[:, None]
    n_others = np.maximum(n_valid - 1, 1)
    squares = (amounts**2).sum(axis=1, keepdims=True)
    # Σ over the others of (c − their mean)², with the group's mean at 0.
    spread = squares - amounts**2 * n_valid / n_others
    is_spread = (n_others > ddof) & (spread > _NO_SPREAD * squares)
    variance = np.where(is_spread, spread, 1.0) / np.maximum(n_others - ddof, 1)
    advantage = np.where(n_valid > 1, amounts * n_valid / n_others, 0.0)
    return np.where(is_spread, advantage / (np.sqrt(variance) + epsilon), advantage)


def _count_equal(values: _Keys, is_counted: BoolArray) -> FloatArray:
    """How many counted rows of the group have the value of this one, itself included; 0 where not counted."""
    return _counted(values, is_counted, lambda keys, wanted: _after(keys, wanted) - _before(keys, wanted))


def _count_not_better(values: _Keys, is_counted: BoolArray) -> FloatArray:
    """How many counted rows of the group have this one's value or a larger one, itself included."""
    stride = int(values.max(initial=0)) + 2
    ends = (np.arange(len(values)) + 1) * stride

    def reach(keys: _Keys, wanted: _Keys) -> _Keys:
        return _before(keys, ends[wanted // stride]) - _before(keys, wanted)

    return _counted(values, is_counted, reach)


def _counted(
    values: _Keys,
    is_counted: BoolArray,
    reach: Callable[[_Keys, _Keys], _Keys],
) -> FloatArray:
    """What `reach` counts among the sorted keys (group, value) of the counted rows."""
    stride = int(values.max(initial=0)) + 2
    keys = (np.arange(len(values))[:, None] * stride + values)[is_counted]
    counts = np.zeros(values.shape)
    counts[is_counted] = reach(np.sort(keys), keys)
    return counts


def _before(keys: _Keys, wanted: _Keys) -> _Keys:
    return np.searchsorted(keys, wanted, side="left")


def _after(keys: _Keys, wanted: _Keys) -> _Keys:
    return np.searchsorted(keys, wanted, side="right")


def _given(values: _Array | None) -> _Array:
    """An input of the method.

    Raises:
        ValueError: it was not given.
    """
    if values is None:
        raise ValueError("the batch lacks an input of this method")
    return values
