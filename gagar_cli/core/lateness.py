"""Trajectories that arrive after their group was graded, and what that makes of its ranking."""

from collections.abc import Sequence
from dataclasses import replace

from gagar_cli.core.overriding import is_overridden
from gagar_cli.core.ranking import GroupRanking
from gagar_cli.core.text import counted

LATE = "late"
"""Start of the reason of a group that got a trajectory after it was graded; in `grader`, which ones."""


def late_names(ranking: GroupRanking) -> tuple[str, ...]:
    """The trajectories that a ranking is marked late for."""
    found = ranking.grader.get(LATE)
    return tuple(str(name) for name in found) if isinstance(found, list) else ()


def late_reason(n_late: int) -> str:
    """Why a group is ungraded that so many trajectories are late for.

    >>> late_reason(1)
    'late: 1 trajectory arrived after it was graded'
    """
    return f"{LATE}: {counted(n_late, 'trajectory', 'trajectories')} arrived after it was graded"


def late_ids(
    earlier: GroupRanking | None, here: Sequence[str], input_digest: str, config_digest: str
) -> tuple[str, ...]:
    """Those of a group's valid trajectories that its ranking did not see, where it saw all the others.

    Nothing where the ranking was made from the same input, or under other settings: then it is simply out of date.
    """
    if earlier is None or earlier.input_digest == input_digest:
        return ()
    is_ranked = earlier.status == "graded" or (earlier.reason or "").startswith(LATE)
    if not is_ranked or (earlier.config_digest != config_digest and not is_overridden(earlier)):
        return ()
    seen = {*earlier.blind_ids.values(), *late_names(earlier)}
    if not seen or not seen < set(here):
        return ()
    return tuple(name for name in here if name not in seen)


def marked_late(earlier: GroupRanking, late: tuple[str, ...], input_digest: str) -> GroupRanking:
    """The ranking as no longer in force: redistribution uses the base estimator, integrity verdicts stay."""
    names = [*late_names(earlier), *late]
    return replace(
        earlier,
        status="ungraded",
        reason=late_reason(len(names)),
        grader={**earlier.grader, LATE: names},
        input_digest=input_digest,
    )
