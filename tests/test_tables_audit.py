"""What the tables of an audit say where there is one of a kind."""

import pytest

from gagar_cli.core.comparison import Comparison, JudgedAttempt, JudgedTask, compare
from gagar_cli.tables_audit import answer, basis_of, comparison_rows, figure_label, show_value


def compared(n_tasks: int, n_pairs: int) -> Comparison:
    return Comparison("old", "new", n_tasks, n_pairs, win_rate=None, tie_rate=None, top1_share=None)


def test_one_task_is_no_plural():
    assert basis_of(compared(1, 1)) == "1 task, 1 judged pair"
    assert answer(compared(1, 1)) == "1 common task says nothing about new against old"


def test_several_tasks_are():
    assert basis_of(compared(12, 1300)) == "12 tasks, 1,300 judged pairs"
    assert answer(compared(0, 0)) == "0 common tasks say nothing about new against old"


@pytest.mark.parametrize(
    ("value", "is_share", "signed", "told"),
    [
        (-0.004, False, True, "+0.00"),
        (-0.0004, True, True, "+0.0%"),
        (-0.0, False, False, "0.00"),
        (-0.006, False, True, "-0.01"),
        (12345.6, False, True, "+12,346"),
    ],
)
def test_what_rounds_to_zero_has_no_minus(value, is_share, signed, told):
    assert show_value(value, is_share=is_share, signed=signed) == told


def attempt(policy: str, rank: int | None, *, passed: bool = True) -> JudgedAttempt:
    return JudgedAttempt(policy, passed, None if rank is None else (1, rank), weighted_score=4.0)


def two_of_five() -> Comparison:
    """Two judged tasks of five that both attempted; one of three pairs ties in the first, none in the other."""
    judged = [
        JudgedTask("a", (attempt("old", 1), attempt("new", 1), attempt("new", 2), attempt("new", 3))),
        JudgedTask("b", (attempt("old", 2), attempt("new", 1))),
    ]
    observed = [
        JudgedTask(f"t{n}", (attempt("old", None), attempt("new", None, passed=n > 2))) for n in range(5)
    ]
    return compare(judged, "old", "new", observed=observed, dimensions=(), seed=0)


def test_ties_have_a_row_of_their_own_behind_the_rate_that_counts_them_half():
    names = [row[0] for row in comparison_rows(two_of_five())]
    assert names[:3] == ["win rate", "ties", "top-1 share"]
    # One pair of three ties in the first task, none in the second: the mean of a third and nothing.
    assert comparison_rows(two_of_five())[1] == ("ties", "", "", "16.7% of pairs, each half a win", "")


def test_a_figure_of_other_tasks_than_the_judged_ones_says_of_how_many():
    found = two_of_five()
    assert basis_of(found) == "2 tasks, 4 judged pairs"
    labels = {name: figure_label(found, name) for name in found.differences}
    assert labels["pass_rate"] == "pass rate, 5 tasks"
    assert labels["weighted_score"] == "weighted score"


def test_every_interval_of_a_comparison_is_one_that_its_figure_can_have():
    found = two_of_five()
    assert found.differences["pass_rate"].estimate.interval.low >= -1
    for one in (found.win_rate, found.top1_share):
        assert 0 <= one.estimate.interval.low <= one.estimate.interval.high <= 1
