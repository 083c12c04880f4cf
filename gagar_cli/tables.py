"""Results as rich tables. Values come from results, never computed here; names pass the sanitizer."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from gagar_cli.core.text import escape_untrusted

if TYPE_CHECKING:
    from rich.table import Table

    from gagar_cli.demo import AttemptRow, DemoResult
    from gagar_cli.doctor import BackendReport, Examination


def key_value_table(title: str, rows: Iterable[tuple[str, str]]) -> "Table":
    """A two-column table of names and values."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(
        title=Text(escape_untrusted(title)),
        title_justify="left",
        box=SIMPLE_HEAD,
        show_header=False,
        pad_edge=False,
    )
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(Text(name), Text(escape_untrusted(value)))
    return table


def rows_table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], *, numeric: Iterable[int] = ()
) -> "Table":
    """A table with a header; the columns numbered in `numeric` are aligned to the right.

    Where it is wider than the terminal, the widest columns are folded: nothing is cut, as a log keeps what is printed.
    """
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(escape_untrusted(title)), title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    right = set(numeric)
    for number, name in enumerate(columns):
        table.add_column(
            Text(escape_untrusted(name, keep_newlines=False)),
            justify="right" if number in right else "left",
            overflow="fold",
        )
    for row in rows:
        table.add_row(*(Text(escape_untrusted(cell, keep_newlines=False)) for cell in row))
    return table


def demo_tables(result: "DemoResult") -> "list[Table]":
    """One table a task, one row an attempt: the tests, its place, what its advantage became, and why.

    After a violation the mean is another one: what the others gain by that has a column of its own.
    """
    groups: dict[str, list[AttemptRow]] = {}
    for row in result.attempts:
        groups.setdefault(row.group_id, []).append(row)
    tables = []
    for name, rows in groups.items():
        is_recomputed = any(row.is_violation for row in rows)
        cells = [
            (
                row.attempt,
                row.outcome,
                row.place,
                _signed(row.advantage_by_tests),
                *([_signed(row.advantage_base)] if is_recomputed else []),
                _signed(row.advantage),
                row.why,
            )
            for row in rows
        ]
        steps = ("advantage", "recomputed", "becomes") if is_recomputed else ("advantage", "becomes")
        title = f"Task {name}" + (" (its mean is recomputed after the violation)" if is_recomputed else "")
        columns = ("attempt", "tests", "place", *steps, "why")
        tables.append(rows_table(title, columns, cells, numeric=range(3, 3 + len(steps))))
    return tables


def _signed(value: float | None) -> str:
    return "-" if value is None else f"{value:+.3f}"


def _held(report: "BackendReport", n_attacks: int) -> str:
    if report.in_doubt is not None:
        return f"in doubt: {report.in_doubt}"
    return "-" if report.n_held_by_design is None else f"{report.n_held_by_design} of {n_attacks} attacks"


def doctor_tables(found: "Examination") -> "list[Table]":
    """The machine, its sandboxes, what they leave open, what would be taken."""
    backends = [
        (
            report.name,
            report.state,
            "-" if report.latency_ms is None else f"{report.latency_ms:,.0f} ms",
            _held(report, found.n_attacks),
            report.detail,
        )
        for report in found.backends
    ]
    opens = [(report.name, what, truth) for report in found.backends for what, truth in report.opens]
    tables = [
        key_value_table("Versions", found.versions.items()),
        rows_table(
            "Sandboxes (no attack is tried here: gagar's tests try them)",
            ("backend", "state", "a command", "holds by design", "what"),
            backends,
            numeric=(2,),
        ),
        rows_table("Not held in full", ("backend", "attack", "instead"), opens or [("-", "nothing", "")]),
        rows_table("--sandbox auto takes", ("for", "backend", "because"), found.choices),
    ]
    if found.warnings:
        tables.insert(1, rows_table("Warnings", ("known to be bad",), [(one,) for one in found.warnings]))
    return tables
