"""The page of an audit: the answer, the figures with their intervals, and every judgment with the code that it cites."""

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from gagar_cli.audit_key import AuditKey
from gagar_cli.audit_summary import AuditResult
from gagar_cli.core.comparison import Comparison, Difference
from gagar_cli.core.figure_ranges import SHARES
from gagar_cli.core.ranking import GroupRanking
from gagar_cli.core.text import counted
from gagar_cli.report.attempts import describe_attempt
from gagar_cli.report.charts import Bar, interval_chart, stacked_bars
from gagar_cli.report.page import render_page
from gagar_cli.tables_audit import (
    FIGURE_NAMES,
    answer,
    audit_facts,
    basis_of,
    figure_label,
    show_p_value,
    show_ties,
    show_value,
)

MAX_JUDGMENTS = 400
"""More would make a page that a browser opens slowly."""


def audit_page(result: AuditResult, key: AuditKey, judgments: Sequence[Sequence[GroupRanking]]) -> str:
    """The report of an audit as one HTML document."""
    names = ", ".join(result.policies)
    made = [
        (judge, ranking)
        for judge, of_judge in zip(result.judges, judgments, strict=True)
        for ranking in of_judge
    ]
    made.sort(key=lambda one: (one[1].key.group_id, one[0], one[1].key.step or 0))
    attempts = {one.attempt_id: one for task in key.tasks for one in task.attempts}
    tasks = [
        _task(ranking, attempts, judge if len(result.judges) > 1 else "")
        for judge, ranking in made[:MAX_JUDGMENTS]
    ]
    return render_page(
        "audit.html.j2",
        {
            "title": f"Audit of {names}",
            "subtitle": (
                f"{result.n_tasks['judged']} of {counted(result.n_tasks['sampled'], 'sampled task')} judged, sampled "
                f"from {result.n_tasks['solved_by_all']} that every policy solved, of {result.n_tasks['shared']} shared"
            ),
            "comparisons": [_comparison(one, result.dimensions) for one in result.comparisons],
            "notes": [*result.notes],
            "gates": [
                {
                    "text": gate.gate.text,
                    "result": ("met, " if gate.is_met else "not met, ") + gate.describe(),
                }
                for gate in result.gates
            ],
            "tiers_chart": _tiers_chart(result),
            "facts": audit_facts(result),
            "tasks": tasks,
            "n_left_out": max(0, len(made) - MAX_JUDGMENTS),
        },
    )


def _comparison(comparison: Comparison, dimensions: Sequence[str]) -> dict[str, Any]:
    rates = [("win rate", comparison.win_rate), ("top-1 share", comparison.top1_share)]
    scores = [(name, comparison.differences.get(name)) for name in ("weighted_score", *dimensions)]
    return {
        "title": f"{comparison.second} against {comparison.first}: {basis_of(comparison)}",
        "first": comparison.first,
        "second": comparison.second,
        "answer": answer(comparison),
        "direction": _direction(comparison.win_rate),
        "rates_chart": interval_chart(
            [_bar(name, one, is_share=True) for name, one in rates if one], centre=0.5, title="rates"
        ),
        "scores_chart": interval_chart(
            [_bar(FIGURE_NAMES.get(name, name), one, is_share=False) for name, one in scores if one],
            centre=0.0,
            title="differences of scores",
        ),
        "rows": [
            *(_row(name, one, None, is_share=True) for name, one in rates if one),
            *(
                [("ties", "", "", show_ties(comparison), "", "", "")]
                if comparison.tie_rate is not None
                else []
            ),
            *(
                _row(figure_label(comparison, name), one, comparison.values[name], is_share=name in SHARES)
                for name, one in comparison.differences.items()
            ),
        ],
    }


def _direction(rate: Difference | None) -> str:
    if rate is None or rate.estimate.interval is None:
        return ""
    low, high = rate.estimate.interval
    return "up" if low > 0.5 else "down" if high < 0.5 else ""


def _bar(name: str, one: Difference, *, is_share: bool) -> Bar:
    low, high = one.estimate.interval or (None, None)
    shown = show_value(one.estimate.value, is_share=is_share, signed=not is_share)
    if low is not None and high is not None:
        ends = (show_value(end, is_share=is_share, signed=not is_share) for end in (low, high))
        is_constant = one.estimate.interval_kind == "constant"
        shown += " in every task" if is_constant else f" [{', '.join(ends)}]"
    return Bar(name, one.estimate.value, low, high, shown)


def _row(name: str, one: Difference, values: tuple[Any, Any] | None, *, is_share: bool) -> tuple[str, ...]:
    signed = values is not None

    def show(value: float) -> str:
        return show_value(value, is_share=is_share, signed=signed)

    def ends(interval: tuple[float, float] | None) -> str:
        return f"{show(interval[0])} to {show(interval[1])}" if interval else ""

    estimate = one.estimate
    # A rate is the second policy's; what is left of 1 is the first's.
    sides = [
        show_value(side, is_share=is_share)
        for side in ([one.value for one in values] if values else [1 - estimate.value, estimate.value])
    ]
    return (
        name,
        *sides,
        show(estimate.value) if values else "",
        "the same in every task" if estimate.interval_kind == "constant" else ends(estimate.interval),
        ends(estimate.bootstrap),
        show_p_value(one),
    )


def _tiers_chart(result: AuditResult) -> Markup:
    names = ("tier_1_share", "tier_2_share", "tier_3_share")
    shares = {
        policy: [result.estimates[policy][name].value for name in names]
        for policy in result.policies
        if all(name in result.estimates[policy] for name in names)
    }
    if not shares:
        return Markup("")
    return stacked_bars(shares, ("tier 1", "tier 2", "tier 3"), title="tiers of ranked attempts")


def _task(ranking: GroupRanking, attempts: Mapping[str, Any], judge: str) -> dict[str, Any]:
    ordered = sorted(ranking.candidates, key=lambda one: (one.tier or "T9", one.rank or 0))
    shown = ranking.shown_as
    described = []
    for one in ordered:
        known = attempts.get(one.trajectory_id)
        name = known.policy if known else one.trajectory_id
        blind_id = shown.get(one.trajectory_id, "")
        detail = f"{known.trajectory_id}, shown as {blind_id}" if known else blind_id
        described.append(describe_attempt(one, name=name, detail=detail))
    best = [one["name"] for one in described if (one["tier"], one["rank"]) == _first(described)]
    return {
        "name": ranking.key.group_id,
        "summary": " · ".join(
            part
            for part in (judge, f"best: {', '.join(dict.fromkeys(best))}" if best else ranking.status)
            if part
        ),
        "reason": None if ranking.status == "graded" else ranking.reason,
        "attempts": described,
    }


def _first(described: Sequence[Mapping[str, Any]]) -> tuple[Any, Any]:
    ranked = [one for one in described if not one["is_violation"]]
    return (ranked[0]["tier"], ranked[0]["rank"]) if ranked else (None, None)
