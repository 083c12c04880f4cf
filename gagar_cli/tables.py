"""Results as rich tables. Values come from results, never computed here; names pass the sanitizer."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from gagar_cli.core.text import escape_untrusted

if TYPE_CHECKING:
    from rich.table import Table

    from gagar_cli.demo import DemoResult
    from gagar_cli.grading_summary import GradeResult


def key_value_table(title: str, rows: Iterable[tuple[str, str]]) -> "Table":
    """A two-column table of names and values."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(title), title_justify="left", box=SIMPLE_HEAD, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(Text(name), Text(escape_untrusted(value)))
    return table


def rows_table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], *, numeric: Iterable[int] = ()
) -> "Table":
    """A table with a header; the columns numbered in `numeric` are aligned to the right."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(title), title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    right = set(numeric)
    for number, name in enumerate(columns):
        table.add_column(name, justify="right" if number in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(escape_untrusted(cell, keep_newlines=False)) for cell in row))
    return table


def grade_table(result: "GradeResult") -> "Table":
    """The summary of a grading run."""
    eligible = f"{result.n_eligible:,} of {result.n_groups:,} groups"
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
        ("ungraded", f"{result.n_ungraded:,}{_reasons(result.ungraded)}"),
        ("skipped", f"{sum(result.skipped.values()):,}{_reasons(result.skipped)}"),
        ("tiers", "  ".join(f"{tier} {count:,}" for tier, count in result.tiers.items())),
        ("integrity violations", f"{result.n_integrity_violations:,}"),
        ("findings", f"{result.n_findings:,} proven, {result.n_unproven:,} claims unproven"),
        ("calls", f"{result.n_calls:,} to the model, {result.n_checks:,} commands in sandboxes"),
        (
            "tokens",
            f"{result.n_input_tokens:,} in ({result.n_cached_tokens:,} cached), {result.n_output_tokens:,} out",
        ),
    ]
    if result.n_not_reached:
        rows.insert(4, ("left out by --limit", f"{result.n_not_reached:,}"))
    rows += [("why ungraded", reason) for reason in result.ungraded_reasons]
    return key_value_table("Grading", rows)


def _reasons(counts: dict[str, int]) -> str:
    return f" ({', '.join(f'{name} {count:,}' for name, count in counts.items())})" if counts else ""


def demo_table(result: "DemoResult") -> "Table":
    """One row an attempt: what the tests said, where it was placed, what its advantage became, and why."""
    rows = []
    previous = ""
    for attempt in result.attempts:
        group = attempt.group_id if attempt.group_id != previous else ""
        previous = attempt.group_id
        name = attempt.trajectory_id.removeprefix(attempt.group_id).lstrip("-/") or attempt.trajectory_id
        base, new = _signed(attempt.advantage_base), _signed(attempt.advantage)
        rows.append((group, name, attempt.outcome, attempt.place, base, new, attempt.why))
    columns = ("task", "attempt", "tests", "place", "advantage", "becomes", "why")
    return rows_table("Attempts", columns, rows, numeric=(4, 5))


def _signed(value: float | None) -> str:
    return "-" if value is None else f"{value:+.3f}"
