"""Options of `gagar grade --follow`."""

from typing import TYPE_CHECKING, Annotated

import typer

from gagar_cli.errors import UsageError

if TYPE_CHECKING:
    from gagar_cli.grade_following import FollowOptions

Follow = Annotated[
    bool,
    typer.Option(
        "--follow",
        help="grade while rollouts arrive: growing JSONL, `-`, folders that get files, growing --join",
    ),
]
GroupSize = Annotated[
    int | None,
    typer.Option("--group-size", min=1, help="with --follow: so many trajectories make a group whole"),
]
QuietSeconds = Annotated[
    float | None,
    typer.Option("--quiet-seconds", min=0, help="with --follow: a group without a new one so long is whole"),
]
IdleSeconds = Annotated[
    float | None,
    typer.Option(
        "--idle-seconds",
        min=0,
        help="with --follow: end when nothing has arrived for so long; default: never",
    ),
]
RegradeLate = Annotated[
    bool,
    typer.Option("--regrade-late", help="with --follow: grade a group again when a trajectory comes late"),
]


def follow_options(
    *,
    follow: bool,
    group_size: int | None,
    quiet_seconds: float | None,
    idle_seconds: float | None,
    regrade_late: bool,
) -> "FollowOptions | None":
    """How a growing dump is followed; None without `--follow`.

    Raises:
        UsageError: one of its flags without `--follow`.
    """
    from gagar_cli.grade_following import FollowOptions

    flags = {
        "--group-size": group_size is not None,
        "--quiet-seconds": quiet_seconds is not None,
        "--idle-seconds": idle_seconds is not None,
        "--regrade-late": regrade_late,
    }
    if follow:
        return FollowOptions(group_size, quiet_seconds, idle_seconds, regrade_late)
    given = next((flag for flag, is_given in flags.items() if is_given), None)
    if given is not None:
        raise UsageError(f"{given} is for --follow", "a dump that does not grow has all of its groups")
    return None
