"""A sweep as a rich table. Values come from results, never computed here."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gagar_cli.core.text import counted
from gagar_cli.sweep import SweepResult, SweptVariant, weight_summary
from gagar_cli.tables import rows_table

if TYPE_CHECKING:
    from rich.table import Table


def sweep_table(result: SweepResult) -> "Table":
    """One row a variant; the drawn weights are one row of their range, and each is in the JSON."""
    columns = ("", "capped", "moved", "amplified", "pass sums", "failures", "other best", "τ-b")
    title = (
        f"Sweep over {counted(result.n_graded, 'graded group')} of {result.n_groups:,}; "
        "moved, other best and τ-b against the default"
    )
    if result.n_without_scores:
        without = counted(result.n_without_scores, "group")
        title += f"\n{without} without scores: the order stays as it is under other weights"
    return rows_table(title, columns, _rows(result), numeric=range(1, len(columns)))


def _rows(result: SweepResult) -> Iterator[tuple[str, ...]]:
    n_draws = 0
    for each in result.variants:
        if each.variant.name.startswith("draw "):
            n_draws += 1
        else:
            yield _row(each)
    if n_draws:
        ranges = weight_summary(result.variants)
        changed, tau = ranges["top_changed"], ranges.get("tau_b")
        yield (
            f"weights, {counted(n_draws, 'draw')}",
            *[""] * 5,
            "{:.1%} to {:.1%}".format(*changed[::2]),
            "-" if tau is None else "{:.3f} to {:.3f}".format(*tau[::2]),
        )


def _row(each: SweptVariant) -> tuple[str, ...]:
    effects, comparison = each.effects, each.comparison
    n_failures = effects.n_changed_failures
    return (
        f"{each.variant.axis} {each.variant.name}",
        "-" if each.cap_rate is None else f"{each.cap_rate:.1%}",
        f"{comparison.moved:.1%}",
        f"{effects.max_amplification:.3f}",
        "kept" if effects.pass_sum_error < 1e-9 else f"to {effects.pass_sum_error:.1e}",
        "kept" if not n_failures else f"{n_failures:,} changed",
        f"{comparison.n_top_changed / comparison.n_groups:.1%}",
        "-" if comparison.tau_b is None else f"{comparison.tau_b:.3f}",
    )
