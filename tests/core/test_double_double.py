from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gagar_cli.core.double_double import (
    DoubleDouble,
    add,
    column,
    divide,
    from_floats,
    from_fractions,
    multiply,
    subtract,
    sum_rows,
)

FRACTIONS = st.fractions(-1000, 1000, max_denominator=10_000)


def exact(values: DoubleDouble) -> list[Fraction]:
    return [
        Fraction(high) + Fraction(low)
        for high, low in zip(values.high.tolist(), values.low.tolist(), strict=True)
    ]


@pytest.mark.parametrize(
    ("operation", "oracle"),
    [
        (add, lambda left, right: left + right),
        (subtract, lambda left, right: left - right),
        (multiply, lambda left, right: left * right),
        (divide, lambda left, right: left / right),
    ],
)
@given(left=FRACTIONS, right=FRACTIONS)
def test_operations_are_exact_to_thirty_digits(operation, oracle, left: Fraction, right: Fraction) -> None:  # type: ignore[no-untyped-def]
    assume(right != 0)
    (computed,) = exact(operation(from_fractions([left]), from_fractions([right])))
    scale = max(abs(left), abs(right), abs(oracle(left, right)))
    assert abs(computed - oracle(left, right)) <= scale * Fraction(1, 10**30)


@given(st.lists(st.lists(st.floats(-1e9, 1e9), min_size=7, max_size=7), min_size=1, max_size=4))
def test_row_sums_lose_nothing_that_a_double_could_hold(rows: list[list[float]]) -> None:
    for computed, row in zip(exact(sum_rows(from_floats(np.array(rows)))), rows, strict=True):
        assert abs(computed - sum(map(Fraction, row))) <= sum(abs(Fraction(value)) for value in row) / 10**30


def test_column_is_broadcast_over_rows() -> None:
    ones = from_floats(np.ones((2, 3)))
    assert add(ones, column(from_floats(np.array([1.0, 2.0])))).high.tolist() == [[2.0] * 3, [3.0] * 3]
