"""Agreement between rankings as rich tables."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gagar_cli.core.ranking_agreement import CLASSES, Agreement, Reliability
from gagar_cli.core.statistics import Estimate
from gagar_cli.core.text import counted
from gagar_cli.tables import key_value_table, rows_table
from gagar_cli.tables_audit import show_estimate

if TYPE_CHECKING:
    from rich.table import Table


def agree_tables(found: Agreement) -> Iterator["Table"]:
    """Every pair, the confusion of tiers, and the groups on which the rankings differ most."""
    rows = [
        (
            f"{pair.first} – {pair.second}",
            f"{pair.n_groups:,}",
            _shown(pair.tau_b, is_share=False),
            _shown(pair.top1, is_share=True),
            _shown(pair.same_tier, is_share=True),
        )
        for pair in found.pairs
    ]
    yield rows_table("agreement", ("rankings", "groups", "τ-b", "same best", "same tier"), rows, numeric=(1,))
    yield key_value_table(
        "Krippendorff's α over all rankings",
        [("tiers", _alpha(found.tiers)), ("scores", _alpha(found.scores))],
    )
    for pair in found.pairs:
        if pair.n_groups:
            title = f"tiers: {pair.first} (rows) and {pair.second}"
            counts = [
                (name, *(f"{n:,}" for n in row)) for name, row in zip(CLASSES, pair.confusion, strict=True)
            ]
            yield rows_table(title, ("", *CLASSES), counts, numeric=range(1, len(CLASSES) + 1))
    if found.disputes:
        disputes = [
            (str(one.key), name, ", ".join(f"{candidate} {said}" for candidate, said in says.items()))
            for one in found.disputes
            for name, says in one.says.items()
        ]
        yield rows_table("most disputed groups", ("group", "ranking", "says"), disputes)


def _shown(estimate: Estimate | None, *, is_share: bool) -> str:
    return "not measured" if estimate is None else show_estimate(estimate, is_share=is_share, unit="group")


def _alpha(one: Reliability) -> str:
    if one.alpha is None:
        return "not measured: nothing differs, or nothing is shared"
    interval = f" [{one.interval.low:.2f}, {one.interval.high:.2f}]" if one.interval else ""
    return f"{one.alpha:.2f}{interval} over {counted(one.n_units, 'candidate')}"
