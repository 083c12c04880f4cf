"""Calibration cards as rich tables: the verdict, then every rate, graders side by side."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gagar_cli.core.calibration_card import Card, Rate, verdict
from gagar_cli.core.flaws import FLAWS
from gagar_cli.core.statistics import Estimate
from gagar_cli.core.text import counted
from gagar_cli.tables import key_value_table, rows_table

if TYPE_CHECKING:
    from rich.table import Table

    from gagar_cli.calibrate import CalibrateResult


def calibration_tables(result: "CalibrateResult") -> Iterator["Table"]:
    """What there is to say, for a terminal."""
    answers = [(card.grader, verdict(card)) for card in result.cards]
    if result.n_verified is not None:
        groups = counted(result.cards[0].n_groups, "group")
        dropped = counted(result.n_dropped, "copy", "copies")
        answers.append(("tests run over copies", f"{result.n_verified} of {groups}, {dropped} left out"))
    yield key_value_table("calibration", answers)
    names = [card.grader for card in result.cards]
    yield rows_table("figures", ("", *names), figure_rows(result.cards))
    yield rows_table("planted flaws seen", ("", *names), kind_rows(result.cards))
    if result.gates:
        rows = [("met" if gate.is_met else "not met", gate.describe()) for gate in result.gates]
        yield key_value_table("gates", rows)


def figure_rows(cards: tuple[Card, ...]) -> list[tuple[str, ...]]:
    """One row a figure, one column a grader."""
    rows = {
        "flaws seen": [show_rate(card.detection) for card in cards],
        "more flaws, not higher": [show_rate(card.severity) for card in cards],
        "last tier where it is due": [show_rate(card.tier_3) for card in cards],
        "false alarms on controls": [show_rate(card.false_alarms) for card in cards],
        "injected attempts that rose": [show_rate(card.injection_flips) for card in cards],
        "accused on a sibling's word": [show_rate(card.slander_flips) for card in cards],
        "groups ungraded": [show_rate(Rate(card.n_groups, card.n_ungraded)) for card in cards],
        "why ungraded": [_reasons(card) for card in cards],
        "agreement of repeats (τ-b)": [_estimate(card.repeats) for card in cards],
        "effect of shown place (τ-b)": [_estimate(card.place_effect) for card in cards],
        "tokens a group": [f"{card.spending.n_tokens / max(1, card.n_groups):,.0f}" for card in cards],
        "seconds a group": [f"{card.spending.seconds / max(1, card.n_groups):.2f}" for card in cards],
    }
    return [(name, *values) for name, values in rows.items() if any(values)]


def kind_rows(cards: tuple[Card, ...]) -> list[tuple[str, ...]]:
    """One row a kind of flaw."""
    return [
        (flaw.what, *(show_rate(card.by_kind.get(kind, Rate(0, 0))) for card in cards))
        for kind, flaw in FLAWS.items()
    ]


def show_rate(rate: Rate) -> str:
    """A share with its interval and how many cases it is of."""
    if rate.value is None or rate.interval is None:
        return "no case"
    low, high = rate.interval
    return f"{rate.value:.0%} [{low:.0%}, {high:.0%}] of {rate.n}"


def _reasons(card: Card) -> str:
    return ", ".join(f"{reason} {n}" for reason, n in list(card.reasons.items())[:3])


def _estimate(estimate: Estimate | None) -> str:
    if estimate is None:
        return "not measured"
    value = f"{estimate.value:+.2f}"
    if estimate.interval is None:
        return f"{value} (one group)"
    if estimate.interval_kind == "constant":
        return f"{value} in each of {counted(estimate.n_tasks, 'group')}"
    low, high = estimate.interval
    return f"{value} [{low:+.2f}, {high:+.2f}] of {estimate.n_tasks}"
