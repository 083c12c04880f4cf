"""`gagar demo`: the whole job on a small dump that comes with the program."""

from pathlib import Path
from typing import Annotated

import typer

from gagar_cli import demo as use_case
from gagar_cli.commands.options import Json, Quiet, Sandbox, SandboxImage
from gagar_cli.console import print_result, progress_bar, write_line, write_note, write_summary
from gagar_cli.tables import demo_tables
from gagar_cli.tables_grading import grade_table
from gagar_cli.tables_redistribution import redistribute_table

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def demo(
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="folder for the results")
    ] = Path("demo-output"),
    sandbox: Sandbox = "auto",
    sandbox_image: SandboxImage = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Grade and redistribute a small dump that comes with the program.

    Needs no key and no network: the grader is the rule-based offline model, not a language model.

    Examples:
      gagar demo

      gagar demo --sandbox inspect-only -o demo-output
    """
    with progress_bar("grading", quiet=quiet) as progress:
        result = use_case.run(output, sandbox=sandbox, sandbox_image=sandbox_image, progress=progress)
    for note in result.graded.notes:
        write_note(f"note: {note}", quiet=quiet)
    if as_json:
        write_summary(None, result.to_record(), as_json=True)
        return
    for table in (*demo_tables(result), grade_table(result.graded), redistribute_table(result.redistributed)):
        print_result(table)
    write_line("The grader is the rule-based offline model, not a language model. Written:")
    inputs = (use_case.DUMP_NAME, f"{use_case.REPOSITORIES_NAME}/")
    made = (use_case.RANKINGS_NAME, use_case.ADVANTAGES_NAME)
    write_line("  " + "  ".join(f"{output}/{name}" for name in (*inputs, *made)))
    write_line(
        f"Next, the same by hand in {output}/, and with a model of your own (`--base-url`, `--model`):"
    )
    write_line("  gagar grade rollouts.jsonl --model offline --repos repos/ -o rankings.jsonl")
    write_line("  gagar redistribute rollouts.jsonl --rankings rankings.jsonl -o advantages.parquet")
    write_line(
        "What proves a place: `gagar show demo-rankings.jsonl shelfmark__shelfmark-44`; "
        "what this machine can sandbox: `gagar doctor`."
    )
