import asyncio
import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gagar_cli.core.text import split_lines
from gagar_cli.grader.patterns import BadExpressionError, Hit, Pattern, expression, literal
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


def test_a_byte_within_a_character_can_be_searched():
    assert expression(r"\C\z").find("aé") == 2
    assert expression("é").find("aéé") == 1
    assert [hit.place for hit in expression("b").find_all("x\n\ud800éb")] == [2]


def test_a_literal_is_no_expression():
    assert literal("a.c").is_in_line("xa.c")
    assert not literal("a.c").is_in_line("abc")


@given(
    st.text(alphabet="ab.|*()[]^$\\AzCsSWbnim-?: +é", max_size=8),
    st.text(alphabet="ab \t\n\ré\udcff", max_size=12),
)
def test_a_text_is_searched_as_each_of_its_lines_is(text, content):
    try:
        pattern = expression(text)
    except BadExpressionError:
        return
    assert list(pattern.find_all(content)) == hits_by_line(pattern, content)


@given(st.text(alphabet="ab\n", min_size=1, max_size=3), st.text(alphabet="ab\n\r", max_size=12))
def test_a_literal_is_found_as_in_each_line(text, content):
    pattern = literal(text)
    assert list(pattern.find_all(content)) == hits_by_line(pattern, content)


@pytest.mark.parametrize(
    "text",
    [
        r"a$",
        r"^b",
        r"a[^c]+b",
        r"\s",
        r"\n",
        r"\Aa",
        r"b\z",
        r"\\A",
        r"\Qb a\E",
        r"[\\A]|b\z",
        r"(?-m)^b",
        r"(?s)a.b",
        "",
    ],
)
def test_no_match_crosses_a_line(text):
    pattern, content = expression(text), "a\n\nb a\nab\r\n a"
    assert list(pattern.find_all(content)) == hits_by_line(pattern, content)


def test_of_a_text_only_the_lines_with_hits_are_made():
    """An anchored expression over a long log takes one pass, not one call a line."""
    content = "tests/test_a.py::test_x PASSED\n" * 200_000
    started = time.process_time()
    for text in (r"^import .* FAILED$", r"PASSED[^q]+FAILED$"):
        assert list(expression(text).find_all(content)) == []
    assert list(expression("^needle$").find_all(content + "needle\nx")) == [Hit(200_000, "needle", 0)]
    assert time.process_time() - started < 1


def hits_by_line(pattern: Pattern, content: str) -> list[Hit]:
    found = ((number, line, pattern.find(line)) for number, line in enumerate(split_lines(content)))
    return [Hit(number, line, place) for number, line, place in found if place is not None]


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
