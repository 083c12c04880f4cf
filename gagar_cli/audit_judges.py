"""How far the judges of an audit can be trusted: position, order, blindness, agreement."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations

import numpy as np

from gagar_cli.audit_key import AuditKey, KeyedAttempt
from gagar_cli.core.ranking import GroupRanking, RankedCandidate
from gagar_cli.core.ranking_agreement import Agreement, agree
from gagar_cli.core.statistics import Estimate, estimate_mean

Rankings = Sequence[GroupRanking]


def current_judgments(key: AuditKey, judgments: Rankings) -> list[GroupRanking]:
    """The judgments of what the key has: a dump that changed between two runs leaves others behind."""
    sampled = {
        task.task_id: {one.attempt_id for one in task.attempts if one.is_sampled}
        for task in key.tasks
        if task.is_sampled
    }
    return [
        ranking
        for ranking in judgments
        if ranking.key.group_id in sampled
        and {one.trajectory_id for one in ranking.candidates} <= sampled[ranking.key.group_id]
    ]


def judged_in_both_orders(judgments: Rankings) -> list[GroupRanking]:
    """The judgments of pairs, of one judge, that have their counterpart.

    One order alone would bring the judge's liking for a place into the win rate.
    """
    n_orders = Counter(map(_pair, judgments))
    return [ranking for ranking in judgments if n_orders[_pair(ranking)] == 2]


def order_flips(judgments: Iterable[Rankings], *, seed: int) -> Estimate | None:
    """The mean over tasks of how often a pair's verdict changes with the order in which it is shown."""
    by_task: dict[str, list[float]] = {}
    for of_judge in judgments:
        verdicts: dict[tuple[str, frozenset[str]], list[int]] = {}
        for ranking in of_judge:
            verdicts.setdefault(_pair(ranking), []).append(_verdict(ranking))
        for (task_id, _), told in verdicts.items():
            if len(told) == 2:
                by_task.setdefault(task_id, []).append(float(told[0] != told[1]))
    return _mean_over_tasks(by_task, seed=seed)


def position_effect(rankings: Rankings, *, seed: int) -> Estimate | None:
    """The mean over tasks of how often an earlier place beats a later one."""
    by_task: dict[str, list[float]] = {}
    for ranking in rankings:
        places = _places(ranking)
        in_order = sorted(ranking.blind_ids.items(), key=lambda one: (len(one[0]), one[0]))
        ordered = [places[name] for _, name in in_order if name in places]
        pairs = list(combinations(ordered, 2))
        if pairs:
            won = sum((first < second) + (first == second) / 2 for first, second in pairs)
            by_task.setdefault(ranking.key.group_id, []).append(won / len(pairs))
    return _mean_over_tasks(by_task, seed=seed)


def guessed_right(rankings: Rankings, attempts: Mapping[str, KeyedAttempt], key: AuditKey) -> Estimate | None:
    """The mean over tasks of how often a guess was right."""
    by_task: dict[str, list[float]] = {}
    for ranking in rankings:
        guesses = ranking.grader.get("guesses")
        for name, number in guesses.items() if isinstance(guesses, Mapping) else ():
            if name in attempts and isinstance(number, int) and 0 <= number < len(key.policies):
                is_right = attempts[name].policy == key.policies[number]
                by_task.setdefault(ranking.key.group_id, []).append(float(is_right))
    return _mean_over_tasks(by_task, seed=key.seed)


def judges_agreement(key: AuditKey, judgments: Sequence[Rankings]) -> Agreement | None:
    """How far several judges agree; None for one."""
    if len(judgments) < 2:
        return None
    named = {
        f"{number}: {judge}": {ranking.key: ranking for ranking in of_judge}
        for number, (judge, of_judge) in enumerate(zip(key.judges, judgments, strict=True), 1)
    }
    return agree(named, seed=key.seed, n_disputes=0)


def _places(ranking: GroupRanking) -> dict[str, tuple[str, int]]:
    return {
        one.trajectory_id: (one.tier, one.rank)
        for one in ranking.candidates
        if one.tier is not None and one.rank is not None and not one.is_integrity_violation
    }


def _pair(ranking: GroupRanking) -> tuple[str, frozenset[str]]:
    return ranking.key.group_id, frozenset(one.trajectory_id for one in ranking.candidates)


def _verdict(ranking: GroupRanking) -> int:
    """Which of a pair, in the order of their ids, stands above: -1, 0 or 1; a violation stands below all."""
    first, second = (_standing(one) for one in sorted(ranking.candidates, key=lambda one: one.trajectory_id))
    return (second > first) - (first > second)


def _standing(one: RankedCandidate) -> tuple[bool, str, int]:
    return one.is_integrity_violation, one.tier or "", one.rank or 0


def _mean_over_tasks(by_task: Mapping[str, Sequence[float]], *, seed: int) -> Estimate | None:
    return estimate_mean([float(np.mean(values)) for values in by_task.values()], seed=seed, is_share=True)
