"""What a redistribution adds to a dump, one row a trajectory, and what it does to the expected loss."""

import numpy as np
import polars as pl

from gagar_cli.core.judging import GRADINGS, Judged, Trajectories
from gagar_cli.core.loss import sequence_mean_loss, token_mean_loss
from gagar_cli.core.placing import Columns
from gagar_cli.core.ranking import TIERS
from gagar_cli.io.arrays import to_series
from gagar_cli.io.ranked_index import RankedIndex
from gagar_cli.redistribution_summary import Losses

_TIER, _GRADING = pl.Enum(TIERS), pl.Enum(sorted(GRADINGS))


def added_columns(
    columns: Columns, judged: Judged, rows: Trajectories, part: slice = slice(None)
) -> pl.DataFrame:
    """The new columns, one row for each trajectory of a part, null where there is no value; texts as categories."""
    rank = columns.rank[part].astype(np.int64)
    group = rows.group[part]
    grading = np.where(rows.is_valid[part], judged.status[group], GRADINGS.index("invalid"))
    tier = to_series(columns.tier[part].clip(0)).cast(pl.Int64)
    frame = pl.DataFrame(
        {
            "advantage": to_series(columns.advantage[part]),
            "advantage_base": to_series(columns.base[part]),
            "reward_effective": to_series(judged.reward[part]),
            "reward_equivalent": to_series(columns.reward_equivalent[part]),
            "quality_factor": to_series(columns.quality_factor[part]),
            "factor_shift": to_series(columns.factor_shift[group]),
            "tier": pl.Series(TIERS, dtype=_TIER).gather(tier),
            "rank": to_series(rank),
            "grading": pl.Series(GRADINGS, dtype=_GRADING).gather(to_series(grading).cast(pl.Int64)),
            "lambda": to_series(columns.multiplier[group]),
            "capped": to_series(columns.is_capped[group]),
        }
    )
    is_ranked, is_graded = to_series(rank > 0), to_series(columns.is_graded[part])
    return frame.with_columns(
        pl.selectors.float().fill_nan(None),
        pl.when(is_ranked).then(pl.col("tier", "rank")),
    ).with_columns(pl.when(is_graded).then(pl.col("factor_shift", "lambda", "capped")))


def expected_losses(
    told: pl.Series | None, ranked: RankedIndex, columns: Columns
) -> tuple[Losses, Losses | None]:
    """The loss at ratio 1 before and after, as a mean of sequences and of tokens; None where tokens are not known.

    `told`: the tokens of each row of the index, None for none.
    """
    is_dropped = np.isnan(columns.advantage)
    base = np.where(is_dropped, np.nan, columns.base) if is_dropped.any() else columns.base
    sequence_mean = Losses(sequence_mean_loss(base), sequence_mean_loss(columns.advantage))
    if told is None:
        return sequence_mean, None
    # Integers as they are where no trajectory lacks them: a column of doubles takes as much as half of the others.
    n_tokens = (told.cast(pl.Float64).fill_null(float("nan")) if told.has_nulls() else told).to_numpy()
    if ranked.segments is not None:
        n_tokens = np.bincount(ranked.trajectory_of_row, weights=n_tokens).astype(np.float64)
    is_valid = ranked.trajectories.is_valid
    if not is_valid.any() or (told.has_nulls() and (is_valid & np.isnan(n_tokens)).any()):
        return sequence_mean, None
    return sequence_mean, Losses(
        token_mean_loss(base, n_tokens), token_mean_loss(columns.advantage, n_tokens)
    )
