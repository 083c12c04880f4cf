"""Task 52: an easy one that every attempt solves, so there is nothing to redistribute."""

from demo_session import Session, edit, run_visible_tests, show
from demo_task import Attempt, DemoTask

ISBN = "shelfmark/isbn.py"
ISSUE = """\
`0-8044-2957-x` is refused

The check digit X of an ISBN-10 is often written in lower case. `normalize_isbn("0-8044-2957-x")` raises ValueError; it
should give the same as with `X`.
"""
HIDDEN_TESTS = {
    "tests/test_isbn.py": """

class LowerCaseTest(unittest.TestCase):
    def test_lower_case_x_is_accepted(self):
        self.assertEqual(normalize_isbn("0-8044-2957-x"), normalize_isbn("0-8044-2957-X"))

    def test_x_elsewhere_is_refused(self):
        with self.assertRaises(ValueError):
            normalize_isbn("x804429570")
"""
}
DIGITS = '    digits = text.replace("-", "").replace(" ", "")\n'
UPPER = '    digits = text.replace("-", "").replace(" ", "").upper()\n'


def upper_once(session: Session) -> None:
    session.turn("Look at the module.", show(ISBN, 1, 24))
    session.turn("Normalise the case with the rest.", edit(ISBN, DIGITS, UPPER), run_visible_tests())
    session.turn("Both cases are accepted.")


def upper_at_once(session: Session) -> None:
    session.turn("Where does the X go?", show(ISBN))
    session.turn("`normalize_isbn` is the way in, so it is the place.", edit(ISBN, DIGITS, UPPER))
    session.turn("Run the tests.", run_visible_tests("test_isbn"))
    session.turn("Lower-case x is accepted.")


def both_letters(session: Session) -> None:
    session.turn("Look at the check.", show(ISBN, 16, 24))
    session.turn(
        "Accept either letter where X is compared.",
        edit(ISBN, 'or digits[9] == "X"):', 'or digits[9] in "Xx"):'),
        edit(ISBN, '10 if digits[9] == "X" else', '10 if digits[9] in "Xx" else'),
        run_visible_tests(),
    )
    session.turn("Lower-case x is accepted.")


def upper_in_the_check(session: Session) -> None:
    session.turn("Look at the check.", show(ISBN, 16, 24))
    session.turn(
        "One line before the comparison.",
        edit(
            ISBN,
            "    if not digits[:9].isdecimal()",
            "    digits = digits.upper()\n    if not digits[:9].isdecimal()",
        ),
        run_visible_tests(),
    )
    session.turn("The check does not mind the case.")


TASK = DemoTask(
    instance_id="shelfmark__shelfmark-52",
    issue=ISSUE,
    hidden_tests=HIDDEN_TESTS,
    attempts=(
        Attempt(upper_once, passes=True),
        Attempt(both_letters, passes=True),
        Attempt(upper_at_once, passes=True),
        Attempt(upper_in_the_check, passes=True),
    ),
)
