"""exp and log of double-doubles, to about 2**-98, for the one cap whose equation has powers in it."""

import math
from fractions import Fraction

import numpy as np

from gagar_cli.core.double_double import (
    DoubleDouble,
    add,
    from_floats,
    from_fractions,
    multiply,
    shift_exponents,
    subtract,
)

_N_HALVINGS = 9
_N_TERMS = 12
"""Of the series after halving: |r| ≤ ln 2 / 2**10, and r**13 / 13! is below 2**-160."""
_LN_2 = DoubleDouble(np.array(0.6931471805599453), np.array(2.3190468138462996e-17))
_INVERSE_FACTORIALS = from_fractions([Fraction(1, math.factorial(n)) for n in range(_N_TERMS + 1)])


def exp(values: DoubleDouble) -> DoubleDouble:
    """The exponential of each value; magnitudes up to about 700."""
    n_doublings = np.rint(values.high / _LN_2.high)
    rest = subtract(values, multiply(from_floats(n_doublings), _LN_2))
    rest = shift_exponents(rest, np.full(values.high.shape, -_N_HALVINGS))
    # e**r − 1 by Horner's rule; squared as (1 + s)² − 1 = s (2 + s), so that the one does not drown the small part.
    made = from_floats(np.zeros_like(values.high))
    for n in range(_N_TERMS, 0, -1):
        term = DoubleDouble(
            np.full_like(values.high, _INVERSE_FACTORIALS.high[n]),
            np.full_like(values.high, _INVERSE_FACTORIALS.low[n]),
        )
        made = multiply(add(made, term), rest)
    two = from_floats(np.full_like(values.high, 2.0))
    for _ in range(_N_HALVINGS):
        made = multiply(made, add(two, made))
    return shift_exponents(add(made, from_floats(np.ones_like(values.high))), n_doublings.astype(np.int64))


def log(values: DoubleDouble) -> DoubleDouble:
    """The natural logarithm of each value; all are positive."""
    near = from_floats(np.log(values.high))
    # One step of Newton's on e**y = x doubles the digits that are right.
    ratio = multiply(values, exp(DoubleDouble(-near.high, -near.low)))
    return add(near, subtract(ratio, from_floats(np.ones_like(values.high))))
