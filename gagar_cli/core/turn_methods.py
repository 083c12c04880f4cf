"""GiGPO and GraphGPO: an advantage for every turn, from what other attempts did in the same state (METHODS 6.9, 6.10).

Both add to the advantage of the whole attempt one of the turn: the turn's return against the mean return of all turns
that the group's attempts took from the same state. They differ in the return: discounted rewards (GiGPO), or how near
the turn brought the attempt to a success in the graph of all states seen (GraphGPO). Where no two attempts share a
state, which is the rule for code agents, only the advantage of the attempt is left.

Arrays have one entry a turn, or one a trajectory where told so. The sums are plain doubles.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np

from gagar_cli.core.batches import Batch, BoolArray, Estimate, IntArray, leave, mask
from gagar_cli.core.double_double import FloatArray
from gagar_cli.core.peers import EPSILON, Scale

EpisodeOver = Literal["trajectories", "turns"]


@dataclass(frozen=True, slots=True)
class Turns:
    """The turns of all trajectories, each trajectory's own together and in order."""

    trajectory: IntArray
    """Position of the trajectory that a turn is of, ascending."""
    state: IntArray
    """Code of what the policy saw before the turn; equal codes are equal states."""
    next_state: IntArray
    """Code of what it led to, −1 where that is not told."""
    reward: FloatArray | None = None
    """Of the turn; None: the trajectory's reward falls on its last turn."""


@dataclass(frozen=True, slots=True)
class Attempts:
    """What the turns are of, one entry a trajectory."""

    group: IntArray
    reward: FloatArray
    """Effective; NaN where invalid."""
    is_passed: BoolArray
    is_compared: BoolArray
    """Valid and eligible: the others are left out of every statistic."""


class TurnAdvantages(NamedTuple):
    """The two parts, one entry a turn; NaN for trajectories that are not compared."""

    advantage: FloatArray
    episode: FloatArray
    """The part of the whole attempt."""
    state: FloatArray
    """The part among turns from the same state, with its weight."""
    returns: FloatArray
    n_in_state: IntArray
    """Turns of the group from the same state, this one included."""


def gigpo_returns(turns: Turns, attempts: Attempts, *, discount: float = 0.95) -> FloatArray:
    """R_t = Σ γ^(k−t) r_k over the rest of the trajectory."""
    last = _is_last(turns)
    rewards = turns.reward
    if rewards is None:
        rewards = np.where(last, np.nan_to_num(attempts.reward[turns.trajectory]), 0.0)
    n_left = _n_left(turns)
    returns = np.array(rewards, dtype=np.float64)
    # From the end backwards, all trajectories at once: the turns with the same number of turns left.
    order = np.argsort(n_left, kind="stable")
    starts = np.searchsorted(n_left[order], np.arange(int(n_left.max(initial=0)) + 2))
    for begin, end in pairwise(starts[1:].tolist()):
        chosen = order[begin:end]
        returns[chosen] += discount * returns[chosen + 1]
    return returns


def graphgpo_returns(
    turns: Turns,
    attempts: Attempts,
    *,
    discount: float = 0.1,
    success_value: float = 10.0,
    is_distance_relative: bool = False,
) -> FloatArray:
    """V γ^d, d the fewest turns from the state that a turn led to until a success in the group's graph.

    A passing attempt's last turn leads to the success. States from which none was reached are one farther than the
    farthest that has one. `is_distance_relative`: V γ^(d(next) − d(state) + 1), 1 less a turn in the right direction.
    """
    distance, after = _distances(turns, attempts)
    exponent = after - distance + 1 if is_distance_relative else after
    return np.asarray(success_value * np.power(discount, exponent))


def combine_turns(
    turns: Turns,
    attempts: Attempts,
    returns: FloatArray,
    *,
    scale: Scale = "std",
    episode_over: EpisodeOver = "trajectories",
    episode_weight: float = 1.0,
    state_weight: float = 1.0,
) -> TurnAdvantages:
    """A = w_e A^E + w_s A^S, each less its mean, over its sample deviation + 1e-6 where `scale` is `std`.

    `episode_over`: A^E over the group's trajectories, as the paper has it, or over its turns, where a long attempt
    counts once a turn, as in the reference code. A trajectory or turn with nobody to be compared with gets 0.
    """
    is_compared = attempts.is_compared[turns.trajectory]
    group = attempts.group[turns.trajectory]
    reward = np.nan_to_num(attempts.reward)
    if episode_over == "turns":
        episode = _normalise(reward[turns.trajectory], group, is_compared, scale)
    else:
        episode = _normalise(reward, attempts.group, attempts.is_compared, scale)[turns.trajectory]
    places, n_in_state = _state_groups(group, turns.state, is_compared)
    state = _normalise(returns, places, is_compared, scale)
    episode, state = episode_weight * episode, state_weight * state
    unknown = np.where(is_compared, 0.0, np.nan)
    return TurnAdvantages(
        episode + state + unknown,
        episode + unknown,
        state + unknown,
        returns + unknown,
        n_in_state,
    )


def gigpo(turns: Turns, attempts: Attempts, options: Mapping[str, object]) -> TurnAdvantages:
    """GiGPO (arXiv 2505.10978): discounted rewards, γ 0.95 and ω 1 as in all its scripts (METHODS 6.9)."""
    chosen = dict(options)
    returns = gigpo_returns(turns, attempts, discount=chosen.pop("discount"))  # type: ignore[arg-type]
    return combine_turns(turns, attempts, returns, **chosen)  # type: ignore[arg-type]


