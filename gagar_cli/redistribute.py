"""Redistribution: a dump and its rankings in, new advantages out, with a table of what was and was not changed.

Reads the scalar index only, whatever the dump's size. A sidecar has one row a trajectory; a full copy has the dump's
own rows, the segments of a trajectory sharing its values. `advantage` of the dump itself is never used.
"""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import polars as pl

from gagar_cli.core.estimators import METHODS
from gagar_cli.core.integrity_action import ViolationActs
from gagar_cli.core.judging import GRADINGS, Judged, Trajectories, judge_groups
from gagar_cli.core.method_options import shown_options
from gagar_cli.core.redistribution import Redistribution, redistribute
from gagar_cli.core.schema import GroupKey
from gagar_cli.core.text import escape_untrusted, shorten
from gagar_cli.grading_reading import compared_reading
from gagar_cli.io.dump import Dump, ReadOptions, open_dump
from gagar_cli.io.ranked_columns import read_plain_rankings
from gagar_cli.io.ranked_index import RankedIndex, lay_rankings
from gagar_cli.io.rankings import read_rankings
from gagar_cli.io.records import METHOD_FIELDS
from gagar_cli.io.streams import show_path
from gagar_cli.progress import ProgressCallback, heard, no_progress
from gagar_cli.redistribution_columns import expected_losses
from gagar_cli.redistribution_inputs import Inputs, read_inputs, wanted_columns
from gagar_cli.redistribution_output import Outcome, write_rows
from gagar_cli.redistribution_settings import DEFAULT_TIERS, Plan, RedistributeSettings, check_settings
from gagar_cli.redistribution_summary import RedistributeResult, Sampling

__all__ = ["RedistributeSettings", "run"]

_N_PHASES = 4
_N_THREADS = 2
"""The arithmetic is short steps on arrays, which more threads than these only hand to and fro."""
_MAX_LISTED_GROUPS = 3


def run(settings: RedistributeSettings, progress: ProgressCallback = no_progress) -> RedistributeResult:
    """Read, redistribute, write; the output appears whole or not at all.

    Raises:
        UsageError: settings that exclude each other, or name what does not exist.
        InputError: bad data in the dump, the rankings or the tier table.
        OutputError: the output exists or cannot be written.
    """
    plan = check_settings(settings)
    wanted = wanted_columns(settings.method, settings.factor_column, plan.condition, plan.factor)
    progress(0, _N_PHASES, "reading the dump")
    with open_dump(settings.dumps, _index_only(settings, wanted), progress=heard(progress)) as dump:
        progress(1, _N_PHASES, "reading the rankings")
        rankings = read_rankings(settings.rankings, progress=heard(progress)) if settings.rankings else ()
        acts = ViolationActs(settings.integrity_action)
        shown = show_path(settings.rankings or "")
        with compared_reading(dump, settings.rankings, settings.read):
            plain = read_plain_rankings(settings.rankings)
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
            from gagar_cli.io.list_columns import read_turns

            turns = read_turns(dump, ranked, settings.read.fields)
            inputs = inputs._replace(extras=replace(inputs.extras, turns=turns.turns))
        is_mix_needed = "factors" in METHODS[settings.method].needs
        rows = inputs.trajectories
        judged = judge_groups(rows, ranked.verdicts, inputs.basis, is_mix_needed=is_mix_needed)
        with ThreadPoolExecutor(_N_THREADS) as pool:
            made = redistribute(
                rows,
                judged,
                plan.table,
                settings.method,
                plan.options,
                extras=inputs.extras,
                is_sampled=settings.dynamic_sampling,
                is_checked=settings.check,
                run=pool.map,
            )
        progress(3, _N_PHASES, "writing")
        replaced = write_rows(settings, dump, Outcome(ranked, rows, judged, made, turns), progress)
        result = replace(
            _summarise(settings, plan, dump, ranked, inputs, judged, made),
            replaced_columns=replaced,
            n_integrity_violations=acts.n_violations,
        )
    progress(4, _N_PHASES, "done")
    return result


def _index_only(settings: RedistributeSettings, wanted: tuple[str, ...]) -> ReadOptions:
    lists = METHOD_FIELDS if "turns" in METHODS[settings.method].needs else ()
    masks = () if settings.per_token is None else (settings.per_token,)
    return replace(settings.read, extras=wanted, lists=(*lists, *masks), is_index_only=True)


def _summarise(
    settings: RedistributeSettings,
    plan: Plan,
    dump: Dump,
    ranked: RankedIndex,
    inputs: Inputs,
    judged: Judged,
    made: Redistribution,
) -> RedistributeResult:
    rows = inputs.trajectories
    sequence_mean, token_mean = expected_losses(dump.column("n_output_tokens"), ranked, made.columns)
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
        tiers=settings.tiers or DEFAULT_TIERS,
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
        n_left=judged.left,
        n_integrity_violations=int(rows.is_violation.sum()),
        integrity_action=settings.integrity_action,
        n_unknown_groups=ranked.n_unknown_groups,
        n_superseded=ranked.n_superseded,
        n_overridden=ranked.n_overridden,
        effects=made.effects,
        paper_effects=made.paper_effects,
        n_broken_groups=len(broken) if settings.check else None,
        breaches=tuple(f"group {_group_name(dump, code)}: {details}" for code, details in listed),
        sequence_mean=sequence_mean,
        token_mean=token_mean,
        n_unread_rewards=_count_unread(judged, rows) if settings.method == "recode" else 0,
    )


def _count_unread(judged: Judged, rows: Trajectories) -> int:
    """Rewards that are not 1 for a pass and 0 for a failure."""
    return int((rows.is_valid & (judged.reward != judged.is_passed)).sum())


def _group_name(dump: Dump, code: int) -> str:
    apart = dump.rows_apart
    rows = dump.index.filter(pl.col("group") == code) if apart is None else apart.groups[code]
    step, group_id = rows.select("step", "group_id").row(0)
    return f'"{shorten(escape_untrusted(str(GroupKey(step, group_id)), keep_newlines=False), 80)}"'
