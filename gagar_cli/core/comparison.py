"""Policies compared on the tasks that both solved: one value a task for every figure, then `statistics` over tasks.

A figure about quality is taken over the attempts that were ranked, and only over tasks where each of the compared
policies has one: both sides stand on the same tasks. Attempts of one judgment share a ranking, so places compare
directly; an integrity violation is no solution and has no place. A task that was judged more than once (several judges,
pairs in both orders) counts once, with the mean over its judgments.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from gagar_cli.core.figure_ranges import SHARES, range_of, range_of_difference
from gagar_cli.core.intervals import Floats, Interval
from gagar_cli.core.sampling import choose_of_each
from gagar_cli.core.statistics import (
    ROUNDING,
    Estimate,
    detectable_effect,
    estimate_mean,
    sign_flip_p_value,
    spread,
    tasks_needed,
)

Place = tuple[int, int]
"""Tier (1 to 3) and rank within it: smaller is better."""


@dataclass(frozen=True, slots=True)
class JudgedAttempt:
    """One attempt as the audit knows it after the blinds are lifted."""

    policy: str
    passed: bool
    place: Place | None = None
    """None: not ranked."""
    scores: Mapping[str, float] = field(default_factory=dict)
    weighted_score: float | None = None
    is_violation: bool = False
    n_turns: int | None = None
    n_output_tokens: int | None = None
    patch_lines: int | None = None
    """Lines added and removed."""


@dataclass(frozen=True, slots=True)
class JudgedTask:
    """The attempts of one task that were judged side by side, or all that there are."""

    task_id: str
    attempts: tuple[JudgedAttempt, ...]

    def ranked(self, policy: str) -> list[JudgedAttempt]:
        """The attempts of a policy that have a place."""
        return [one for one in self.attempts if one.policy == policy and one.place is not None]


@dataclass(frozen=True, slots=True)
class Difference:
    """A figure of the second policy minus the first's, task by task."""

    estimate: Estimate
    p_value: float | None
    """Sign-flip, two-sided."""
    detectable: float | None
    """The smallest true difference that this many tasks find with a power of 80%."""
    tasks_needed: int | None
    """Tasks at which the difference that was found would be detectable; None where it is 0 or nothing spreads."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two policies on their common tasks; win rate and top-1 share are the second policy's."""

    first: str
    second: str
    n_tasks: int
    n_pairs: int
    win_rate: Difference | None
    """Its estimate is the rate itself, its p-value that of the rate minus ½."""
    tie_rate: float | None
    """Share of ties among the pairs, mean over tasks; each counts half in the win rate."""
    top1_share: Difference | None
    values: Mapping[str, tuple[Estimate, Estimate]] = field(default_factory=dict)
    """Figure to (first's, second's) estimate over the common tasks."""
    differences: Mapping[str, Difference] = field(default_factory=dict)


AttemptFigure = Callable[[JudgedAttempt], float | None]


def _tier_share(tier: int) -> AttemptFigure:
    return lambda one: None if one.place is None else float(one.place[0] == tier)


def _score(name: str) -> AttemptFigure:
    return lambda one: one.scores.get(name)


def quality_figures(dimensions: Sequence[str]) -> dict[str, AttemptFigure]:
    """The figures about ranked attempts: name to what it is of one attempt (None: unknown)."""
    return {
        "weighted_score": lambda one: one.weighted_score,
        **{name: _score(name) for name in dimensions},
        "tier_1_share": _tier_share(1),
        "tier_2_share": _tier_share(2),
        "tier_3_share": _tier_share(3),
        "patch_lines": lambda one: _number(one.patch_lines),
    }


ATTEMPT_FIGURES: Mapping[str, AttemptFigure] = {
    "pass_rate": lambda one: float(one.passed),
    "n_turns": lambda one: _number(one.n_turns),
    "n_output_tokens": lambda one: _number(one.n_output_tokens),
}
"""The figures about all attempts of a task, passing or not; a pass is what the dump says."""


