"""What an audit found: the blinds lifted, the figures worked out, the whole as one record for JSON, table and page."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np

from gagar_cli.audit_judges import (
    guessed_right,
    judged_in_both_orders,
    judges_agreement,
    order_flips,
    position_effect,
)
from gagar_cli.audit_key import AuditKey, KeyedAttempt
from gagar_cli.core.bradley_terry import fit_strengths
from gagar_cli.core.comparison import (
    ATTEMPT_FIGURES,
    Comparison,
    Difference,
    JudgedAttempt,
    JudgedTask,
    compare,
    estimate_policy,
    quality_figures,
    task_shares,
    violation_rate,
)
from gagar_cli.core.gates import GateResult
from gagar_cli.core.ranking import TIERS, GroupRanking, RankedCandidate
from gagar_cli.core.ranking_agreement import Agreement, Reliability
from gagar_cli.core.spending import Spending, spending_of
from gagar_cli.core.statistics import Estimate, estimate_record, holm_p_values
from gagar_cli.core.text import counted


@dataclass(frozen=True, slots=True)
class AuditResult:
    """The answer of an audit."""

    policies: tuple[str, ...]
    judges: tuple[str, ...]
    is_pairwise: bool
    shows: str
    n_tasks: Mapping[str, int]
    """`shared`, `solved_by_all` (what is sampled from), `sampled`, `judged` (by every judge), `ungraded` (a judge gave no
    ranking)."""
    n_tasks_by_policy: Mapping[str, int]
    ungraded_reasons: tuple[str, ...]
    """The most frequent ones first."""
    estimates: Mapping[str, Mapping[str, Estimate]]
    """Policy to figure to estimate, over all tasks that tell it."""
    comparisons: tuple[Comparison, ...]
    """Every two policies, in their order."""
    strengths: Mapping[str, float] | None
    """Log strengths of more than two policies (Davidson's model), mean 0; None where some never met."""
    position: Estimate | None
    """How often the attempt that was shown earlier stands above one that was shown later, ties half: 0.5 is unbiased."""
    flips: Estimate | None
    """How often a pair's verdict changes with the order in which it is shown; None where pairs were not asked."""
    guessed: Estimate | None
    """How often the judge told an attempt's policy right, asked after its ranking; chance is one in the policies."""
    agreement: Agreement | None
    """How far the judges agree; None for one judge."""
    spending: Spending
    dimensions: tuple[str, ...]
    """Of the rubric."""
    scrubbed: tuple[str, ...]
    notes: tuple[str, ...]
    gates: tuple[GateResult, ...] = field(default=())

    @property
    def is_decided(self) -> bool:
        """Whether the interval of the first comparison's win rate leaves out one half."""
        rate = self.comparisons[0].win_rate
        if rate is None or rate.estimate.interval is None:
            return False
        return not rate.estimate.interval.low <= 0.5 <= rate.estimate.interval.high

    def to_record(self) -> dict[str, Any]:
        """The summary: names are always there, null where nothing was measured."""
        comparisons = [_comparison_record(one, self.dimensions) for one in self.comparisons]
        corrected = holm_p_values([one["win_rate"]["p_value"] for one in comparisons])
        for one, p_value in zip(comparisons, corrected, strict=True):
            one["win_rate"]["p_holm"] = p_value
        return {
            "policies": {
                name: {
                    figure: _estimate_record(self.estimates[name].get(figure))
                    for figure in (*quality_figures(self.dimensions), *ATTEMPT_FIGURES, "violation_share")
                }
                for name in self.policies
            },
            **comparisons[0],
            "comparisons": comparisons,
            "strengths": dict(self.strengths) if self.strengths else None,
            "earlier_wins": _estimate_record(self.position),
            "order_flips": _estimate_record(self.flips),
            "policy_guessed": {**_estimate_record(self.guessed), "chance": 1 / len(self.policies)},
            "judges": list(self.judges),
            "agreement": _agreement_record(self.agreement),
            "is_pairwise": self.is_pairwise,
            "shows": self.shows,
            "n_tasks": dict(self.n_tasks),
            "n_tasks_by_policy": dict(self.n_tasks_by_policy),
            "ungraded_reasons": list(self.ungraded_reasons),
            "spending": self.spending.to_record(),
            "scrubbed": list(self.scrubbed),
            "notes": list(self.notes),
        }


def summarise(key: AuditKey, judgments: Sequence[Sequence[GroupRanking]]) -> AuditResult:
    """Lift the blinds and work out every figure; `judgments` are those of each judge."""
    attempts = {one.attempt_id: one for task in key.tasks for one in task.attempts}
    made = [ranking for of_judge in judgments for ranking in of_judge]
    by_judge = [[ranking for ranking in of_judge if ranking.status == "graded"] for of_judge in judgments]
    notes = [*key.notes]
    if key.is_pairwise:
        n_graded = sum(map(len, by_judge))
        by_judge = [judged_in_both_orders(of_judge) for of_judge in by_judge]
        n_halves = n_graded - sum(map(len, by_judge))
        notes += [f"left out: {counted(n_halves, 'pair')} judged in one order only"] if n_halves else []
    graded = [ranking for of_judge in by_judge for ranking in of_judge]
    judged = [_judged_task(ranking, attempts) for ranking in graded]
    observed = [
        JudgedTask(task.task_id, tuple(_observed(one) for one in task.attempts)) for task in key.tasks
    ]
    options: Mapping[str, Any] = {"observed": observed, "dimensions": key.dimensions, "seed": key.seed}
    estimates = {policy: estimate_policy(judged, policy, **options) for policy in key.policies}
    for policy, found in estimates.items():
        violations = violation_rate(judged, policy, seed=key.seed)
        if violations is not None:
            found["violation_share"] = violations
    n_sampled = sum(task.is_sampled for task in key.tasks)
    failed = Counter(ranking.key.group_id for ranking in made if ranking.status != "graded")
    reasons = Counter(
        (ranking.reason or "").partition(":")[0] for ranking in made if ranking.status != "graded"
    )
    return AuditResult(
        policies=key.policies,
        judges=key.judges,
        is_pairwise=key.is_pairwise,
        shows=key.shows,
        n_tasks={
            "shared": len(key.tasks),
            "solved_by_all": sum(task.is_solved_by(key.policies) for task in key.tasks),
            "sampled": n_sampled,
            "judged": len({task.task_id for task in judged} - set(failed)),
            "ungraded": len(failed),
        },
        n_tasks_by_policy=key.n_tasks_by_policy,
        ungraded_reasons=tuple(f"{reason} ({n})" for reason, n in reasons.most_common(5)),
        estimates=estimates,
        comparisons=tuple(compare(judged, *pair, **options) for pair in combinations(key.policies, 2)),
        strengths=_strengths(judged, key.policies) if len(key.policies) > 2 else None,
        position=position_effect(graded, seed=key.seed),
        flips=order_flips(by_judge, seed=key.seed) if key.is_pairwise else None,
        guessed=guessed_right(graded, attempts, key),
        agreement=judges_agreement(key, by_judge),
        spending=sum((spending_of(ranking.grader) for ranking in made), Spending()),
        dimensions=key.dimensions,
        scrubbed=key.scrubbed,
        notes=tuple(notes),
    )


def _judged_task(ranking: GroupRanking, attempts: Mapping[str, KeyedAttempt]) -> JudgedTask:
    judged = []
    for candidate in ranking.candidates:
        known = attempts.get(candidate.trajectory_id)
        if known is not None:
            judged.append(_judged_attempt(candidate, known))
    return JudgedTask(ranking.key.group_id, tuple(judged))


def _judged_attempt(candidate: RankedCandidate, known: KeyedAttempt) -> JudgedAttempt:
    place = None
    if candidate.tier is not None and candidate.rank is not None and not candidate.is_integrity_violation:
        place = (TIERS.index(candidate.tier) + 1, candidate.rank)
    return JudgedAttempt(
        known.policy,
        known.passed,
        place,
        {name: float(score) for name, score in candidate.scores.items()},
        candidate.weighted_score,
        candidate.is_integrity_violation,
        known.n_turns,
        known.n_output_tokens,
        known.patch_lines,
    )


def _observed(one: KeyedAttempt) -> JudgedAttempt:
    return JudgedAttempt(one.policy, one.passed, n_turns=one.n_turns, n_output_tokens=one.n_output_tokens)


def _strengths(judged: Sequence[JudgedTask], policies: Sequence[str]) -> dict[str, float] | None:
    """Every task is one game a pair of policies, split as its pairs of attempts were, over all its judgments."""
    n_policies = len(policies)
    wins, ties = np.zeros((n_policies, n_policies)), np.zeros((n_policies, n_policies))
    for first, second in combinations(range(n_policies), 2):
        shares = task_shares(judged, policies[first], policies[second])
        tied = float(shares[:, 1].sum())
        ties[first, second] = ties[second, first] = tied
        wins[second, first] = max(0.0, float(shares[:, 0].sum()) - tied / 2)
        wins[first, second] = max(0.0, len(shares) - wins[second, first] - tied)
    try:
        fitted = fit_strengths(wins, ties)
    except ValueError:
        return None
    return dict(zip(policies, fitted.log_strengths.tolist(), strict=True))


def _comparison_record(one: Comparison, dimensions: Sequence[str]) -> dict[str, Any]:
    names = (*quality_figures(dimensions), *ATTEMPT_FIGURES)
    return {
        "first": one.first,
        "second": one.second,
        "n_common_tasks": one.n_tasks,
        "n_pairs": one.n_pairs,
        "win_rate": _difference_record(one.win_rate),
        "tie_share": one.tie_rate,
        "top1_share": _difference_record(one.top1_share),
        "differences": {name: _difference_record(one.differences.get(name)) for name in names},
        "on_common_tasks": {
            name: {
                "first": _estimate_record(one.values[name][0] if name in one.values else None),
                "second": _estimate_record(one.values[name][1] if name in one.values else None),
            }
            for name in names
        },
    }


def _agreement_record(one: Agreement | None) -> dict[str, Any]:
    pairs = one.pairs if one else ()
    return {
        "alpha_tiers": _reliability_record(one.tiers if one else None),
        "alpha_scores": _reliability_record(one.scores if one else None),
        "pairs": [
            {
                "first": pair.first,
                "second": pair.second,
                "tau_b": _estimate_record(pair.tau_b),
                "top1": _estimate_record(pair.top1),
                "same_tier": _estimate_record(pair.same_tier),
            }
            for pair in pairs
        ],
    }


def _reliability_record(one: Reliability | None) -> dict[str, Any]:
    low, high = one.interval if one and one.interval else (None, None)
    return {
        "value": one.alpha if one else None,
        "ci_low": low,
        "ci_high": high,
        "n_candidates": one.n_units if one else 0,
    }


def _estimate_record(one: Estimate | None) -> dict[str, Any]:
    boot_low, boot_high = one.bootstrap if one and one.bootstrap else (None, None)
    return {
        **estimate_record(one),
        "bootstrap_low": boot_low,
        "bootstrap_high": boot_high,
    }


def _difference_record(one: Difference | None) -> dict[str, Any]:
    return {
        **_estimate_record(one.estimate if one else None),
        "p_value": one.p_value if one else None,
        "detectable": one.detectable if one else None,
        "tasks_needed": one.tasks_needed if one else None,
    }
