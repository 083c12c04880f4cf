"""`gagar stats`: what is in a dump, and in its rankings."""

from typing import Annotated, Literal

import typer

from gagar_cli import stats as use_case
from gagar_cli.commands.options import (
    DumpFormat,
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
from gagar_cli.console import print_result, progress_bar, write_note, write_summary
from gagar_cli.tables_stats import stats_tables

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def stats(
    dump: Annotated[
        str,
        typer.Argument(
            metavar="DUMP",
            help="rollout dump: Parquet, JSONL (.gz, .zst), a native format, a folder of files, or -",
            show_default=False,
        ),
    ],
    rankings: Annotated[
        str | None,
        typer.Argument(
            metavar="[RANKINGS]", help="what `gagar grade` made, or - for stdin", show_default=False
        ),
    ] = None,
    by: Annotated[
        Literal["step", "policy", "repo"] | None,
        typer.Option("--by", help="the same for every training step, policy (model_name_or_path) or repo"),
    ] = None,
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
    """Count what is in a dump: pass rates, what can be ranked, lengths, and what the rankings say.

    Examples:
      gagar stats rollouts.jsonl

      gagar stats rollouts.jsonl rankings.jsonl --by repo
    """
    settings = use_case.StatsSettings(
        dump=dump,
        rankings=rankings,
        read=read_options(
            fields,
            explode,
            group_by,
            pass_threshold=pass_threshold,
            on_bad_record=on_bad_record,
            dump_format=dump_format,
            joins=joins,
        ),
        by=by,
    )
    with progress_bar("counting", quiet=quiet) as progress:
        result = use_case.run(settings, progress)
    for note in result.report.notes:
        write_note(f"note: {note}", quiet=quiet)
    if as_json:
        write_summary(None, result.to_record(), as_json=True)
        return
    for table in stats_tables(result):
        print_result(table)
