"""What a grading run comes to, as one value: the table, the JSON object and the exit code are drawn from it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from gagar_cli.core.grouping import GroupOutlines
from gagar_cli.core.ranking import TIERS, GroupRanking
from gagar_cli.core.schema import GroupKey
from gagar_cli.sandbox.select import ChosenBackend


@dataclass(frozen=True, slots=True)
class GradeResult:
    """Counts of a grading run."""

    model: str
    sandbox: str
    sandbox_reason: str
    n_trajectories: int
    n_groups: int
    n_eligible: int
    """Mixed groups with at least two candidates."""
    n_graded: int
    n_ungraded: int
    n_not_reached: int
    """Eligible, but left out by `--limit`."""
    n_resumed: int
    """Of the graded and ungraded, those that an earlier run had settled."""
    skipped: dict[str, int]
    """Groups out of reach of grading, by reason."""
    ungraded: dict[str, int]
    """By where it broke."""
    ungraded_reasons: list[str]
    """The most frequent reasons in full, at most five."""
    tiers: dict[str, int]
    n_integrity_violations: int
    n_findings: int
    n_unproven: int
    """Negative claims that did not count, because code did not find their proof."""
    n_calls: int
    n_checks: int
    """Commands run in sandboxes."""
    n_input_tokens: int
    n_cached_tokens: int
    n_output_tokens: int
    grading_seconds: float
    """Summed over groups, which ran side by side."""
    notes: list[str]

    @property
    def ungraded_share(self) -> float:
        """Ungraded groups as a share of those that were tried; 0 where none was."""
        n_tried = self.n_graded + self.n_ungraded
        return self.n_ungraded / n_tried if n_tried else 0.0

    def to_record(self) -> dict[str, object]:
        """The summary as one JSON object."""
        return {**asdict(self), "ungraded_share": self.ungraded_share}


def summarise(
    rankings: Mapping[GroupKey, GroupRanking],
    outlines: GroupOutlines,
    model: str,
    *,
    backend: ChosenBackend,
    n_resumed: int,
    notes: Sequence[str],
) -> GradeResult:
    """Count what a run did."""
    graded = [ranking for ranking in rankings.values() if ranking.status == "graded"]
    ungraded = [ranking for ranking in rankings.values() if ranking.status == "ungraded"]
    candidates = [candidate for ranking in graded for candidate in ranking.candidates]
    tiers = Counter(candidate.tier for candidate in candidates)
    skipped = Counter(ranking.reason or "" for ranking in rankings.values() if ranking.status == "skipped")
    reasons = Counter(ranking.reason or "" for ranking in ungraded)
    n_eligible = int(outlines.is_eligible.sum())
    costs = [_Cost.of(ranking.grader) for ranking in (*graded, *ungraded)]
    return GradeResult(
        model=model,
        sandbox=backend.name,
        sandbox_reason=backend.reason,
        n_trajectories=int(outlines.n_rows.sum()),
        n_groups=len(outlines.n_rows),
        n_eligible=n_eligible,
        n_graded=len(graded),
        n_ungraded=len(ungraded),
        n_not_reached=n_eligible - len(graded) - len(ungraded),
        n_resumed=n_resumed,
        skipped=dict(skipped.most_common()),
        ungraded=dict(Counter(reason.partition(":")[0] for reason in reasons.elements()).most_common()),
        ungraded_reasons=[f"{reason} ({count})" for reason, count in reasons.most_common(5)],
        tiers={tier: tiers[tier] for tier in TIERS},
        n_integrity_violations=sum(candidate.is_integrity_violation for candidate in candidates),
        n_findings=sum(len(candidate.findings) for candidate in candidates),
        n_unproven=sum(len(candidate.unproven) for candidate in candidates),
        n_calls=sum(cost.calls for cost in costs),
        n_checks=sum(cost.checks for cost in costs),
        n_input_tokens=sum(cost.tokens_in for cost in costs),
        n_cached_tokens=sum(cost.tokens_cached for cost in costs),
        n_output_tokens=sum(cost.tokens_out for cost in costs),
        grading_seconds=round(sum(cost.seconds for cost in costs), 3),
        notes=list(notes),
    )


@dataclass(frozen=True, slots=True)
class _Cost:
    """The cost fields of one ranking's `grader`."""

    calls: int
    checks: int
    tokens_in: int
    tokens_cached: int
    tokens_out: int
    seconds: float

    @classmethod
    def of(cls, grader: Mapping[str, Any]) -> "_Cost":
        tokens = grader.get("tokens") or {}
        return cls(
            calls=grader.get("calls", 0),
            checks=grader.get("checks", 0),
            tokens_in=tokens.get("in", 0),
            tokens_cached=tokens.get("cached", 0),
            tokens_out=tokens.get("out", 0),
            seconds=grader.get("seconds", 0.0),
        )
