"""`gagar formats`: which formats are read, and how each maps."""

from typing import Annotated

import typer

from gagar_cli.commands.options import Json
from gagar_cli.console import write_summary
from gagar_cli.errors import UsageError
from gagar_cli.io.formats import FORMATS
from gagar_cli.io.native_files import nearest_format
from gagar_cli.tables_dumps import formats_table, mapping_table

_CANONICAL: dict[str, object] = {
    "title": "canonical records: what is taken where no other format is recognised",
    "role": "attempts",
    "container": "Parquet, JSON lines (.gz, .zst), a folder of them, or standard input",
    "mapping": {"every field": "its own name, or `--field NAME=PATH`"},
    "needs_join": "",
}

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def formats(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="show how this one maps", show_default=False)
    ] = None,
    as_json: Json = False,
) -> None:
    """List the native formats that are read, or show how one maps to the canonical record.

    Examples:
      gagar formats

      gagar formats swe-agent
    """
    records: dict[str, dict[str, object]] = {"canonical": _CANONICAL} | {
        each.name: {
            "title": each.title,
            "role": each.role,
            "container": each.container,
            "mapping": dict(each.mapping),
            "needs_join": each.needs_join,
        }
        for each in FORMATS.values()
    }
    if name is None:
        write_summary(formats_table(records), {"formats": records}, as_json=as_json)
        return
    if name not in records:
        near = nearest_format(name)
        hint = f"the nearest is {near}" if near else f"one of {', '.join(records)}"
        raise UsageError(f"no format is named {name!r}", hint)
    shown = {"formats": {name: records[name]}}
    write_summary(mapping_table(name, records[name]), shown, as_json=as_json)
