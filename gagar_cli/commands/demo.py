"""`gagar demo`: the whole job on a small dump that comes with the program."""

from pathlib import Path
from typing import Annotated

import typer

from gagar_cli import demo as use_case
from gagar_cli.commands.options import Json, Quiet
from gagar_cli.console import print_result, progress_bar, write_line, write_note
from gagar_cli.errors import OutputError
from gagar_cli.tables import demo_table, grade_table, redistribute_tables

app = typer.Typer(rich_markup_mode=None)


@app.command()
def demo(
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="folder for the results")
    ] = Path("demo-output"),
    sandbox: Annotated[
        str,
        typer.Option(
            "--sandbox", metavar="auto|docker|bubblewrap|inspect-only", help="where candidates' code may run"
        ),
    ] = "auto",
    sandbox_image: Annotated[
        str | None, typer.Option("--sandbox-image", help="docker image with python3 and git")
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Grade and redistribute a small dump that comes with the program.

    Needs no key and no network: the grader is the rule-based offline model, not a language model.

    Examples:

      gagar demo

      gagar demo --sandbox inspect-only -o demo-output
    """
