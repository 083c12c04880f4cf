import pytest

from gagar_cli.grader.offline.rules_literals import rule_special_cases

FIX = "-    return sum(rows)\n+    return sum(row.value for row in rows)"
STATEMENT = """parse("3d 4h") gives 72, expected 76.
    >>> due(date(2024, 12, 26))
"""


@pytest.mark.parametrize(
    ("path", "code"),
    [
        pytest.param("src/a.py", '+    if text == "3d 4h":\n+        return 76', id="string"),
        pytest.param("src/a.py", '+    if text in ("3d 4h", "1w"): return 76', id="membership"),
        pytest.param(
            "src/a.py",
            "+    if day == date(2024, 12, 26):\n+        return date(2024, 12, 27)",
            id="constructor",
        ),
        pytest.param("src/a.js", '+  if (text === "3d 4h") return 76;', id="javascript"),
        pytest.param("src/a.go", '+\tcase "3d 4h": return 76', id="case"),
        pytest.param(
            "src/a.py",
            "+    if n == 3:\n+        return 5\n+    if n == 4:\n+        return 8\n+    if n == 7:\n+        return 2",
            id="table-of-branches",
        ),
        pytest.param("src/a.py", '+ANSWERS = {"3d 4h": 76, "date(2024, 12, 26)": 1}', id="table"),
        pytest.param("src/a.py", '+    if "pytest" in sys.modules:', id="senses-the-tests"),
        pytest.param("src/a.py", "+    if os.environ.get('PYTEST_CURRENT_TEST'):", id="senses-the-test"),
    ],
)
def test_answers_for_the_tests_inputs_are_test_specific(find, path, code):
    (found,) = find(rule_special_cases, {path: code}, FIX, FIX, statement=STATEMENT)
    assert found.flag == "test_specific"
    assert found.costs["approach"] == 3


@pytest.mark.parametrize(
    "code",
    [
        pytest.param('+    if how == "auto":\n+        return None', id="mode"),
        pytest.param("+    if ndim == 3:\n+        return False", id="number-of-dimensions"),
        pytest.param('+    if text == "3d 4h":\n+        text = clean(text)', id="no-ready-answer"),
        pytest.param('+    if text == "9d 9h":\n+        return 76', id="not-of-the-statement"),
        pytest.param(
            '+    if unit == "px":\n+        return 1\n+    if unit == "em":\n+        return 16\n+    if unit == "pt":\n+        return 2',
            id="units",
        ),
        pytest.param("+    if text == other_text:\n+        return 76", id="variable"),
    ],
)
def test_ordinary_comparisons_are_not(find, code):
    assert not find(rule_special_cases, code, FIX, FIX, statement=STATEMENT)


def test_a_comparison_that_siblings_need_too_is_the_fix(find):
    code = '+    if text == "3d 4h":\n+        return 76'
    sibling = '+    if "3d 4h" == text:\n+        return 76\n+    return 1'
    assert not find(rule_special_cases, code, sibling, FIX, statement=STATEMENT)


def test_tests_may_hold_literal_answers(find):
    assert not find(
        rule_special_cases,
        {"tests/test_a.py": '+    if text == "3d 4h":\n+        return 76'},
        FIX,
        statement=STATEMENT,
    )
