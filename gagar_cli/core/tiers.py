"""Tiers and the order within them, computed from scores and flags: a grader never names a tier itself.

The decision table is the rubric's (the built-in one is METHODS 1.2), first match wins; T3 is tested before T1, so a
flag overrides five 5s. Within a tier the weighted score orders, unless the grader gave a reasoned order; neither moves
a candidate to another tier.
"""

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import groupby
from typing import Literal

from gagar_cli.core.rubric import PAPER, Rubric, check_scores

Tier = Literal["T1", "T2", "T3"]


def assign_tier(scores: Mapping[str, int], flags: Mapping[str, bool], rubric: Rubric = PAPER) -> Tier:
    """The tier of a candidate without an integrity violation.

    Raises:
        ValueError: the scores are not the rubric's dimensions with integers from 1 to 5.

    >>> assign_tier(dict.fromkeys(PAPER.dimensions, 5), {"test_specific": True})
    'T3'
    """
    check_scores(scores, rubric)
    if any(flags.get(name) for name in rubric.t3_flags):
        return "T3"
    if any(all(scores[name] <= limit for name, limit in limits) for limits in rubric.t3_scores):
        return "T3"
    if any(flags.get(name) for name in rubric.t1_barring_flags):
        return "T2"
    return "T1" if min(scores.values()) >= rubric.t1_min_score else "T2"


def rank_within_tiers(
    tiers: Mapping[str, Tier], weights: Mapping[str, Fraction], order: Sequence[Sequence[str]] | None = None
) -> dict[str, int]:
    """The 1-based place of every candidate within its tier; ties share a rank and leave no gap.

    `tiers` and `weights` go by candidate id. `order` holds tie groups of ids, best first: inside a tier it replaces
    the weighted score for the candidates that it names; those that it leaves out follow, by weighted score. Ids
    without a tier (integrity violations) are passed over.

    >>> rank_within_tiers({"a": "T1", "b": "T2", "c": "T2"}, {"a": Fraction(5), "b": Fraction(3), "c": Fraction(4)})
    {'a': 1, 'c': 1, 'b': 2}
    """
    ranks: dict[str, int] = {}
    for tier in sorted(set(tiers.values())):
        members = [candidate_id for candidate_id in tiers if tiers[candidate_id] == tier]
        for rank, tied in enumerate(_tie_groups(members, weights, order or ()), 1):
            ranks.update(dict.fromkeys(tied, rank))
    return ranks


def _tie_groups(
    members: Sequence[str], weights: Mapping[str, Fraction], order: Iterable[Sequence[str]]
) -> list[list[str]]:
    ordered = [[candidate_id for candidate_id in tied if candidate_id in members] for tied in order]
    named = {candidate_id for tied in ordered for candidate_id in tied}
    others = sorted((name for name in members if name not in named), key=weights.__getitem__, reverse=True)
    by_weight = [list(tied) for _, tied in groupby(others, key=weights.__getitem__)]
    return [tied for tied in ordered if tied] + by_weight
