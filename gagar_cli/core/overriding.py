"""Corrections of a ranking by a person: one candidate put elsewhere, the others closed up, who did it and why kept.

The candidate takes the place in its new tier that its weighted score has there, last where scores are missing, or the
rank that is asked for. Nobody else changes order. A tier for a candidate that was charged with an integrity violation
lifts the charge; `violation` makes one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from gagar_cli.core.ranking import TIERS, GroupRanking, RankedCandidate
from gagar_cli.core.text import counted, escape_untrusted, shorten
from gagar_cli.errors import UsageError

VIOLATION = "violation"
PLACES = (*TIERS, VIOLATION)
OVERRIDES = "overrides"
"""Where a ranking's `grader` keeps the corrections."""


@dataclass(frozen=True, slots=True)
class Override:
    """One correction."""

    trajectory_id: str
    tier: str
    """One of `PLACES`."""
    reason: str
    author: str
    rank: int | None = None
    """Place in the tier; None for that of its weighted score. One that is taken already is shared."""
    at: str = ""
    """When, as ISO 8601."""


def is_overridden(ranking: GroupRanking) -> bool:
    """Whether a person corrected this ranking."""
    return bool(ranking.grader.get(OVERRIDES))


def overrides_of(ranking: GroupRanking) -> list[Mapping[str, Any]]:
    """The corrections of a ranking, first to last."""
    found = ranking.grader.get(OVERRIDES)
    return [each for each in found if isinstance(each, Mapping)] if isinstance(found, list) else []


def apply_override(ranking: GroupRanking, override: Override) -> GroupRanking:
    """The corrected ranking, with the correction and what was before it in `grader`.

    Raises:
        UsageError: the group has no such candidate, is not graded, or the rank leaves a gap.
    """
    if ranking.status != "graded":
        told = shorten(escape_untrusted(ranking.reason or "no reason", keep_newlines=False), 200)
        raise UsageError(
            f"group {_show(str(ranking.key))} is {ranking.status}, not graded: {told}",
            "only a ranking can be corrected; `gagar grade` makes one",
        )
    moved = next((each for each in ranking.candidates if each.trajectory_id == override.trajectory_id), None)
    if moved is None:
        names = ", ".join(_show(each.trajectory_id) for each in ranking.candidates[:20])
        raise UsageError(
            f"group {_show(str(ranking.key))} ranks no trajectory {_show(override.trajectory_id)}",
            f"it ranks {names}",
        )
    flags = {**moved.flags, "integrity_violation": override.tier == VIOLATION}
    others = [each for each in ranking.candidates if each is not moved]
    if override.tier == VIOLATION:
        placed = replace(moved, tier=None, rank=None, flags=flags)
    else:
        rank, others = _make_room(moved, others, override)
        placed = replace(moved, tier=override.tier, rank=rank, flags=flags)
    by_id = {each.trajectory_id: each for each in (placed, *others)}
    candidates = tuple(by_id[each.trajectory_id] for each in ranking.candidates)
    entry = {
        "trajectory_id": override.trajectory_id,
        "before": _place_of(moved),
        "after": {
            "tier": placed.tier,
            "rank": placed.rank,
            "integrity_violation": override.tier == VIOLATION,
        },
        "reason": override.reason,
        "author": override.author,
        "at": override.at,
    }
    grader = {**ranking.grader, OVERRIDES: [*overrides_of(ranking), entry]}
    return replace(ranking, candidates=_closed_up(candidates), grader=grader)


def _make_room(
    moved: RankedCandidate, others: list[RankedCandidate], override: Override
) -> tuple[int, list[RankedCandidate]]:
    """The rank for the moved candidate, and the others with those behind it moved back."""
    tier = override.tier
    others = list(_closed_up(tuple(others)))
    taken = sorted({each.rank for each in others if each.tier == tier and each.rank is not None})
    if override.rank is not None:
        if not 1 <= override.rank <= len(taken) + 1:
            raise UsageError(
                f"--rank is {override.rank}, and {tier} has {counted(len(taken), 'other place')}",
                f"expected 1 to {len(taken) + 1}; a taken one is shared",
            )
        return override.rank, others
    score = moved.weighted_score
    rank = len(taken) + 1
    if score is not None:
        for each in sorted((each for each in others if each.tier == tier), key=lambda each: each.rank or 0):
            if each.weighted_score is not None and each.weighted_score <= score and each.rank is not None:
                if each.weighted_score == score:
                    return each.rank, others
                rank = each.rank
                break
    pushed = [
        replace(each, rank=each.rank + 1)
        if each.tier == tier and each.rank is not None and each.rank >= rank
        else each
        for each in others
    ]
    return rank, pushed


def _closed_up(candidates: tuple[RankedCandidate, ...]) -> tuple[RankedCandidate, ...]:
    """Dense ranks from 1 in every tier, ties kept."""
    dense = {
        (tier, rank): place
        for tier in TIERS
        for place, rank in enumerate(
            sorted({each.rank for each in candidates if each.tier == tier and each.rank is not None}), start=1
        )
    }
    return tuple(
        replace(each, rank=dense[each.tier, each.rank])
        if each.tier is not None and each.rank is not None
        else each
        for each in candidates
    )


def _place_of(candidate: RankedCandidate) -> dict[str, object]:
    return {
        "tier": candidate.tier,
        "rank": candidate.rank,
        "integrity_violation": candidate.is_integrity_violation,
    }


def _show(text: str) -> str:
    return f'"{shorten(escape_untrusted(text, keep_newlines=False), 80)}"'
