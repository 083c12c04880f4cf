"""Estimators by name: what each method reads, which options it has, and how it is run on a batch.

The methods themselves are plain functions in `core/gagar.py`, `core/peers.py` and, turn by turn, `core/turn_methods.py`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

from gagar_cli.core.batches import Batch, Estimate
from gagar_cli.core.caps import PAPER_LIMIT, Cap
from gagar_cli.core.double_double import FloatArray
from gagar_cli.core.gagar import downweight, gagar, gagar_reward
from gagar_cli.core.peers import EPSILON, Scale, dr_grpo, edas, grpo, papo, ranking_reward, recode, rloo
from gagar_cli.core.turn_methods import EpisodeOver, summarise_turns

Need = Literal["factors", "order", "process_score", "format_ok", "error_class", "turns"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Every option of every method; a method is given those that it has."""

    cap: Cap = "bounded"
    limit: float = PAPER_LIMIT
    """What the cap bounds: λ for `paper` and `pass-recentre`, the amplification of a pass for the others."""
    scale: Scale = "std"
    """Whether the group's deviation divides."""
    epsilon: float = EPSILON
    ddof: int = 1
    leave_one_out: bool = False
    process_weight: float = 1.0
    process_over: Literal["passes", "group"] = "passes"
    rank_weight: float = 1.0
    alpha: float = 0.2
    beta: float = 0.2
    kappa: float = 2.0
    discount: float = 0.95
    episode_over: EpisodeOver = "trajectories"
    episode_weight: float = 1.0
    state_weight: float = 1.0
    success_value: float = 10.0
    is_distance_relative: bool = False


_ROUNDING = 1e-12
"""Of a group's largest advantage: `gagar-reward` moves the last bits of what it leaves."""
PRESETS: Mapping[str, Mapping[str, object]] = {
    "verl": {"epsilon": 1e-6, "ddof": 1, "leave_one_out": False},
    "trl": {"epsilon": 1e-4, "ddof": 1, "leave_one_out": False},
    "nemo": {"epsilon": 1e-6, "ddof": 1, "leave_one_out": True},
}
"""Options of `grpo` as the trainers have them by default."""


class Method(NamedTuple):
    """One estimator."""

    run: Callable[..., Estimate]
    options: tuple[str, ...] = ()
    needs: tuple[Need, ...] = ()
    """What it reads beside rewards: factors, an order of the passes, columns, the turns."""
    defaults: Mapping[str, object] = {}
    """Options that it has by default otherwise than `Options`."""


_TURN_OPTIONS = ("scale", "discount", "episode_over", "episode_weight", "state_weight")
METHODS: Mapping[str, Method] = {
    "gagar": Method(gagar, ("cap", "limit"), ("factors",)),
    "gagar-reward": Method(gagar_reward, ("cap", "limit"), ("factors",)),
    "downweight": Method(downweight, (), ("factors",)),
    "dr-grpo": Method(dr_grpo),
    "grpo": Method(grpo, ("epsilon", "ddof", "leave_one_out")),
    "rloo": Method(rloo),
    "recode": Method(recode, ("scale", "process_weight"), ("process_score", "format_ok")),
    "papo": Method(papo, ("scale", "process_weight", "process_over"), ("process_score",)),
    "edas": Method(edas, ("scale", "alpha", "beta", "kappa"), ("error_class", "format_ok")),
    "ranking-reward": Method(ranking_reward, ("scale", "rank_weight"), ("order",)),
    "gigpo": Method(summarise_turns, _TURN_OPTIONS, ("turns",)),
    "graphgpo": Method(
        summarise_turns,
        (*_TURN_OPTIONS, "success_value", "is_distance_relative"),
        ("turns",),
        {"discount": 0.1},
    ),
}


def estimate(name: str, batch: Batch, options: Options | None = None) -> Estimate:
    """The advantages of a batch by the method of that name; rows that are not eligible get the method's base.

    The base is r − mean r for the methods that use factors, GRPO of the same scale for those that add to it. What a
    method adds to a violation, or takes from the failures beside it, never puts the violation above any of them.
    """
    return _with_violations_last(batch, _estimate(name, batch, options or Options()))


def violation_bounds(batch: Batch, advantage: FloatArray) -> FloatArray:
    """(n_groups,) the most that a violation may get: what the group's lowest-paid honest failure gets, and no more than 0."""
    is_failure = batch.is_honest_failure & ~np.isnan(advantage)
    return np.asarray(np.where(is_failure, advantage, 0.0).min(axis=1, initial=0.0))


def _with_violations_last(batch: Batch, made: Estimate) -> Estimate:
    if batch.is_violation is None or not batch.is_violation.any():
        return made
    bounds = violation_bounds(batch, made.advantage)[:, None]
    is_above = batch.is_violation & (made.advantage > bounds)
    if not is_above.any():
        return made
    # The group's advantages do not sum to 0 any more, so no rewards stand for them.
    is_changed = is_above.any(axis=1, keepdims=True)
    return replace(
        made,
        advantage=np.where(is_above, bounds, made.advantage),
        reward_equivalent=np.where(is_changed, np.nan, made.reward_equivalent),
    )


def _estimate(name: str, batch: Batch, options: Options) -> Estimate:
    method = METHODS[name]
    # A method of turns has run by now: its options went into what the batch has of them.
    chosen = () if "turns" in method.needs else method.options
    made = method.run(batch, **{option: getattr(options, option) for option in chosen})
    if batch.is_eligible is None or not method.needs or (batch.is_eligible | ~batch.is_valid).all():
        return made
    is_centred = "factors" in method.needs or options.scale == "none"
    base = dr_grpo(batch) if is_centred else grpo(batch)
    advantage = np.where(batch.is_eligible, made.advantage, base.advantage)
    is_outside = ~(batch.is_eligible & batch.is_valid).any(axis=1, keepdims=True)
    is_whole = (batch.is_eligible | ~batch.is_valid).all(axis=1, keepdims=True)
    # In a group that is eligible in part the two do not share a mean, unless only passes were moved among themselves.
    drift = np.where(batch.is_valid & ~batch.is_eligible, np.abs(made.advantage - base.advantage), 0.0)
    size = np.where(batch.is_valid, np.abs(base.advantage), 0.0).max(axis=1, keepdims=True)
    is_shared = (drift <= _ROUNDING * size).all(axis=1, keepdims=True) & ("factors" in method.needs)
    mixed = np.where(is_shared, made.reward_equivalent, np.nan)
    equivalent = np.where(
        is_whole, made.reward_equivalent, np.where(is_outside, base.reward_equivalent, mixed)
    )
    return replace(made, advantage=advantage, reward_equivalent=equivalent)
