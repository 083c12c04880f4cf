"""What a grading run is told to have reached: the notes and the exit code where it did not."""

from collections.abc import Sequence

from gagar_cli.core.lateness import LATE
from gagar_cli.core.text import counted, told_counts
from gagar_cli.errors import GagarError, GateError
from gagar_cli.grader.endpoint import UNREACHABLE_HINT
from gagar_cli.grader.group_judging import NO_EVIDENCE
from gagar_cli.grading_summary import GradeResult

_SHOW_WHAT_WAS_DONE = (
    "nothing shows a grader what these attempts did: join predictions with `--join FILE`, or map what the dump has with "
    "`--field model_patch=PATH` or `--field messages=PATH`"
)


def shortfalls(result: GradeResult) -> tuple[str, ...]:
    """What is to be said where there was nothing to rank."""
    if result.n_eligible or not result.n_groups:
        return ()
    why = f" ({told_counts(result.skipped)})" if result.skipped else ""
    return (f"no group can be ranked{why}: it takes two passes and a failure",)


def refuse_shortfalls(result: GradeResult, max_ungraded: float | None, min_graded: int | None) -> None:
    """The exit code of a run that ended by itself.

    Raises:
        GagarError: a budget left groups over, or none was graded.
        GateError: too many are ungraded, or too few graded.
    """
    # Those that a budget left no room to grade again wait for a larger one, as those that were not reached.
    is_only_late = result.stopped is not None and set(result.ungraded) == {LATE}
    if result.n_ungraded and not result.n_graded and not is_only_late:
        raise GagarError(
            f"no group was graded, {result.n_ungraded:,} ungraded, most often: {result.ungraded_reasons[0]}",
            _way_on(result.ungraded_reasons),
        )
    if max_ungraded is not None and result.ungraded_share > max_ungraded:
        raise GateError(
            f"{result.ungraded_share:.1%} of the groups are ungraded, more than --max-ungraded {max_ungraded:.1%}"
        )
    if result.stopped is not None:
        n_left = result.n_not_reached + result.ungraded.get(LATE, 0)
        raise GagarError(
            f"{result.stopped}: {counted(n_left, 'group')} left",
            "what is done is kept: the same command with a larger budget goes on",
        )
    refuse_too_few(result.n_graded, min_graded)


def refuse_too_few(n_graded: int, min_graded: int | None) -> None:
    """The gate `--min-graded`, which groups that nothing could rank do not meet either.

    Raises:
        GateError: fewer are graded.
    """
    if min_graded is not None and n_graded < min_graded:
        graded = counted(n_graded, "group is", "groups are")
        raise GateError(f"{graded} graded, fewer than --min-graded {min_graded:,}")


def _way_on(reasons: Sequence[str]) -> str:
    """What mends that no group was graded; `reasons` most frequent first."""
    if reasons[0].startswith(LATE):
        return "`--regrade-late`, or the same command without `--follow`, grades such groups again"
    again = "the same command tries again those that the endpoint, the sandbox or a budget failed"
    if reasons[0].startswith(NO_EVIDENCE):
        is_alone = all(reason.startswith(NO_EVIDENCE) for reason in reasons)
        return _SHOW_WHAT_WAS_DONE if is_alone else f"{_SHOW_WHAT_WAS_DONE}; {again}"
    return f"{UNREACHABLE_HINT}; {again}" if "connection failed" in reasons[0] else again
