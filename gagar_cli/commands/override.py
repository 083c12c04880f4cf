"""`gagar override`: flags to settings, one call, print the result."""

from typing import Annotated, Literal

import typer

from gagar_cli import override as use_case
from gagar_cli.commands.options import Json, Quiet
from gagar_cli.console import write_note, write_summary
from gagar_cli.errors import UsageError
from gagar_cli.tables_ranking import ranking_table

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def override(
    rankings: Annotated[
        str, typer.Argument(metavar="RANKINGS", help="what `gagar grade` made, as JSON lines")
    ],
    group: Annotated[str, typer.Argument(metavar="GROUP", help="the group's id")],
    trajectory: Annotated[str, typer.Argument(metavar="TRAJECTORY", help="the candidate's trajectory_id")],
    tier: Annotated[
        Literal["T1", "T2", "T3", "violation"],
        typer.Option("--tier", help="where it belongs; violation makes its reward that of a failure"),
    ],
    reason: Annotated[str, typer.Option("--reason", help="why it is corrected, kept in the rankings")],
    author: Annotated[
        str | None, typer.Option("--author", help="who corrects  [default: the name of the login]")
    ] = None,
    rank: Annotated[
        int | None,
        typer.Option("--rank", min=1, help="place in the tier  [default: that of its weighted score]"),
    ] = None,
    step: Annotated[
        int | None, typer.Option("--step", help="the group's step, where several have its id")
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Correct the place of one trajectory in a ranking, with who did it and why.

    Examples:
      gagar override rankings.jsonl task-7 task-7-03 --tier T2 --reason "the helper existed already" --author ada

      gagar override rankings.jsonl task-7 task-7-05 --tier violation --reason "patch copied from git log" --author ada
    """
    author = author if author is not None else use_case.default_author()
    if author is None:
        raise UsageError("nobody is logged in by name", "say who corrects with `--author NAME`")
    settings = use_case.OverrideSettings(
        rankings=rankings,
        group_id=group,
        trajectory_id=trajectory,
        tier=tier,
        reason=reason,
        author=author,
        step=step,
        rank=rank,
    )
    result = use_case.run(settings)
    for note in result.notes:
        write_note(f"note: {note}", quiet=quiet)
    write_summary(
        ranking_table(result.after), result.to_record(), as_json=as_json, to_stderr=False, quiet=quiet
    )
