import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kendalltau

from gagar_cli.core.agreement import kendall_tau_b, mean_pairwise_tau, places


def test_the_same_order_agrees_and_the_opposite_disagrees():
    assert kendall_tau_b([1, 2, 3, 4], [10, 20, 30, 40]) == 1
    assert kendall_tau_b([1, 2, 3, 4], [4, 3, 2, 1]) == -1


def test_ties_shrink_the_scale():
    # 6 pairs; 5 untied in the first, 6 in the second; 5 agree: 5 / sqrt(5·6).
    assert kendall_tau_b([1, 2, 2, 3], [1, 3, 2, 4]) == pytest.approx(5 / 30**0.5, abs=1e-15)


@pytest.mark.parametrize("values", [[], [1], [2, 2, 2]])
def test_an_order_of_nothing_but_ties_has_no_agreement(values):
    assert kendall_tau_b(values, range(len(values))) is None


def test_lists_of_different_lengths_are_refused():
    with pytest.raises(ValueError, match="argument"):
        kendall_tau_b([1, 2], [1])


def test_it_is_scipys_tau_b_on_random_ties():
    rng = random.Random(11)
    for _ in range(500):
        n, n_values = rng.randint(2, 16), rng.randint(1, 6)
        first, second = ([rng.randint(1, n_values) for _ in range(n)] for _ in range(2))
        expected = kendalltau(first, second).statistic
        found = kendall_tau_b(first, second)
        assert (found is None) == (expected != expected)
        assert found is None or found == pytest.approx(expected, abs=1e-12)


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=2, max_size=12), st.randoms())
def test_it_depends_on_neither_the_order_of_the_pairs_nor_the_side(pairs, rng):
    shuffled = rng.sample(pairs, len(pairs))
    first, second = zip(*pairs, strict=True)
    assert kendall_tau_b(*zip(*shuffled, strict=True)) == kendall_tau_b(second, first)


def test_ties_share_the_mean_of_their_places():
    assert places({"a": (1, 1), "b": (1, 1), "c": (2, 1), "d": (1, 2)}) == {
        "a": 1.5,
        "b": 1.5,
        "d": 3,
        "c": 4,
    }


def test_pairs_of_orders_are_averaged_and_undefined_ones_left_out():
    up, down, flat = {"a": 1, "b": 2, "c": 3}, {"a": 3, "b": 2, "c": 1}, dict.fromkeys("abc", 2)
    assert mean_pairwise_tau([up, up, down]) == pytest.approx((1 - 1 - 1) / 3)
    assert mean_pairwise_tau([up, up, flat]) == 1
    assert mean_pairwise_tau([up, flat]) is None
    assert mean_pairwise_tau([up]) is None
