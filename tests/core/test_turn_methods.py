"""GiGPO and GraphGPO against the reference vectors, and in small groups worked out by hand."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gagar_cli.core.turn_methods import (
    Attempts,
    Turns,
    combine_turns,
    gigpo_returns,
    graphgpo_returns,
    mean_by_trajectory,
)

SHARED = Path(__file__).resolve().parents[2].parent / "shared"
SINGLE = 3e-6
"""The peers compute in float32."""
Group = dict[str, Any]


def step_groups() -> list[Group]:
    path = SHARED / "vectors" / "vectors.json"
    return json.loads(path.read_text())["step_groups"] if path.is_file() else []


def laid_out(group: Group, *, is_next_told: bool = True) -> tuple[Turns, Attempts]:
    rows = group["rows"]
    names = sorted({row["traj"] for row in rows})
    states = sorted({row["state"] for row in rows} | {row["next_state"] for row in rows} - {"success"})
    trajectory = np.array([names.index(row["traj"]) for row in rows])
    following = [-1 if row["next_state"] == "success" else states.index(row["next_state"]) for row in rows]
    if not is_next_told:  # as far as the states of the following turns tell it
        is_last = np.append(trajectory[1:] != trajectory[:-1], True)
        following = [-1 if last else code for last, code in zip(is_last, following, strict=True)]
    turns = Turns(
        trajectory=trajectory,
        state=np.array([states.index(row["state"]) for row in rows]),
        next_state=np.array(following),
    )
    reward = np.zeros(len(names))
    reward[trajectory] = group["episode_reward"]
    everyone = np.ones(len(names), dtype=bool)
    return turns, Attempts(np.zeros(len(names), dtype=np.int64), reward, reward > 0, everyone)


pytestmark_shared = [
    pytest.mark.shared,
    pytest.mark.skipif(not step_groups(), reason="the reference vectors are not beside this checkout"),
    pytest.mark.parametrize("group", step_groups(), ids=lambda group: group["id"]),
    pytest.mark.parametrize("scale", ["none", "std"]),
]


def with_vectors(function: Any) -> Any:
    for mark in pytestmark_shared:
        function = mark(function)
    return function


def near(expected: list[float]) -> Any:
    return pytest.approx(expected, abs=SINGLE, rel=SINGLE)


@with_vectors
def test_gigpo_is_that_of_the_reference_code(group: Group, scale: Any) -> None:
    turns, attempts = laid_out(group)
    name = {"none": "mean_norm", "std": "mean_std_norm"}[scale]
    returns = gigpo_returns(turns, attempts)
    assert returns.tolist() == near(group["gigpo_step_return_gamma0_95"])
    across = combine_turns(turns, attempts, returns, scale=scale, episode_over="turns")
    assert across.advantage.tolist() == near(group[f"gigpo_{name}"])
    assert across.episode.tolist() == near(group[f"episode_cross_steps_{name}"])
    assert across.state.tolist() == near(group[f"gigpo_step_{name}"])
    own = combine_turns(turns, attempts, returns, scale=scale)
    if len(attempts.group) > 1:  # a group of one gets 0 here and its raw reward there
        assert own.episode.tolist() == near(group[f"episode_per_traj_{name}"])
    else:
        assert own.episode.tolist() == [0.0] * len(turns.state)


@with_vectors
@pytest.mark.parametrize("discount", [0.1, 0.2])
@pytest.mark.parametrize("is_relative", [False, True])
@pytest.mark.parametrize("is_next_told", [False, True])
def test_graphgpo_is_that_of_the_reference_code(
    group: Group, scale: Any, discount: float, is_relative: bool, is_next_told: bool
) -> None:
    turns, attempts = laid_out(group, is_next_told=is_next_told)
    name = {"none": "mean_norm", "std": "mean_std_norm"}[scale]
    suffix = f"gamma{discount}_normdist{is_relative}"
    returns = graphgpo_returns(turns, attempts, discount=discount, is_distance_relative=is_relative)
    assert returns.tolist() == near(group[f"graphgpo_return_{suffix}"])
    made = combine_turns(turns, attempts, returns, scale=scale, episode_over="turns")
    assert made.advantage.tolist() == near(group[f"graphgpo_adv_{name}_{suffix}"])
    assert made.state.tolist() == near(group[f"graphgpo_steponly_{name}_{suffix}"])


def two_attempts(**more: Any) -> tuple[Turns, Attempts]:
    """From one state, one passes by way of b, the other fails by way of c."""
    turns = Turns(np.array([0, 0, 1, 1]), np.array([0, 1, 0, 2]), np.array([1, -1, 2, -1]), **more)
    reward = np.array([1.0, 0.0])
    return turns, Attempts(np.zeros(2, dtype=np.int64), reward, reward > 0, np.ones(2, dtype=bool))


def test_reward_falls_on_the_last_turn_unless_the_turns_have_their_own() -> None:
    assert gigpo_returns(*two_attempts(), discount=0.5).tolist() == [0.5, 1.0, 0.0, 0.0]
    turns, attempts = two_attempts(reward=np.array([1.0, 2.0, 0.0, 4.0]))
    assert gigpo_returns(turns, attempts, discount=0.5).tolist() == [2.0, 2.0, 2.0, 4.0]


def test_turn_from_a_state_of_its_own_gets_the_attempts_advantage_alone() -> None:
    turns, attempts = two_attempts()
    made = combine_turns(turns, attempts, gigpo_returns(turns, attempts, discount=0.5), scale="none")
    assert made.episode.tolist() == [0.5, 0.5, -0.5, -0.5]
    assert made.state.tolist() == [0.25, 0.0, -0.25, 0.0]
    assert made.advantage.tolist() == [0.75, 0.5, -0.75, -0.5]
    assert made.n_in_state.tolist() == [2, 1, 2, 1]
    assert mean_by_trajectory(turns, made.advantage, 3).tolist()[:2] == [0.625, -0.625]


def test_weights_and_values_scale_their_parts() -> None:
    turns, attempts = two_attempts()
    returns = graphgpo_returns(turns, attempts, discount=0.5, success_value=4.0)
    assert returns.tolist() == [
        2.0,
        4.0,
        0.5,
        0.5,
    ]  # one turn away, there, and never: one beyond the farthest, 2
    made = combine_turns(turns, attempts, returns, scale="none", episode_weight=0.0, state_weight=2.0)
    assert made.advantage.tolist() == [1.5, 0.0, -1.5, 0.0]


def test_attempts_that_are_not_compared_are_left_out_and_get_nothing() -> None:
    turns, attempts = two_attempts()
    alone = Attempts(attempts.group, np.array([1.0, np.nan]), attempts.is_passed, np.array([True, False]))
    made = combine_turns(turns, alone, gigpo_returns(turns, alone), scale="std")
    assert made.advantage[:2].tolist() == [0.0, 0.0]
    assert np.isnan(made.advantage[2:]).all()


@st.composite
def walks(draw: st.DrawFn) -> tuple[Turns, Attempts]:
    n_attempts = draw(st.integers(1, 6))
    lengths = [draw(st.integers(1, 5)) for _ in range(n_attempts)]
    trajectory = np.repeat(np.arange(n_attempts), lengths)
    state = np.array([draw(st.integers(0, 4)) for _ in trajectory])
    following = np.append(state[1:], -1)
    following[np.append(trajectory[1:] != trajectory[:-1], True)] = -1
    reward = np.array([float(draw(st.booleans())) for _ in range(n_attempts)])
    group = np.array([draw(st.integers(0, 1)) for _ in range(n_attempts)])
    return Turns(trajectory, state, following), Attempts(
        group, reward, reward > 0, np.ones(n_attempts, dtype=bool)
    )


def slow_distance(turns: Turns, attempts: Attempts, group: int) -> dict[int, float]:
    """Bellman-Ford over the group's own turns."""
    mine = [i for i in range(len(turns.state)) if attempts.group[turns.trajectory[i]] == group]
    distance = {int(turns.state[i]): np.inf for i in mine}
    for _ in range(len(mine) + 1):
        for i in mine:
            is_last = i + 1 == len(turns.state) or turns.trajectory[i + 1] != turns.trajectory[i]
            if is_last:
                after = 0.0 if attempts.is_passed[turns.trajectory[i]] else np.inf
            else:
                after = distance[int(turns.state[i + 1])]
            distance[int(turns.state[i])] = min(distance[int(turns.state[i])], after + 1)
    return distance


