"""How far several raters agree on the same units: Krippendorff's α (2011), with missing ratings.

α = 1 − D_observed / D_expected over pairs of ratings within units: 1 is perfect agreement, 0 what chance gives, below 0
systematic disagreement. A unit that fewer than two raters rated says nothing and is left out.
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Level = Literal["nominal", "ordinal", "interval"]


def krippendorff_alpha(ratings: Sequence[Sequence[float]] | Floats, level: Level) -> float | None:
    """α of a table of ratings; None where nothing can be compared, or all ratings are one value.

    Args:
        ratings: (n_raters, n_units), NaN where a rater did not rate a unit.
        level: how far apart two values are: different or not (`nominal`), by the ranks between them (`ordinal`), or by
            their squared difference (`interval`).

    >>> krippendorff_alpha([[1, 2, 3], [1, 2, 3]], "ordinal")
    1.0
    """
    table = np.asarray(ratings, dtype=np.float64)
    table = table[:, np.sum(~np.isnan(table), axis=0) >= 2]
    values = np.unique(table[~np.isnan(table)])
    if values.size < 2:
        return None
    if level == "interval":
        return _interval_alpha(table)
    # (n_values, n_units): how often each value was given to each unit.
    counts = np.stack([np.sum(table == value, axis=0) for value in values]).astype(np.float64)
    per_unit = counts.sum(axis=0)
    weighted = counts / (per_unit - 1)
    coincidences = weighted @ counts.T - np.diag(weighted.sum(axis=1))
    totals = coincidences.sum(axis=1)
    distances = _distances(values, totals, level)
    n_ratings = totals.sum()
    observed = float(np.sum(coincidences * distances))
    expected = float(np.sum(np.outer(totals, totals) * distances)) / float(n_ratings - 1)
    return 1.0 - observed / expected


def _interval_alpha(table: Floats) -> float:
    """Squared differences over all pairs of n numbers are 2n times their squares about the mean: no pair is formed."""
    rated = ~np.isnan(table)
    n_raters = rated.sum(axis=0)
    filled = np.where(rated, table, 0.0)
    about_unit = np.where(rated, table - filled.sum(axis=0) / n_raters, 0.0)
    observed = float(np.sum(2 * n_raters * np.square(about_unit).sum(axis=0) / (n_raters - 1)))
    ratings = table[rated]
    expected = 2 * ratings.size * float(np.square(ratings - ratings.mean()).sum()) / (ratings.size - 1)
    return 1.0 - observed / expected


def _distances(values: Floats, totals: Floats, level: Level) -> Floats:
    """(n_values, n_values) squared distances."""
    if level == "nominal":
        return 1.0 - np.eye(values.size)
    # Ratings between the two values, each end counted half.
    middles = np.cumsum(totals) - totals / 2
    return np.square(middles[:, None] - middles[None, :])
