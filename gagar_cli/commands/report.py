"""`gagar report`: flags to settings, one call, print the result."""

from typing import Annotated

import typer

from gagar_cli import grading_report as use_case
from gagar_cli.commands.options import Json, Overwrite, Quiet
from gagar_cli.console import write_note, write_summary
from gagar_cli.report.grading_page import report_facts
from gagar_cli.tables import key_value_table

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def report(
    rankings: Annotated[
        str, typer.Argument(metavar="RANKINGS", help="what `gagar grade` made", show_default=False)
    ],
    output: Annotated[str, typer.Option("--output", "-o", metavar="FILE", help="the page, one HTML file")],
    advantages: Annotated[
        str | None,
        typer.Option("--advantages", metavar="FILE", help="what `gagar redistribute` made of these rankings"),
    ] = None,
    title: Annotated[str | None, typer.Option("--title", help="title of the page")] = None,
    max_groups: Annotated[int, typer.Option("--max-groups", min=0, help="groups shown one by one")] = 300,
    overwrite: Overwrite = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Make one HTML page of a grading run.

    Examples:
      gagar report rankings.jsonl -o report.html

      gagar report rankings.jsonl --advantages advantages.parquet -o report.html --overwrite
    """
    settings = use_case.ReportSettings(rankings, output, advantages, title, max_groups, overwrite)
    found = use_case.run(settings)
    for note in found.notes:
        write_note(f"note: {note}", quiet=quiet)
    write_summary(key_value_table("report", report_facts(found)), found.to_record(), as_json=as_json)
