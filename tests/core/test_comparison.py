import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gagar_cli.core.comparison import (
    JudgedAttempt,
    JudgedTask,
    common_tasks,
    compare,
    estimate_policy,
    top1_shares,
    violation_rate,
    win_share,
)
from gagar_cli.core.rubric import DIMENSIONS
from gagar_cli.core.statistics import estimate_mean


def compared(judged, first="A", second="B", observed=None):
    observed = judged if observed is None else observed
    return compare(judged, first, second, observed=observed, dimensions=DIMENSIONS, seed=0)


def ranked(policy: str, tier: int, rank: int, score: float = 4.0, **more) -> JudgedAttempt:
    return JudgedAttempt(
        policy, True, (tier, rank), dict.fromkeys(DIMENSIONS, score), weighted_score=score, **more
    )


def failed(policy: str, **more) -> JudgedAttempt:
    return JudgedAttempt(policy, False, **more)


def task(*attempts: JudgedAttempt, name: str = "t") -> JudgedTask:
    return JudgedTask(name, attempts)


def test_the_same_scores_in_another_order_are_no_difference():
    scores = (0.3, 0.2, 0.1)
    assert sum(scores) != sum(sorted(scores))
    judged = [
        task(
            *(ranked("A", 1, 1, score) for score in scores),
            *(ranked("B", 1, 1, score) for score in sorted(scores)),
            name=str(number),
        )
        for number in range(8)
    ]
    difference = compared(judged).differences["weighted_score"]
    assert (difference.estimate.value, difference.p_value, difference.detectable) == (0.0, 1.0, None)


@pytest.mark.parametrize("n_rest", [1, 2])
def test_a_rate_of_one_half_over_tasks_is_one_half(n_rest):
    # One of three pairs is won in three tasks, and all of them in the fourth: 1/3, 1/3, 1/3, 1.
    third = (ranked("A", 1, 1), ranked("A", 1, 1), ranked("A", 3, 1), ranked("B", 2, 1))
    whole = (ranked("A", 2, 1), ranked("B", 1, 1))
    judged = [task(*third, name=str(number)) for number in range(3 * n_rest)]
    judged += [task(*whole, name=f"whole {number}") for number in range(n_rest)]
    forward, back = compared(judged).win_rate, compared(judged, "B", "A").win_rate
    assert forward is not None
    assert back is not None
    assert (forward.estimate.value, back.estimate.value) == (0.5, 0.5)
    assert forward.p_value == 1.0


def test_a_win_is_a_better_tier_or_rank_and_a_tie_is_half():
    one = task(ranked("A", 1, 2), ranked("A", 2, 1), ranked("B", 1, 2), ranked("B", 3, 1))
    # B's T1/2: ties with A's T1/2, beats A's T2/1; B's T3 loses both.
    assert win_share(one, "A", "B") == (1.5 / 4, 1 / 4)
    assert win_share(one, "B", "A") == (2.5 / 4, 1 / 4)


def test_the_first_place_is_split_among_the_attempts_that_tie_for_it():
    one = task(ranked("A", 1, 1), ranked("B", 1, 1), ranked("C", 1, 2))
    assert top1_shares(one, ["A", "B", "C"]) == {"A": 0.5, "B": 0.5, "C": 0.0}
    assert top1_shares(one, ["C", "A"]) == {"C": 0.0, "A": 1.0}


def test_more_attempts_alone_do_not_win_the_first_place():
    # One of B's three is drawn against A's one: it is first, ties, or is beaten, a third each.
    one = task(ranked("A", 1, 2), ranked("B", 1, 1), ranked("B", 1, 2), ranked("B", 1, 3))
    assert top1_shares(one, ["A", "B"]) == pytest.approx({"A": 0.5, "B": 0.5})


def test_the_first_place_among_very_many_attempts_is_drawn_close_to_the_exact_share():
    # Two of B's forty, of which ten are better and thirty worse than A's two: at least one better is 1 - C(30,2)/C(40,2).
    attempts = [ranked("A", 1, 2)] * 2 + [ranked("B", 1, 1)] * 10 + [ranked("B", 1, 3)] * 30
    assert top1_shares(task(*attempts), ["A", "B"])["B"] == pytest.approx(1 - 435 / 780, abs=1e-12)
    attempts += [ranked("B", 1, 3)] * 120
    exact = 1 - (150 * 149) / (160 * 159)
    assert top1_shares(task(*attempts), ["A", "B"])["B"] == pytest.approx(exact, abs=0.02)


