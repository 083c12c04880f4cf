"""`gagar convert`: flags to settings, one call, print what was written."""

from typing import Annotated

import typer

from gagar_cli import convert as use_case
from gagar_cli.commands.options import (
    DumpFormat,
    Dumps,
    Explode,
    Fields,
    GroupBy,
    JoinFiles,
    Json,
    OnBadRecord,
    Overwrite,
    PassThreshold,
    Quiet,
    read_options,
)
from gagar_cli.console import progress_bar, write_note, write_summary
from gagar_cli.errors import UsageError
from gagar_cli.tables_dumps import convert_table

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def convert(
    dumps: Dumps,
    output: Annotated[
        str,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="canonical records: .parquet, .jsonl (.gz, .zst), or - for stdout",
        ),
    ],
    fields: Fields = None,
    explode: Explode = None,
    group_by: GroupBy = None,
    dump_format: DumpFormat = None,
    joins: JoinFiles = None,
    pass_threshold: PassThreshold = 1.0,
    on_bad_record: OnBadRecord = "fail",
    unsafe_pickle: Annotated[
        bool,
        typer.Option("--unsafe-pickle", help="read slime's .pt dumps too, each in a sandbox of bubblewrap"),
    ] = False,
    overwrite: Overwrite = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write a dump of any format as canonical records, nothing lost.

    Examples:
      gagar convert rollouts.jsonl -o canonical.parquet

      gagar convert rollouts.jsonl -o -
    """
    if as_json and output == "-":
        raise UsageError("--json and `-o -` both want stdout", "leave one of them out")
    read = read_options(
        fields,
        explode,
        group_by,
        pass_threshold=pass_threshold,
        on_bad_record=on_bad_record,
        dump_format=dump_format,
        joins=joins,
    )
    settings = use_case.ConvertSettings(
        tuple(dumps), output, read, overwrite=overwrite, unsafe_pickle=unsafe_pickle
    )
    with progress_bar("converting", quiet=quiet) as progress:
        result = use_case.run(settings, progress)
    for note in result.report.notes:
        write_note(f"note: {note}", quiet=quiet)
    write_summary(
        convert_table(result), result.to_record(), as_json=as_json, to_stderr=output == "-", quiet=quiet
    )
