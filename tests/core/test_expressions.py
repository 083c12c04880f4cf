"""The little language of penalties: what it works out, and what it refuses."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gagar_cli.core.expression_values import Column, evaluate
from gagar_cli.core.expressions import Call, Name, columns_in, parse_expression
from gagar_cli.errors import UsageError

TOKENS = np.array([0.0, 10_000.0, np.nan, 40_000.0])
MISUSE = np.array([False, True, False, True])
KIND = np.array(["fix", "refactor", None, "fix"], dtype=object)
COLUMNS = {
    "n_tokens": Column("numbers", TOKENS, ~np.isnan(TOKENS)),
    "misuse": Column("flags", MISUSE, np.array([True, True, False, True])),
    "meta.kind": Column("text", KIND, np.array([True, True, False, True])),
}


def worked_out(text: str) -> list[float]:
    return evaluate(parse_expression(text, "--factor"), COLUMNS, 4, "--factor").tolist()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("exp(-n_tokens / 20000)", [1.0, math.exp(-0.5), math.nan, math.exp(-2)]),
        ("where(misuse, 0.5, 1.0)", [1.0, 0.5, 1.0, 0.5]),
        ("1 - 0.5 * misuse", [1.0, 0.5, math.nan, 0.5]),
        ("0.5 ** 2", [0.25] * 4),
        ("clip(n_tokens / 20000, 0.1, 1)", [0.1, 0.5, math.nan, 1.0]),
        ("min(1, n_tokens, 7)", [0.0, 1.0, math.nan, 1.0]),
        ("max(1, 2, n_tokens)", [2.0, 10_000.0, math.nan, 40_000.0]),
        ("log(exp(1)) + sqrt(4) - abs(-3)", [0.0] * 4),
        ('where(meta.kind == "fix", 1, 0.5)', [1.0, 0.5, 0.5, 1.0]),
        ('where(meta.kind != "fix", 1, 0.5)', [0.5, 1.0, 1.0, 0.5]),
        ('where(meta.kind in ["refactor", "x"], 1, 2)', [2.0, 1.0, 2.0, 2.0]),
        ('where(column("meta.kind") not in ("refactor",), 1, 2)', [1.0, 2.0, 1.0, 1.0]),
        ("where(meta.kind is None, 1, 2)", [2.0, 2.0, 1.0, 2.0]),
        ("where(n_tokens is not None and not misuse, 1, 2)", [1.0, 2.0, 2.0, 2.0]),
        ("where(5 < n_tokens <= 10000, 1, 2)", [2.0, 1.0, 2.0, 2.0]),
        ("where(n_tokens > 2 * 10000 or misuse == true, 1, 2)", [2.0, 1.0, 2.0, 1.0]),
        ("where(n_tokens is None, 1, 1 / (1 + n_tokens / 10000))", [1.0, 0.5, 1.0, 0.2]),
    ],
)
def test_expressions_are_worked_out_row_by_row(text: str, expected: list[float]) -> None:
    assert worked_out(text) == pytest.approx(expected, nan_ok=True, rel=1e-15)


def test_columns_are_named_once() -> None:
    expression = parse_expression("where(a.b, a.b, column('c d')) + n", "--factor")
    assert columns_in(expression) == ("a.b", "c d", "n")
    assert parse_expression("-n", "--factor") == Call("negative", (Name("n"),))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("__import__('os')", "does not belong in an expression"),
        ("(1).real", "does not belong in an expression"),
        ("n_tokens.__class__()", "does not belong in an expression"),
        ("[x for x in (1,)]", "does not belong in an expression"),
        ("lambda: 1", "does not belong in an expression"),
        ("n_tokens[0]", "does not belong in an expression"),
        ("f'{n_tokens}'", "does not belong in an expression"),
        ("1 if misuse else 2", "does not belong in an expression"),
        ("n_tokens // 2", "does not belong in an expression"),
        ("1 << 9", "does not belong in an expression"),
        ("1e999", "does not belong in an expression"),
        ("2j", "does not belong in an expression"),
        ("exp(x=1)", "does not belong in an expression"),
        ("min(*n_tokens)", "does not belong in an expression"),
        ("n_tokens in meta", "does not belong in an expression"),
        ("n_tokens is 3", "does not belong in an expression"),
        ("exp(1, 2)", "exp has 2 arguments, expected 1"),
        ("min(1)", "min has 1 arguments, expected 2 to 20"),
        ("where(misuse, 1)", "where has 2 arguments, expected 3"),
        ("1 +", '--factor is "1 +": invalid syntax'),
        ("", '--factor is "": invalid syntax'),
        ("9" * 5000, "has 5,000 characters, expected at most 2,000"),
        ("-" * 1000 + "1", "nested more than 50 deep"),
    ],
)
def test_everything_else_is_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_expression(text, "--factor")
    assert message in caught.value.message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("meta.kind + 1", '"meta.kind" is text, expected numbers'),
        ('"fix"', '"fix" is text, expected numbers'),
        ("where(n_tokens, 1, 2)", '"n_tokens" is no condition'),
        ("where(misuse and n_tokens, 1, 2)", '"n_tokens" is no condition'),
        ("where(meta.kind == 3, 1, 2)", 'compares "meta.kind", which holds text, with "3.0"'),
    ],
)
def test_kinds_that_do_not_fit_are_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        worked_out(text)
    assert message in caught.value.message


@pytest.mark.parametrize(
    "text", ["9 ** 9 ** 9 ** 9", "exp(exp(exp(9)))", "1 / 0", "log(0)", "log(-1)", "0 / 0"]
)
def test_numbers_that_leave_the_doubles_end_at_once(text: str) -> None:
    assert not np.isfinite(worked_out(text)).any()


TREES = st.recursive(
    st.sampled_from(["n_tokens", "1", "0.5", "misuse"]),
    lambda inner: st.builds(
        lambda form, a, b, c: form.format(a, b, c),
        st.sampled_from(
            [
                "({} + {})",
                "({} * {} - {})",
                "where({} < {}, {}, 2)",
                "min({}, {})",
                "exp(-abs({}))",
                "({} / {})",
            ]
        ),
        inner,
        inner,
        inner,
    ),
    max_leaves=12,
)
PYTHON: dict[str, Any] = {
    "where": lambda condition, chosen, other: chosen if condition else other,
    "min": min,
    "abs": abs,
    "exp": math.exp,
}


@given(TREES, st.floats(0.25, 8), st.booleans())
def test_one_row_is_what_python_says(text: str, n_tokens: float, misuse: bool) -> None:
    columns = {
        "n_tokens": Column("numbers", np.array([n_tokens]), np.array([True])),
        "misuse": Column("flags", np.array([misuse]), np.array([True])),
    }
    try:
        expected = float(eval(text, {"__builtins__": {}}, {**PYTHON, "n_tokens": n_tokens, "misuse": misuse}))
    except (ZeroDivisionError, OverflowError):
        return
    got = evaluate(parse_expression(text, "--factor"), columns, 1, "--factor")[0]
    if abs(expected) < 1e200 and math.isfinite(got):
        assert got == pytest.approx(expected, rel=1e-12, abs=1e-12)
