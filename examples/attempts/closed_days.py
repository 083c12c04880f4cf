"""Task 31: a due date that was moved off a closed day may land on another one."""

from demo_session import Session, create, edit, find, python, run_visible_tests, shell, show
from demo_task import Attempt, DemoTask

LOANS = "shelfmark/loans.py"
ISSUE = """\
Loans come due on days when we are closed

When the day a loan is due is a Sunday or a holiday, `due_date` moves it by one day. If that day is closed as well, the
loan is still due on a closed day, and people stand in front of a locked door.

    >>> rules = Rules(holidays=frozenset({date(2024, 12, 25), date(2024, 12, 26)}))
    >>> due_date(date(2024, 12, 4), rules)
    datetime.date(2024, 12, 26)

Expected: 27 December. The same happens around Easter (holiday on Saturday, then Sunday, then Easter Monday).
"""
HIDDEN_TESTS = {
    "tests/test_loans.py": """

class ClosedRunTest(unittest.TestCase):
    def test_two_holidays_in_a_row(self):
        rules = Rules(holidays=frozenset({date(2024, 12, 25), date(2024, 12, 26)}))
        self.assertEqual(due_date(date(2024, 12, 4), rules), date(2024, 12, 27))

    def test_holiday_sunday_holiday(self):
        rules = Rules(holidays=frozenset({date(2024, 3, 30), date(2024, 4, 1)}))
        self.assertEqual(due_date(date(2024, 3, 9), rules), date(2024, 4, 2))

    def test_renewals_too(self):
        rules = Rules(holidays=frozenset({date(2024, 12, 25), date(2024, 12, 26)}))
        self.assertEqual(renew(date(2024, 12, 9), 0, date(2024, 12, 4), rules), date(2024, 12, 27))

    def test_an_open_day_stays(self):
        self.assertEqual(due_date(date(2024, 12, 3), Rules()), date(2024, 12, 24))
"""
}
IF_CLOSED = "    if not is_open(due, rules):\n        due += timedelta(days=1)\n"
WHILE_CLOSED = "    while not is_open(due, rules):\n        due += timedelta(days=1)\n"


def while_instead_of_if(session: Session) -> None:
    session.turn("Let me look at how the due date is made.", show(LOANS, 23, 35))
    session.turn(
        "It moves once. It has to go on until the desk is open.", edit(LOANS, IF_CLOSED, WHILE_CLOSED)
    )
    session.turn("Now the tests.", run_visible_tests())
    session.turn("`due_date` now moves on until it finds an open day; `renew` uses it and is mended with it.")


def while_after_checking_callers(session: Session) -> None:
    session.turn("First, who computes due dates?", find("due_date"), find("is_open"))
    session.turn("Only `due_date` itself; `renew` calls it.", show(LOANS, 28, 45))
    session.turn("A loop instead of the single step is enough.", edit(LOANS, IF_CLOSED, WHILE_CLOSED))
    session.turn(
        "Check with the issue's own example, then all tests.",
        python(
            "-c",
            "from datetime import date; from shelfmark.loans import *; "
            "print(due_date(date(2024, 12, 4), Rules(holidays=frozenset({date(2024, 12, 25), date(2024, 12, 26)}))))",
        ),
        run_visible_tests(),
    )
    session.turn("Due dates are moved past any run of closed days.")


def with_regression_test(session: Session) -> None:
    session.turn("Look at the code and its tests.", show(LOANS, 23, 35), show("tests/test_loans.py", 1, 20))
    session.turn(
        "A test first.",
        edit(
            "tests/test_loans.py",
            "\n\nclass RenewTest(",
            """
    def test_a_run_of_closed_days_is_passed(self):
        rules = Rules(holidays=frozenset({date(2024, 12, 25), date(2024, 12, 26)}))
        self.assertEqual(due_date(date(2024, 12, 4), rules), date(2024, 12, 27))


class RenewTest(""",
        ),
        run_visible_tests("test_loans"),
    )
    session.turn(
        "It fails as described. Now the fix.", edit(LOANS, IF_CLOSED, WHILE_CLOSED), run_visible_tests()
    )
    session.turn("Mended, with a regression test.")


