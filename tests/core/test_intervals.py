import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from gagar_cli.core.intervals import (
    CORRELATION,
    COUNT,
    SHARE,
    UNBOUNDED,
    Interval,
    exact_interval,
    ranged_interval,
    t_interval,
    wilson_interval,
)

_values = st.lists(st.floats(-5, 5, allow_subnormal=False), min_size=2, max_size=40)


@given(_values)
def test_the_t_interval_is_scipys(values):
    tasks = np.array(values)
    standard_error = tasks.std(ddof=1) / math.sqrt(len(tasks))
    if standard_error == 0:
        return
    expected = stats.t.interval(0.95, len(tasks) - 1, loc=tasks.mean(), scale=standard_error)
    assert t_interval(tasks) == pytest.approx(expected, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(("n_successes", "n"), [(0, 30), (30, 30), (13, 30), (1, 2), (650, 1000)])
def test_shares_have_scipys_wilson_and_exact_intervals(n_successes, n):
    peer = stats.binomtest(n_successes, n)
    assert wilson_interval(n_successes, n) == pytest.approx(
        tuple(peer.proportion_ci(method="wilson")), abs=1e-12
    )
    assert exact_interval(n_successes, n) == pytest.approx(
        tuple(peer.proportion_ci(method="exact")), abs=1e-9
    )


def test_the_papers_top_1_share_on_30_tasks_does_not_exclude_one_half():
    low, high = wilson_interval(0.65 * 30, 30)
    assert (round(low, 3), round(high, 3)) == (0.471, 0.795)


_RANGES = [SHARE, CORRELATION, Interval(1.0, 5.0), Interval(-4.0, 4.0), COUNT]


@given(st.sampled_from(_RANGES), st.lists(st.floats(0, 1), min_size=2, max_size=40), st.booleans())
def test_an_interval_stays_in_its_range_around_its_mean(within, places, is_pushed):
    """Also where one value stands apart at an end, which is where Student's t leaves the range."""
    low, high = within.low, min(within.high, 1000.0)
    values = np.array([low + (high - low) * place for place in places])
    if is_pushed:
        values[1:] = high
    if float(np.ptp(values)) <= 1e-9:
        return
    interval, _ = ranged_interval(values, within)
    assert within.low <= interval.low <= values.mean() <= interval.high <= within.high
    assert math.isfinite(interval.high)


def test_the_logit_interval_is_that_of_the_formula_and_turns_with_its_values():
    # Mean 0.75, SE 0.25 / √3 = 0.144338, t₀.₉₇₅ with 2 degrees of freedom 4.302653:
    # logit 1.098612 ± 4.302653 · 0.144338 / (0.75 · 0.25) = 1.098612 ± 3.312178.
    values = np.array([0.5, 0.75, 1.0])
    interval, kind = ranged_interval(values, SHARE)
    ends = [1 / (1 + math.exp(-(math.log(3) + sign * 3.312178))) for sign in (-1, 1)]
    assert (kind, interval) == ("logit", pytest.approx(ends, abs=1e-6))
    mirrored, _ = ranged_interval(1 - values, SHARE)
    assert mirrored == pytest.approx((1 - interval.high, 1 - interval.low), abs=1e-12)
    scaled, _ = ranged_interval(1 + 4 * values, Interval(1.0, 5.0))
    assert scaled == pytest.approx([1 + 4 * end for end in interval], abs=1e-12)


def test_the_interval_of_a_correlation_is_fishers_z():
    taus = np.array([0.9, 0.6, 0.8, 1.0, 0.4])
    interval, _ = ranged_interval(taus, CORRELATION)
    mean, standard_error = taus.mean(), taus.std(ddof=1) / math.sqrt(5)
    reach = stats.t.ppf(0.975, 4) * standard_error / (1 - mean**2)
    assert interval == pytest.approx(np.tanh([np.arctanh(mean) - reach, np.arctanh(mean) + reach]), abs=1e-9)


def test_a_count_has_no_negative_end():
    # Mean 20, SE 10, t₀.₉₇₅ with 1 degree of freedom 12.706205: 20 · e^±6.353102.
    interval, kind = ranged_interval(np.array([10.0, 30.0]), COUNT)
    assert (kind, interval) == (
        "log",
        pytest.approx((20 * math.exp(-6.353102), 20 * math.exp(6.353102)), rel=1e-5),
    )
    assert t_interval(np.array([10.0, 30.0])).low < 0


def test_without_a_range_or_with_a_value_outside_it_students_t_stands():
    values = np.array([0.2, 1.4, 0.9])
    assert ranged_interval(values, UNBOUNDED) == (t_interval(values), "t")
    assert ranged_interval(values, SHARE) == (t_interval(values), "t")
    assert ranged_interval(np.array([0.5]), SHARE) == (None, "t")


@pytest.mark.parametrize("n_tasks", [10, 30])
def test_shares_near_their_end_are_covered_where_a_cut_t_interval_is_not(n_tasks):
    """Tasks of different difficulty (Beta, mean 0.8, correlation 0.6), four attempts each."""
    generator = np.random.default_rng(20_261_130)
    n_inside = {"logit": 0, "t": 0}
    for _ in range(1000):
        values = generator.binomial(4, generator.beta(0.8 / 1.5, 0.2 / 1.5, size=n_tasks)) / 4
        if np.ptp(values) == 0:
            n_inside = {kind: n + 1 for kind, n in n_inside.items()}  # Wilson's, which holds it
            continue
        for kind, (low, high) in (("logit", ranged_interval(values, SHARE)[0]), ("t", t_interval(values))):
            n_inside[kind] += low <= 0.8 <= high
    # Two standard errors below 95%.
    assert n_inside["logit"] / 1000 >= 0.936
    assert n_inside["t"] / 1000 < 0.936
