"""Variants compared with the default, on groups small enough to count."""

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gagar_cli.core.agreement import kendall_tau_b
from gagar_cli.core.judging import Trajectories
from gagar_cli.core.sweeps import compare, draw_weights, one_at_a_time, order_by_scores, tau_b_of_rows
from gagar_cli.core.tier_tables import BUILT_IN


def rows(group: list[int], tier: list[int], rank: list[int]) -> Trajectories:
    size = len(group)
    passed = np.array(tier) >= 0
    return Trajectories(
        np.array(group), passed.astype(float), np.ones(size, dtype=bool), passed,
        np.array(tier, dtype=np.int8), np.array(rank), np.zeros(size, dtype=bool),
    )  # fmt: skip


def test_each_variant_changes_one_thing() -> None:
    weights = [("draw 1", (0.5, 0.5))]
    made = list(one_at_a_time(BUILT_IN, default="flash", limits=(1.5, 2.0), weights=weights))
    assert [(each.axis, each.name) for each in made] == [
        ("default", "flash"),
        ("cap", "none"),
        *(("cap", f"{cap} {limit}") for cap in ("paper", "bounded", "waterfill", "temper", "pass-recentre") for limit in (1.5, 2)),
        ("tiers", "gentle"), ("tiers", "strict"), ("tiers", "none"),
        ("ties", "competition"), ("ties", "average"),
        ("weights", "draw 1"),
    ]  # fmt: skip
    for each in made[1:]:
        n_changed = (
            ((each.cap, each.limit) != ("bounded", 1.5))
            + (each.table != BUILT_IN["flash"])
            + (each.weights is not None)
        )
        assert n_changed == 1 or each.name == "bounded 1.5"


def test_weights_lie_on_the_simplex_around_their_centre() -> None:
    centre = (0.3, 0.25, 0.2, 0.15, 0.1)
    drawn = np.array(draw_weights(centre, 400, Random(3), 30.0))
    assert drawn.sum(axis=1) == pytest.approx(1)
    assert (drawn > 0).all()
    assert drawn.mean(axis=0) == pytest.approx(centre, abs=0.015)
    assert drawn[:, 0].std() == pytest.approx((0.3 * 0.7 / 31) ** 0.5, abs=0.01)
    assert draw_weights(centre, 3, Random(3), 30.0) == [tuple(row) for row in drawn[:3].tolist()]


def test_scores_order_each_tier_anew_and_never_move_a_candidate_across() -> None:
    subject = rows([0, 0, 0, 0], [0, 1, 1, -1], [1, 1, 2, -1])
    scores = np.array([[1.0, 1], [2, 4], [4, 3], [np.nan, np.nan]])
    # W of the two in T2 is 3 and 3.5, then 3.6 and 3.2, then equal.
    for weights, expected in (((0.5, 0.5), [2, 1]), ((0.2, 0.8), [1, 2]), ((1 / 3, 2 / 3), [1, 1])):
        made = order_by_scores(subject, scores, weights)
        second, third = made.rank[1:3].tolist()
        assert (second > third) == (expected[0] > expected[1])
        assert (second == third) == (expected[0] == expected[1])
        assert made.tier.tolist() == [0, 1, 1, -1]
        assert made.rank[3] == -1


def test_group_that_lacks_a_score_keeps_its_order() -> None:
    subject = rows([0, 0, 1, 1], [1, 1, 1, 1], [2, 1, 2, 1])
    scores = np.array([[5.0], [1.0], [5.0], [np.nan]])
    made = order_by_scores(subject, scores, (1.0,))
    assert made.rank[0] < made.rank[1]
    assert made.rank[2:].tolist() == [2, 1]


def test_comparison_counts_what_moved_and_who_is_best() -> None:
    subject = rows([0, 0, 0, 1, 1, 1], [0, 1, -1, 0, 0, -1], [1, 1, -1, 1, 1, -1])
    base = np.array([1, 1, -2, 1, 1, -2]) / 3
    default = np.array([1.5, 0.5, -2, 1, 1, -2]) / 3
    variant = np.array([0.5, 1.5, -2, 1.25, 0.75, -2]) / 3
    found = compare(subject, subject.is_passed, default, variant, base)
    assert (found.n_groups, found.n_top_changed, found.tau_b, found.n_with_tau) == (2, 1, -1.0, 1)
    # Half of |0.5| + |0.5| + |0.25| + |0.25| thirds, of 4 thirds.
    assert found.moved == pytest.approx(0.75 / 4)
    same = compare(subject, subject.is_passed, default, default, base)
    assert (same.n_top_changed, same.tau_b, same.moved) == (0, 1.0, pytest.approx(0.125))


@pytest.mark.parametrize(
    ("default", "variant", "is_changed"),
    [
        ([3, 2, 1], [2, 2, 2], False),
        ([2, 2, 2], [3, 2, 1], False),
        ([3, 2, 1], [2, 3, 3], True),
        ([3, 3, 1], [2, 1, 3], True),
        ([3, 3, 1], [1, 3, 3], False),
    ],
)
def test_another_pass_is_best_where_none_of_the_best_still_is(
    default: list[int], variant: list[int], is_changed: bool
) -> None:
    subject = rows([0, 0, 0, 0], [0, 0, 0, -1], [1, 1, 1, -1])
    before, after = (np.array([*values, -6.0]) for values in (default, variant))
    found = compare(subject, subject.is_passed, before, after, np.array([2.0, 2, 2, -6]))
    assert found.n_top_changed == is_changed


def test_no_graded_group_moves_nothing() -> None:
    subject = rows([0, 0], [-1, -1], [-1, -1])
    nothing = np.zeros(2)
    assert compare(subject, subject.is_passed, nothing, nothing, nothing) == (0, 0.0, 0, None, 0)


@given(st.lists(st.tuples(*[st.integers(0, 3)] * 2), min_size=1, max_size=7))
def test_tau_of_rows_is_kendalls(pairs: list[tuple[int, int]]) -> None:
    first, second = (np.array([values], dtype=float) for values in zip(*pairs, strict=True))
    expected: Any = kendall_tau_b(first[0].tolist(), second[0].tolist())
    assert tau_b_of_rows(first, second)[0] == pytest.approx(
        np.nan if expected is None else expected, nan_ok=True
    )
