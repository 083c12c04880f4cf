"""What a grading run comes to, as one value: the table, the JSON object and the exit code are drawn from it."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

from gagar_cli.core.consistency import Consistency, measure_consistency
from gagar_cli.core.overriding import is_overridden
from gagar_cli.core.ranking import TIERS, GroupRanking
from gagar_cli.core.spending import Prices, Spending, spending_of
from gagar_cli.grading_plan import Plan
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
    n_late: int = 0
    """Valid trajectories that arrived after their group was graded."""

    @property
    def ungraded_share(self) -> float:
        """Ungraded groups as a share of those that were tried; 0 where none was."""
        n_tried = self.n_graded + self.n_ungraded
        return self.n_ungraded / n_tried if n_tried else 0.0

    def to_record(self) -> dict[str, object]:
        """The summary as one JSON object."""
        return {**asdict(self), "ungraded_share": self.ungraded_share}


def summarise(
    rankings: Iterable[GroupRanking],
    plan: Plan,
    model: str,
    *,
    backend: ChosenBackend,
    n_resumed: int,
    prices: Prices | None,
    stopped: str | None,
    notes: Sequence[str],
) -> GradeResult:
    """Count what a run did."""
    by_status: dict[str, list[GroupRanking]] = {"graded": [], "ungraded": [], "skipped": []}
    for ranking in rankings:
        by_status[ranking.status].append(ranking)
    graded, ungraded = by_status["graded"], by_status["ungraded"]
    skipped = by_status["skipped"]
    reached = {ranking.key for ranking in (*graded, *ungraded, *skipped)}
    candidates = [candidate for ranking in graded for candidate in ranking.candidates]
    accused = [candidate for ranking in (*graded, *skipped) for candidate in ranking.candidates]
    tiers = Counter(candidate.tier for candidate in candidates)
    reasons = Counter(ranking.reason or "" for ranking in ungraded)
    spent = sum((spending_of(ranking.grader) for ranking in (*graded, *ungraded, *skipped)), Spending())
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
        skipped=dict(Counter(ranking.reason or "" for ranking in skipped).most_common()),
        ungraded=dict(Counter(reason.partition(":")[0] for reason in reasons.elements()).most_common()),
        ungraded_reasons=[f"{reason} ({count})" for reason, count in reasons.most_common(5)],
        tiers={tier: tiers[tier] for tier in TIERS},
        n_integrity_violations=sum(candidate.is_integrity_violation for candidate in accused),
        n_integrity_disputed=sum(map(_count_disputed, (*graded, *skipped))),
        n_findings=sum(len(candidate.findings) for candidate in candidates),
        n_unproven=sum(len(candidate.unproven) for candidate in candidates),
        n_overridden=sum(is_overridden(ranking) for ranking in graded),
        n_calls=spent.n_calls,
        n_checks=spent.n_checks,
        n_input_tokens=spent.n_input_tokens,
        n_cached_tokens=spent.n_cached_tokens,
        n_output_tokens=spent.n_output_tokens,
        grading_seconds=round(spent.seconds, 3),
        cost=None if prices is None else round(spent.cost(prices), 9),
        stopped=stopped,
        consistency=measure_consistency(graded),
        notes=list(notes),
    )


def _count_disputed(ranking: GroupRanking) -> int:
    integrity = ranking.grader.get("integrity")
    verdicts = integrity.get("verdicts") if isinstance(integrity, Mapping) else None
    return sum(verdict.get("verdict") == "disputed" for verdict in verdicts or ())