def test_only_tasks_that_both_solved_count_for_quality():
    both = task(ranked("A", 1, 2), ranked("B", 1, 1), name="both")
    one_sided = task(ranked("A", 1, 1), failed("B"), name="one")
    assert common_tasks([both, one_sided], ("A", "B")) == [both]
    found = compared([both, one_sided], "A", "B")
    assert (found.n_tasks, found.n_pairs, found.win_rate.estimate.value) == (1, 1, 1.0)
    assert [one.value for one in found.values["pass_rate"]] == [1.0, 0.5]


def test_a_violation_has_no_place():
    cheat = JudgedAttempt("B", True, None, is_violation=True)
    found = compared([task(ranked("A", 1, 1), cheat)], "A", "B")
    assert (found.n_tasks, found.win_rate, found.top1_share) == (0, None, None)
    judged = [task(ranked("A", 1, 1), cheat, ranked("B", 1, 1))]
    assert violation_rate(judged, "B", seed=0).value == 0.5
    assert violation_rate(judged, "A", seed=0).value == 0.0


def test_a_task_that_was_judged_twice_counts_once():
    won, lost = ranked("B", 1, 1), ranked("B", 1, 3)
    judged = [
        task(ranked("A", 1, 2), won),
        task(ranked("A", 1, 2), lost),
        task(ranked("A", 1, 2), won, name="u"),
    ]
    found = compared(judged)
    assert (found.n_tasks, found.n_pairs) == (2, 3)
    assert found.win_rate.estimate.value == (0.5 + 1.0) / 2
    assert found.top1_share.estimate.n_tasks == 2


def test_differences_are_the_seconds_minus_the_firsts_task_by_task():
    tasks = [
        task(ranked("A", 2, 1, 3.0, patch_lines=10), ranked("B", 1, 1, 5.0, patch_lines=4)),
        task(
            ranked("A", 1, 1, 4.0, patch_lines=8),
            ranked("A", 1, 1, 5.0),
            ranked("B", 1, 1, 5.0, patch_lines=8),
            name="u",
        ),
    ]
    found = compared(tasks, "A", "B")
    assert found.differences["weighted_score"].estimate.value == pytest.approx((2.0 + 0.5) / 2)
    assert found.differences["patch_lines"].estimate.value == (-6 + 0) / 2
    assert found.differences["tier_1_share"].estimate.value == 0.5
    assert found.differences["weighted_score"].p_value == 0.5
    assert "n_turns" not in found.differences


def test_a_policys_own_figures_are_over_all_its_tasks():
    tasks = [
        task(ranked("A", 1, 1, n_turns=3), failed("A", n_turns=5)),
        task(failed("A", n_turns=8), name="u"),
        task(name="v"),
    ]
    found = estimate_policy(tasks, "A", observed=tasks, dimensions=DIMENSIONS, seed=0)
    assert (found["pass_rate"].value, found["pass_rate"].n_tasks) == (0.25, 2)
    assert (found["n_turns"].value, found["weighted_score"].n_tasks) == (6.0, 1)


def _constructed(n_top1_ties: int, n_top1_wins: int, pair_points: list[int]) -> list[JudgedTask]:
    """Thirty tasks of 3 against 3 attempts: B's share of the 18 half points a task, and who holds the first place."""
    tasks = []
    for number, points in enumerate(pair_points):
        is_win, is_tie = number < n_top1_wins, number < n_top1_wins + n_top1_ties
        attempts = _places(points, is_win=is_win, is_tie=is_tie and not is_win)
        tasks.append(task(*attempts, name=str(number)))
    return tasks


def _places(points: int, *, is_win: bool, is_tie: bool) -> list[JudgedAttempt]:
    """A's attempts at ranks 2, 4, 6; B's wherever gives the points and the first place that are asked for."""
    of_a = (2, 4, 6)
    for ranks in np.ndindex(8, 8, 8):
        half_points = sum(2 * (rank < a) + (rank == a) for rank in ranks for a in of_a)
        best = min(ranks)
        first = (
            "win"
            if best < 2
            else "tie"
            if best == 2 and ranks.count(2) == 1
            else "loss"
            if best > 2
            else None
        )
        wanted = "win" if is_win else "tie" if is_tie else "loss"
        if half_points == points and first == wanted:
            return [ranked("A", 1, a + 1) for a in of_a] + [ranked("B", 1, rank + 1) for rank in ranks]
    raise AssertionError(f"no ranks give {points} half points")


