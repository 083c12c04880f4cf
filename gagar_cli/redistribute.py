"""Redistribution: a dump and its rankings in, new advantages out, with a table of what was and was not changed.

Reads the scalar index only, whatever the dump's size. A sidecar has one row a trajectory; a full copy has the dump's
own rows, the segments of a trajectory sharing its values. `advantage` of the dump itself is never used.
"""

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import polars as pl

from gagar_cli.core.caps import PAPER_LIMIT, Cap
from gagar_cli.core.conditions import Condition, parse_condition
from gagar_cli.core.estimators import METHODS, Options
from gagar_cli.core.factors import TierTable
from gagar_cli.core.judging import GRADINGS, Judged, Trajectories, judge_groups
from gagar_cli.core.loss import sequence_mean_loss, token_mean_loss
from gagar_cli.core.method_options import read_options, shown_options
from gagar_cli.core.ranking import TIERS
from gagar_cli.core.redistribution import Columns, Redistribution, redistribute
from gagar_cli.core.schema import GroupKey
from gagar_cli.core.text import escape_untrusted, shorten
from gagar_cli.errors import UsageError
from gagar_cli.io.dump import Dump, ReadOptions, open_dump
from gagar_cli.io.full_copy import write_full_copy
from gagar_cli.io.ranked_index import RankedIndex, lay_rankings
from gagar_cli.io.rankings import read_rankings
from gagar_cli.io.streams import show_path
from gagar_cli.io.tier_tables import read_tier_table
from gagar_cli.io.writers import refuse_existing, write_frame
from gagar_cli.progress import ProgressCallback, no_progress
from gagar_cli.redistribution_inputs import Inputs, read_inputs, wanted_columns
from gagar_cli.redistribution_summary import Losses, RedistributeResult, Sampling

OUTPUT_SUFFIXES = (".parquet", ".pq", ".jsonl", ".jsonl.gz", ".jsonl.zst")
_N_PHASES = 4
_MAX_LISTED_GROUPS = 3


@dataclass(frozen=True, slots=True)
class RedistributeSettings:
    """One run, as the command line gives it."""

    dumps: tuple[str, ...]
    rankings: str | None
    """A rankings file or `-`; None only for a method that can do without."""
    output: str
    """`.parquet`, `.jsonl` (also `.gz`, `.zst`), or `-`."""
    read: ReadOptions = field(default_factory=ReadOptions)
    method: str = "gagar"
    cap: Cap = "bounded"
    limit: float = PAPER_LIMIT
    """What the cap bounds: λ for `paper` and `pass-recentre`, the amplification of a pass for the others."""
    like: str | None = None
    """A trainer whose defaults `grpo` takes."""
    assignments: tuple[str, ...] = ()
    """`NAME=VALUE` for options of the method."""
    tiers: str = "flash"
    """A built-in tier table, or the path of one in TOML."""
    factor_column: str | None = None
    """A column of penalties in (0, 1], alone or multiplied with the tier factors."""
    eligible: str | None = None
    """A condition on columns; rows outside get the method's base."""
    dynamic_sampling: bool = False
    """Groups without both passes and failures get no advantage."""
    check: bool = False
    """Look for groups that break an invariant."""
    full_copy: bool = False
    overwrite: bool = False


def run(settings: RedistributeSettings, progress: ProgressCallback = no_progress) -> RedistributeResult:
    """Read, redistribute, write; the output appears whole or not at all.

    Raises:
        UsageError: settings that exclude each other, or name what does not exist.
        InputError: bad data in the dump, the rankings or the tier table.
        OutputError: the output exists or cannot be written.
    """
    plan = _check(settings)
    wanted = wanted_columns(settings.method, settings.factor_column, plan.condition)
    progress(0, _N_PHASES, "reading the dump")
    with open_dump(settings.dumps, replace(settings.read, extras=wanted)) as dump:
        progress(1, _N_PHASES, "reading the rankings")
        rankings = read_rankings(settings.rankings) if settings.rankings else ()
        ranked = lay_rankings(dump, rankings, show_path(settings.rankings or ""))
        progress(2, _N_PHASES, "redistributing")
        inputs = read_inputs(
            dump,
            ranked,
            settings.method,
            has_rankings=settings.rankings is not None,
            factor_column=settings.factor_column,
            condition=plan.condition,
        )
        is_mix_needed = "factors" in METHODS[settings.method].needs
        rows = inputs.trajectories
        judged = judge_groups(rows, ranked.verdicts, inputs.basis, is_mix_needed=is_mix_needed)
        made = redistribute(
            rows,
            judged,
            plan.table,
            settings.method,
            plan.options,
            extras=inputs.extras,
            is_sampled=settings.dynamic_sampling,
            is_checked=settings.check,
        )
        progress(3, _N_PHASES, "writing")
        added = _added_columns(made.columns, judged, rows)
        replaced = _write(settings, dump, ranked, added)
        result = replace(
            _summarise(settings, plan, dump, ranked, inputs, judged, made), replaced_columns=replaced
        )
    progress(4, _N_PHASES, "done")
    return result


