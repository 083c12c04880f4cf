"""`gagar calibrate`: flags to settings, one call, print the result."""

from pathlib import Path
from typing import Annotated, get_args

import typer

from gagar_cli import calibrate as use_case
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
from gagar_cli.commands.options import (
    DumpFormat,
    Dumps,
    Environment,
    Explode,
    Fields,
    GroupBy,
    JoinFiles,
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
from gagar_cli.commands.rules_options import Repeats, RubricFile
from gagar_cli.console import print_result, progress_bar, write_note, write_summary
from gagar_cli.core.rubric import PAPER
from gagar_cli.errors import GagarError, GateError, UsageError
from gagar_cli.grader.loop import GroupLimits
from gagar_cli.grader.rules import GradingRules, Mode
from gagar_cli.group_grading import GroupGraderSettings
from gagar_cli.io.rubrics import read_rubric
from gagar_cli.sandbox.base import SandboxLimits
from gagar_cli.sandbox.select import SandboxRequest
from gagar_cli.tables_calibration import calibration_tables

app = typer.Typer(rich_markup_mode=None, add_completion=False)

MODES: tuple[Mode, ...] = get_args(Mode)


@app.command()
def calibrate(
    dumps: Dumps,
    output: Annotated[str, typer.Option("--output", "-o", metavar="DIR", help="where card and rankings go")],
    models: Annotated[
        list[str],
        typer.Option(
            "--model", metavar="MODEL", help="grader model, repeatable; `offline` is the rule-based one"
        ),
    ],
    modes: Annotated[
        list[str] | None,
        typer.Option("--mode", metavar="|".join(MODES), help="how it grades, repeatable  [default: agentic]"),
    ] = None,
    originals: Annotated[
        int, typer.Option("--originals", min=1, help="passing attempts that are drawn")
    ] = 30,
    flaws_per_group: Annotated[
        int, typer.Option("--flaws-per-group", min=1, max=14, help="flawed copies of each")
    ] = 5,
    rubric: RubricFile = None,
    repeats: Repeats = 1,
    verify: Annotated[
        bool,
        typer.Option("--verify", help="run the task's tests over flawed copies, leave out those that fail"),
    ] = False,
    gates: Annotated[
        list[str] | None,
        typer.Option(
            "--gate",
            metavar="EXPR",
            help="exit 4 where it is not met, for example detection.value>0.8; repeatable",
        ),
    ] = None,
    base_url: BaseUrl = None,
    api_key_env: ApiKeyEnv = "OPENAI_API_KEY",
    protocol: Protocol = "auto",
    temperature: Temperature = None,
    model_seed: ModelSeed = None,
    max_output_tokens: MaxOutputTokens = None,
    extra_body: ExtraBody = None,
    headers: Headers = None,
    call_seconds: CallSeconds = 600.0,
    call_attempts: CallAttempts = 6,
    max_context_tokens: MaxContextTokens = 120_000,
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
    seed: Annotated[
        int, typer.Option("--seed", help="seed of the draw, the planting and the blind order")
    ] = 0,
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
    """Measure a grader on planted flaws and injections, before it touches training.

    Passing attempts of the dump are graded beside flawed copies of themselves. A stopped run goes on: repeat the command.

    Examples:
      gagar calibrate rollouts.jsonl -o calibration/ --model offline

      gagar calibrate rollouts.jsonl -o modes/ --model offline --mode agentic --mode pointwise-static --originals 10
    """
    endpoints = [
        endpoint_settings(
            model=model,
            base_url=base_url,
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
        )
        for model in models
    ]
    request = SandboxRequest(
        sandbox,
        sandbox_image,
        runtime=runtime,
        pull=pull,
        environment=Path(environment) if environment else None,
    )
    settings = use_case.CalibrateSettings(
        dumps=tuple(dumps),
        output=output,
        grader=GroupGraderSettings(
            endpoint=endpoints[0],
            limits=GroupLimits(
                max_turns=max_turns,
                max_tokens=max_group_tokens,
                max_seconds=max_group_seconds,
                max_context_tokens=max_context_tokens,
            ),
            seed=seed,
            repos=repos,
            rules=GradingRules(rubric=read_rubric(rubric) if rubric is not None else PAPER, repeats=repeats),
            sandbox=request,
            sandbox_limits=SandboxLimits(memory_bytes=int(sandbox_memory * 1024**3), cpus=sandbox_cpus),
            check_seconds=check_seconds,
        ),
        models=tuple(endpoints),
        modes=_read_modes(modes or ["agentic"]),
        read=read_options(
            fields,
            explode,
            group_by,
            pass_threshold=pass_threshold,
            on_bad_record=on_bad_record,
            dump_format=dump_format,
            joins=joins,
        ),
        n_originals=originals,
        flaws_per_group=flaws_per_group,
        seed=seed,
        is_verified=verify,
        gates=tuple(gates or ()),
        concurrency=concurrency,
        overwrite=overwrite,
    )
    try:
        with progress_bar("calibrating", quiet=quiet) as progress:
            result = use_case.run(settings, progress)
    except (KeyboardInterrupt, SystemExit):
        write_note("interrupted: groups that were graded are kept, the same command goes on")
        raise
    for note in result.notes:
        write_note(f"note: {note}", quiet=quiet)
    if as_json:
        write_summary(None, result.to_record(), as_json=True)
    else:
        for table in calibration_tables(result):
            print_result(table)
    if all(card.n_ungraded == card.n_groups for card in result.cards):
        reason = next(iter(result.cards[0].reasons), "unknown")
        raise GagarError(
            f"no grader graded a group, most often: {reason}",
            "the same command tries again what the endpoint failed",
        )
    unmet = [gate.describe() for gate in result.gates if not gate.is_met]
    if unmet:
        raise GateError("\n".join(f"gate not met: {one}" for one in unmet))


def _read_modes(names: list[str]) -> tuple[Mode, ...]:
    """The modes of these names, each once.

    Raises:
        UsageError: there is no such mode.
    """
    for name in names:
        if name not in MODES:
            raise UsageError(f"--mode is {name!r}, expected one of {', '.join(MODES)}")
    return tuple(mode for mode in MODES if mode in names)
