"""What a redistribution adds to a dump, one row a trajectory, and what it does to the expected loss."""

import numpy as np
import polars as pl

from gagar_cli.core.judging import GRADINGS, Judged, Trajectories
from gagar_cli.core.loss import sequence_mean_loss, token_mean_loss
from gagar_cli.core.ranking import TIERS
from gagar_cli.core.redistribution import Columns
from gagar_cli.io.ranked_index import RankedIndex
from gagar_cli.redistribution_summary import Losses


def added_columns(columns: Columns, judged: Judged, rows: Trajectories) -> pl.DataFrame:
    """The new columns, one row a trajectory, null where there is no value."""
    grading = np.where(rows.is_valid, judged.status[rows.group], GRADINGS.index("invalid"))
    frame = pl.DataFrame(
        {
            "advantage": columns.advantage,
            "advantage_base": columns.base,
            "reward_effective": judged.reward,
            "reward_equivalent": columns.reward_equivalent,
            "quality_factor": columns.quality_factor,
            "factor_shift": columns.factor_shift,
            "tier": pl.Series(TIERS).gather(columns.tier.clip(0)),
            "rank": columns.rank,
            "grading": pl.Series(GRADINGS).gather(grading),
            "lambda": columns.multiplier,
            "capped": columns.is_capped,
        }
    )
    is_ranked, is_graded = pl.Series(columns.rank > 0), pl.Series(columns.is_graded)
    return frame.with_columns(
        pl.selectors.float().fill_nan(None),
        pl.when(is_ranked).then(pl.col("tier", "rank")),
    ).with_columns(pl.when(is_graded).then(pl.col("factor_shift", "lambda", "capped")))


def expected_losses(
    index: pl.DataFrame, ranked: RankedIndex, columns: Columns
) -> tuple[Losses, Losses | None]:
    """The loss at ratio 1 before and after, as a mean of sequences and of tokens; None where tokens are not known."""
    base = np.where(np.isnan(columns.advantage), np.nan, columns.base)
    sequence_mean = Losses(sequence_mean_loss(base), sequence_mean_loss(columns.advantage))
    tokens = index["n_output_tokens"].cast(pl.Float64).fill_null(float("nan")).to_numpy()
    n_tokens = np.bincount(
        ranked.trajectory_of_row, weights=tokens, minlength=len(ranked.primary_rows)
    ).astype(np.float64)
    is_valid = ranked.trajectories.is_valid
    if not is_valid.any() or np.isnan(n_tokens[is_valid]).any():
        return sequence_mean, None
    return sequence_mean, Losses(
        token_mean_loss(base, n_tokens), token_mean_loss(columns.advantage, n_tokens)
    )
