"""The page of a grading run: what the rankings say, what they cost, and what redistribution moved because of them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from gagar_cli.advantage_changes import (
    MovedAdvantage,
    changes_of,
    match_advantages,
    read_advantages,
    sum_changes,
)
from gagar_cli.core.ranking import FLAGS, TIERS, GroupRanking, RankedCandidate
from gagar_cli.core.spending import Spending, spending_of
from gagar_cli.core.summaries import renamed
from gagar_cli.errors import InputError
from gagar_cli.io.rankings import latest_rankings, read_rankings
from gagar_cli.io.streams import show_path
from gagar_cli.io.writers import refuse_existing, write_atomically
from gagar_cli.own_inputs import refuse_own_inputs
from gagar_cli.report.grading_page import grading_page, order_for_page

_SETTINGS = ("model", "mode", "protocol", "sandbox", "rubric", "prompt_version")
"""What a ranking's `grader` says of how it was made, as names of `GradingReport.graded_with`."""
_NAMES = {
    "tiers": "n_candidates_by_tier",
    "flags": "n_candidates_by_flag",
    "findings": "n_findings_by_kind",
    "graded_with": "n_groups_by_setting",
}


@dataclass(frozen=True, slots=True)
class ReportSettings:
    """What `gagar report` was asked to do."""

    rankings: str
    output: str
    advantages: str | None = None
    """What `gagar redistribute` wrote for these rankings: Parquet or JSON lines."""
    title: str | None = None
    max_groups: int = 300
    """Groups that are shown one by one."""
    overwrite: bool = False


@dataclass(frozen=True, slots=True)
class GradingReport:
    """What the page tells."""

    n_groups: Mapping[str, int]
    """By status."""
    reasons: Mapping[str, Mapping[str, int]]
    """Of skipped and of ungraded groups, by the part before the colon."""
    tiers: Mapping[str, int]
    """Candidates by tier, `violation` last."""
    mean_scores: Mapping[str, float]
    flags: Mapping[str, int]
    findings: Mapping[str, int]
    """By kind."""
    n_unproven: int
    """Claims that had no proof and did not count."""
    n_overridden: int
    graded_with: Mapping[str, Mapping[str, int]]
    """`model`, `mode`, `protocol`, `sandbox`, `rubric` and `prompt_version`: value to groups that were not skipped."""
    spending: Spending
    advantage: MovedAdvantage | None
    """Over the rankings' groups."""
    notes: tuple[str, ...] = ()

    def to_record(self) -> dict[str, Any]:
        """The figures as one JSON object."""
        record = renamed(asdict(self), _NAMES)
        n_groups, reasons, notes = (record.pop(name) for name in ("n_groups", "reasons", "notes"))
        return {
            **{f"n_{status}": n_groups.get(status, 0) for status in ("graded", "skipped", "ungraded")},
            **{f"n_{status}_by_reason": counts for status, counts in reasons.items()},
            **record,
            "spending": self.spending.to_record(),
            "advantage": None if self.advantage is None else self.advantage.to_record(),
            "notes": list(notes),
        }


def run(settings: ReportSettings) -> GradingReport:
    """Read rankings, and advantages where given, and write the page.

    Raises:
        InputError: a file cannot be read, or the advantages are of other rankings.
        OutputError: the page exists or cannot be written.
        UsageError: the advantages are of another kind of file.
    """
    advantages = () if settings.advantages is None else (settings.advantages,)
    refuse_own_inputs(settings.output, (settings.rankings, *advantages))
    refuse_existing(settings.output, overwrite=settings.overwrite)
    rankings = list(latest_rankings(read_rankings(settings.rankings)).values())
    if not rankings:
        raise InputError(f"{show_path(settings.rankings)}: no rankings", "`gagar grade` writes them")
    shown = order_for_page(rankings)[: settings.max_groups]
    report, changes = describe(rankings), None
    if settings.advantages is not None:
        frame, notes = match_advantages(read_advantages(settings.advantages), rankings, settings.advantages)
        report = replace(report, advantage=sum_changes(frame), notes=notes)
        changes = changes_of(frame, [one.key for one in shown])
    page = grading_page(
        report, shown, title=settings.title or "Grading report", n_groups=len(rankings), changes=changes
    )
    with write_atomically(settings.output) as stream:
        stream.write(page.encode("utf-8", "backslashreplace"))
    return report


def describe(rankings: Sequence[GroupRanking]) -> GradingReport:
    """The figures of rankings, without what was redistributed."""
    candidates = [one for ranking in rankings for one in ranking.candidates]
    scores: dict[str, list[int]] = {}
    for one in candidates:
        for name, score in one.scores.items():
            scores.setdefault(name, []).append(score)
    tiers = Counter(_class_of(one) for one in candidates)
    return GradingReport(
        n_groups=dict(Counter(ranking.status for ranking in rankings)),
        reasons={status: _reasons(rankings, status) for status in ("skipped", "ungraded")},
        tiers={name: tiers[name] for name in (*TIERS, "violation")},
        mean_scores={name: float(np.mean(values)) for name, values in scores.items()},
        flags={name: sum(bool(one.flags.get(name)) for one in candidates) for name in FLAGS},
        findings=dict(Counter(finding.kind for one in candidates for finding in one.findings).most_common()),
        n_unproven=sum(len(one.unproven) for one in candidates),
        n_overridden=sum(bool(ranking.grader.get("overrides")) for ranking in rankings),
        graded_with=_graded_with([ranking for ranking in rankings if ranking.status != "skipped"]),
        spending=sum((spending_of(ranking.grader) for ranking in rankings), Spending()),
        advantage=None,
    )


def _reasons(rankings: Sequence[GroupRanking], status: str) -> dict[str, int]:
    told = (ranking.reason or "not said" for ranking in rankings if ranking.status == status)
    return dict(Counter(reason.partition(":")[0] for reason in told).most_common())


def _class_of(candidate: RankedCandidate) -> str:
    return "violation" if candidate.is_integrity_violation else candidate.tier or "violation"


def _graded_with(rankings: Sequence[GroupRanking]) -> dict[str, dict[str, int]]:
    told = {name: Counter(_setting(ranking, name) for ranking in rankings) for name in _SETTINGS}
    return {name: dict(counts.most_common()) for name, counts in told.items()}


def _setting(ranking: GroupRanking, name: str) -> str:
    value = ranking.grader.get(name)
    if isinstance(value, Mapping):
        return f"{value.get('name') or 'unnamed'}@{value.get('hash') or 'unknown'}"
    return "not told" if value is None or value == "" else str(value)
