"""Results as rich tables. Values come from results, never computed here; names pass the sanitizer."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from gagar_cli.core.text import escape_untrusted

if TYPE_CHECKING:
    from rich.table import Table

    from gagar_cli.demo import DemoResult
    from gagar_cli.doctor import Examination


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
        is_last = number == len(columns) - 1
        table.add_column(
            name, justify="right" if number in right else "left", overflow="fold", no_wrap=not is_last
        )
    for row in rows:
        table.add_row(*(Text(escape_untrusted(cell, keep_newlines=False)) for cell in row))
    return table


def demo_tables(result: "DemoResult") -> "list[Table]":
    """One table a task, one row an attempt: the tests, its place, what its advantage became, and why."""
    columns = ("attempt", "tests", "place", "advantage", "becomes", "why")
    groups: dict[str, list[tuple[str, ...]]] = {}
    for row in result.attempts:
        numbers = (_signed(row.advantage_base), _signed(row.advantage))
        groups.setdefault(row.group_id, []).append((row.attempt, row.outcome, row.place, *numbers, row.why))
    recomputed = {row.group_id for row in result.attempts if row.is_violation}
    return [
        rows_table(
            f"Task {name}" + (" (its mean is recomputed after the violation)" if name in recomputed else ""),
            columns,
            rows,
            numeric=(3, 4),
        )
        for name, rows in groups.items()
    ]


def _signed(value: float | None) -> str:
    return "-" if value is None else f"{value:+.3f}"


def doctor_tables(found: "Examination") -> "list[Table]":
    """The machine, its sandboxes, what they leave open, what would be taken."""
    backends = [
        (
            report.name,
            report.state,
            "-" if report.latency_ms is None else f"{report.latency_ms:,.0f} ms",
            f"{report.n_held} of {found.n_attacks}" if report.n_held else "-",
            report.detail,
        )
        for report in found.backends
    ]
    opens = [(report.name, what, truth) for report in found.backends for what, truth in report.opens]
    tables = [
        key_value_table("Versions", found.versions.items()),
        rows_table(
            "Sandboxes", ("backend", "state", "a command", "attacks held", "what"), backends, numeric=(2,)
        ),
        rows_table("Not held in full", ("backend", "attack", "instead"), opens or [("-", "nothing", "")]),
        rows_table("--sandbox auto takes", ("for", "backend", "because"), found.choices),
    ]
    if found.warnings:
        tables.insert(1, rows_table("Warnings", ("known to be bad",), [(one,) for one in found.warnings]))
    return tables