class _Plan(NamedTuple):
    """Settings that were read and found right."""

    table: TierTable
    options: Options
    condition: Condition | None


def _check(settings: RedistributeSettings) -> _Plan:
    """What the settings stand for, after everything was refused that can be before a dump is read."""
    options = read_options(
        settings.method,
        cap=settings.cap,
        limit=settings.limit,
        preset=settings.like,
        assignments=settings.assignments,
    )
    needs = METHODS[settings.method].needs
    if settings.rankings is None and "factors" in needs and settings.factor_column is None:
        raise UsageError(
            "--rankings is missing",
            "`gagar grade` makes them; --factor-column NAME needs none, nor does --method dr-grpo",
        )
    if settings.rankings is None and "order" in needs:
        raise UsageError("--rankings is missing", "`gagar grade` makes them; --method grpo needs none")
    if settings.factor_column is not None and "factors" not in needs:
        raise UsageError(
            f"--factor-column is not for --method {settings.method}",
            "gagar, gagar-reward and downweight use factors",
        )
    if settings.rankings == "-" and "-" in settings.dumps:
        raise UsageError("the dump and --rankings are both `-`", "only one of them can come from stdin")
    if settings.output != "-" and not settings.output.lower().endswith(OUTPUT_SUFFIXES):
        expected = f"expected {', '.join(OUTPUT_SUFFIXES)} or -"
        raise UsageError(f"-o is {show_path(settings.output)}, {expected}")
    condition = parse_condition(settings.eligible, "--eligible") if settings.eligible is not None else None
    refuse_existing(settings.output, overwrite=settings.overwrite)
    return _Plan(read_tier_table(settings.tiers), options, condition)


def _summarise(
    settings: RedistributeSettings,
    plan: _Plan,
    dump: Dump,
    ranked: RankedIndex,
    inputs: Inputs,
    judged: Judged,
    made: Redistribution,
) -> RedistributeResult:
    rows = inputs.trajectories
    sequence_mean, token_mean = _expected_losses(dump.index, ranked, made.columns)
    outlines = judged.n_by_outline
    n_mixed = outlines["eligible"] + outlines["lone_pass"]
    names = ("all_pass", "all_fail", "singleton", "no_valid")
    sampling = Sampling(n_mixed, *(outlines[name] for name in names))
    n_outside = 0 if rows.is_eligible is None else int((~rows.is_eligible).sum())
    broken: dict[int, list[str]] = {}
    for breach in made.breaches:
        broken.setdefault(breach.group, []).append(breach.detail)
    listed = [(code, "; ".join(broken[code])) for code in list(broken)[:_MAX_LISTED_GROUPS]]
    return RedistributeResult(
        output=settings.output,
        method=settings.method,
        basis=inputs.basis,
        options=shown_options(settings.method, plan.options),
        tiers=settings.tiers,
        factor_column=settings.factor_column,
        process_from=inputs.process_from,
        eligible=settings.eligible,
        n_outside=n_outside,
        sampling=sampling if settings.dynamic_sampling else None,
        report=dump.report,
        n_trajectories=len(ranked.primary_rows),
        n_invalid=int((~rows.is_valid).sum()),
        n_groups={name: int((judged.status == code).sum()) for code, name in enumerate(GRADINGS[:3])},
        n_by_reason={
            name: dict(Counter(judged.reason[judged.status == GRADINGS.index(name)].tolist()).most_common())
            for name in ("skipped", "ungraded")
        },
        n_eligible=judged.n_eligible,
        n_integrity_violations=int(rows.is_violation.sum()),
        n_unknown_groups=ranked.n_unknown_groups,
        n_superseded=ranked.n_superseded,
        effects=made.effects,
        paper_effects=made.paper_effects,
        n_broken_groups=len(broken) if settings.check else None,
        breaches=tuple(f"group {_group_name(dump.index, code)}: {details}" for code, details in listed),
        sequence_mean=sequence_mean,
        token_mean=token_mean,
    )


def _group_name(index: pl.DataFrame, code: int) -> str:
    step, group_id = index.filter(pl.col("group") == code).select("step", "group_id").row(0)
    return f'"{shorten(escape_untrusted(str(GroupKey(step, group_id)), keep_newlines=False), 80)}"'


def _added_columns(columns: Columns, judged: Judged, rows: Trajectories) -> pl.DataFrame:
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
