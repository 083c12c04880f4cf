"""What an audit found: the blinds lifted, the figures worked out, the whole as one record for JSON, table and page."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np

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
    violation_rate,
    win_share,
)
from gagar_cli.core.gates import GateResult
from gagar_cli.core.ranking import TIERS, GroupRanking, RankedCandidate
from gagar_cli.core.rubric import DIMENSIONS
from gagar_cli.core.statistics import Estimate, estimate_mean


@dataclass(frozen=True, slots=True)
class AuditResult:
    """The answer of an audit."""

    policies: tuple[str, ...]
    judges: tuple[str, ...]
    is_pairwise: bool
    shows: str
    n_tasks: Mapping[str, int]
    """`shared`, `sampled`, `judged` (by every judge), `ungraded` (a judge gave no ranking), and those of each policy."""
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
    guessed: Estimate | None
    """How often the judge told an attempt's policy right, asked after its ranking; chance is one in the policies."""
    tokens: Mapping[str, int]
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
        comparisons = [_comparison_record(one) for one in self.comparisons]
        return {
            "policies": {
                name: {
                    figure: _estimate_record(self.estimates[name].get(figure))
                    for figure in (*quality_figures(DIMENSIONS), *ATTEMPT_FIGURES, "violation_rate")
                }
                for name in self.policies
            },
            **comparisons[0],
            "comparisons": comparisons,
            "strengths": dict(self.strengths) if self.strengths else None,
            "position": _estimate_record(self.position),
            "guessed": {**_estimate_record(self.guessed), "chance": 1 / len(self.policies)},
            "judges": list(self.judges),
            "pairwise": self.is_pairwise,
            "shows": self.shows,
            "n_tasks": dict(self.n_tasks),
            "ungraded_reasons": list(self.ungraded_reasons),
            "tokens": dict(self.tokens),
            "scrubbed": list(self.scrubbed),
            "notes": list(self.notes),
        }


def summarise(key: AuditKey, judgments: Sequence[Sequence[GroupRanking]]) -> AuditResult:
    """Lift the blinds and work out every figure; `judgments` are those of each judge."""
    attempts = {one.attempt_id: one for task in key.tasks for one in task.attempts}
    made = [ranking for of_judge in judgments for ranking in of_judge]
    graded = [ranking for ranking in made if ranking.status == "graded"]
    judged = [_judged_task(ranking, attempts) for ranking in graded]
    observed = [
        JudgedTask(task.task_id, tuple(_observed(one) for one in task.attempts)) for task in key.tasks
    ]
    options: Mapping[str, Any] = {"observed": observed, "dimensions": DIMENSIONS, "seed": key.seed}
    estimates = {policy: estimate_policy(judged, policy, **options) for policy in key.policies}
    for policy, found in estimates.items():
        violations = violation_rate(judged, policy, seed=key.seed)
        if violations is not None:
            found["violation_rate"] = violations
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
            "sampled": n_sampled,
            "judged": len({task.task_id for task in judged} - set(failed)),
            "ungraded": len(failed),
            **{f"of {policy}": n for policy, n in key.n_tasks_by_policy.items()},
        },
        ungraded_reasons=tuple(f"{reason} ({n})" for reason, n in reasons.most_common(5)),
        estimates=estimates,
        comparisons=tuple(compare(judged, *pair, **options) for pair in combinations(key.policies, 2)),
        strengths=_strengths(judged, key.policies) if len(key.policies) > 2 else None,
        position=_position_effect(graded, seed=key.seed),
        guessed=_guessed(graded, attempts, key),
        tokens=_count_tokens(made),
        scrubbed=key.scrubbed,
        notes=key.notes,
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
    """Every task is one game a pair of policies, split as its pairs of attempts were."""
    n_policies = len(policies)
    wins, ties = np.zeros((n_policies, n_policies)), np.zeros((n_policies, n_policies))
    for task in judged:
        for first, second in combinations(range(n_policies), 2):
            names = policies[first], policies[second]
            if not (task.ranked(names[0]) and task.ranked(names[1])):
                continue
            share, tied, _ = win_share(task, *names)
            ties[first, second] += tied
            ties[second, first] += tied
            wins[second, first] += share - tied / 2
            wins[first, second] += 1 - share - tied / 2
    try:
        fitted = fit_strengths(wins, ties)
    except ValueError:
        return None
    return dict(zip(policies, fitted.log_strengths.tolist(), strict=True))


def _position_effect(rankings: Sequence[GroupRanking], *, seed: int) -> Estimate | None:
    """The mean over tasks of how often an earlier place beats a later one."""
    by_task: dict[str, list[float]] = {}
    for ranking in rankings:
        shown = ranking.grader.get("blind_ids")
        places = {
            one.trajectory_id: (one.tier, one.rank) for one in ranking.candidates if one.rank is not None
        }
        if not isinstance(shown, Mapping):
            continue
        ordered = [places[name] for _, name in sorted(shown.items()) if name in places]
        pairs = list(combinations(ordered, 2))
        if pairs:
            won = sum((first < second) + (first == second) / 2 for first, second in pairs)
            by_task.setdefault(ranking.key.group_id, []).append(won / len(pairs))
    return estimate_mean([float(np.mean(won)) for won in by_task.values()], seed=seed, is_share=True)


def _guessed(
    rankings: Sequence[GroupRanking], attempts: Mapping[str, KeyedAttempt], key: AuditKey
) -> Estimate | None:
    """The mean over tasks of how often a guess was right."""
    by_task: dict[str, list[float]] = {}
    for ranking in rankings:
        guesses = ranking.grader.get("guesses")
        for name, number in guesses.items() if isinstance(guesses, Mapping) else ():
            if name in attempts:
                is_right = attempts[name].policy == key.policies[number]
                by_task.setdefault(ranking.key.group_id, []).append(float(is_right))
    return estimate_mean([float(np.mean(right)) for right in by_task.values()], seed=key.seed, is_share=True)


def _count_tokens(rankings: Sequence[GroupRanking]) -> dict[str, int]:
    total: Counter[str] = Counter({"in": 0, "cached": 0, "out": 0, "calls": 0})
    for ranking in rankings:
        tokens = ranking.grader.get("tokens")
        for name, n in tokens.items() if isinstance(tokens, Mapping) else ():
            total[name] += n if isinstance(n, int) else 0
        calls = ranking.grader.get("calls")
        total["calls"] += calls if isinstance(calls, int) else 0
    return dict(total)


def _comparison_record(one: Comparison) -> dict[str, Any]:
    names = (*quality_figures(DIMENSIONS), *ATTEMPT_FIGURES)
    return {
        "first": one.first,
        "second": one.second,
        "n_common_tasks": one.n_tasks,
        "n_pairs": one.n_pairs,
        "win_rate": _difference_record(one.win_rate),
        "tie_rate": one.tie_rate,
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


def _estimate_record(one: Estimate | None) -> dict[str, Any]:
    low, high = one.interval if one and one.interval else (None, None)
    boot_low, boot_high = one.bootstrap if one and one.bootstrap else (None, None)
    return {
        "value": one.value if one else None,
        "ci_low": low,
        "ci_high": high,
        "ci_kind": one.interval_kind if one else "none",
        "bootstrap_low": boot_low,
        "bootstrap_high": boot_high,
        "n_tasks": one.n_tasks if one else 0,
    }


def _difference_record(one: Difference | None) -> dict[str, Any]:
    return {
        **_estimate_record(one.estimate if one else None),
        "p_value": one.p_value if one else None,
        "detectable": one.detectable if one else None,
        "tasks_needed": one.tasks_needed if one else None,
    }
