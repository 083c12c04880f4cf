"""How consistent a grader is with itself: agreement between the repeats of a group, and whether the place counts.

Both are read off rankings. Repeats show the same candidates in other blind orders, so what they disagree about is noise.
The place effect is measured on every graded group, repeated or not: blind orders are drawn by a key, so by chance the
mean place in the ranking is the same for each place in which a candidate was shown.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from statistics import fmean
from typing import Any, NamedTuple, cast

from gagar_cli.core.agreement import kendall_tau_b, mean_pairwise_tau, places
from gagar_cli.core.ranking import TIERS, GroupRanking
from gagar_cli.core.summaries import renamed


class ShownPlace(NamedTuple):
    """What became of the candidates that were shown at one place."""

    shown: int
    """1-based: `c01` is 1."""
    n: int
    mean_place: float
    """In the ranking, 1 is the best; ties share the mean of their places."""
    chance_place: float
    """What it would be if the shown place did not count."""


@dataclass(frozen=True, slots=True)
class Consistency:
    """Figures over all graded groups."""

    n_repeated: int
    """Groups with at least two gradings."""
    rank_agreement: float | None
    """Mean over groups of the mean τ-b between gradings; None where there are no repeats or only ties."""
    tier_agreement: float | None
    """Share of pairs of gradings, by candidate, that give the same tier."""
    place_effect: float | None
    """Mean τ-b between shown place and place in the ranking: 0 by chance, positive where early places win."""
    by_place: tuple[ShownPlace, ...]

    def to_record(self) -> dict[str, Any]:
        """As JSON."""
        names = {"shown": "shown_place", "n": "n_candidates"}
        return {**asdict(self), "by_place": [renamed(place._asdict(), names) for place in self.by_place]}


class ShownAt(NamedTuple):
    """What became of one candidate."""

    shown: int
    place: float
    chance: float


@dataclass(frozen=True, slots=True)
class RankingConsistency:
    """What one ranking adds to the figures; small, as runs have many."""

    is_repeated: bool = False
    agreement: float | None = None
    n_same_tiers: int = 0
    """Pairs of gradings, by candidate, that give the same tier."""
    n_tier_pairs: int = 0
    effects: tuple[float | None, ...] = ()
    """One a grading."""
    by_shown: tuple[ShownAt, ...] = ()


NOTHING_TOLD = RankingConsistency()
_shown_at = lru_cache(maxsize=4096)(ShownAt)


class _Grading(NamedTuple):
    place: dict[str, float]
    tier: dict[str, str]
    shown: dict[str, int]


def measure_consistency(rankings: Iterable[GroupRanking]) -> Consistency:
    """The figures of a rankings file; rankings by people or other tools, which have no blind ids, do not count."""
    return sum_up_consistency(map(consistency_of, rankings))


def consistency_of(ranking: GroupRanking) -> RankingConsistency:
    """What one ranking adds to the figures."""
    if ranking.status != "graded":
        return NOTHING_TOLD
    gradings = [one for one in _gradings(ranking) if one.place]
    is_repeated = len(gradings) > 1
    same_tier = _tier_pairs(gradings) if is_repeated else []
    effects: list[float | None] = []
    by_shown: list[ShownAt] = []
    for one in gradings:
        names = [name for name in one.place if name in one.shown]
        effects.append(
            kendall_tau_b([one.shown[name] for name in names], [one.place[name] for name in names])
        )
        chance = (len(one.place) + 1) / 2
        by_shown += [_shown_at(one.shown[name], one.place[name], chance) for name in names]
    return RankingConsistency(
        is_repeated,
        mean_pairwise_tau([one.place for one in gradings]) if is_repeated else None,
        sum(same_tier),
        len(same_tier),
        tuple(effects),
        tuple(by_shown),
    )


def sum_up_consistency(parts: Iterable[RankingConsistency]) -> Consistency:
    """The figures of many rankings together."""
    agreements: list[float | None] = []
    effects: list[float | None] = []
    by_shown: dict[int, list[ShownAt]] = defaultdict(list)
    n_repeated = n_same_tiers = n_tier_pairs = 0
    for part in parts:
        n_repeated += part.is_repeated
        if part.is_repeated:
            agreements.append(part.agreement)
        n_same_tiers += part.n_same_tiers
        n_tier_pairs += part.n_tier_pairs
        effects += part.effects
        for one in part.by_shown:
            by_shown[one.shown].append(one)
    return Consistency(
        n_repeated=n_repeated,
        rank_agreement=_mean(agreements),
        tier_agreement=n_same_tiers / n_tier_pairs if n_tier_pairs else None,
        place_effect=_mean(effects),
        by_place=tuple(
            ShownPlace(
                shown, len(found), fmean(one.place for one in found), fmean(one.chance for one in found)
            )
            for shown, found in sorted(by_shown.items())
        ),
    )


def _gradings(ranking: GroupRanking) -> Iterator[_Grading]:
    repeats = ranking.grader.get("repeats")
    if isinstance(repeats, list) and repeats:
        for repeat in repeats:
            candidates = cast("Mapping[str, Mapping[str, Any]]", repeat.get("candidates") or {})
            shown = {name: str(one.get("blind_id") or "") for name, one in candidates.items()}
            yield _grading(
                {name: (one.get("tier"), one.get("rank")) for name, one in candidates.items()}, shown
            )
        return
    yield _grading({one.trajectory_id: (one.tier, one.rank) for one in ranking.candidates}, ranking.shown_as)


def _grading(placed: Mapping[str, tuple[str | None, int | None]], shown: Mapping[str, str]) -> _Grading:
    ranked = {
        name: (tier, rank) for name, (tier, rank) in placed.items() if tier in TIERS and rank is not None
    }
    keys: dict[str, tuple[float, ...]] = {
        name: (TIERS.index(str(tier)), rank) for name, (tier, rank) in ranked.items()
    }
    numbers = {
        name: int(blind[1:]) for name, blind in shown.items() if blind[:1] == "c" and blind[1:].isdecimal()
    }
    return _Grading(places(keys), {name: str(tier) for name, (tier, _) in ranked.items()}, numbers)


def _tier_pairs(gradings: list[_Grading]) -> list[bool]:
    return [
        one.tier[name] == other.tier[name]
        for number, one in enumerate(gradings)
        for other in gradings[number + 1 :]
        for name in one.tier
        if name in other.tier
    ]


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None