def common_tasks(tasks: Sequence[JudgedTask], policies: Sequence[str]) -> list[JudgedTask]:
    """The tasks where each of the policies has a ranked attempt."""
    return [task for task in tasks if all(task.ranked(policy) for policy in policies)]


def win_share(task: JudgedTask, first: str, second: str) -> tuple[float, float]:
    """How often the second's attempts stand above the first's in this task, ties half, and the share of ties.

    >>> a, b = JudgedAttempt("A", True, (1, 2)), JudgedAttempt("B", True, (1, 1))
    >>> win_share(JudgedTask("t", (a, b, b)), "A", "B")
    (1.0, 0.0)
    """
    pairs = [
        (one.place, other.place)
        for one in task.ranked(first)
        for other in task.ranked(second)
        if one.place is not None and other.place is not None
    ]
    n_wins = sum(other < one for one, other in pairs)
    n_ties = sum(other == one for one, other in pairs)
    return (n_wins + n_ties / 2) / len(pairs), n_ties / len(pairs)


def task_shares(judged: Sequence[JudgedTask], first: str, second: str) -> Floats:
    """(n_tasks, 2): the second's share of wins (ties half) and the share of ties, of each task that both have."""
    common = common_tasks(judged, (first, second))
    return _by_task(common, [win_share(task, first, second) for task in common]).reshape(-1, 2)


def top1_shares(task: JudgedTask, policies: Sequence[str]) -> dict[str, float]:
    """Each policy's share of the best place among these policies' attempts; attempts that tie for it split it.

    A policy with more attempts would hold the best place more often for that alone. So as many attempts of each are
    compared as the policy with the fewest has, and the share is the mean over all ways to choose them.

    >>> a, b = JudgedAttempt("A", True, (1, 1)), JudgedAttempt("B", True, (1, 1))
    >>> top1_shares(JudgedTask("t", (a, a, b)), ["A", "B"])
    {'A': 0.5, 'B': 0.5}
    """
    places = [[one.place for one in task.ranked(policy) if one.place] for policy in policies]
    size = min(len(of_policy) for of_policy in places)
    total = np.zeros(len(policies))
    choices = choose_of_each(places, size)
    for chosen in choices:
        best = min(place for of_policy in chosen for place in of_policy)
        at_best = np.array([of_policy.count(best) for of_policy in chosen])
        total += at_best / at_best.sum()
    return dict(zip(policies, (total / len(choices)).tolist(), strict=True))


def compare(
    judged: Sequence[JudgedTask],
    first: str,
    second: str,
    *,
    observed: Sequence[JudgedTask],
    dimensions: Sequence[str],
    seed: int,
) -> Comparison:
    """Two policies side by side: quality from the judgments, the rest from all observed attempts.

    Figures are None, or left out, where no common task tells them.
    """
    common = common_tasks(judged, (first, second))
    shares = task_shares(judged, first, second)
    tops = [top1_shares(task, (first, second))[second] for task in common]
    values: dict[str, tuple[Estimate, Estimate]] = {}
    differences: dict[str, Difference] = {}
    quality = quality_figures(dimensions)
    for figures, tasks in ((quality, common), (ATTEMPT_FIGURES, observed)):
        for name, figure in figures.items():
            paired = _task_values(tasks, (first, second), figure, is_ranked_only=name in quality)
            if not len(paired):
                continue
            values[name] = (_mean(paired[:, 0], name, seed), _mean(paired[:, 1], name, seed))
            difference = _settle(paired[:, 1] - paired[:, 0])
            estimate = _estimate(difference, range_of_difference(name), seed)
            differences[name] = _with_power(estimate, difference, seed=seed)
    return Comparison(
        first,
        second,
        n_tasks=len({task.task_id for task in common}),
        n_pairs=sum(len(task.ranked(first)) * len(task.ranked(second)) for task in common),
        win_rate=_rate(shares[:, 0], seed=seed),
        tie_rate=float(shares[:, 1].mean()) if len(shares) else None,
        top1_share=_rate(_by_task(common, tops), seed=seed),
        values=values,
        differences=differences,
    )


