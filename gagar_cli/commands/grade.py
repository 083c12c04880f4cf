"""`gagar grade`: flags to settings, one call, print the result."""

from typing import Annotated

import typer

from gagar_cli import grade as use_case
from gagar_cli.commands.endpoint_options import (
    ApiKeyEnv,
    BaseUrl,
    CallAttempts,
    CallSeconds,
    ExtraBody,
    Headers,
    MaxOutputTokens,
    Model,
    ModelSeed,
    Temperature,
    endpoint_settings,
)
from gagar_cli.commands.options import (
    Dumps,
    Environment,
    Explode,
    Fields,
    GroupBy,
    Json,
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
from gagar_cli.console import progress_bar, write_note, write_summary
from gagar_cli.errors import GagarError, GateError, UsageError
from gagar_cli.grader.loop import GroupLimits
from gagar_cli.sandbox.base import SandboxLimits
from gagar_cli.tables import grade_table

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def grade(
    dumps: Dumps,
    output: Annotated[
        str, typer.Option("--output", "-o", help="rankings: .jsonl (resumable), .parquet, or - for stdout")
    ],
    model: Model,
    base_url: BaseUrl = None,
    api_key_env: ApiKeyEnv = "OPENAI_API_KEY",
    temperature: Temperature = None,
    model_seed: ModelSeed = None,
    max_output_tokens: MaxOutputTokens = None,
    extra_body: ExtraBody = None,
    headers: Headers = None,
    call_seconds: CallSeconds = 600.0,
    call_attempts: CallAttempts = 6,
    max_turns: Annotated[int, typer.Option("--max-turns", min=1, help="replies a group")] = 40,
    max_group_tokens: Annotated[
        int, typer.Option("--max-group-tokens", min=1, help="input and output tokens a group")
    ] = 2_000_000,
    max_group_seconds: Annotated[
        float, typer.Option("--max-group-seconds", min=1, help="wall time a group")
    ] = 1800.0,
    concurrency: Annotated[
        int, typer.Option("--concurrency", min=1, max=1024, help="groups graded side by side")
    ] = 8,
    repos: Annotated[
        str | None,
        typer.Option("--repos", metavar="DIR", help="repositories by instance_id or repo@base_commit"),
    ] = None,
    sandbox: Sandbox = "auto",
    sandbox_image: SandboxImage = None,
    runtime: Runtime = None,
    pull: Pull = False,
    environment: Environment = None,
    sandbox_memory: Annotated[
        float, typer.Option("--sandbox-memory", min=0.0625, help="GiB a sandbox")
    ] = 2.0,
    sandbox_cpus: Annotated[
        float, typer.Option("--sandbox-cpus", min=0.01, help="processors a sandbox")
    ] = 1.0,
    check_seconds: Annotated[
        float, typer.Option("--check-seconds", min=1, help="longest command in a sandbox")
    ] = 300.0,
    seed: Annotated[int, typer.Option("--seed", help="of the blind order of candidates")] = 0,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, help="grade at most this many groups")
    ] = None,
    ledger: Annotated[
        str | None, typer.Option("--ledger", help="with -o -: where to keep what is done")
    ] = None,
    max_ungraded: Annotated[
        float | None,
        typer.Option("--max-ungraded", min=0, max=1, help="exit 4 above this share of ungraded groups"),
    ] = None,
    fields: Fields = None,
    explode: Explode = None,
    group_by: GroupBy = None,
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
    settings = use_case.GradeSettings(
        dumps=tuple(dumps),
        output=output,
        endpoint=endpoint_settings(
            model=model,
            base_url=base_url,
            api_key_env=api_key_env,
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
            fields, explode, group_by, pass_threshold=pass_threshold, on_bad_record=on_bad_record
        ),
        limits=GroupLimits(max_turns=max_turns, max_tokens=max_group_tokens, max_seconds=max_group_seconds),
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
        overwrite=overwrite,
    )
    try:
        with progress_bar("grading", quiet=quiet) as progress:
            result = use_case.run(settings, progress)
    except (KeyboardInterrupt, SystemExit):
        if settings.ledger_path is not None:
            write_note("interrupted: groups that were done are kept, the same command goes on")
        raise
    for note in (f"sandbox: {result.sandbox}: {result.sandbox_reason}", *result.notes):
        write_note(f"note: {note}", quiet=quiet)
    write_summary(
        grade_table(result), result.to_record(), as_json=as_json, to_stderr=output == "-", quiet=quiet
    )
    if result.n_ungraded and not result.n_graded:
        raise GagarError(
            f"none of {result.n_ungraded} eligible groups was graded, most often: {result.ungraded_reasons[0]}",
            "the same command tries again those that the endpoint, the sandbox or a budget failed",
        )
    if max_ungraded is not None and result.ungraded_share > max_ungraded:
        raise GateError(
            f"{result.ungraded_share:.1%} of the groups are ungraded, more than --max-ungraded {max_ungraded:.1%}"
        )
