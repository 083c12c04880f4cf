"""`gagar clean`: remove what killed runs left behind, and say what it was."""

import typer

from gagar_cli.commands.options import Json, Quiet
from gagar_cli.console import write_note, write_summary
from gagar_cli.sandbox.leftovers import remove_leftovers
from gagar_cli.tables import rows_table

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def clean(as_json: Json = False, quiet: Quiet = False) -> None:
    """Remove containers, volumes and directories that killed runs left behind.

    Only what belongs to runs that are surely gone; runs that go on are not touched, nor any output.

    Examples:
      gagar clean

      gagar clean --json
    """
    result = remove_leftovers()
    write_note(f"note: engine: {result.engine}", quiet=quiet)
    rows = [(name,) for name in result.removed] or [("nothing was left behind",)]
    write_summary(rows_table("Removed", ("what",), rows), result.to_record(), as_json=as_json)
