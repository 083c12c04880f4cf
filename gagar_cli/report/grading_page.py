"""The page of a grading run: figures first, then every group with its candidates and the code that findings cite."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gagar_cli.core.ranking import TIERS, GroupRanking, RankedCandidate
from gagar_cli.core.text import counted
from gagar_cli.report.attempts import describe_attempt
from gagar_cli.report.charts import Bar, interval_chart, stacked_bars
from gagar_cli.report.page import render_page

if TYPE_CHECKING:
    from gagar_cli.advantage_changes import Changes
    from gagar_cli.grading_report import GradingReport

_SETTING_NAMES = {"prompt_version": "prompt version", "model": "graded by"}


def order_for_page(rankings: Sequence[GroupRanking]) -> list[GroupRanking]:
    """As the page shows them: graded groups with the most findings first."""
    return sorted(rankings, key=lambda one: (one.status != "graded", -_n_findings(one), str(one.key)))


def grading_page(
    report: "GradingReport",
    shown: Sequence[GroupRanking],
    *,
    title: str,
    n_groups: int,
    changes: "Changes | None" = None,
) -> str:
    """The report of a grading run as one HTML document.

    `shown`: the groups that are told one by one, of `n_groups`; `changes`: what became of candidates' advantages, None
    where nothing was redistributed.
    """
    n_candidates = sum(report.tiers.values()) or 1
    shares = {"candidates": [count / n_candidates for count in report.tiers.values()]}
    classes = [f"tier {name[-1]}" if name in TIERS else name for name in report.tiers]
    scores = [
        Bar(name.replace("_", " "), value, None, None, f"{value:.2f}")
        for name, value in report.mean_scores.items()
    ]
    by_status = ", ".join(f"{count:,} {status}" for status, count in report.n_groups.items())
    return render_page(
        "grading.html.j2",
        {
            "title": title,
            "subtitle": f"{by_status}; {counted(sum(report.tiers.values()), 'candidate')} ranked",
            "facts": report_facts(report),
            "tiers_chart": stacked_bars(shares, classes, title="tiers"),
            "scores_chart": interval_chart(scores, centre=3.0, title="mean scores"),
            "has_changes": changes is not None,
            "groups": [_group(one, changes) for one in shown],
            "n_left_out": n_groups - len(shown),
        },
    )


def report_facts(report: "GradingReport") -> list[tuple[str, str]]:
    """The figures as names and values, for table and page."""
    rows = [("groups", _listed(report.n_groups))]
    rows += [(f"why {status}", _listed(counts)) for status, counts in report.reasons.items() if counts]
    rows += [
        ("tiers", _listed(report.tiers)),
        ("flags", _listed({name: n for name, n in report.flags.items() if n}) or "none"),
        ("proven findings", _listed(report.findings) or "none"),
        ("unproven claims", f"{report.n_unproven:,}, which did not count"),
    ]
    if report.n_overridden:
        rows.append(("overridden", f"{counted(report.n_overridden, 'group')}, by people"))
    spent = report.spending
    tokens = f"{counted(spent.n_input_tokens, 'token')} in ({spent.n_cached_tokens:,} cached)"
    rows.append(("cost", f"{counted(spent.n_calls, 'call')}, {tokens}, {spent.n_output_tokens:,} out"))
    for name, counts in report.graded_with.items():
        rows.append((_SETTING_NAMES.get(name, name), _values(counts)))
    moved = report.advantage
    if moved is not None:
        share = f" ({moved.moved / moved.total:.1%} of what passing attempts had)" if moved.total else ""
        rows.append(
            (
                "advantage moved",
                f"{moved.moved:,.2f}{share}, {moved.n_changed:,} of {counted(moved.n_rows, 'row')}",
            )
        )
        rows.append(("groups capped", f"{moved.n_capped_groups:,}"))
    return rows


def _listed(counts: Any) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counts.items())


def _values(counts: Any) -> str:
    """Settings are the same for all groups as a rule: only where they differ do counts say anything."""
    return _listed(counts) if len(counts) > 1 else next(iter(counts), "nothing was graded")


def _n_findings(ranking: GroupRanking) -> int:
    return sum(len(one.findings) for one in ranking.candidates)


def _group(ranking: GroupRanking, changes: "Changes | None") -> dict[str, Any]:
    shown = ranking.shown_as
    ordered = sorted(ranking.candidates, key=lambda one: (one.tier or "T9", one.rank or 0))
    n_findings = _n_findings(ranking)
    told = (
        f"{counted(len(ranking.candidates), 'candidate')}, {counted(n_findings, 'finding')}"
        if ranking.candidates
        else ranking.status
    )
    return {
        "name": str(ranking.key),
        "summary": told,
        "reason": None if ranking.status == "graded" else ranking.reason or ranking.status,
        "attempts": [
            describe_attempt(
                one,
                name=one.trajectory_id,
                detail=f"shown as {shown.get(one.trajectory_id, 'itself')}",
                advantage=_advantage(ranking, one, changes),
            )
            for one in ordered
        ],
    }


def _advantage(ranking: GroupRanking, candidate: RankedCandidate, changes: "Changes | None") -> str:
    if changes is None:
        return ""
    change = changes.get((ranking.key, candidate.trajectory_id))
    if change is None:
        return "advantage not in the file"
    before, after = ("none" if value is None else f"{value:+.3f}" for value in change)
    return f"advantage {before} → {after}"
