"""`gagar show`: flags to settings, one call, print the result."""

from typing import Annotated

import typer

from gagar_cli import show as use_case
from gagar_cli.commands.options import (
    DumpFormat,
    Explode,
    Fields,
    GroupBy,
    JoinFiles,
    Json,
    OnBadRecord,
    PassThreshold,
    read_options,
)
from gagar_cli.console import print_result, write_line, write_summary
from gagar_cli.tables_ranking import conversation_lines, ranking_lines, ranking_table

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def show(
    rankings: Annotated[
        str, typer.Argument(metavar="RANKINGS", help="what `gagar grade` made, JSON lines or Parquet")
    ],
    group: Annotated[str, typer.Argument(metavar="GROUP", help="the group's id")],
    dumps: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[DUMP…]", help="its dump, for the lines around each finding", show_default=False
        ),
    ] = None,
    step: Annotated[
        int | None, typer.Option("--step", help="the group's step, where several have its id")
    ] = None,
    conversation: Annotated[
        bool, typer.Option("--conversation", help="the whole conversation with the grader, too")
    ] = False,
    conversations: Annotated[
        str | None,
        typer.Option(
            "--conversations", metavar="FILE", help="the log of conversations  [default: beside the rankings]"
        ),
    ] = None,
    fields: Fields = None,
    explode: Explode = None,
    group_by: GroupBy = None,
    dump_format: DumpFormat = None,
    joins: JoinFiles = None,
    pass_threshold: PassThreshold = 1.0,
    on_bad_record: OnBadRecord = "fail",
    as_json: Json = False,
) -> None:
    """Show one group's ranking with the proof behind it.

    Examples:
      gagar show rankings.jsonl task-7 rollouts.jsonl

      gagar show rankings.jsonl task-7 --conversation
    """
    result = use_case.run(
        use_case.ShowSettings(
            rankings,
            group,
            step=step,
            dumps=tuple(dumps or ()),
            read=read_options(
                fields,
                explode,
                group_by,
                pass_threshold=pass_threshold,
                on_bad_record=on_bad_record,
                dump_format=dump_format,
                joins=joins,
            ),
            with_conversation=conversation or conversations is not None,
            conversations=conversations,
        )
    )
    if as_json:
        write_summary(None, result.to_record(), as_json=True)
        return
    if result.ranking.candidates:
        print_result(ranking_table(result.ranking))
    else:
        write_line(f"Group {result.ranking.key}: {result.ranking.status}")
    for line in ranking_lines(result):
        write_line(line)
    for line in conversation_lines(result.conversation or ()):
        write_line(line)
