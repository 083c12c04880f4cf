"""Arithmetic on pairs of doubles, vectorised: about 32 significant digits at the speed of arrays.

A value is the unevaluated sum `high + low` with |low| at most half a unit in the last place of `high`. It lets
advantages be rounded once, at the end: a factor such as 0.85 or a mean such as 1/3 is no double, and sums of rounded
ones depend on their order. Magnitudes up to about 1e140 are safe; nothing here guards against overflow, so rewards,
limits and weights are bounded where they are read.
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

_SPLITTER = 134217729.0
"""2**27 + 1: halves a double's 53 bits (Veltkamp, Dekker)."""


class DoubleDouble(NamedTuple):
    """An array of numbers, each the sum of a double and the double that its rounding lost."""

    high: FloatArray
    low: FloatArray


def from_floats(values: FloatArray) -> DoubleDouble:
    """Doubles as they are."""
    return DoubleDouble(values, np.zeros_like(values))


def from_fractions(values: Sequence[Fraction]) -> DoubleDouble:
    """Fractions, each rounded to two doubles."""
    high = [float(value) for value in values]
    low = [float(value - Fraction(rounded)) for value, rounded in zip(values, high, strict=True)]
    return DoubleDouble(np.array(high, dtype=np.float64), np.array(low, dtype=np.float64))


def where(condition: NDArray[np.bool_], chosen: DoubleDouble, other: DoubleDouble) -> DoubleDouble:
    """`chosen` where the condition holds, else `other`."""
    return DoubleDouble(
        np.where(condition, chosen.high, other.high), np.where(condition, chosen.low, other.low)
    )


def column(values: DoubleDouble) -> DoubleDouble:
    """One value a row, shaped to be broadcast over the row."""
    return DoubleDouble(values.high[:, None], values.low[:, None])


def add(left: DoubleDouble, right: DoubleDouble) -> DoubleDouble:
    """The sum, to about 2**-104."""
    high, error = _two_sum(left.high, right.high)
    low, low_error = _two_sum(left.low, right.low)
    high, error = _quick_two_sum(high, error + low)
    return DoubleDouble(*_quick_two_sum(high, error + low_error))


def subtract(left: DoubleDouble, right: DoubleDouble) -> DoubleDouble:
    """The difference, to about 2**-104 of the larger."""
    return add(left, DoubleDouble(-right.high, -right.low))


def multiply(left: DoubleDouble, right: DoubleDouble) -> DoubleDouble:
    """The product, to about 2**-102."""
    high, error = _two_product(left.high, right.high)
    return DoubleDouble(*_quick_two_sum(high, error + (left.high * right.low + left.low * right.high)))


def divide(left: DoubleDouble, right: DoubleDouble) -> DoubleDouble:
    """The quotient, to about 2**-102; `right` has no zero."""
    first = left.high / right.high
    rest = subtract(left, multiply(right, from_floats(first)))
    second = rest.high / right.high
    rest = subtract(rest, multiply(right, from_floats(second)))
    high, low = _quick_two_sum(first, second)
    return add(DoubleDouble(high, low), from_floats(rest.high / right.high))


def shift_exponents(values: DoubleDouble, exponents: NDArray[np.int64]) -> DoubleDouble:
    """The values times 2**exponents: exact, but where a double has no bits left below its smallest."""
    if not exponents.any():
        return values
    return DoubleDouble(np.ldexp(values.high, exponents), np.ldexp(values.low, exponents))


def sum_rows(values: DoubleDouble) -> DoubleDouble:
    """The sum of each row: (n, width) to (n,), by folding the width in half."""
    # Laid out by columns, so that a fold is a few long additions and not many short ones.
    high, low = (np.array(part.T, order="C") for part in values)
    width = len(high)
    while width > 1:
        half = (width + 1) // 2
        left = slice(0, width - half)
        right = slice(half, width)
        high[left], low[left] = add(
            DoubleDouble(high[left], low[left]), DoubleDouble(high[right], low[right])
        )
        width = half
    return DoubleDouble(high[0], low[0])


def _two_sum(left: FloatArray, right: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The rounded sum and exactly what the rounding lost (Knuth)."""
    total = left + right
    shadow = total - left
    return total, (left - (total - shadow)) + (right - shadow)


def _quick_two_sum(large: FloatArray, small: FloatArray) -> tuple[FloatArray, FloatArray]:
    total = large + small
    return total, small - (total - large)


def _two_product(left: FloatArray, right: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The rounded product and exactly what the rounding lost (Dekker; numpy has no fused multiply-add)."""
    product = left * right
    left_head, left_tail = _split(left)
    right_head, right_tail = _split(right)
    error = left_head * right_head - product
    return product, ((error + left_head * right_tail) + left_tail * right_head) + left_tail * right_tail


def _split(values: FloatArray) -> tuple[FloatArray, FloatArray]:
    scaled = _SPLITTER * values
    head = scaled - (scaled - values)
    return head, values - head
