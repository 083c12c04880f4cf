"""`gagar doctor`: look at this machine, print what was found."""

import asyncio
from pathlib import Path

import typer

from gagar_cli import doctor as use_case
from gagar_cli.commands.options import Environment, Json, Pull, Runtime, SandboxImage
from gagar_cli.console import print_result, write_summary
from gagar_cli.sandbox.select import SandboxRequest
from gagar_cli.tables import doctor_tables

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def doctor(
    sandbox_image: SandboxImage = None,
    runtime: Runtime = None,
    pull: Pull = False,
    environment: Environment = None,
    as_json: Json = False,
) -> None:
    """Say what this machine can hold hostile code with, and how well.

    Runs a command in each sandbox that works here. An engine is tried with the image that is named.

    Examples:
      gagar doctor

      gagar doctor --sandbox-image python:3.12 --json
    """
    request = SandboxRequest(
        image=sandbox_image,
        runtime=runtime,
        pull=pull,
        environment=Path(environment) if environment else None,
    )
    found = asyncio.run(use_case.examine(request))
    if as_json:
        write_summary(None, found.to_record(), as_json=True)
        return
    for table in doctor_tables(found):
        print_result(table)
