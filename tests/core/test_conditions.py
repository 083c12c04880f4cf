import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gagar_cli.core.conditions import Comparison, Flag, Junction, Negation, columns_of, parse_condition
from gagar_cli.errors import UsageError


def parse(text: str) -> object:
    return parse_condition(text, "--eligible")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('task_type == "code"', Comparison("task_type", "==", ("code",))),
        ("3 > n_turns", Comparison("n_turns", "<", (3.0,))),
        ("meta.split != 'test'", Comparison("meta.split", "!=", ("test",))),
        ('repo in ["a/b", "c/d"]', Comparison("repo", "in", ("a/b", "c/d"))),
        ("level not in {-1, 2.5}", Comparison("level", "not in", (-1.0, 2.5))),
        ("repo is not None", Comparison("repo", "!=", (None,))),
        ("resolved == true", Comparison("resolved", "==", (True,))),
        ('column("patch-kind") == null', Comparison("patch-kind", "==", (None,))),
        ("not is_long", Negation(Flag("is_long"))),
        ("a and b or c", Junction(False, (Junction(True, (Flag("a"), Flag("b"))), Flag("c")))),
        ("0 <= x < 1", Junction(True, (Comparison("x", ">=", (0.0,)), Comparison("x", "<", (1.0,))))),
    ],
)
def test_conditions_are_read(text: str, expected: object) -> None:
    assert parse(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "task_type =",
        "a == b",
        '__import__("os").system("true")',
        "a[0] == 1",
        "a + 1 == 2",
        '"x" in a',
        "a in 'xyz'",
        "a < None",
        "a < true",
        "a is 3",
        "f(a) == 1",
        "(lambda: a)()",
        "[a for a in b]",
        "a if b else c",
        "a := 1",
        "n == 10**400",
        "n < 1e999",
        "a == b'x'",
        "(" * 300 + "a" + ")" * 300,
        "not " * 400 + "a",
        "a and " * 500 + "a",
        "a == '\0'",
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--eligible"):
        parse(text)


@given(st.text(max_size=60))
def test_no_text_does_anything_but_parse_or_be_refused(text: str) -> None:
    with contextlib.suppress(UsageError):
        parse(text)


def test_columns_are_named_once() -> None:
    assert columns_of(parse_condition("a == 1 and (b or not a == 2)", "--eligible")) == ("a", "b")
