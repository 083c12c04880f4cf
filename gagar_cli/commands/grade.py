"""`gagar grade`: flags to settings, one call, print the result."""

from dataclasses import replace
from typing import TYPE_CHECKING

import typer

from gagar_cli import grade as use_case
from gagar_cli.commands import grade_options as opts
from gagar_cli.commands.endpoint_options import (
    ApiKeyEnv,
    BaseUrl,
    CallAttempts,
    CallSeconds,
    ExtraBody,
    Headers,
    MaxContextTokens,
    MaxOutputTokens,
    ModelSeed,
    Protocol,
    Temperature,
    endpoint_settings,
)
from gagar_cli.commands.follow_options import (
    Follow,
    GroupSize,
    IdleSeconds,
    QuietSeconds,
    RegradeLate,
    follow_options,
)
from gagar_cli.commands.grading_gates import refuse_shortfalls, shortfalls
from gagar_cli.commands.options import (
    DumpFormat,
    Dumps,
    Environment,
    Explode,
    Fields,
    GroupBy,
    JoinFiles,
    Json,
    MinGraded,
    OnBadRecord,
    Overwrite,
    PassThreshold,
    Pull,
    Quiet,
    Runtime,
    Sandbox,
    SandboxImage,
    read_options,
)
from gagar_cli.commands.rules_options import (
    Integrity,
    IntegrityVotes,
    Mode,
    Repeats,
    RepeatShare,
    RubricFile,
    rules,
)
from gagar_cli.console import progress_bar, write_note, write_summary
from gagar_cli.errors import UsageError
from gagar_cli.grader.endpoint import OFFLINE_MODEL
from gagar_cli.grader.loop import GroupLimits
from gagar_cli.grading_summary import GradeResult
from gagar_cli.progress import ProgressCallback
from gagar_cli.sandbox.base import SandboxLimits
from gagar_cli.tables_grading import estimate_table, grade_table

