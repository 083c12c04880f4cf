import asyncio
import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gagar_cli.grader.patterns import BadExpressionError, expression, literal
from gagar_cli.grader.tools import Toolbox
from gagar_cli.grader.workspace import Workspace


@pytest.mark.parametrize(
    "text", ["(a+)+$", "(a|aa)+$", "(a*)*b", "(x+x+)+y", "([a-z]+)*=", "(.*){25}c", "(a?){25}a{25}$"]
)
def test_no_expression_hangs(text):
    started = time.monotonic()
    expression(text).is_in_line("a" * 20_000 + "!")
    assert time.monotonic() - started < 1


@pytest.mark.parametrize(
    "text", ["(", "a**", r"(?=x)", r"(a)\1", "((a{1000}){1000}){1000}", "x" * 1001, "\udc80"]
)
def test_what_cannot_be_compiled_is_told(text):
    with pytest.raises(BadExpressionError):
        expression(text)


def test_nothing_is_written_to_the_terminal(capfd):
    with pytest.raises(BadExpressionError):
        expression("(")
    assert capfd.readouterr() == ("", "")


def test_bytes_that_are_no_text_can_be_searched():
    assert expression("caf.$").is_in_line("\udcff café")
    assert not expression("caff").is_in_line("\udcff café")


def test_a_literal_is_no_expression():
    assert literal("a.c").is_in_line("xa.c")
    assert not literal("a.c").is_in_line("abc")


@given(
    st.text(alphabet="ab.|*()[]^$\\Az +?", max_size=8),
    st.lists(st.text(alphabet="ab \t", max_size=6), max_size=4),
)
def test_a_text_is_never_passed_over_that_has_a_line_which_matches(text, lines):
    try:
        pattern = expression(text)
    except BadExpressionError:
        return
    if any(map(pattern.is_in_line, lines)):
        assert pattern.may_be_in("\n".join(lines))


@given(st.text(alphabet="ab|.", min_size=1, max_size=6), st.text(alphabet="abc", max_size=8))
def test_simple_expressions_mean_what_they_mean_elsewhere(text, line):
    assert expression(text).is_in_line(line) == bool(re.search(text, line))


@pytest.fixture
def toolbox(group, repository) -> Toolbox:
    return Toolbox(Workspace(group, seed=0, repository=repository), None)


def search(toolbox: Toolbox, **arguments) -> str:
    return asyncio.run(toolbox.call("search", arguments))


def test_the_search_tool_takes_expressions(toolbox):
    shown = search(toolbox, text=r"^def \w+\(row", where="repo", regex=True)
    assert shown.splitlines() == [
        "base:src/table.py:1│def total(rows):",
        "base:src/table.py:5│def label(row):",
    ]


def test_without_being_told_a_text_is_literal(toolbox):
    assert search(toolbox, text=r"def \w+", where="repo") == "no line contains that text"


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        ({"text": "(", "regex": True}, "error: text is no regular expression: missing ): ("),
        ({"text": "a", "regex": "yes"}, "error: regex is 'yes', expected true or false"),
    ],
)
def test_a_bad_expression_is_answered(toolbox, arguments, answer):
    assert search(toolbox, **arguments) == answer
