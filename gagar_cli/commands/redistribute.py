"""`gagar redistribute`: flags to settings, one call, print the invariants."""

from typing import Annotated, Literal

import typer

from gagar_cli import redistribute as use_case
from gagar_cli.commands.options import (
    DumpFormat,
    Dumps,
    Explode,
    Fields,
    GroupBy,
    JoinFiles,
    Json,
    MinGraded,
    OnBadRecord,
    Overwrite,
    PassThreshold,
    Quiet,
    read_options,
)
from gagar_cli.console import progress_bar, write_note, write_summary
from gagar_cli.core.estimators import METHODS
from gagar_cli.core.integrity_action import IntegrityAction
from gagar_cli.core.text import counted
from gagar_cli.errors import GagarError, GateError, UsageError
from gagar_cli.redistribution_summary import RedistributeResult
from gagar_cli.tables_redistribution import redistribute_table

app = typer.Typer(rich_markup_mode=None, add_completion=False)
_REWARDS_HINT = (
    "failures keep what their `reward` gives them: where it is near that of a pass, a `--limit` nearer to 1 moves less; "
    "where it is at odds with `resolved`, no cap mends that"
)
_CHECK_HINT = (
    "--method gagar with --cap bounded keeps sums, failures and order; the paper's cap and most other methods do not, "
    "by design"
)


