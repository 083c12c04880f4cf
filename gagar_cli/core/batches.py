"""What estimators take and give: groups of equal size as arrays, invalid trajectories masked, not removed.

Every array is (n_groups, group_size) unless told otherwise. Means and deviations are carried in double-doubles and
rounded once, so that they do not depend on the order of a group.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from gagar_cli.core.double_double import (
    DoubleDouble,
    FloatArray,
    column,
    divide,
    from_floats,
    multiply,
    subtract,
    sum_rows,
)

if TYPE_CHECKING:
    from gagar_cli.core.caps import Shares

BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.signedinteger]


@dataclass(frozen=True, slots=True)
class Batch:
    """Groups of equal size, invalid trajectories masked."""

    rewards: FloatArray
    """Effective rewards; ignored where invalid."""
    is_valid: BoolArray
    is_passed: BoolArray
    is_graded: BoolArray
    """(n_groups,) whether the group's factors may be used; else its base advantages stand."""
    factors: DoubleDouble
    """q in (0, 1] of the candidates of graded groups; ignored elsewhere."""
    is_eligible: BoolArray | None = None
    """Rows that a method may move or compare; None for all. The others get the method's base."""
    standing: IntArray | None = None
    """Place of a pass among those of its group over all tiers, lower is better; −1 where it is not ranked."""
    process: FloatArray | None = None
    """Process scores, NaN where there is none."""
    is_well_formed: BoolArray | None = None
    error_class: IntArray | None = None
    """Code of the kind of error of a failure, −1 where there is none."""
    turn_mean: FloatArray | None = None
    """Mean of the advantages of a trajectory's turns, from `core/turn_methods.py`."""
    centred: tuple[DoubleDouble, DoubleDouble] | None = None
    """What `centre` makes of the rewards, where it is worked out already."""
    is_violation: BoolArray | None = None
    """Integrity violations, which are failures here; None for none."""
    shares: "tuple[Shares, IntArray] | None" = None
    """What `share` makes of it in `core/gagar.py`, likewise."""

    @property
    def is_subject(self) -> BoolArray:
        """Valid rows that a method may move or compare."""
        return self.is_valid if self.is_eligible is None else self.is_valid & self.is_eligible

    @property
    def is_honest_failure(self) -> BoolArray:
        """Valid rows that did not pass their tests."""
        is_failure = self.is_valid & ~self.is_passed
        return is_failure if self.is_violation is None else is_failure & ~self.is_violation

    @property
    def base_and_mean(self) -> tuple[DoubleDouble, DoubleDouble]:
        """Rewards less the mean of the valid ones of their group, and that mean."""
        return self.centred or centre(self.rewards, self.is_valid)

    @property
    def is_candidate(self) -> BoolArray:
        """Rows whose factors may be used."""
        return self.is_graded[:, None] & self.is_subject & self.is_passed


@dataclass(frozen=True, slots=True)
class Estimate:
    """What an estimator makes of a batch; NaN where a trajectory is invalid or there is no such value."""

    advantage: FloatArray
    base: FloatArray
    """r − mean r of the valid trajectories, whatever the method."""
    reward_equivalent: FloatArray
    """Rewards that give `advantage` to a trainer that only subtracts the group's mean (METHODS 3)."""
    multiplier: FloatArray
    """(n_groups,) λ: a paid pass gets λ (q + t) A."""
    factor_shift: FloatArray
    """(n_groups,) t of the caps that raise the factors; 0 under the others."""
    is_capped: BoolArray
    """(n_groups,) whether the cap changed the group."""


def centre(values: FloatArray, is_counted: BoolArray) -> tuple[DoubleDouble, DoubleDouble]:
    """Values less the mean of the counted ones of their row, and that mean; anything where not counted."""
    counted = np.where(is_counted, values, 0.0)
    mean = divide(sum_rows(from_floats(counted)), from_floats(count(is_counted)))
    return subtract(from_floats(counted), column(mean)), mean


def count(is_counted: BoolArray) -> FloatArray:
    """(n_groups,) how many are counted, at least 1 so that one can divide by it."""
    return np.asarray(np.maximum(is_counted.sum(axis=1), 1), dtype=np.float64)


def deviation(centred: DoubleDouble, is_counted: BoolArray, ddof: int) -> FloatArray:
    """(n_groups,) the standard deviation of centred values; 0 where too few are counted."""
    squares = multiply(centred, centred)
    nothing = np.zeros_like(centred.high)
    total = sum_rows(
        DoubleDouble(np.where(is_counted, squares.high, nothing), np.where(is_counted, squares.low, nothing))
    )
    n_free = is_counted.sum(axis=1) - ddof
    is_known = n_free > 0
    # Rounding may leave a sum of squares below zero where all values are equal.
    variance = np.maximum(total.high, 0.0) / np.where(is_known, n_free, 1)
    return np.where(is_known, np.sqrt(variance), 0.0)


def leave(batch: Batch) -> Estimate:
    """Base advantages as they are."""
    centred, _ = batch.base_and_mean
    masked = mask(centred.high, batch)
    unknown = np.full(len(masked), np.nan)
    rewards = mask(batch.rewards, batch)
    return Estimate(masked, masked, rewards, unknown, unknown, np.zeros(len(masked), dtype=bool))


def mask(values: FloatArray, batch: Batch) -> FloatArray:
    """The values with NaN where a trajectory is invalid."""
    return np.where(batch.is_valid, values, np.nan)
