"""exp and log against the decimal module, which rounds them correctly at any precision."""

from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gagar_cli.core.double_double import DoubleDouble, from_floats, from_fractions
from gagar_cli.core.elementary import exp, log

MAX_ERROR = Decimal(2) ** -98


def decimals(values: DoubleDouble) -> list[Decimal]:
    with localcontext() as context:
        context.prec = 60
        return [
            Decimal(high) + Decimal(low) for high, low in zip(*map(np.ndarray.tolist, values), strict=True)
        ]


@given(st.lists(st.fractions(-40, 40, max_denominator=997), min_size=1, max_size=5))
def test_exp_is_right_to_thirty_digits(values: list[Fraction]) -> None:
    given_values = from_fractions(values)
    with localcontext() as context:
        context.prec = 60
        for made, value in zip(decimals(exp(given_values)), decimals(given_values), strict=True):
            assert abs(made / value.exp() - 1) < MAX_ERROR


@given(st.lists(st.fractions(Fraction(1, 10**9), 10**9, max_denominator=10**9), min_size=1, max_size=5))
def test_log_is_right_to_thirty_digits(values: list[Fraction]) -> None:
    given_values = from_fractions(values)
    with localcontext() as context:
        context.prec = 60
        for made, value in zip(decimals(log(given_values)), decimals(given_values), strict=True):
            assert abs(made - value.ln()) < MAX_ERROR * max(1, abs(value.ln()))


@pytest.mark.parametrize(("value", "expected"), [(0.0, 1.0), (1.0, 2.718281828459045)])
def test_known_values(value: float, expected: float) -> None:
    assert exp(from_floats(np.array([value]))).high.tolist() == [expected]
    assert log(from_floats(np.array([1.0]))).high.tolist() == [0.0]
