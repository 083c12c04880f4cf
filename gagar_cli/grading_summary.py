"""What a grading run comes to, as one value: the table, the JSON object and the exit code are drawn from it."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

from gagar_cli.core.consistency import Consistency, sum_up_consistency
from gagar_cli.core.ranking import TIERS
from gagar_cli.core.spending import Prices, Spending
from gagar_cli.core.summaries import renamed
from gagar_cli.grading_kept import KeptRanking
from gagar_cli.grading_plan import Plan
from gagar_cli.sandbox.select import ChosenBackend

_NAMES = {
    "skipped": "n_skipped_by_reason",
    "ungraded": "n_ungraded_by_reason",
    "tiers": "n_candidates_by_tier",
}
_SPENDING = (
    "n_calls",
    "n_checks",
    "n_input_tokens",
    "n_cached_tokens",
    "n_output_tokens",
    "grading_seconds",
    "cost",
)


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
    """Eligible, but left out by `--limit` or by a budget of the run."""
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
    """Confirmed, also in groups that they left without a ranking."""
    n_integrity_disputed: int
    """Proven in one conversation and not in another: recorded as leads."""
    n_findings: int
    n_unproven: int
    """Negative claims that did not count, because code did not find their proof."""
    n_overridden: int
    """Groups that a person corrected."""
    n_calls: int
    n_checks: int
    """Commands run in sandboxes."""
    n_input_tokens: int
    n_cached_tokens: int
    n_output_tokens: int
    grading_seconds: float
    """Summed over groups, which ran side by side."""
    cost: float | None
    """Of all graded and ungraded groups, in the currency of the prices; None where none were given."""
    stopped: str | None
    """Why no new groups were taken, where a budget of the run was used up."""
    consistency: Consistency
    """Agreement between the repeats of a group, and the effect of the place at which a candidate was shown."""
    notes: list[str]
    n_late: int
    """Valid trajectories that arrived after their group was graded."""

    @property
    def ungraded_share(self) -> float:
        """Ungraded groups as a share of those that were tried; 0 where none was."""
        n_tried = self.n_graded + self.n_ungraded
        return self.n_ungraded / n_tried if n_tried else 0.0

    def to_record(self) -> dict[str, object]:
        """The summary as one JSON object."""
        record = renamed(asdict(self), _NAMES)
        spending = {name: record.pop(name) for name in _SPENDING}
        return {
            **record,
            "n_skipped": sum(self.skipped.values()),
            "ungraded_share": self.ungraded_share,
            "consistency": self.consistency.to_record(),
            "spending": spending,
        }


def summarise(
    rankings: Iterable[KeptRanking],
    plan: Plan,
    model: str,
    *,
    backend: ChosenBackend,
    n_resumed: int,
    n_late: int,
    prices: Prices | None,
    stopped: str | None,
    notes: Sequence[str],
) -> GradeResult:
    """Count what a run did."""
    by_status: dict[str, list[KeptRanking]] = {"graded": [], "ungraded": [], "skipped": []}
    for ranking in rankings:
        by_status[ranking.status].append(ranking)
    graded, ungraded = by_status["graded"], by_status["ungraded"]
    skipped = by_status["skipped"]
    reached = {ranking.key for ranking in (*graded, *ungraded, *skipped)}
    accused = (*graded, *skipped)
    reasons = Counter(ranking.reason or "" for ranking in ungraded)
    spent = sum((ranking.spending for ranking in (*graded, *ungraded, *skipped)), Spending())
    return GradeResult(
        model=model,
        sandbox=backend.name,
        sandbox_reason=backend.reason,
        n_trajectories=plan.n_trajectories,
        n_groups=plan.n_groups,
        n_eligible=len(plan.jobs),
        n_graded=len(graded),
        n_ungraded=len(ungraded),
        n_not_reached=sum(job.key not in reached for job in plan.jobs),
        n_resumed=n_resumed,
        skipped=dict(Counter((ranking.reason or "").partition(":")[0] for ranking in skipped).most_common()),
        ungraded=dict(Counter(reason.partition(":")[0] for reason in reasons.elements()).most_common()),
        ungraded_reasons=[f"{reason} ({count})" for reason, count in reasons.most_common(5)],
        tiers={tier: sum(ranking.n_by_tier[place] for ranking in graded) for place, tier in enumerate(TIERS)},
        n_integrity_violations=sum(ranking.n_violations for ranking in accused),
        n_integrity_disputed=sum(ranking.n_disputed for ranking in accused),
        n_findings=sum(ranking.n_findings for ranking in graded),
        n_unproven=sum(ranking.n_unproven for ranking in graded),
        n_overridden=sum(ranking.is_overridden for ranking in accused),
        n_calls=spent.n_calls,
        n_checks=spent.n_checks,
        n_input_tokens=spent.n_input_tokens,
        n_cached_tokens=spent.n_cached_tokens,
        n_output_tokens=spent.n_output_tokens,
        grading_seconds=round(spent.seconds, 3),
        cost=None if prices is None else round(spent.cost(prices), 9),
        stopped=stopped,
        consistency=sum_up_consistency(ranking.consistency for ranking in graded),
        notes=[*backend.notes, *notes],
        n_late=n_late,
    )
