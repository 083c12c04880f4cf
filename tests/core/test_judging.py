from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gagar_cli.core.judging import Trajectories, Verdicts, effective_rewards, judge_groups

NAN = float("nan")


def trajectories(
    rewards: Sequence[float],
    passed: str,
    violations: str = "",
    *,
    groups: str = "",
    tiers: Sequence[int] | None = None,
) -> Trajectories:
    """One entry a letter: `passed` of P, F and I (invalid), `violations` of V and anything else, `groups` of digits."""
    n_rows = len(passed)
    letters = np.array(list(passed))
    return Trajectories(
        group=np.array([int(digit) for digit in groups or "0" * n_rows]),
        reward=np.where(letters == "I", NAN, np.array(rewards, dtype=float)),
        is_valid=letters != "I",
        is_passed=letters == "P",
        tier=np.array(tiers if tiers is not None else [-1] * n_rows, dtype=np.int8),
        rank=np.ones(n_rows, dtype=np.int64),
        is_violation=np.array([letter == "V" for letter in violations.ljust(n_rows, "-")]),
    )


@pytest.mark.parametrize(
    ("rewards", "passed", "violations", "expected"),
    [
        ([1, 1, 0, 0], "PPFF", "-V--", [1, 0, 0, 0]),
        ([1, 1, -1, -1], "PPFF", "-V--", [1, -1, -1, -1]),
        ([1, 1, -1, -2], "PPFF", "-V--", [1, -2, -1, -2]),
        ([1, 0.3, 0.2, 0.4], "PPFF", "-V--", [1, 0, 0.2, 0.4]),
        ([1, -0.5, 0, 0], "PPFF", "-V--", [1, -0.5, 0, 0]),
        ([1, 1, -1, -1], "PPFI", "-V--", [1, -1, -1, NAN]),
        ([-3, 1, -1, -1], "PPFF", "-V--", [-3, -3, -1, -1]),
        ([1, 1, -1, -1], "PPFF", "VV--", [-1, -1, -1, -1]),
        ([1, 1, -1, -1], "PPFF", "----", [1, 1, -1, -1]),
    ],
    ids=[
        "binary",
        "minus-one",
        "lowest",
        "shaped",
        "own",
        "invalid-is-no-failure",
        "low-pass",
        "two",
        "none",
    ],
)
def test_violation_is_never_worth_more_than_anything_in_its_group(
    rewards: list[float], passed: str, violations: str, expected: list[float]
) -> None:
    np.testing.assert_array_equal(effective_rewards(trajectories(rewards, passed, violations), 1), expected)


def test_group_without_a_failure_takes_the_price_of_failing_from_the_dump() -> None:
    rows = trajectories([1, 1, 1, -1, 1, -0.5], "PPPFPF", "-V----", groups="001122")
    assert effective_rewards(rows, 3).tolist() == [1, -1, 1, -1, 1, -0.5]
    alone = trajectories([1, 1], "PP", "-V")
    assert effective_rewards(alone, 1).tolist() == [1, 0]


def test_price_from_the_dump_is_on_the_scale_of_the_group() -> None:
    # Failures of another task at −1000: an honest pass of 1 would get 500.5 for standing beside a copy.
    rows = trajectories([1, 1, 1000, -1000, 0.5, 0.25], "PPPFPP", "-V---V", groups="001122")
    assert effective_rewards(rows, 3).tolist() == [1, -1, 1000, -1000, 0.5, -0.5]
    cheap = trajectories([100, 100, 1, -1], "PPPF", "-V--", groups="0011")
    assert effective_rewards(cheap, 2).tolist() == [100, -1, 1, -1]
    nothing = effective_rewards(trajectories([0, 0, 1, -1], "PPPF", "-V--", groups="0011"), 2)
    assert nothing.tolist() == [0, 0, 1, -1]
    assert not np.signbit(nothing[1])


def test_rewards_without_violations_are_the_same_array() -> None:
    rows = trajectories([1, 0], "PF")
    assert effective_rewards(rows, 1) is rows.reward


ROW = st.tuples(st.integers(0, 3), st.floats(-10, 10), st.sampled_from("PPFI"), st.sampled_from("V---"))


@given(st.lists(ROW, min_size=1, max_size=30))
def test_nothing_but_violations_changes_and_they_never_gain(rows: list[tuple[int, float, str, str]]) -> None:
    groups, rewards, letters, flags = zip(*rows, strict=True)
    violations = "".join(flag if letter == "P" else "-" for letter, flag in zip(letters, flags, strict=True))
    subject = trajectories(rewards, "".join(letters), violations, groups="".join(map(str, groups)))
    made = effective_rewards(subject, 4)
    np.testing.assert_array_equal(made[~subject.is_violation], subject.reward[~subject.is_violation])
    for place in np.flatnonzero(subject.is_violation):
        beside = subject.reward[(subject.group == subject.group[place]) & subject.is_valid]
        assert made[place] <= min(0.0, beside.min())


def test_groups_that_could_be_ranked_and_are_not_graded_are_counted_by_reason() -> None:
    passed = "PPF" * 4 + "PPP"
    tiers = [0, 1, -1, 0, -1, -1, -1, -1, -1, -1, -1, -1, 0, 1, 1]
    rows = trajectories([1.0] * 15, passed, groups="000111222333444", tiers=tiers)
    status = np.array([None, None, None, "ungraded", None], dtype=np.object_)
    reason = np.array([None, None, None, "limit: 40 turns", None], dtype=np.object_)
    judged = judge_groups(rows, Verdicts(np.array([True, True, False, False, True]), status, reason))
    assert judged.left == {"missing_candidate": 1, "no_ranking": 1, "limit": 1}
    assert judged.n_eligible == 4
