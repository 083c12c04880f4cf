"""`gagar doctor`: look at this machine and at an endpoint, print what was found."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from gagar_cli import doctor as use_case
from gagar_cli.commands.endpoint_options import (
    ApiKeyEnv,
    BaseUrl,
    CallSeconds,
    ExtraBody,
    Headers,
    MaxOutputTokens,
    Protocol,
    endpoint_settings,
)
from gagar_cli.commands.options import Environment, Json, Pull, Runtime, SandboxImage
from gagar_cli.console import print_result, write_summary
from gagar_cli.errors import EndpointError, UsageError
from gagar_cli.grader.probing import probe
from gagar_cli.sandbox.select import SandboxRequest
from gagar_cli.tables import doctor_tables
from gagar_cli.tables_endpoint import endpoint_table

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def doctor(
    sandbox_image: SandboxImage = None,
    runtime: Runtime = None,
    pull: Pull = False,
    environment: Environment = None,
    model: Annotated[
        str | None,
        typer.Option("--model", metavar="MODEL", help="ask an endpoint what it can do with this model"),
    ] = None,
    base_url: BaseUrl = None,
    api_key_env: ApiKeyEnv = "OPENAI_API_KEY",
    protocol: Protocol = "auto",
    max_output_tokens: MaxOutputTokens = None,
    extra_body: ExtraBody = None,
    headers: Headers = None,
    call_seconds: CallSeconds = 120.0,
    as_json: Json = False,
) -> None:
    """Say what this machine can hold hostile code with, and what an endpoint can do.

    Runs a command in each sandbox that works here. An engine is tried with the image that is named. With --model an
    endpoint is looked at with about ten calls, and the protocol that `grade` would take is told.

    Examples:
      gagar doctor --model offline

      gagar doctor --sandbox-image python:3.12 --json
    """
    endpoint = None
    if model is not None or base_url is not None:
        if model is None:
            raise UsageError("--base-url needs --model", "name the model as the endpoint lists it")
        settings = endpoint_settings(
            model=model,
            base_url=base_url,
            api_key_env=api_key_env,
            protocol=protocol,
            temperature=None,
            model_seed=None,
            max_output_tokens=max_output_tokens,
            extra_body=extra_body,
            headers=headers,
            call_seconds=call_seconds,
            call_attempts=2,
            concurrency=2,
        )
        endpoint = asyncio.run(probe(settings))
    request = SandboxRequest(
        image=sandbox_image,
        runtime=runtime,
        pull=pull,
        environment=Path(environment) if environment else None,
    )
    found = asyncio.run(use_case.examine(request))
    if as_json:
        told = {"endpoint": endpoint.to_record()} if endpoint else {}
        write_summary(None, found.to_record() | told, as_json=True)
    else:
        for table in ([endpoint_table(endpoint)] if endpoint else []) + doctor_tables(found):
            print_result(table)
    if endpoint is not None and endpoint.protocol is None:
        raise EndpointError(f"the endpoint cannot be used: {endpoint.problem}")
