"""Confidence intervals of one value a task, each inside the range that its figure can have.

Student's t over tasks is the base. Of a figure with a range it is taken on a scale without ends and brought back: as
logits where both ends are known, as logarithms where only the lower one is. What is printed can then be true: no τ-b
above 1, no score above 5, no negative count of turns.
"""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

LEVEL = 0.95


class Interval(NamedTuple):
    """A confidence interval, or the range of a figure, both ends included."""

    low: float
    high: float


SHARE = Interval(0.0, 1.0)
CORRELATION = Interval(-1.0, 1.0)
COUNT = Interval(0.0, math.inf)
UNBOUNDED = Interval(-math.inf, math.inf)


def t_interval(values: Floats, level: float = LEVEL) -> Interval | None:
    """Student's t interval of the mean over tasks; None below two tasks.

    >>> [round(end, 4) for end in t_interval(np.array([1.0, 2.0, 3.0])) or ()]
    [-0.4841, 4.4841]
    """
    if values.size < 2:
        return None
    half = _half_width(values, level)
    mean = float(values.mean())
    return Interval(mean - half, mean + half)


def ranged_interval(values: Floats, within: Interval, level: float = LEVEL) -> tuple[Interval | None, str]:
    """The interval of the mean of values that lie in `within`, and its kind: `t`, `logit` or `log`.

    `logit`: t · SE / (m (1 − m)) around logit(m), for the mean m scaled to [0, 1], brought back
    (the logit interval of survey statistics, Korn and Graubard 1998, with tasks as clusters; of correlations, which lie
    in [−1, 1], it is Fisher's z with the error over tasks).
    `log`: t · SE / m around log(m). `t`: where there is no range, a value lies outside it, or the mean is at its end.

    >>> interval, kind = ranged_interval(np.array([1.0, 0.5, 0.75]), CORRELATION)
    >>> kind, [round(end, 4) for end in interval or ()]
    ('logit', [-0.4191, 0.9834])
    """
    low, high = within
    mean = float(values.mean())
    is_inside = values.min() >= low and values.max() <= high and low < mean < high
    if values.size < 2 or not is_inside or math.isinf(low):
        return t_interval(values, level), "t"
    half = _half_width(values, level)
    if math.isinf(high):
        room = mean - low
        return Interval(low + room * math.exp(-half / room), low + room * math.exp(half / room)), "log"
    width = high - low
    share = (mean - low) / width
    centre, reach = math.log(share / (1 - share)), half / width / (share * (1 - share))
    # The error of a mean is at most its distance from the nearer end, so that no exponent is large.
    ends = (low + width / (1 + math.exp(-one)) for one in (centre - reach, centre + reach))
    return Interval(*ends), "logit"


def wilson_interval(n_successes: float, n: int, level: float = LEVEL) -> Interval | None:
    """The score interval of a share (Wilson 1927), which keeps its width at 0 and at n; None for n = 0.

    >>> [round(end, 3) for end in wilson_interval(19.5, 30) or ()]
    [0.471, 0.795]
    """
    from scipy.special import ndtri

    if n == 0:
        return None
    z = float(ndtri((1 + level) / 2))
    share = n_successes / n
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    low = 0.0 if n_successes == 0 else max(0.0, centre - half)
    high = 1.0 if n_successes == n else min(1.0, centre + half)
    return Interval(low, high)


def exact_interval(n_successes: int, n: int, level: float = LEVEL) -> Interval | None:
    """The interval of a count that holds for sure (Clopper and Pearson 1934); None for n = 0.

    >>> [round(end, 4) for end in exact_interval(0, 10) or ()]
    [0.0, 0.3085]
    """
    from scipy.special import betaincinv

    if n == 0:
        return None
    tail = (1 - level) / 2
    low = 0.0 if n_successes == 0 else float(betaincinv(n_successes, n - n_successes + 1, tail))
    high = 1.0 if n_successes == n else float(betaincinv(n_successes + 1, n - n_successes, 1 - tail))
    return Interval(low, high)


def _half_width(values: Floats, level: float) -> float:
    from scipy.special import stdtrit

    standard_error = float(values.std(ddof=1)) / math.sqrt(values.size)
    return float(stdtrit(values.size - 1, (1 + level) / 2)) * standard_error