def graphgpo(turns: Turns, attempts: Attempts, options: Mapping[str, object]) -> TurnAdvantages:
    """GraphGPO (arXiv 2605.26684): distances to a success, γ 0.1 as its ALFWorld script has it (METHODS 6.10)."""
    chosen = dict(options)
    named = {name: chosen.pop(name) for name in ("discount", "success_value", "is_distance_relative")}
    returns = graphgpo_returns(turns, attempts, **named)  # type: ignore[arg-type]
    return combine_turns(turns, attempts, returns, **chosen)  # type: ignore[arg-type]


TURN_METHODS: Mapping[str, Callable[[Turns, Attempts, Mapping[str, object]], TurnAdvantages]] = {
    "gigpo": gigpo,
    "graphgpo": graphgpo,
}


def summarise_turns(batch: Batch) -> Estimate:
    """The mean over a trajectory's turns as its advantage: a summary, for a method's advantages differ from turn to turn.

    No reward of an attempt gives its turns different advantages: `reward_equivalent` is NaN.
    """
    kept = leave(batch)
    if batch.turn_mean is None:
        raise ValueError("the batch lacks an input of this method")
    unknown = np.full_like(kept.base, np.nan)
    return replace(kept, advantage=mask(batch.turn_mean, batch), reward_equivalent=unknown)


def mean_by_trajectory(turns: Turns, values: FloatArray, n_trajectories: int) -> FloatArray:
    """(n_trajectories,) the mean over each trajectory's turns; NaN where it has none."""
    n_turns = np.bincount(turns.trajectory, minlength=n_trajectories)
    total = np.bincount(turns.trajectory, weights=values, minlength=n_trajectories)
    means = np.divide(total, n_turns, out=np.full(n_trajectories, np.nan), where=n_turns > 0)
    return np.asarray(means)


def _is_last(turns: Turns) -> BoolArray:
    last = np.ones(len(turns.trajectory), dtype=bool)
    last[:-1] = turns.trajectory[1:] != turns.trajectory[:-1]
    return last


def _n_left(turns: Turns) -> IntArray:
    """How many turns of the same trajectory follow."""
    ends = np.flatnonzero(_is_last(turns))
    n_turns = len(turns.trajectory)
    return np.asarray(ends[np.searchsorted(ends, np.arange(n_turns))] - np.arange(n_turns))


def _distances(turns: Turns, attempts: Attempts) -> tuple[FloatArray, FloatArray]:
    """Turns to a success from each turn's state, and from the state that it led to."""
    group = attempts.group[turns.trajectory]
    is_used = attempts.is_compared[turns.trajectory]
    is_success = _is_last(turns) & attempts.is_passed[turns.trajectory]
    stride = int(max(turns.state.max(initial=0), turns.next_state.max(initial=0))) + 1
    keys = np.concatenate((group * stride + turns.state, group * stride + np.maximum(turns.next_state, 0)))
    nodes, numbers = np.unique(keys, return_inverse=True)
    before, after = np.split(numbers, 2)
    is_edge = is_used & ~is_success & (turns.next_state >= 0)
    reached = np.full(len(nodes), np.inf)
    reached[before[is_used & is_success]] = 1
    edges = np.unique(np.stack((before[is_edge], after[is_edge])), axis=1)
    level = 1.0
    # Breadth first from the successes of all groups at once, along the edges backwards.
    while (reached == level).any():
        edges = edges[:, np.isinf(reached[edges[0]])]
        reached[edges[0, reached[edges[1]] == level]] = level + 1
        level += 1
    node_group = nodes // stride
    n_groups = int(node_group.max(initial=0)) + 1
    farthest = np.zeros(n_groups)
    np.maximum.at(farthest, node_group, np.where(np.isinf(reached), 0.0, reached))
    reached = np.where(np.isinf(reached), farthest[node_group] + 1, reached)
    unreached = farthest[group] + 1
    following = np.where(turns.next_state >= 0, reached[after], unreached)
    return reached[before], np.where(is_success, 0.0, following)


def _state_groups(group: IntArray, state: IntArray, is_compared: BoolArray) -> tuple[IntArray, IntArray]:
    """A code for (group, state), and how many compared turns have it; 0 where not compared."""
    stride = int(state.max(initial=0)) + 1
    _, places = np.unique(group * stride + state, return_inverse=True)
    sizes = np.bincount(places[is_compared], minlength=int(places.max(initial=0)) + 1)
    return places.astype(np.int64), np.where(is_compared, sizes[places], 0).astype(np.int64)


def _normalise(values: FloatArray, code: IntArray, is_counted: BoolArray, scale: Scale) -> FloatArray:
    """Values less the mean of their code, over their deviation where asked for; 0 where there is no spread."""
    made = np.zeros(len(values))
    chosen = np.flatnonzero(is_counted)
    if not len(chosen):
        return made
    order = chosen[np.argsort(code[chosen], kind="stable")]
    ordered, codes = values[order], code[order]
    opens = np.flatnonzero(np.concatenate(([True], codes[1:] != codes[:-1])))
    sizes = np.diff(np.append(opens, len(order)))
    which = np.repeat(np.arange(len(opens)), sizes)
    centred = ordered - (np.add.reduceat(ordered, opens) / sizes)[which]
    # Rounding of the mean must not become an advantage where all values are equal.
    is_flat = np.maximum.reduceat(ordered, opens) == np.minimum.reduceat(ordered, opens)
    centred[is_flat[which]] = 0.0
    if scale == "std":
        variance = np.add.reduceat(centred**2, opens) / np.maximum(sizes - 1, 1)
        centred /= (np.sqrt(variance) + EPSILON)[which]
    made[order] = centred
    return made
