"""Grading's results as rich tables: a run's summary, and what a run would take."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gagar_cli.core.text import counted
from gagar_cli.tables import key_value_table

if TYPE_CHECKING:
    from rich.table import Table

    from gagar_cli.core.consistency import Consistency
    from gagar_cli.grading_estimate import Estimate
    from gagar_cli.grading_summary import GradeResult


def grade_table(result: "GradeResult") -> "Table":
    """The summary of a grading run."""
    eligible = f"{result.n_eligible:,} of {counted(result.n_groups, 'group')}"
    if result.n_groups:
        eligible += f" ({result.n_eligible / result.n_groups:.0%})"
    graded = f"{result.n_graded:,}"
    if result.n_resumed:
        graded += f" ({result.n_resumed:,} settled by an earlier run)"
    rows = [
        ("grader", f"{result.model}, sandbox {result.sandbox}"),
        ("trajectories", f"{result.n_trajectories:,}"),
        ("eligible", eligible),
        ("graded", graded),
        ("ungraded", f"{result.n_ungraded:,}{reasons_of(result.ungraded)}"),
        ("skipped", f"{sum(result.skipped.values()):,}{reasons_of(result.skipped)}"),
        ("tiers", "  ".join(f"{tier} {count:,}" for tier, count in result.tiers.items())),
        ("integrity violations", _violations(result)),
        ("findings", f"{result.n_findings:,} proven, {counted(result.n_unproven, 'claim')} unproven"),
        ("calls", f"{result.n_calls:,} to the model, {counted(result.n_checks, 'command')} in sandboxes"),
        (
            "tokens",
            f"{result.n_input_tokens:,} in ({result.n_cached_tokens:,} cached), {result.n_output_tokens:,} out",
        ),
    ]
    if result.grading_seconds:
        rows.append(("seconds a group", _seconds_a_group(result)))
    rows += _consistency(result.consistency)
    if result.cost is not None:
        rows.append(("cost", f"{result.cost:,.4f}{_cost_a_group(result)}"))
    if result.n_overridden:
        rows.append(("overridden by people", counted(result.n_overridden, "group")))
    if result.n_late:
        late = counted(result.n_late, "trajectory", "trajectories")
        rows.append(("late", f"{late}, after the group was graded"))
    if result.n_not_reached:
        what = "left out by a budget" if result.stopped else "left out by --limit"
        rows.insert(4, (what, f"{result.n_not_reached:,}"))
    rows += [("why ungraded", reason) for reason in result.ungraded_reasons]
    return key_value_table("Grading", rows)


def _violations(result: "GradeResult") -> str:
    disputed = (
        f", {result.n_integrity_disputed:,} disputed and not counted" if result.n_integrity_disputed else ""
    )
    return f"{result.n_integrity_violations:,}{disputed}"


def _consistency(found: "Consistency") -> list[tuple[str, str]]:
    rows = []
    if found.n_repeated:
        told = "not defined" if found.rank_agreement is None else f"τ-b {found.rank_agreement:+.2f}"
        same = "" if found.tier_agreement is None else f", the same tier {found.tier_agreement:.0%}"
        rows.append(("repeats agree", f"{told}{same}, over {counted(found.n_repeated, 'group')}"))
    if found.place_effect is not None:
        rows.append(
            ("place effect", f"τ-b {found.place_effect:+.2f} between shown and ranked place (chance 0)")
        )
    return rows


def estimate_table(found: "Estimate") -> "Table":
    """What a run would take."""
    measured = counted(found.n_measured, "group")
    basis = (
        f"calls and tokens of {measured} that the ledger has"
        if found.basis == "measured"
        else f"sizes of prompts and material of {measured}; how they are read is a guess"
    )
    mode = f"{found.mode}, {found.repeats} times" if found.repeats > 1 else found.mode
    if found.repeats > 1 and found.repeat_share < 1:
        mode += f" for {found.repeat_share:.0%} of the groups"
    rows = [
        ("grader", f"{found.model}, {mode}"),
        ("trajectories", f"{found.n_trajectories:,}"),
        ("eligible", f"{found.n_eligible:,} of {counted(found.n_groups, 'group')}"),
        ("skipped", f"{sum(found.skipped.values()):,}{reasons_of(found.skipped)}"),
        ("settled by an earlier run", f"{found.n_settled:,}"),
        ("to grade", f"{counted(found.n_to_grade, 'group')}, {counted(found.n_candidates, 'candidate')}"),
        ("to check only", f"{counted(found.n_to_check, 'group')}, for integrity"),
        ("first prompt", counted(found.prompt_tokens, "token")),
        ("calls", f"about {found.n_calls:,}"),
        ("tokens", f"about {found.n_input_tokens:,} in, {found.n_output_tokens:,} out"),
    ]
    if found.n_votes:
        rows.append(("votes", f"about {found.n_votes:,} of the conversations, on attempts with leads"))
    if found.cost is not None:
        rows.append(("cost", f"about {found.cost:,.4f} where nothing is cached"))
    rows.append(("rests on", basis))
    return key_value_table("Dry run", rows)


def reasons_of(counts: Mapping[str, int]) -> str:
    """Counts by reason in brackets; nothing where there are none."""
    return f" ({', '.join(f'{name} {count:,}' for name, count in counts.items())})" if counts else ""


def _seconds_a_group(result: "GradeResult") -> str:
    n_groups = result.n_graded + result.n_ungraded
    return f"{result.grading_seconds / n_groups:.2f}" if n_groups else "0"


def _cost_a_group(result: "GradeResult") -> str:
    n_groups = result.n_graded + result.n_ungraded
    return f" ({result.cost / n_groups:,.4f} a group)" if n_groups and result.cost is not None else ""
