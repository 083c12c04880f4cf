"""Redistribution: a dump and its rankings in, new advantages out, with a table of what was and was not changed.

Reads the scalar index only, whatever the dump's size. A sidecar has one row a trajectory; a full copy has the dump's
own rows, the segments of a trajectory sharing its values. `advantage` of the dump itself is never used.
"""

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import polars as pl

from gagar_cli.core.caps import Cap
from gagar_cli.core.conditions import Condition, parse_condition
from gagar_cli.core.estimators import METHODS, Options
from gagar_cli.core.expressions import parse_expression
from gagar_cli.core.integrity_action import IntegrityAction, ViolationActs
from gagar_cli.core.judging import GRADINGS, Judged, judge_groups
from gagar_cli.core.method_options import SettledCap, read_options, settle_cap, shown_options
from gagar_cli.core.redistribution import Redistribution, redistribute
from gagar_cli.core.schema import GroupKey
from gagar_cli.core.text import escape_untrusted, shorten
from gagar_cli.core.tier_tables import TierTable
from gagar_cli.errors import UsageError
from gagar_cli.io.dump import Dump, ReadOptions, open_dump
from gagar_cli.io.full_copy import write_full_copy
from gagar_cli.io.list_columns import TurnRows, read_turns
from gagar_cli.io.ranked_columns import read_plain_rankings
from gagar_cli.io.ranked_index import RankedIndex, lay_rankings
from gagar_cli.io.rankings import read_rankings
from gagar_cli.io.streams import show_path
from gagar_cli.io.tier_tables import read_tier_table
from gagar_cli.io.writers import refuse_existing, write_frame
from gagar_cli.progress import ProgressCallback, no_progress
from gagar_cli.redistribution_columns import added_columns, expected_losses
from gagar_cli.redistribution_inputs import Factor, Inputs, read_inputs, wanted_columns
from gagar_cli.redistribution_lists import write_by_token, write_by_turn
from gagar_cli.redistribution_summary import RedistributeResult, Sampling

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
    cap: Cap | None = None
    """None: what the tier table says, else `bounded`."""
    limit: float | None = None
    """What the cap bounds: λ for `paper` and `pass-recentre`, the amplification of a pass for the others. None: what the
    tier table says, else 1.5."""
    like: str | None = None
    """A trainer whose defaults `grpo` takes."""
    assignments: tuple[str, ...] = ()
    """`NAME=VALUE` for options of the method."""
    tiers: str = "flash"
    """A built-in tier table, or the path of one in TOML."""
    factor_column: str | None = None
    """A column of penalties in (0, 1], alone or multiplied with the tier factors."""
    factor: str | None = None
    """An expression on columns for the same, in place of a column."""
    eligible: str | None = None
    """A condition on columns; rows outside get the method's base."""
    integrity_action: IntegrityAction = "zero"
    """What a confirmed integrity violation costs: its reward, its tier, or nothing."""
    dynamic_sampling: bool = False
    """Groups without both passes and failures get no advantage."""
    check: bool = False
    """Look for groups that break an invariant."""
    full_copy: bool = False
    per_turn: bool = False
    """One row a turn, for methods that look at every turn."""
    per_token: str | None = None
    """A column of masks: one advantage a token, 0 where the mask is 0."""
    overwrite: bool = False


def run(settings: RedistributeSettings, progress: ProgressCallback = no_progress) -> RedistributeResult:
    """Read, redistribute, write; the output appears whole or not at all.

    Raises:
        UsageError: settings that exclude each other, or name what does not exist.
        InputError: bad data in the dump, the rankings or the tier table.
        OutputError: the output exists or cannot be written.
    """
    plan = _check(settings)
    wanted = wanted_columns(settings.method, settings.factor_column, plan.condition, plan.factor)
    progress(0, _N_PHASES, "reading the dump")
    with open_dump(settings.dumps, _index_only(settings, wanted)) as dump:
        progress(1, _N_PHASES, "reading the rankings")
        rankings = read_rankings(settings.rankings) if settings.rankings else ()
        acts = ViolationActs(settings.integrity_action)
        plain = read_plain_rankings(settings.rankings)
        shown = show_path(settings.rankings or "")
        ranked = lay_rankings(dump, acts.act(rankings), shown, plain=plain)
        progress(2, _N_PHASES, "redistributing")
        inputs = read_inputs(
            dump,
            ranked,
            settings.method,
            has_rankings=settings.rankings is not None,
            factor_column=settings.factor_column,
            condition=plan.condition,
            factor=plan.factor,
        )
        turns = None
        if "turns" in METHODS[settings.method].needs:
            turns = read_turns(dump, ranked, settings.read.fields)
            inputs = inputs._replace(extras=replace(inputs.extras, turns=turns.turns))
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
        if settings.per_turn or settings.per_token:
            replaced = _write_lists(settings, dump, ranked, made, turns)
        else:
            replaced = _write(settings, dump, ranked, added_columns(made.columns, judged, rows), progress)
        result = replace(
            _summarise(settings, plan, dump, ranked, inputs, judged, made),
            replaced_columns=replaced,
            n_integrity_violations=acts.n_violations,
        )
    progress(4, _N_PHASES, "done")
    return result


