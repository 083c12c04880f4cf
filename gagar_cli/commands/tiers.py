"""`gagar tiers`: the built-in tier tables, and what a table does to example groups."""

from typing import Annotated, Literal

import typer

from gagar_cli.commands.options import Json
from gagar_cli.console import write_summary
from gagar_cli.core.factors import BUILT_IN
from gagar_cli.errors import UsageError
from gagar_cli.io.tier_tables import read_tier_table
from gagar_cli.tables import tier_examples_table, tier_tables_table
from gagar_cli.tier_examples import show_examples, table_record

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def tiers(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME|FILE]", help="a built-in table, or one in TOML", show_default=False),
    ] = None,
    cap: Annotated[
        Literal["bounded", "none", "paper", "waterfill", "temper", "pass-recentre"],
        typer.Option("--cap", help="what bounds amplification in the examples"),
    ] = "bounded",
    limit: Annotated[float, typer.Option("--limit", help="what the cap bounds by")] = 1.5,
    as_json: Json = False,
) -> None:
    """Show the built-in tier tables, or what one table does to example groups.

    Examples:
      gagar tiers

      gagar tiers strict --cap none
    """
    if not 1 < limit < float("inf"):
        raise UsageError(f"--limit is {limit}, expected more than 1")
    if name is None:
        records = {each: table_record(table) for each, table in BUILT_IN.items()}
        write_summary(tier_tables_table(records), records, as_json=as_json, to_stderr=False, quiet=False)
        return
    table = read_tier_table(name)
    examples = show_examples(table, cap, limit)
    record = {
        "table": table_record(table),
        "cap": cap,
        "limit": limit,
        "examples": [each.to_record() for each in examples],
    }
    shown = tier_examples_table(name, table_record(table), examples)
    write_summary(shown, record, as_json=as_json, to_stderr=False, quiet=False)
