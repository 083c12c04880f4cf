"""The page of a calibration: verdicts, rates side by side, and what each planted flaw was."""

from typing import TYPE_CHECKING

from gagar_cli.core.calibration_card import Card, verdict, verdict_state
from gagar_cli.core.flaws import FLAWS
from gagar_cli.core.text import counted
from gagar_cli.report.charts import Bar, interval_chart
from gagar_cli.report.page import render_page
from gagar_cli.tables_calibration import figure_rows, kind_rows, show_rate

if TYPE_CHECKING:
    from markupsafe import Markup

    from gagar_cli.calibrate import CalibrateResult


def calibration_page(result: "CalibrateResult") -> str:
    """The report as one HTML document."""
    cards = result.cards
    return render_page(
        "calibration.html.j2",
        {
            "title": f"Calibration of {', '.join(card.grader for card in cards)}",
            "subtitle": (
                f"{counted(sum(result.n_planted.values()), 'planted flaw')} in {counted(cards[0].n_groups, 'group')}"
            ),
            "graders": [card.grader for card in cards],
            "verdicts": [
                {
                    "text": f"{card.grader}: {verdict(card)}",
                    "direction": {"fit": "up", "unsure": "", "unfit": "down"}[verdict_state(card)],
                }
                for card in cards
            ],
            "figures": figure_rows(cards),
            "kinds": kind_rows(cards),
            "charts": [(card.grader, _chart(card)) for card in cards],
            "notes": list(result.notes),
            "n_dropped": result.n_dropped,
            "gates": [
                {
                    "text": gate.gate.text,
                    "result": ("met, " if gate.is_met else "not met, ") + gate.describe(),
                }
                for gate in result.gates
            ],
        },
    )


def _chart(card: Card) -> "Markup":
    bars = []
    for kind in FLAWS:
        rate = card.by_kind.get(kind)
        if rate is not None and rate.value is not None:
            low, high = rate.interval or (None, None)
            bars.append(Bar(kind.replace("_", " "), rate.value, low, high, show_rate(rate)))
    return interval_chart(bars, centre=0.5, title="planted flaws seen")
