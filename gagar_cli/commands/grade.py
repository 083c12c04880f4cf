"""`gagar grade`: flags to settings, one call, print the result."""

import json
import os
from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import urlsplit

import typer

from gagar_cli import grade as use_case
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
from gagar_cli.grader.client import OFFLINE_MODEL, EndpointSettings
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
    model: Annotated[str, typer.Option("--model", help="grader model; `offline` is the rule-based one")],
    base_url: Annotated[
        str | None,
        typer.Option("--base-url", help="OpenAI-compatible endpoint, ending in /v1  [env: OPENAI_BASE_URL]"),
    ] = None,
    api_key_env: Annotated[
        str,
        typer.Option(
            "--api-key-env", help="name of the variable that holds the key; none needed on loopback"
        ),
    ] = "OPENAI_API_KEY",
    temperature: Annotated[float | None, typer.Option("--temperature", help="sent only where given")] = None,
    model_seed: Annotated[
        int | None, typer.Option("--model-seed", help="the endpoint's seed, sent only where given")
    ] = None,
    max_output_tokens: Annotated[
        int | None, typer.Option("--max-output-tokens", min=1, help="of one reply")
    ] = None,
    extra_body: Annotated[
        str | None, typer.Option("--extra-body", metavar="JSON", help="more fields of each request")
    ] = None,
    headers: Annotated[
        list[str] | None,
        typer.Option("--header", metavar="NAME:VALUE", help="one more header of each request"),
    ] = None,
    call_seconds: Annotated[
        float, typer.Option("--call-seconds", min=1, help="deadline of one call")
    ] = 600.0,
    call_attempts: Annotated[
        int, typer.Option("--call-attempts", min=1, help="tries of one call, with growing waits between")
    ] = 6,
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
        endpoint=EndpointSettings(
            model=model,
            base_url=(address := _check_url(base_url, model)),
            api_key=_read_key(api_key_env, address),
            temperature=temperature,
            seed=model_seed,
            max_output_tokens=max_output_tokens,
            extra_body=_parse_object(extra_body),
            headers=_parse_headers(headers),
            call_seconds=call_seconds,
            max_attempts=call_attempts,
            max_connections=concurrency,
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


def _check_url(base_url: str | None, model: str) -> str | None:
    # The offline model leaves this process only where the command line says so.
    if model != OFFLINE_MODEL:
        base_url = base_url or os.environ.get("OPENAI_BASE_URL")
    elif base_url is None:
        return None
    if base_url is None:
        raise UsageError(
            f"--model {model} needs --base-url", "`--model offline` is the rule-based grader that needs none"
        )
    parts = urlsplit(base_url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(
            "--base-url is not an http or https address", "for example `http://127.0.0.1:8000/v1`"
        )
    if parts.username or parts.password:
        raise UsageError(
            "--base-url holds credentials", "put the key into the variable that `--api-key-env` names"
        )
    return base_url


def _read_key(variable: str, base_url: str | None) -> str | None:
    """The key; none is needed by the offline model or on loopback."""
    key = os.environ.get(variable, "").strip()
    if any(not char.isprintable() or ord(char) > 126 for char in key):
        raise UsageError(f"{variable} holds characters that no key has", "set it again without line breaks")
    if key:
        return key
    host = urlsplit(base_url or "").hostname or ""
    if base_url is None or host == "localhost" or host.startswith("127.") or host == "::1":
        return None
    raise UsageError(
        f"{variable} is not set", "export the key under that name, or name another with `--api-key-env`"
    )


def _parse_object(text: str | None) -> Mapping[str, Any]:
    if text is None:
        return {}
    try:
        value = json.loads(text)
    except ValueError as error:
        raise UsageError(f"--extra-body is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise UsageError("--extra-body is no JSON object", "for example `--extra-body '{\"top_k\": 20}'`")
    return value


def _parse_headers(values: list[str] | None) -> Mapping[str, str]:
    headers = {}
    for value in values or []:
        name, colon, content = value.partition(":")
        if not colon or not name.strip():
            raise UsageError("--header is not of the form NAME:VALUE")
        headers[name.strip()] = content.strip()
    return headers