@app.command()
def redistribute(
    dumps: Dumps,
    output: Annotated[
        str,
        typer.Option("--output", "-o", help="advantages: .parquet, .jsonl (.gz, .zst), or - for stdout"),
    ],
    rankings: Annotated[
        str | None,
        typer.Option("--rankings", metavar="FILE", help="what `gagar grade` made, or - for stdin"),
    ] = None,
    method: Annotated[
        Literal[
            "gagar",
            "gagar-reward",
            "downweight",
            "dr-grpo",
            "grpo",
            "rloo",
            "recode",
            "papo",
            "edas",
            "ranking-reward",
            "gigpo",
            "graphgpo",
        ],
        typer.Option("--method", help="how advantages are made"),
    ] = "gagar",
    cap: Annotated[
        Literal["bounded", "none", "paper", "waterfill", "temper", "pass-recentre"] | None,
        typer.Option("--cap", help="what bounds amplification  [default: bounded, which is not the paper's]"),
    ] = None,
    limit: Annotated[
        float | None,
        typer.Option(
            "--limit", help="largest amplification, or largest λ of the paper's cap  [default: 1.5]"
        ),
    ] = None,
    tiers: Annotated[
        str | None,
        typer.Option("--tiers", metavar="NAME|FILE", help="tier table, built in or TOML  [default: flash]"),
    ] = None,
    paper: Annotated[bool, typer.Option("--paper", help="as published: --cap paper --tiers flash")] = False,
    like: Annotated[
        Literal["verl", "trl", "nemo"] | None,
        typer.Option("--like", help="the trainer whose defaults --method grpo takes  [default: verl]"),
    ] = None,
    assignments: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="an option of the method, for example alpha=0.4"),
    ] = None,
    factor_column: Annotated[
        str | None,
        typer.Option(
            "--factor-column",
            metavar="NAME",
            help="penalties in (0, 1] of passing attempts, alone or times the tier factors",
        ),
    ] = None,
    factor: Annotated[
        str | None,
        typer.Option(
            "--factor",
            metavar="EXPR",
            help="the same from columns, for example 'exp(-n_output_tokens/20000)'",
        ),
    ] = None,
    eligible: Annotated[
        str | None,
        typer.Option(
            "--eligible",
            metavar="EXPR",
            help="move only rows for which this holds, for example 'task_type == \"code\"'",
        ),
    ] = None,
    integrity_action: Annotated[
        IntegrityAction,
        typer.Option(
            "--integrity-action",
            help="what a confirmed violation gets: a failure's reward, T3, or no change",
        ),
    ] = "zero",
    dynamic_sampling: Annotated[
        bool,
        typer.Option("--dynamic-sampling", help="no advantage for groups without both passes and failures"),
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help="exit 4 if a group breaks an invariant, naming the first ones")
    ] = False,
    full_copy: Annotated[
        bool, typer.Option("--full-copy", help="write the whole dump with the columns added, not a sidecar")
    ] = False,
    per_turn: Annotated[
        bool, typer.Option("--per-turn", help="write one row a turn, for gigpo and graphgpo")
    ] = False,
    per_token: Annotated[
        str | None,
        typer.Option(
            "--per-token",
            metavar="MASK_COLUMN",
            help="write one advantage a token, 0 where this column's list is 0",
        ),
    ] = None,
    max_ungraded: Annotated[
        float | None,
        typer.Option("--max-ungraded", min=0, max=1, help="exit 4 above this share of ungraded groups"),
    ] = None,
    min_graded: MinGraded = None,
    fields: Fields = None,
    explode: Explode = None,
    group_by: GroupBy = None,
    dump_format: DumpFormat = None,
    joins: JoinFiles = None,
    pass_threshold: PassThreshold = 1.0,
    on_bad_record: OnBadRecord = "fail",
    overwrite: Overwrite = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Move advantage from worse passing attempts to better ones.

    The total of the passing attempts and every failing attempt stay what they were.

    Examples:
      gagar redistribute rollouts.jsonl --rankings rankings.jsonl -o advantages.parquet

      gagar grade rollouts.jsonl --model offline -o - | gagar redistribute rollouts.jsonl --rankings - -o -
    """
    if as_json and output == "-":
        raise UsageError("--json and `-o -` both want stdout", "leave one of them out")
    if paper and (cap not in (None, "paper") or tiers not in (None, "flash")):
        raise UsageError("--paper contradicts --cap or --tiers", "it stands for `--cap paper --tiers flash`")
    if (paper or cap) and not method.startswith("gagar"):
        raise UsageError(
            f"--cap and --paper are not for --method {method}", "gagar and gagar-reward are capped"
        )
    if not (rankings and {"factors", "order", "process_score"} & set(METHODS[method].needs)):
        _refuse_gates(method, max_ungraded, min_graded, has_rankings=rankings is not None)
    settings = use_case.RedistributeSettings(
        dumps=tuple(dumps),
        rankings=rankings,
        output=output,
        read=read_options(
            fields,
            explode,
            group_by,
            pass_threshold=pass_threshold,
            on_bad_record=on_bad_record,
            dump_format=dump_format,
            joins=joins,
        ),
        method=method,
        cap="paper" if paper else cap,
        limit=limit,
        like=like,
        assignments=tuple(assignments or ()),
        tiers=tiers,
        factor_column=factor_column,
        factor=factor,
        eligible=eligible,
        integrity_action=integrity_action,
        dynamic_sampling=dynamic_sampling,
        check=check,
        full_copy=full_copy,
        per_turn=per_turn,
        per_token=per_token,
        overwrite=overwrite,
    )
    if full_copy and output.endswith((".gz", ".zst")):
        write_note(
            "note: compressing the whole copy takes most of the time: a sidecar needs none", quiet=quiet
        )
    with progress_bar("redistributing", quiet=quiet) as progress:
        result = use_case.run(settings, progress)
    for note in (*result.report.notes, *result.shortfalls):
        write_note(f"note: {note}", quiet=quiet)
    table = None if as_json else redistribute_table(result)
    write_summary(table, result.to_record(), as_json=as_json, to_stderr=output == "-", quiet=quiet)
    if result.n_broken_groups:
        where = f"{result.n_broken_groups:,} of {counted(sum(result.n_groups.values()), 'group')}"
        listed = "\n".join(result.breaches)
        is_exact = method == "dr-grpo" or (method == "gagar" and result.cap.cap != "paper")
        hint = _REWARDS_HINT if is_exact else _CHECK_HINT
        raise GateError(f"--check: an invariant is broken in {where}\n{listed}", hint)
    if result.basis == "rankings" or min_graded is not None:
        _check_grading(result, max_ungraded, min_graded)


def _refuse_gates(
    method: str, max_ungraded: float | None, min_graded: int | None, *, has_rankings: bool
) -> None:
    """Gates on grading where there is none to look at."""
    for flag, value in (("--max-ungraded", max_ungraded), ("--min-graded", min_graded)):
        if value is not None:
            why = f"--method {method} reads no rankings" if has_rankings else "there are no --rankings"
            raise UsageError(f"{flag} counts groups that rankings move, and {why}", f"leave {flag} out")


def _check_grading(result: RedistributeResult, max_ungraded: float | None, min_graded: int | None) -> None:
    """Tell by the exit code where grading did not reach what it should; the output stands."""
    rate = result.ungraded_rate
    if min_graded is not None:
        # It brings the grader with it, which a redistribution has no other use for.
        from gagar_cli.commands.grading_gates import refuse_too_few

        refuse_too_few(result.n_groups["graded"], min_graded)
    if max_ungraded is not None and rate is not None and rate > max_ungraded:
        raise GateError(f"{rate:.1%} of the groups are ungraded, more than --max-ungraded {max_ungraded:.1%}")
    if rate == 1.0:
        raise GagarError("groups were eligible and none was graded", "the reasons are in the summary")