def test_the_papers_figures_come_out_of_rankings_made_for_them():
    # 19 first places and one shared of 30 are 65.0%; 377 half points of 540 are 69.8%.
    points = [14] * 19 + [12] + [10] * 9 + [9]
    assert sum(points) == 377
    found = compared(_constructed(1, 19, points), "A", "B")
    assert round(100 * found.top1_share.estimate.value, 1) == 65.0
    assert round(100 * found.win_rate.estimate.value, 1) == 69.8
    mirrored = compared(_constructed(1, 19, points), "B", "A")
    assert round(100 * mirrored.top1_share.estimate.value, 1) == 35.0
    assert round(100 * mirrored.win_rate.estimate.value, 1) == 30.2


def _simulated_audit(generator: np.random.Generator, n_tasks: int) -> np.ndarray:
    """Win shares of one system's attempts against its own, judged with noise: tasks differ, halves do not."""
    shares = []
    for _ in range(n_tasks):
        n_a, n_b = generator.integers(1, 4, size=2)
        # Attempts of one task repeat a few ideas of different quality, so that pairs of a task hang together.
        ideas = generator.normal(0.0, 1.5, size=3)
        judged = ideas[generator.integers(3, size=n_a + n_b)] + generator.normal(0.0, 0.5, size=n_a + n_b)
        tiers = np.digitize(-judged, [-0.5, 0.8]) + 1
        order = np.unique(-np.round(judged, 1), return_inverse=True)[1] + 1
        attempts = [
            ranked("A" if number < n_a else "B", int(tiers[number]), int(order[number]))
            for number in range(n_a + n_b)
        ]
        shares.append(win_share(task(*attempts), "A", "B")[0])
    return np.array(shares)


@pytest.mark.parametrize(("n_tasks", "n_audits"), [(10, 1000), (30, 1000), (100, 400)])
def test_a_system_against_itself_is_covered_by_95_percent_intervals(n_tasks, n_audits):
    generator = np.random.default_rng(20_261_129)
    covered = 0
    for _ in range(n_audits):
        shares = _simulated_audit(generator, n_tasks)
        low, high = estimate_mean(shares, seed=0, is_share=True, n_resamples=1).interval
        covered += low <= 0.5 <= high
    # Three standard errors of a share of 95% over that many audits.
    assert covered / n_audits == pytest.approx(0.95, abs=3 * (0.95 * 0.05 / n_audits) ** 0.5)


_attempt = st.builds(
    JudgedAttempt,
    st.sampled_from(["A", "B"]),
    st.booleans(),
    st.tuples(st.integers(1, 3), st.integers(1, 3)),
    st.fixed_dictionaries({"side_effects": st.sampled_from([1.0, 4.0, 5.0])}),
    st.sampled_from([1.0, 4.8, 5.0]),
    n_turns=st.sampled_from([0, 1, 400]),
    patch_lines=st.sampled_from([0, 2, 9000]),
)


@given(st.lists(st.lists(_attempt, min_size=2, max_size=5), min_size=2, max_size=6))
def test_no_interval_of_a_comparison_leaves_the_range_of_its_figure(attempts):
    tasks = [JudgedTask(f"t{number}", tuple(one)) for number, one in enumerate(attempts)]
    found = compare(tasks, "A", "B", observed=tasks, dimensions=("side_effects",), seed=0)
    ranges = {
        "side_effects": (1, 5),
        "weighted_score": (1, 5),
        "n_turns": (0, math.inf),
        "patch_lines": (0, math.inf),
    }
    checked = [(rate.estimate, (0, 1)) for rate in (found.win_rate, found.top1_share) if rate]
    for name, values in found.values.items():
        low, high = ranges.get(name, (0, 1))
        checked += [(one, (low, high)) for one in values]
        checked.append((found.differences[name].estimate, (low - high, high - low)))
    for estimate, (low, high) in checked:
        for interval in (estimate.interval, estimate.bootstrap):
            if interval is not None:
                assert low - 1e-12 <= interval.low <= estimate.value + 1e-12
                assert estimate.value - 1e-12 <= interval.high <= high + 1e-12