def estimate_policy(
    judged: Sequence[JudgedTask],
    policy: str,
    *,
    observed: Sequence[JudgedTask],
    dimensions: Sequence[str],
    seed: int,
) -> dict[str, Estimate]:
    """A policy's figures over all tasks where it has an attempt (or, for quality, a ranked one)."""
    found: dict[str, Estimate] = {}
    quality = quality_figures(dimensions)
    for figures, tasks in ((quality, judged), (ATTEMPT_FIGURES, observed)):
        for name, figure in figures.items():
            column = _task_values(tasks, (policy,), figure, is_ranked_only=name in quality)
            if len(column):
                found[name] = _mean(column[:, 0], name, seed)
    return found


def violation_rate(judged: Sequence[JudgedTask], policy: str, *, seed: int) -> Estimate | None:
    """The share of a policy's judged attempts that are integrity violations, over tasks."""
    column = _task_values(judged, (policy,), lambda one: float(one.is_violation), is_ranked_only=False)
    return estimate_mean(column[:, 0], seed=seed, is_share=True)


def _task_values(
    tasks: Sequence[JudgedTask], policies: Sequence[str], figure: AttemptFigure, *, is_ranked_only: bool
) -> Floats:
    """(n_tasks, n_policies): each policy's mean over its attempts, for the tasks where all have one."""
    told, rows = [], []
    for task in tasks:
        row = []
        for policy in policies:
            of_policy = [one for one in task.attempts if one.policy == policy]
            attempts = task.ranked(policy) if is_ranked_only else of_policy
            known = [value for one in attempts if (value := figure(one)) is not None]
            row.append(sum(known) / len(known) if known else np.nan)
        if not np.isnan(row).any():
            told.append(task)
            rows.append(row)
    return _by_task(told, rows).reshape(-1, len(policies))


def _by_task(tasks: Sequence[JudgedTask], values: Sequence[float] | Sequence[Sequence[float]]) -> Floats:
    """The values of judgments as one row a task, in the order in which tasks first appear."""
    rows = np.asarray(values, dtype=np.float64)
    places: dict[str, list[int]] = {}
    for number, task in enumerate(tasks):
        places.setdefault(task.task_id, []).append(number)
    return np.array([rows[of_task].mean(axis=0) for of_task in places.values()], dtype=np.float64)


def _settle(differences: Floats) -> Floats:
    """0 for what is none: means of the same numbers in another order differ in the last places."""
    return np.where(np.abs(differences) <= ROUNDING, 0.0, differences)


def _rate(shares: Floats, *, seed: int) -> Difference | None:
    """A rate and how far it is from one half."""
    estimate = estimate_mean(shares, seed=seed, is_share=True)
    return None if estimate is None else _with_power(estimate, _settle(shares - 0.5), seed=seed)


def _mean(values: Floats, name: str, seed: int) -> Estimate:
    """The estimate of a figure that at least one task tells."""
    return _estimate(values, range_of(name), seed, is_share=name in SHARES)


def _estimate(values: Floats, within: Interval, seed: int, *, is_share: bool = False) -> Estimate:
    estimate = estimate_mean(values, seed=seed, is_share=is_share, within=within)
    assert estimate is not None  # noqa: S101 - there is a task
    return estimate


def _with_power(estimate: Estimate, differences: Floats, *, seed: int) -> Difference:
    is_constant = float(np.ptp(differences)) <= ROUNDING
    spreading = None if is_constant else spread(differences)
    return Difference(
        estimate,
        sign_flip_p_value(differences, seed=seed),
        detectable_effect(spreading, len(differences)) if spreading else None,
        tasks_needed(spreading, float(differences.mean())) if spreading else None,
    )


def _number(value: int | None) -> float | None:
    return None if value is None else float(value)
