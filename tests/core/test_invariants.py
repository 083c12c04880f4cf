from dataclasses import replace

import numpy as np
import pytest

from gagar_cli.core.batches import Batch, Estimate
from gagar_cli.core.double_double import from_floats
from gagar_cli.core.gagar import gagar
from gagar_cli.core.invariants import find_breaches, measure, total

BATCH = Batch(
    rewards=np.array([[1.0, 1.0, 0.0, 0.0]]),
    is_valid=np.ones((1, 4), dtype=bool),
    is_passed=np.array([[True, True, False, False]]),
    is_graded=np.array([True]),
    factors=from_floats(np.array([[1.0, 0.2, 1.0, 1.0]])),
)


def breaches(*advantage: float, batch: Batch = BATCH) -> list[str]:
    made = replace(gagar(batch), advantage=np.array([advantage]))
    return [breach.detail for breach in find_breaches(batch, made, np.array([7]))]


def test_what_is_kept_is_no_breach() -> None:
    assert breaches(0.75, 0.25, -0.5, -0.5) == []
    assert breaches(0.75 + 1e-16, 0.25, -0.5, -0.5) == []


@pytest.mark.parametrize(
    ("advantage", "expected"),
    [
        (
            (0.75, 0.5, -0.5, -0.5),
            ["the passing advantages' sum moved by +0.25", "the advantages' sum is +0.25, expected 0"],
        ),
        ((0.75, 0.25, np.nextafter(-0.5, 0), -0.5), ["1 failing advantage changed"]),
        ((0.25, 0.75, -0.5, -0.5), ["a better factor or rank does not get more"]),
    ],
    ids=["sum", "one-bit-of-a-failure", "order"],
)
def test_every_invariant_is_told(advantage: tuple[float, ...], expected: list[str]) -> None:
    assert breaches(*advantage) == expected


def test_order_follows_ranks_where_a_method_has_them() -> None:
    ranked = replace(BATCH, standing=np.array([[3, 1, -1, -1]]))
    assert breaches(0.25, 0.75, -0.5, -0.5, batch=ranked) == []
    assert breaches(0.75, 0.25, -0.5, -0.5, batch=ranked) == ["a better factor or rank does not get more"]


def test_rows_without_an_advantage_are_left_out() -> None:
    nothing = np.full((1, 4), np.nan)
    made: Estimate = replace(gagar(BATCH), advantage=nothing)
    assert list(find_breaches(BATCH, made, np.array([0]))) == []
    assert measure(BATCH, made).pass_sum_error == 0.0


def test_rounding_next_to_the_smallest_double_is_no_breach() -> None:
    """A third of the smallest double is nothing, and two thirds are it: the sum cannot be 0."""
    tiny = replace(BATCH, rewards=BATCH.rewards * 5e-324, factors=from_floats(np.ones((1, 4))))
    three = Batch(*(value if value is None else value[..., :3] for value in (tiny.rewards, tiny.is_valid, tiny.is_passed)), is_graded=tiny.is_graded, factors=from_floats(np.ones((1, 3))))  # fmt: skip
    assert gagar(three).advantage.sum() == -5e-324
    assert list(find_breaches(three, gagar(three), np.array([0]))) == []


def test_amplification_of_next_to_nothing_is_a_number() -> None:
    tiny = replace(BATCH, rewards=BATCH.rewards * 1e-310)
    made = replace(gagar(tiny), advantage=np.array([[1.0, 0.5, -1.0, -0.5]]))
    assert measure(tiny, made).max_amplification == 1e300
    assert "a better factor or rank does not get more" not in [
        breach.detail for breach in find_breaches(tiny, made, np.array([0]))
    ]


def test_amplification_is_that_of_the_groups_that_moved() -> None:
    lowered = replace(gagar(BATCH), advantage=np.array([[0.1, 0.425, -0.5, -0.5]]))
    same = replace(gagar(BATCH), advantage=gagar(BATCH).base)
    moved, kept = measure(BATCH, lowered), measure(BATCH, same)
    assert (total([moved, kept]).max_amplification, total([kept, moved]).max_amplification) == (0.85, 0.85)
    assert (total([kept]).max_amplification, total([]).max_amplification) == (1.0, 1.0)


def test_a_group_counts_for_as_many_as_are_like_it() -> None:
    moved = replace(gagar(BATCH), advantage=np.array([[0.75, 0.25, -0.25, -0.75]]))
    effects = measure(BATCH, moved, np.array([3]))
    assert (effects.n_changed_groups, effects.n_changed_failures, effects.max_amplification) == (3, 6, 1.5)
    assert (effects.n_capped, measure(BATCH, moved).n_capped) == (3, 1)


def with_violation(*rewards: float) -> Batch:
    """A pass, a violation, and failures, by their effective rewards."""
    n_rows = len(rewards)
    return Batch(
        rewards=np.array([rewards]),
        is_valid=np.ones((1, n_rows), dtype=bool),
        is_passed=np.arange(n_rows)[None] == 0,
        is_graded=np.array([True]),
        factors=from_floats(np.ones((1, n_rows))),
        is_violation=np.arange(n_rows)[None] == 1,
    )


def test_violation_that_is_paid_more_than_a_failure_is_told() -> None:
    kept = with_violation(1.0, -1.0, -1.0)
    assert breaches(4 / 3, -2 / 3, -2 / 3, batch=kept) == []
    raised = with_violation(1.0, 0.0, -1.0)
    assert breaches(1.0, 0.0, -1.0, batch=raised) == [
        "a violation's advantage is 1 above what an honest failure may get",
        "a violation's reward is 1 above what an honest failure may get",
    ]


def test_violation_may_get_nothing_where_nobody_failed_and_no_more() -> None:
    assert breaches(0.5, -0.5, batch=with_violation(1.0, 0.0)) == []
    assert "a violation's advantage is 0.25 above what an honest failure may get" in breaches(
        -0.25, 0.25, batch=with_violation(-0.5, 0.0)
    )


def test_failure_that_is_paid_more_than_a_pass_is_told() -> None:
    """The dump's own rewards contradict who passed: nothing was moved, and it is wrong all the same."""
    contradicting = replace(BATCH, rewards=np.array([[1.0, 0.0, 1.0, 0.0]]))
    assert breaches(0.5, -0.5, 0.5, -0.5, batch=contradicting) == [
        "a failing attempt gets 1 more than a passing one"
    ]


def test_passes_at_or_below_the_mean_are_counted() -> None:
    shaped = replace(BATCH, rewards=np.array([[0.9, 0.3, 0.6, 0.2]]))
    assert measure(shaped, gagar(shaped)).n_low_passes == 1
    assert measure(shaped, gagar(shaped), np.array([4])).n_low_passes == 4
    assert measure(BATCH, gagar(BATCH)).n_low_passes == 0
