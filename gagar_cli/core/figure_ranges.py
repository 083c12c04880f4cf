"""Which values the figures of an audit can have, by name: what their intervals keep to."""

from gagar_cli.core.intervals import COUNT, SHARE, UNBOUNDED, Interval
from gagar_cli.core.rubric import MAX_SCORE, MIN_SCORE

SHARES = ("pass_rate", "tier_1_share", "tier_2_share", "tier_3_share")
"""Figures that lie in [0, 1]."""
_COUNTS = ("n_turns", "n_output_tokens", "patch_lines")


def range_of(name: str) -> Interval:
    """The range of a figure; what is neither a share nor a count is a score.

    >>> tuple(range_of("side_effects"))
    (1.0, 5.0)
    """
    if name in SHARES:
        return SHARE
    return COUNT if name in _COUNTS else Interval(float(MIN_SCORE), float(MAX_SCORE))


def range_of_difference(name: str) -> Interval:
    """The range of the difference between two values of a figure.

    >>> tuple(range_of_difference("side_effects")), tuple(range_of_difference("pass_rate"))
    ((-4.0, 4.0), (-1.0, 1.0))
    """
    if name in _COUNTS:
        return UNBOUNDED
    low, high = range_of(name)
    return Interval(low - high, high - low)
