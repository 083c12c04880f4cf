import pytest

from gagar_cli.grader.offline.rules_noise import (
    rule_comment_noise,
    rule_detour,
    rule_machine_path,
    rule_style,
    rule_text_compared,
)


@pytest.mark.parametrize("call", ["str(rows)", "repr(self.rows)", "format(rows[0])"])
def test_a_value_known_by_its_printed_text_is_a_special_case(find, call):
    (found,) = find(rule_text_compared, f"+    if {call} == 'three blind rows':\n+        return rows")
    assert (found.flag, found.costs["approach"]) == ("test_specific", 3)


@pytest.mark.parametrize(
    "code",
    ["+    if str(mode) == 'fast':", "+    if rows == 'two words':", "+    assert str(rows) == 'two words'"],
    ids=["an option", "a text", "no branch"],
)
def test_an_ordinary_comparison_is_none(find, code):
    assert find(rule_text_compared, f"{code}\n+        return rows") == []
    assert (
        find(rule_text_compared, {"tests/test_a.py": "+    if str(rows) == 'two words':\n+        pass"})
        == []
    )


@pytest.mark.parametrize("path", ["/home/dev/x", "/Users/dev/x", r"C:\\\\Users\\\\dev"])
def test_a_path_of_one_machine_costs(find, path):
    (found,) = find(rule_machine_path, f' def load():\n+    folder = "{path}"')
    assert found.costs == {"approach": 1, "side_effects": 1}


@pytest.mark.parametrize(
    "code",
    [
        '+    folder = "/etc/hosts"',
        "+    # in '/home/dev/x'",
        " old = '/home/x'\n+    folder = '/home/dev/x'",
    ],
    ids=["a system path", "a comment", "the file has such"],
)
def test_other_paths_cost_nothing(find, code):
    assert find(rule_machine_path, code) == []


def test_comments_that_outweigh_the_code_cost(find):
    noise = "\n".join(f"+    # comment {number} on what is done" for number in range(5))
    (found,) = find(rule_comment_noise, f"{noise}\n+    total = 1")
    assert found.claim == "has 5 lines of comment over 1 line of code"
    assert find(rule_comment_noise, "+    # one reason\n+    total = 1") == []


@pytest.mark.parametrize(
    ("code", "claim"),
    [
        ("+    total=len(rows)", "an assignment without blanks around ="),
        ("+    total =( len(rows) )", "blanks inside brackets"),
        ("+    MyTotal_X = len(rows)", "a local name in capitals"),
    ],
)
def test_a_hand_that_is_not_the_files_costs(find, code, claim):
    (found,) = find(rule_style, f" before = 1\n{code}\n after = 2")
    assert found.claim == f"has {claim}, against the file's habits"
    habit = code.replace("+", " ", 1).replace("total", "other").replace("MyTotal", "MyOther")
    assert find(rule_style, f"{habit}\n{code}\n after = 2") == []


@pytest.mark.parametrize("line", ["return total(rows)", "found = total(rows)"])
def test_a_line_that_worked_and_is_taken_apart_costs(find, line):
    detour = "+    outcome = total(rows)\n+    " + line.replace("total(rows)", "outcome")
    (found,) = find(rule_detour, f"-    {line}\n{detour}")
    assert found.costs == {"minimality": 1}
    # With a change of its own in it, or where nothing was before, the name may be needed.
    assert find(rule_detour, f"-    {line}\n{detour.replace('rows)', 'rows, 1)')}") == []
    assert find(rule_detour, f" before = 1\n{detour}") == []