if TYPE_CHECKING:
    from gagar_cli.grade_following import FollowOptions

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def grade(
    dumps: Dumps,
    output: opts.Output,
    model: opts.GraderModel = None,
    base_url: BaseUrl = None,
    api_key_env: ApiKeyEnv = "OPENAI_API_KEY",
    protocol: Protocol = "auto",
    temperature: Temperature = None,
    model_seed: ModelSeed = None,
    max_output_tokens: MaxOutputTokens = None,
    max_context_tokens: MaxContextTokens = 120_000,
    extra_body: ExtraBody = None,
    headers: Headers = None,
    call_seconds: CallSeconds = 600.0,
    call_attempts: CallAttempts = 6,
    max_turns: opts.MaxTurns = 40,
    max_group_tokens: opts.MaxGroupTokens = 2_000_000,
    max_group_seconds: opts.MaxGroupSeconds = 1800.0,
    concurrency: opts.Concurrency = 8,
    repos: opts.Repos = None,
    sandbox: Sandbox = "auto",
    sandbox_image: SandboxImage = None,
    runtime: Runtime = None,
    pull: Pull = False,
    environment: Environment = None,
    sandbox_memory: opts.SandboxMemory = 2.0,
    sandbox_cpus: opts.SandboxCpus = 1.0,
    check_seconds: opts.CheckSeconds = 300.0,
    seed: opts.Seed = 0,
    mode: Mode = "agentic",
    rubric: RubricFile = None,
    repeats: Repeats = 1,
    repeat_share: RepeatShare = 1.0,
    integrity: Integrity = "mixed",
    integrity_votes: IntegrityVotes = 2,
    limit: opts.Limit = None,
    eligible: opts.Eligible = None,
    shard: opts.ShardOption = None,
    max_tokens_total: opts.MaxTokensTotal = None,
    max_cost: opts.MaxCost = None,
    price_in: opts.PriceIn = None,
    price_out: opts.PriceOut = None,
    price_cached: opts.PriceCached = None,
    price_file: opts.PriceFile = None,
    dry_run: opts.DryRun = False,
    follow: Follow = False,
    group_size: GroupSize = None,
    quiet_seconds: QuietSeconds = None,
    idle_seconds: IdleSeconds = None,
    regrade_late: RegradeLate = False,
    ledger: opts.LedgerPath = None,
    max_ungraded: opts.MaxUngraded = None,
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
    """Rank the passing attempts of every group by quality.

    A stopped run goes on where it was: repeat the command.

    Examples:
      gagar grade rollouts.jsonl -o rankings.jsonl --model offline

      gagar grade rollouts.parquet -o rankings.jsonl --base-url http://127.0.0.1:8000/v1 --model my-model --repos repos/
    """
    if as_json and output == "-":
        raise UsageError("--json and `-o -` both want stdout", "leave one of them out")
    asked = opts.asked_model(model, dry_run=dry_run)
    settings = use_case.GradeSettings(
        dumps=tuple(dumps),
        output=output,
        endpoint=endpoint_settings(
            # A dry run asks nobody: where the endpoint is and its key are not looked at.
            model=OFFLINE_MODEL if dry_run else asked,
            base_url=None if dry_run else base_url,
            api_key_env=api_key_env,
            protocol=protocol,
            temperature=temperature,
            model_seed=model_seed,
            max_output_tokens=max_output_tokens,
            extra_body=extra_body,
            headers=headers,
            call_seconds=call_seconds,
            call_attempts=call_attempts,
            concurrency=concurrency,
        ),
        read=read_options(
            fields,
            explode,
            group_by,
            pass_threshold=pass_threshold,
            on_bad_record=on_bad_record,
            dump_format=dump_format,
            joins=joins,
        ),
        limits=GroupLimits(
            max_turns=max_turns,
            max_tokens=max_group_tokens,
            max_seconds=max_group_seconds,
            max_context_tokens=max_context_tokens,
        ),
        rules=rules(
            mode=mode,
            rubric=rubric,
            repeat_share=repeat_share,
            repeats=repeats,
            integrity=integrity,
            integrity_votes=integrity_votes,
        ),
        ledger=ledger,
        concurrency=concurrency,
        seed=seed,
        repos=repos,
        sandbox=sandbox,
        sandbox_image=sandbox_image,
        runtime=runtime,
        pull=pull,
        environment=environment,
        sandbox_limits=SandboxLimits(memory_bytes=int(sandbox_memory * 1024**3), cpus=sandbox_cpus),
        check_seconds=check_seconds,
        max_groups=limit,
        eligible=eligible,
        shard=shard,
        budget=opts.budget(max_tokens_total, max_cost),
        prices=opts.prices(
            asked,
            price_in=price_in,
            price_out=price_out,
            price_cached=price_cached,
            price_file=price_file,
        ),
        overwrite=overwrite,
    )
    following = follow_options(
        follow=follow,
        group_size=group_size,
        quiet_seconds=quiet_seconds,
        idle_seconds=idle_seconds,
        regrade_late=regrade_late,
    )
    if dry_run and following is not None:
        raise UsageError(
            "--dry-run looks at a whole dump, and --follow at one that grows", "leave one of them out"
        )
    if dry_run:
        settings = replace(settings, endpoint=replace(settings.endpoint, model=asked))
        _tell_estimate(settings, as_json=as_json, quiet=quiet)
        return
    try:
        with progress_bar("grading", quiet=quiet) as progress:
            result = _run(settings, following, progress)
    except (KeyboardInterrupt, SystemExit):
        if settings.ledger_path is not None:
            write_note("interrupted: groups that were done are kept, the same command goes on")
        raise
    for note in (*result.notes, *shortfalls(result)):
        write_note(f"note: {note}", quiet=quiet)
    write_summary(
        grade_table(result), result.to_record(), as_json=as_json, to_stderr=output == "-", quiet=quiet
    )
    refuse_shortfalls(result, max_ungraded, min_graded)


def _run(
    settings: use_case.GradeSettings, following: "FollowOptions | None", progress: ProgressCallback
) -> GradeResult:
    if following is None:
        return use_case.run(settings, progress)
    from gagar_cli import grade_following

    return grade_following.run(settings, following, progress)


def _tell_estimate(settings: use_case.GradeSettings, *, as_json: bool, quiet: bool) -> None:
    from gagar_cli.grading_estimate import estimate

    found = estimate(settings)
    for note in found.notes:
        write_note(f"note: {note}", quiet=quiet)
    write_summary(estimate_table(found), found.to_record(), as_json=as_json, to_stderr=False, quiet=quiet)
