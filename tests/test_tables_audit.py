"""What the tables of an audit say where there is one of a kind."""

from gagar_cli.core.comparison import Comparison
from gagar_cli.tables_audit import answer, basis_of


def compared(n_tasks: int, n_pairs: int) -> Comparison:
    return Comparison("old", "new", n_tasks, n_pairs, win_rate=None, tie_rate=None, top1_share=None)


def test_one_task_is_no_plural():
    assert basis_of(compared(1, 1)) == "1 task, 1 judged pair"
    assert answer(compared(1, 1)) == "1 common task says nothing about new against old"


def test_several_tasks_are():
    assert basis_of(compared(12, 1300)) == "12 tasks, 1,300 judged pairs"
    assert answer(compared(0, 0)) == "0 common tasks say nothing about new against old"
