"""`gagar head`: flags to settings, one call, print what the dump holds."""

import sys
from typing import Annotated

import typer

from gagar_cli import head as use_case
from gagar_cli.commands.options import (
    DumpFormat,
    Dumps,
    Explode,
    Fields,
    GroupBy,
    JoinFiles,
    Json,
    OnBadRecord,
    PassThreshold,
    Quiet,
    read_options,
)
from gagar_cli.console import write_note, write_summary
from gagar_cli.tables_dumps import head_table

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def head(
    dumps: Dumps,
    n_records: Annotated[int, typer.Option("--records", "-n", min=0, help="first records to show")] = 3,
    fields: Fields = None,
    explode: Explode = None,
    group_by: GroupBy = None,
    dump_format: DumpFormat = None,
    joins: JoinFiles = None,
    pass_threshold: PassThreshold = 1.0,
    on_bad_record: OnBadRecord = "fail",
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Show what a dump holds: its format and why, columns, group sizes, first records.

    A table in a terminal, one JSON object in a pipe.

    Examples:
      gagar head rollouts.jsonl

      gagar head rollouts.jsonl -n 1 --json
    """
    read = read_options(
        fields,
        explode,
        group_by,
        pass_threshold=pass_threshold,
        on_bad_record=on_bad_record,
        dump_format=dump_format,
        joins=joins,
    )
    result = use_case.run(use_case.HeadSettings(tuple(dumps), n_records, read))
    for note in result.notes:
        write_note(f"note: {note}", quiet=quiet)
    write_summary(head_table(result), result.to_record(), as_json=as_json or not sys.stdout.isatty())
