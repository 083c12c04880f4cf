import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gagar_cli.core.intervals import SHARE
from gagar_cli.core.statistics import (
    bootstrap_interval,
    detectable_effect,
    estimate_mean,
    holm_p_values,
    resample_means,
    sign_flip_p_value,
    spread,
    tasks_needed,
)


def test_a_share_that_is_the_same_in_every_task_has_wilsons_width_and_not_zero():
    estimate = estimate_mean([1.0] * 30, seed=0, is_share=True)
    assert estimate.interval_kind == "wilson"
    assert estimate.interval == pytest.approx((30 / (30 + 1.959964**2), 1.0), abs=1e-6)


def test_a_share_is_estimated_inside_its_range_and_other_figures_where_they_say_so():
    low, high = estimate_mean([1.0, 1.0, 0.0], seed=0, is_share=True).interval
    assert 0.0 < low < 2 / 3 < high < 1.0
    assert estimate_mean([1.0, 1.0, 0.0], seed=0).interval == pytest.approx((-0.7676, 2.1009), abs=1e-4)
    assert estimate_mean([1.0, 1.0, 0.0], seed=0, within=SHARE).interval_kind == "logit"


def test_one_task_has_a_value_and_no_interval_and_none_has_nothing():
    estimate = estimate_mean([0.25], seed=0)
    assert (estimate.value, estimate.interval, estimate.bootstrap) == (0.25, None, None)
    assert estimate_mean([], seed=0) is None


def test_the_bootstrap_is_the_quantiles_of_resampled_means_and_repeats_under_its_seed():
    values = np.array([0.0, 1.0, 1.0, 0.5, 0.25])
    assert bootstrap_interval(values, seed=3) == bootstrap_interval(values, seed=3)
    drawn = resample_means(values, seed=3)
    assert bootstrap_interval(values, seed=3) == tuple(np.quantile(drawn, [0.025, 0.975]))
    assert list(resample_means(values, seed=4)) != list(drawn)
    assert drawn.shape == (10_000,)
    assert drawn.mean() == pytest.approx(values.mean(), abs=0.01)
    assert drawn.std() == pytest.approx(values.std() / math.sqrt(5), rel=0.03)


def test_a_ratio_is_resampled_as_the_ratio_of_sums():
    pairs = np.array([[1.0, 1.0], [0.0, 3.0]])
    assert set(resample_means(pairs, seed=0, n_resamples=50)) == {1.0, 0.25, 0.0}


def _exhaustive(differences: list[float]) -> float:
    observed = abs(math.fsum(differences))
    sums = [
        abs(math.fsum(sign * one for sign, one in zip(signs, differences, strict=True)))
        for signs in product((1, -1), repeat=len(differences))
    ]
    return sum(one >= observed - 1e-9 for one in sums) / len(sums)


@given(st.lists(st.sampled_from([-1.0, -0.5, 0.0, 0.25, 0.5, 1.0]), min_size=1, max_size=10))
def test_sign_flips_of_few_tasks_are_counted_exactly(differences):
    assert sign_flip_p_value(differences, seed=0) == pytest.approx(_exhaustive(differences), abs=1e-12)


def test_sign_flips_of_many_tasks_are_drawn_close_to_the_exact_share():
    differences = np.linspace(-0.5, 1.0, 18)
    exact = _exhaustive(differences.tolist())
    assert sign_flip_p_value(differences, seed=1) == pytest.approx(exact, abs=0.003)


def test_sign_flips_are_never_impossible_and_no_difference_is_certain():
    assert sign_flip_p_value([1.0] * 200, seed=0) == pytest.approx(1 / 100_001)
    assert sign_flip_p_value([0.0, 0.0], seed=0) == 1.0
    assert sign_flip_p_value([], seed=0) is None


def test_the_detectable_effect_is_the_textbooks_and_the_tasks_needed_invert_it():
    # (t₀.₉₇₅ + t₀.₈) · 0.5 / √30 with 29 degrees of freedom
    assert detectable_effect(0.5, 30) == pytest.approx((2.04523 + 0.85419) * 0.5 / math.sqrt(30), abs=1e-5)
    needed = tasks_needed(0.5, 0.1)
    assert detectable_effect(0.5, needed) <= 0.1 < detectable_effect(0.5, needed - 1)
    assert tasks_needed(0.5, 0.0) is None
    assert tasks_needed(0.5, 1e-9) is None


def test_spread_is_the_sample_standard_deviation():
    assert spread([1.0, 3.0]) == pytest.approx(math.sqrt(2))
    assert spread([1.0]) is None


def test_sums_in_another_order_are_no_difference():
    shares = [0.1 + 0.2, 0.3, (0.1 + 0.2 + 0.3) / 2]
    assert len(set(shares)) > 1
    estimate = estimate_mean(shares, seed=0, is_share=True)
    assert (estimate.interval_kind, estimate.interval.low < 0.29) == ("wilson", True)
    assert estimate_mean([2.0, 2.0], seed=0).interval_kind == "constant"


@pytest.mark.parametrize("n_tasks", [7, 450])
def test_draws_that_are_kept_are_those_that_are_made_anew(n_tasks):
    values = np.random.default_rng(1).normal(size=n_tasks)
    generator = np.random.default_rng(3)
    drawn = [
        values[generator.integers(n_tasks, size=(min(1000, 9_500 - start), n_tasks))].mean(axis=1)
        for start in range(0, 9_500, 1000)
    ]
    found = resample_means(values, seed=3, n_resamples=9_500)
    assert np.allclose(found, np.concatenate(drawn), rtol=0, atol=1e-12)
    assert np.array_equal(found, resample_means(values, seed=3, n_resamples=9_500))


def test_holms_correction_is_stepwise():
    # By hand: 0.01 * 4, 0.02 * 3, max(0.06, 0.03 * 2), max(0.06, 0.05 * 1).
    assert holm_p_values([0.05, 0.01, 0.03, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    assert holm_p_values([0.9, 0.8]) == [1.0, 1.0]
    assert holm_p_values([]) == []
    assert holm_p_values([None, 0.2]) == [None, 0.2]
