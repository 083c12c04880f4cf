"""Redistribution: a dump and its rankings in, new advantages out, with a table of what was and was not changed.

Reads the scalar index only, whatever the dump's size. A sidecar has one row a trajectory; a full copy has the dump's
own rows, the segments of a trajectory sharing its values. `advantage` of the dump itself is never used.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import get_args

import numpy as np
import polars as pl

from gagar_cli.core.estimators import ESTIMATORS, PAPER_LIMIT, Cap
from gagar_cli.core.factors import TierTable
from gagar_cli.core.loss import sequence_mean_loss, token_mean_loss
from gagar_cli.core.ranking import TIERS
from gagar_cli.core.redistribution import GRADINGS, Columns, Judged, judge_groups, redistribute
from gagar_cli.errors import UsageError
from gagar_cli.io.dump import Dump, ReadOptions, open_dump
from gagar_cli.io.full_copy import write_full_copy
from gagar_cli.io.ranked_index import RankedIndex, lay_rankings
from gagar_cli.io.rankings import read_rankings
from gagar_cli.io.streams import show_path
from gagar_cli.io.tier_tables import read_tier_table
from gagar_cli.io.writers import refuse_existing, write_frame
from gagar_cli.progress import ProgressCallback, no_progress
from gagar_cli.redistribution_summary import Losses, RedistributeResult

OUTPUT_SUFFIXES = (".parquet", ".pq", ".jsonl", ".jsonl.gz", ".jsonl.zst")
_N_PHASES = 4


@dataclass(frozen=True, slots=True)
class RedistributeSettings:
    """One run, as the command line gives it."""

    dumps: tuple[str, ...]
    rankings: str | None
    """A rankings file or `-`; None only for an estimator that needs no factors."""
    output: str
    """`.parquet`, `.jsonl` (also `.gz`, `.zst`), or `-`."""
    read: ReadOptions = field(default_factory=ReadOptions)
    estimator: str = "gagar"
    cap: Cap = "bounded"
    limit: float = PAPER_LIMIT
    """What the cap bounds: λ for `paper`, the amplification of a pass for `bounded`."""
    tiers: str = "flash"
    """A built-in tier table, or the path of one in TOML."""
    full_copy: bool = False
    overwrite: bool = False


def run(settings: RedistributeSettings, progress: ProgressCallback = no_progress) -> RedistributeResult:
    """Read, redistribute, write; the output appears whole or not at all.

    Raises:
        UsageError: settings that exclude each other, or name what does not exist.
        InputError: bad data in the dump, the rankings or the tier table.
        OutputError: the output exists or cannot be written.
    """
    table = _check(settings)
    progress(0, _N_PHASES, "reading the dump")
    with open_dump(settings.dumps, settings.read) as dump:
        progress(1, _N_PHASES, "reading the rankings")
        rankings = read_rankings(settings.rankings) if settings.rankings else ()
        ranked = lay_rankings(dump, rankings, show_path(settings.rankings or ""))
        progress(2, _N_PHASES, "redistributing")
        judged = judge_groups(ranked.trajectories, ranked.verdicts)
        columns, effects, paper_effects = redistribute(
            ranked.trajectories, judged, table, settings.estimator, cap=settings.cap, limit=settings.limit
        )
        progress(3, _N_PHASES, "writing")
        added = _added_columns(columns, judged, ranked)
        replaced = _write(settings, dump, ranked, added)
        sequence_mean, token_mean = _expected_losses(dump.index, ranked, columns)
    progress(4, _N_PHASES, "done")
    return RedistributeResult(
        output=settings.output,
        estimator=settings.estimator,
        cap=settings.cap,
        limit=settings.limit,
        tiers=settings.tiers,
        report=dump.report,
        n_trajectories=len(ranked.primary_rows),
        n_invalid=int((~ranked.trajectories.is_valid).sum()),
        n_groups={name: int((judged.status == code).sum()) for code, name in enumerate(GRADINGS[:3])},
        n_by_reason={
            name: dict(Counter(judged.reason[judged.status == GRADINGS.index(name)].tolist()).most_common())
            for name in ("skipped", "ungraded")
        },
        n_eligible=judged.n_eligible,
        n_integrity_violations=int(ranked.trajectories.is_violation.sum()),
        n_unknown_groups=ranked.n_unknown_groups,
        n_superseded=ranked.n_superseded,
        effects=effects,
        paper_effects=paper_effects,
        sequence_mean=sequence_mean,
        token_mean=token_mean,
        replaced_columns=replaced,
    )


def _check(settings: RedistributeSettings) -> TierTable:
    """The tier table, after everything was refused that can be before a dump is read."""
    if settings.estimator not in ESTIMATORS:
        raise UsageError(f"--estimator is {settings.estimator!r}, expected one of {', '.join(ESTIMATORS)}")
    if settings.cap not in get_args(Cap):
        raise UsageError(f"--cap is {settings.cap!r}, expected one of {', '.join(get_args(Cap))}")
    if not 1 < settings.limit < float("inf"):
        raise UsageError(
            f"--limit is {settings.limit}, expected more than 1", "--estimator dr-grpo moves nothing"
        )
    if settings.rankings is None and settings.estimator == "gagar":
        raise UsageError("--rankings is missing", "`gagar grade` makes them; --estimator dr-grpo needs none")
    if settings.rankings == "-" and "-" in settings.dumps:
        raise UsageError("the dump and --rankings are both `-`", "only one of them can come from stdin")
    if settings.output != "-" and not settings.output.lower().endswith(OUTPUT_SUFFIXES):
        expected = f"expected {', '.join(OUTPUT_SUFFIXES)} or -"
        raise UsageError(f"-o is {show_path(settings.output)}, {expected}")
    refuse_existing(settings.output, overwrite=settings.overwrite)
    return read_tier_table(settings.tiers)


def _added_columns(columns: Columns, judged: Judged, ranked: RankedIndex) -> pl.DataFrame:
    """The new columns, one row a trajectory, null where there is no value."""
    rows = ranked.trajectories
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


def _write(
    settings: RedistributeSettings, dump: Dump, ranked: RankedIndex, added: pl.DataFrame
) -> tuple[str, ...]:
    """Write the output; the columns of the dump that it has with new values come back."""
    if settings.full_copy:
        return write_full_copy(settings.output, dump, settings.dumps, added[ranked.trajectory_of_row])
    keys = dump.index[ranked.primary_rows]
    sidecar = pl.concat((keys.select("step", "group_id", "trajectory_id"), added), how="horizontal")
    if keys["advantage"].null_count() < keys.height:
        sidecar = sidecar.with_columns(keys["advantage"].alias("advantage_input"))
    write_frame(settings.output, sidecar)
    return ()


def _expected_losses(
    index: pl.DataFrame, ranked: RankedIndex, columns: Columns
) -> tuple[Losses, Losses | None]:
    sequence_mean = Losses(sequence_mean_loss(columns.base), sequence_mean_loss(columns.advantage))
    tokens = index["n_output_tokens"].cast(pl.Float64).fill_null(float("nan")).to_numpy()
    n_tokens = np.bincount(
        ranked.trajectory_of_row, weights=tokens, minlength=len(ranked.primary_rows)
    ).astype(np.float64)
    is_valid = ranked.trajectories.is_valid
    if not is_valid.any() or np.isnan(n_tokens[is_valid]).any():
        return sequence_mean, None
    return sequence_mean, Losses(
        token_mean_loss(columns.base, n_tokens), token_mean_loss(columns.advantage, n_tokens)
    )
