"""`gagar agree`: flags to settings, one call, print the result."""

from typing import Annotated

import typer

from gagar_cli import agree as use_case
from gagar_cli.commands.options import Json, named_inputs
from gagar_cli.console import print_result, write_summary
from gagar_cli.tables_agree import agree_tables

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def agree(
    rankings: Annotated[
        list[str],
        typer.Argument(
            metavar="[NAME=]RANKINGS…", help="rankings files of the same dump", show_default=False
        ),
    ],
    disputes: Annotated[
        int, typer.Option("--disputes", min=0, help="most-disputed groups that are shown")
    ] = 5,
    seed: Annotated[int, typer.Option("--seed", help="seed of the resampling")] = 0,
    as_json: Json = False,
) -> None:
    """Say how far several rankings of the same groups agree.

    Examples:
      gagar agree rankings.jsonl second.jsonl

      gagar agree model=rankings.jsonl person=labels.jsonl --json
    """
    found = use_case.run(use_case.AgreeSettings(named_inputs(rankings), seed, disputes))
    if as_json:
        write_summary(None, use_case.to_record(found), as_json=True)
        return
    for table in agree_tables(found):
        print_result(table)