def _index_only(settings: RedistributeSettings, wanted: tuple[str, ...]) -> ReadOptions:
    return replace(settings.read, extras=wanted, is_index_only=True, keep_raw=settings.full_copy)


class _Plan(NamedTuple):
    """Settings that were read and found right."""

    table: TierTable
    options: Options
    cap: SettledCap
    condition: Condition | None
    factor: Factor | None


def _check(settings: RedistributeSettings) -> _Plan:
    """What the settings stand for, after everything was refused that can be before a dump is read."""
    table = read_tier_table(settings.tiers)
    settled = settle_cap(table, cap=settings.cap, limit=settings.limit)
    options = read_options(
        settings.method,
        cap=settled.cap,
        limit=settled.limit,
        preset=settings.like,
        assignments=settings.assignments,
    )
    needs = METHODS[settings.method].needs
    is_penalised = settings.factor_column is not None or settings.factor is not None
    if settings.rankings is None and "factors" in needs and not is_penalised:
        raise UsageError(
            "--rankings is missing",
            "`gagar grade` makes them; --factor-column and --factor need none, nor does --method dr-grpo",
        )
    if settings.rankings is None and "order" in needs:
        raise UsageError("--rankings is missing", "`gagar grade` makes them; --method grpo needs none")
    if settings.factor_column is not None and settings.factor is not None:
        raise UsageError(
            "--factor-column and --factor exclude each other", "--factor 'NAME * …' uses a column too"
        )
    if is_penalised and "factors" not in needs:
        flag = "--factor" if settings.factor_column is None else "--factor-column"
        raise UsageError(
            f"{flag} is not for --method {settings.method}", "gagar, gagar-reward and downweight use factors"
        )
    _check_lists(settings)
    if settings.rankings == "-" and "-" in settings.dumps:
        raise UsageError("the dump and --rankings are both `-`", "only one of them can come from stdin")
    if settings.output != "-" and not settings.output.lower().endswith(OUTPUT_SUFFIXES):
        expected = f"expected {', '.join(OUTPUT_SUFFIXES)} or -"
        raise UsageError(f"-o is {show_path(settings.output)}, {expected}")
    condition = parse_condition(settings.eligible, "--eligible") if settings.eligible is not None else None
    factor = None
    if settings.factor is not None:
        factor = Factor(settings.factor, parse_expression(settings.factor, "--factor"))
    refuse_existing(settings.output, overwrite=settings.overwrite)
    return _Plan(table, options, settled, condition, factor)


def _check_lists(settings: RedistributeSettings) -> None:
    if settings.per_turn and "turns" not in METHODS[settings.method].needs:
        raise UsageError(
            f"--per-turn is not for --method {settings.method}", "gigpo and graphgpo look at every turn"
        )
    if settings.per_turn and settings.per_token:
        raise UsageError("--per-turn and --per-token exclude each other", "one run for each")
    if settings.full_copy and (settings.per_turn or settings.per_token):
        flag = "--per-turn" if settings.per_turn else "--per-token"
        raise UsageError(f"{flag} and --full-copy exclude each other", f"{flag} writes a sidecar")


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
    sequence_mean, token_mean = expected_losses(dump.index, ranked, made.columns)
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
        cap=plan.cap,
        tiers=settings.tiers,
        factor_column=settings.factor_column,
        factor=settings.factor,
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
        integrity_action=settings.integrity_action,
        n_unknown_groups=ranked.n_unknown_groups,
        n_superseded=ranked.n_superseded,
        n_overridden=ranked.n_overridden,
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


def _write(
    settings: RedistributeSettings,
    dump: Dump,
    ranked: RankedIndex,
    added: pl.DataFrame,
    progress: ProgressCallback,
) -> tuple[str, ...]:
    """Write the output; the columns of the dump that it has with new values come back."""
    if settings.full_copy:
        of_rows = added[ranked.trajectory_of_row]
        return write_full_copy(settings.output, dump, settings.dumps, of_rows, report=progress)
    keys = dump.index[ranked.primary_rows]
    sidecar = pl.concat((keys.select("step", "group_id", "trajectory_id"), added), how="horizontal")
    if keys["advantage"].null_count() < keys.height:
        sidecar = sidecar.with_columns(keys["advantage"].alias("advantage_input"))
    write_frame(settings.output, sidecar)
    return ()


def _write_lists(
    settings: RedistributeSettings,
    dump: Dump,
    ranked: RankedIndex,
    made: Redistribution,
    turns: TurnRows | None,
) -> tuple[str, ...]:
    """Write one row a turn, or one list a record; no column of the dump is replaced."""
    if settings.per_turn and turns is not None:
        write_by_turn(settings.output, dump, ranked, made, turns)
    elif settings.per_token:
        write_by_token(settings.output, dump, ranked, made, mask_column=settings.per_token, rows=turns)
    return ()
