"""Corrections of a ranking by a person: one candidate put elsewhere, the others closed up, who did it and why kept.

The candidate takes the place in its new tier that its weighted score has there, last where scores are missing, or the
rank that is asked for. Nobody else changes order. A tier for a candidate that was charged with an integrity violation
lifts the charge; `violation` makes one. Where nobody could be ranked a passing attempt can be charged all the same: its
reward counts. There a tier only lifts the charge.
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
OVERRIDDEN = "overridden"
"""Start of the reason of a group that was not ranked, and in which a person charged an attempt."""
CHARGEABLE = ("all_pass", "lone_pass", "not_eligible")
"""Why groups are skipped that have passing attempts all the same."""


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


def overridden_reason(reason: str | None) -> str:
    """Why a group is skipped once a person corrected it.

    >>> overridden_reason("all_pass")
    'overridden: all_pass'
    """
    return f"{OVERRIDDEN}: {_plain_reason(reason)}"


def apply_override(ranking: GroupRanking, override: Override) -> GroupRanking:
    """The corrected ranking, with the correction and what was before it in `grader`.

    Raises:
        UsageError: the group has no such candidate, is not graded, or the rank leaves a gap.
    """
    moved = _of(ranking, override)
    others = [each for each in ranking.candidates if each is not moved]
    has_places = any(each.tier is not None for each in others)
    if ranking.status == "graded" or (ranking.status == "skipped" and moved is not None and has_places):
        made = _placed_anew(ranking, moved, others, override)
    else:
        _check_unranked(ranking, moved, override)
        candidates = tuple(others)
        if override.tier == VIOLATION:
            moved = moved or RankedCandidate(override.trajectory_id, tier=None, rank=None)
            flags = {**moved.flags, "integrity_violation": True}
            candidates = (*others, replace(moved, tier=None, rank=None, flags=flags))
        made = replace(ranking, candidates=candidates, reason=overridden_reason(ranking.reason))
    entry = {
        "trajectory_id": override.trajectory_id,
        "before": _place_of(_of(ranking, override)),
        "after": _place_of(_of(made, override)),
        "reason": override.reason,
        "author": override.author,
        "at": override.at,
    }
    return replace(made, grader={**ranking.grader, OVERRIDES: [*overrides_of(ranking), entry]})


def _placed_anew(
    ranking: GroupRanking,
    moved: RankedCandidate | None,
    others: list[RankedCandidate],
    override: Override,
) -> GroupRanking:
    """The ranking with one candidate elsewhere; a skipped one is in force once two have a place."""
    if moved is None:
        names = ", ".join(_show(each.trajectory_id) for each in ranking.candidates[:20])
        raise UsageError(
            f"group {_show(str(ranking.key))} ranks no trajectory {_show(override.trajectory_id)}",
            f"it ranks {names}",
        )
    flags = {**moved.flags, "integrity_violation": override.tier == VIOLATION}
    if override.tier == VIOLATION:
        placed = replace(moved, tier=None, rank=None, flags=flags)
    else:
        rank, others = _make_room(moved, others, override)
        placed = replace(moved, tier=override.tier, rank=rank, flags=flags)
    by_id = {each.trajectory_id: each for each in (placed, *others)}
    candidates = _closed_up(tuple(by_id[each.trajectory_id] for each in ranking.candidates))
    if ranking.status == "graded":
        return replace(ranking, candidates=candidates)
    if sum(each.tier is not None for each in candidates) > 1:
        return replace(ranking, status="graded", reason=None, candidates=candidates)
    return replace(ranking, candidates=candidates, reason=overridden_reason(ranking.reason))


def _check_unranked(ranking: GroupRanking, moved: RankedCandidate | None, override: Override) -> None:
    """Refuse what a group without places does not take: all but charging a passing attempt, and lifting that."""
    is_charge = override.tier == VIOLATION
    is_charged = moved is not None and moved.is_integrity_violation
    is_open = ranking.status == "skipped" and _plain_reason(ranking.reason) in CHARGEABLE
    if not (ranking.status == "skipped" and is_charged) and not (is_charge and is_open):
        told = shorten(escape_untrusted(ranking.reason or "no reason", keep_newlines=False), 200)
        raise UsageError(
            f"group {_show(str(ranking.key))} is {ranking.status}, not graded: {told}",
            "nobody has a place in it: `--tier violation` charges a passing attempt of it"
            if is_open
            else "only a ranking can be corrected; `gagar grade` makes one",
        )
    if override.rank is not None:
        raise UsageError("--rank is a place in a tier, and the group has none", "leave it out")
    seen = ranking.shown_as
    if moved is None and seen and override.trajectory_id not in seen:
        raise UsageError(
            f"group {_show(str(ranking.key))} has no trajectory {_show(override.trajectory_id)}",
            f"it has {', '.join(_show(name) for name in list(seen)[:20])}",
        )


def _of(ranking: GroupRanking, override: Override) -> RankedCandidate | None:
    return next((each for each in ranking.candidates if each.trajectory_id == override.trajectory_id), None)


def _plain_reason(reason: str | None) -> str:
    return (reason or "").removeprefix(f"{OVERRIDDEN}: ")


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


def _place_of(candidate: RankedCandidate | None) -> dict[str, object]:
    if candidate is None:
        return {"tier": None, "rank": None, "integrity_violation": False}
    return {
        "tier": candidate.tier,
        "rank": candidate.rank,
        "integrity_violation": candidate.is_integrity_violation,
    }


def _show(text: str) -> str:
    return f'"{shorten(escape_untrusted(text, keep_newlines=False), 80)}"'
