"""Options of every command that grades: mode, rubric, repeats and integrity votes."""

from typing import Annotated

import typer

from gagar_cli.core.rubric import PAPER
from gagar_cli.errors import UsageError
from gagar_cli.grader.rules import GradingRules, IntegrityScope
from gagar_cli.grader.rules import Mode as JudgingMode
from gagar_cli.io.rubrics import read_rubric

Mode = Annotated[
    JudgingMode,
    typer.Option("--mode", help="what a judge sees: the group or one attempt, with tools or without"),
]
RubricFile = Annotated[
    str | None,
    typer.Option("--rubric", metavar="FILE", help="a TOML rubric  [default: the paper's five dimensions]"),
]
Repeats = Annotated[
    int,
    typer.Option(
        "--repeats", min=1, max=32, help="gradings of a group under other blind orders, put together"
    ),
]
RepeatShare = Annotated[
    float,
    typer.Option(
        "--repeat-share",
        metavar="X",
        min=0.0,
        max=1.0,
        help="of the groups, so many take --repeats; the others one",
    ),
]
Integrity = Annotated[
    IntegrityScope,
    typer.Option(
        "--integrity", help="check passing attempts of mixed groups, of all-pass groups too, or none"
    ),
]
IntegrityVotes = Annotated[
    int,
    typer.Option("--integrity-votes", min=1, max=9, help="conversations that must all prove a violation"),
]


def rules(
    *,
    mode: JudgingMode,
    rubric: str | None,
    repeats: int,
    integrity: IntegrityScope,
    integrity_votes: int,
    repeat_share: float = 1.0,
) -> GradingRules:
    """How groups are graded, from the flags.

    Raises:
        UsageError: the rubric cannot be read, or is none, or `--repeat-share` has no repeats to share.
    """
    if repeat_share != 1.0 and repeats == 1:
        raise UsageError("--repeat-share is for --repeats", "for example `--repeats 2 --repeat-share 0.1`")
    return GradingRules(
        mode=mode,
        rubric=read_rubric(rubric) if rubric is not None else PAPER,
        repeats=repeats,
        repeat_share=repeat_share,
        integrity=integrity,
        integrity_votes=integrity_votes,
    )
