"""`gagar audit`: flags to settings, one call, print the result."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from gagar_cli import audit as use_case
from gagar_cli.audit_plan import Source
from gagar_cli.audit_summary import AuditResult
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
    named_inputs,
    read_options,
)
from gagar_cli.commands.rules_options import Integrity, IntegrityVotes, Mode, Repeats, RubricFile, rules
from gagar_cli.console import print_result, progress_bar, write_note, write_summary
from gagar_cli.errors import GagarError, GateError, UsageError
from gagar_cli.grader.loop import GroupLimits
from gagar_cli.group_grading import GroupGraderSettings
from gagar_cli.sandbox.base import SandboxLimits
from gagar_cli.sandbox.select import SandboxRequest
from gagar_cli.tables_audit import audit_tables

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def audit(
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="DIR", help="where judgments and report go")
    ],
    dumps: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME=]DUMP…",
            help="one dump a policy, the first is the baseline; or one dump that holds several",
            show_default=False,
        ),
    ] = None,
    judges: Annotated[
        list[str] | None,
        typer.Option(
            "--judge-model",
            metavar="MODEL",
            help="who judges, repeatable; `offline` is the rule-based one",
        ),
    ] = None,
    policy_a: Annotated[
        str | None,
        typer.Option("--policy-a", metavar="NAME", help="baseline, in a dump that holds several policies"),
    ] = None,
    policy_b: Annotated[
        str | None, typer.Option("--policy-b", metavar="NAME", help="what is compared with it")
    ] = None,
    policy_field: Annotated[
        str, typer.Option("--policy-field", metavar="COLUMN", help="column that names the policy")
    ] = "model_name_or_path",
    n_tasks: Annotated[int, typer.Option("--tasks", min=0, help="tasks that are judged; 0: all")] = 30,
    per_task: Annotated[
        int, typer.Option("--per-task", min=1, max=99, help="passing attempts of each policy a task")
    ] = 3,
    pairwise: Annotated[
        bool, typer.Option("--pairwise", help="two attempts at a time, in both orders")
    ] = False,
    shows: Annotated[
        Literal["patch", "patch+tests", "full"],
        typer.Option("--show", help="what the judge may see; full: messages without the system's"),
    ] = "patch+tests",
    scrub: Annotated[
        list[str] | None,
        typer.Option("--scrub", metavar="NAME", help="one more name to take out; repeatable"),
    ] = None,
    guess: Annotated[
        bool,
        typer.Option("--guess/--no-guess", help="ask the judge afterwards which policy wrote what"),
    ] = True,
    unblind: Annotated[
        bool, typer.Option("--unblind", help="only report again, from the judgments in the directory")
    ] = False,
    gates: Annotated[
        list[str] | None,
        typer.Option(
            "--gate",
            metavar="EXPR",
            help="exit 4 where it is not met, for example win_rate.ci_low>0.5; repeatable",
        ),
    ] = None,
    junit: Annotated[
        str | None, typer.Option("--junit", metavar="FILE", help="gates as JUnit test cases")
    ] = None,
    markdown: Annotated[
        str | None,
        typer.Option("--markdown", metavar="FILE", help="the summary as Markdown, for a job's page"),
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
    mode: Mode = "agentic",
    rubric: RubricFile = None,
    repeats: Repeats = 1,
    integrity: Integrity = "mixed",
    integrity_votes: IntegrityVotes = 2,
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
    seed: Annotated[int, typer.Option("--seed", help="seed of sample, blind order and resampling")] = 0,
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
    """Compare policies blind on the tasks that they share.

    A stopped audit goes on where it was: repeat the command. Win rate and top-1 share are those of the second policy.

    Examples:
      gagar audit old=step100.jsonl new=step200.jsonl -o audit/ --judge-model offline

      gagar audit -o audit/ --unblind --gate 'win_rate.ci_low>0.5'
    """
    files = use_case.CiFiles(junit, markdown)
    if unblind:
        if dumps:
            raise UsageError("--unblind reads no dump", "leave the dumps out, or leave out --unblind")
        _print(use_case.unblind(output, gates or (), files), as_json=as_json, quiet=quiet)
        return
    if not dumps:
        raise UsageError("a dump is missing", "`gagar audit A B -o DIR`; `--unblind` alone needs none")
    if not judges:
        raise UsageError("--judge-model is missing", "`--judge-model offline` is the rule-based one")
    endpoints = [
        endpoint_settings(
            model=judge,
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
            model_flag="--judge-model",
        )
        for judge in judges
    ]
    request = SandboxRequest(
        sandbox,
        sandbox_image,
        runtime=runtime,
        pull=pull,
        environment=Path(environment) if environment else None,
    )
    settings = use_case.AuditSettings(
        source=_source(dumps, policy_a, policy_b, policy_field),
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
            rules=rules(
                mode=mode,
                rubric=rubric,
                repeats=repeats,
                integrity=integrity,
                integrity_votes=integrity_votes,
            ),
            sandbox=request,
            sandbox_limits=SandboxLimits(memory_bytes=int(sandbox_memory * 1024**3), cpus=sandbox_cpus),
            check_seconds=check_seconds,
        ),
        judges=tuple(endpoints),
        read=read_options(
            fields,
            explode,
            group_by,
            pass_threshold=pass_threshold,
            on_bad_record=on_bad_record,
            dump_format=dump_format,
            joins=joins,
        ),
        n_tasks=n_tasks or None,
        per_task=per_task,
        seed=seed,
        shows=shows,
        scrub=tuple(scrub or ()),
        is_pairwise=pairwise,
        is_guess_asked=guess,
        gates=tuple(gates or ()),
        files=files,
        concurrency=concurrency,
        overwrite=overwrite,
    )
    try:
        with progress_bar("judging", quiet=quiet) as progress:
            result = use_case.run(settings, progress)
    except (KeyboardInterrupt, SystemExit):
        write_note("interrupted: judgments that were made are kept, the same command goes on")
        raise
    _print(result, as_json=as_json, quiet=quiet)


def _print(result: AuditResult, *, as_json: bool, quiet: bool) -> None:
    for note in result.notes:
        write_note(f"note: {note}", quiet=quiet)
    if as_json:
        write_summary(None, result.to_record(), as_json=True)
    else:
        for table in audit_tables(result):
            print_result(table)
    if result.n_tasks["ungraded"] and not result.n_tasks["judged"]:
        raise GagarError(
            f"no task was judged, {result.n_tasks['ungraded']:,} ungraded, most often: {result.ungraded_reasons[0]}",
            "the same command tries again those that the endpoint, the sandbox or a budget failed",
        )
    unmet = [gate.describe() for gate in result.gates if not gate.is_met]
    if unmet:
        raise GateError("\n".join(f"gate not met: {one}" for one in unmet))


def _source(dumps: list[str], policy_a: str | None, policy_b: str | None, policy_field: str) -> Source:
    """Which policy is where.

    Raises:
        UsageError: two dumps of one name, or one policy named without the other.
    """
    if (policy_a is None) != (policy_b is None):
        raise UsageError("--policy-a and --policy-b go together", "name both, or neither")
    if policy_a is not None and policy_b is not None:
        if policy_a == policy_b:
            raise UsageError(f"--policy-a and --policy-b are both {policy_a!r}")
        return Source((("", tuple(dumps)),), (policy_a, policy_b), policy_field)
    if len(dumps) == 1:
        return Source((("", tuple(dumps)),), (), policy_field)
    return Source(tuple((name, (path,)) for name, path in named_inputs(dumps)), (), policy_field)