@given(walks())
def test_distances_are_the_shortest_ones(walk: tuple[Turns, Attempts]) -> None:
    turns, attempts = walk
    exponents = np.log(graphgpo_returns(turns, attempts, discount=0.5, success_value=1.0)) / np.log(0.5)
    for i in range(len(turns.state)):
        known = slow_distance(turns, attempts, int(attempts.group[turns.trajectory[i]]))
        farthest = max([0.0, *(value for value in known.values() if np.isfinite(value))])
        is_last = i + 1 == len(turns.state) or turns.trajectory[i + 1] != turns.trajectory[i]
        if is_last:
            expected = 0.0 if attempts.is_passed[turns.trajectory[i]] else farthest + 1
        else:
            expected = min(known[int(turns.state[i + 1])], farthest + 1)
        assert exponents[i] == pytest.approx(expected, abs=1e-9)


@given(walks(), st.sampled_from(["none", "std"]), st.sampled_from(["trajectories", "turns"]))
def test_parts_sum_to_zero_over_what_they_are_compared_with(
    walk: tuple[Turns, Attempts], scale: Any, over: Any
) -> None:
    turns, attempts = walk
    made = combine_turns(turns, attempts, gigpo_returns(turns, attempts), scale=scale, episode_over=over)
    group = attempts.group[turns.trajectory]
    for code in set(group.tolist()):
        for state in set(turns.state.tolist()):
            assert made.state[(group == code) & (turns.state == state)].sum() == pytest.approx(0, abs=1e-8)
        first = np.append(True, turns.trajectory[1:] != turns.trajectory[:-1])
        chosen = (group == code) & (first if over == "trajectories" else True)
        assert made.episode[chosen].sum() == pytest.approx(0, abs=1e-8)
