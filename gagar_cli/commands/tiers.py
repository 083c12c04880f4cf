"""`gagar tiers`: the built-in tier tables, and what a table does to example groups."""

from typing import Annotated, Literal

import typer

from gagar_cli.commands.options import Json
from gagar_cli.console import write_summary
from gagar_cli.core.method_options import check_limit
from gagar_cli.core.tier_tables import BUILT_IN
from gagar_cli.io.tier_tables import read_tier_table
from gagar_cli.tables_redistribution import tier_examples_table, tier_tables_table
from gagar_cli.tier_examples import show_table

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def tiers(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME|FILE]", help="a built-in table, or one in TOML", show_default=False),
    ] = None,
    cap: Annotated[
        Literal["bounded", "none", "paper", "waterfill", "temper", "pass-recentre"] | None,
        typer.Option(
            "--cap", help="what bounds amplification in the examples  [default: the table's, else bounded]"
        ),
    ] = None,
    limit: Annotated[
        float | None, typer.Option("--limit", help="what the cap bounds by  [default: the table's, else 1.5]")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show the built-in tier tables, or what one table does to example groups.

    Examples:
      gagar tiers

      gagar tiers strict --cap none
    """
    if limit is not None:
        check_limit(limit)
    if name is None:
        records = {each: table.to_record() for each, table in BUILT_IN.items()}
        write_summary(tier_tables_table(records), {"tiers": records}, as_json=as_json)
        return
    shown = show_table(name, read_tier_table(name), cap=cap, limit=limit)
    write_summary(tier_examples_table(shown), shown.to_record(), as_json=as_json)