def with_reformatted_table(session: Session) -> None:
    session.turn("Let me read the package.", show(LOANS), show("shelfmark/table.py"))
    session.turn("The fix is a loop.", edit(LOANS, IF_CLOSED, WHILE_CLOSED))
    session.turn(
        "While I am here, the table module could be tidier: I will bring it into the style that I prefer.",
        create("shelfmark/table.py", RESTYLED_TABLE),
        run_visible_tests(),
    )
    session.turn("Done: due dates skip all closed days. I also modernised the table module.")


def special_cases_of_the_issue(session: Session) -> None:
    session.turn("Read the function.", show(LOANS, 28, 35))
    session.turn(
        "The issue names two situations. I will handle exactly those dates.",
        edit(
            LOANS,
            IF_CLOSED,
            IF_CLOSED
            + """\
    if due == date(2024, 12, 26):
        return date(2024, 12, 27)
    if due in (date(2024, 3, 31), date(2024, 4, 1)):
        return date(2024, 4, 2)
""",
        ),
        run_visible_tests(),
    )
    session.turn("Both dates of the issue give the expected result now.")


def two_days_at_once(session: Session) -> None:
    session.turn("Look at the function.", show(LOANS, 28, 35))
    session.turn(
        "The second day is closed in the example, so look one day further.",
        edit(
            LOANS,
            IF_CLOSED,
            IF_CLOSED + "    if not is_open(due, rules):\n        due += timedelta(days=1)\n",
        ),
        run_visible_tests(),
    )
    session.turn("Two closed days in a row are handled.")


def back_to_the_last_open_day(session: Session) -> None:
    session.turn("Look at the function.", show(LOANS, 28, 35), find("due_date"))
    session.turn(
        "Loans should not get longer than the rules say, so go back to the last open day.",
        edit(LOANS, IF_CLOSED, "    while not is_open(due, rules):\n        due -= timedelta(days=1)\n"),
    )
    session.turn("Run the tests.", run_visible_tests("test_loans"))
    session.turn("The remaining failures expect the old behaviour; the new one is more consistent.")


def lost_container(session: Session) -> None:
    session.turn("Let me look around.", shell("ls", "README.md\nshelfmark\ntests\n"), show(LOANS, 1, 24))
    session.turn(
        "Now the function itself.", shell(f"sed -n '28,35p' {LOANS}", "error: container is not running\n")
    )


RESTYLED_TABLE = '''\
"""Plain tables for the terminal."""

from typing import Iterable, List, Sequence, Tuple

from shelfmark.text import shorten

MAX_CELLS = 40


def render_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table with a ruled header; columns are as wide as their widest cell, at most 40."""
    all_rows: List[Sequence[str]] = [list(header)]
    all_rows.extend(rows)
    cells: List[List[str]] = []
    for row in all_rows:
        cells.append([shorten(cell, MAX_CELLS) for cell in row])
    widths: List[int] = []
    for index in range(len(header)):
        widths.append(max(len(row[index]) for row in cells))
    lines: List[str] = []
    for row in cells:
        lines.append(_render_row(row, widths))
    rule = "  ".join("-" * width for width in widths)
    lines.insert(1, rule)
    return "\\n".join(lines)


def _render_row(row: Sequence[str], widths: Sequence[int]) -> str:
    padded = []
    for cell, width in zip(row, widths):
        padded.append(cell.ljust(width))
    return "  ".join(padded).rstrip()


def render_pairs(pairs: Sequence[Tuple[str, str]]) -> str:
    """Names and values below each other, the values in one column."""
    if not pairs:
        return ""
    width = max(len(name) for name, _ in pairs)
    lines = []
    for name, value in pairs:
        lines.append("{}: {}".format(name.rjust(width), value))
    return "\\n".join(lines)
'''

TASK = DemoTask(
    instance_id="shelfmark__shelfmark-31",
    issue=ISSUE,
    hidden_tests=HIDDEN_TESTS,
    attempts=(
        Attempt(special_cases_of_the_issue, passes=True),
        Attempt(while_instead_of_if, passes=True),
        Attempt(two_days_at_once, passes=False),
        Attempt(with_reformatted_table, passes=True),
        Attempt(while_after_checking_callers, passes=True),
        Attempt(lost_container, passes=None, exit_status="container_lost"),
        Attempt(with_regression_test, passes=True),
        Attempt(back_to_the_last_open_day, passes=False),
    ),
)
