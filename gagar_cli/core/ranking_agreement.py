"""How far several rankings of the same groups agree: judges, repeats, modes, people.

A candidate that every compared ranking places is a unit. Within a group orders are compared by Kendall's τ-b and by the
best place; over all groups tiers by their confusion and Krippendorff's α. The group is what is resampled.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from gagar_cli.core.agreement import kendall_tau_b
from gagar_cli.core.intervals import CORRELATION, LEVEL, Interval
from gagar_cli.core.ranking import TIERS, GroupRanking
from gagar_cli.core.reliability import krippendorff_alpha
from gagar_cli.core.schema import GroupKey
from gagar_cli.core.statistics import Estimate, estimate_mean

VIOLATION = "violation"
CLASSES = (*TIERS, VIOLATION)
"""What a candidate can be, best first."""

Placed = Mapping[str, tuple[int, int]]
"""Trajectory id to (class number from 1, rank); a violation's rank is 0."""


@dataclass(frozen=True, slots=True)
class PairAgreement:
    """Two rankings of the same groups."""

    first: str
    second: str
    n_groups: int
    """Graded by both, with at least one candidate in common."""
    n_candidates: int
    tau_b: Estimate | None
    """Mean over the groups in which both order something."""
    top1: Estimate | None
    """Share of the best that both name: common ÷ named by either, mean over groups."""
    same_tier: Estimate | None
    """Share of candidates in the same class, mean over groups."""
    confusion: tuple[tuple[int, ...], ...]
    """(4, 4) candidates by the first's class (rows) and the second's, in the order of `CLASSES`."""


@dataclass(frozen=True, slots=True)
class Reliability:
    """Krippendorff's α with its interval from resampled groups."""

    alpha: float | None
    interval: Interval | None
    n_units: int


@dataclass(frozen=True, slots=True)
class Dispute:
    """A group on which rankings differ."""

    key: GroupKey
    distance: float
    """Mean over pairs of rankings and candidates of how many classes apart they are, ties in order added by 1 − τ-b."""
    says: Mapping[str, Mapping[str, str]]
    """Ranking to trajectory id to class and rank."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """All rankings compared."""

    names: tuple[str, ...]
    n_groups: Mapping[str, int]
    """Graded by each."""
    pairs: tuple[PairAgreement, ...]
    tiers: Reliability
    """Ordinal, over the classes."""
    scores: Reliability
    """Interval, over weighted scores."""
    disputes: tuple[Dispute, ...]


def agree(
    rankings: Mapping[str, Mapping[GroupKey, GroupRanking]],
    *,
    seed: int = 0,
    n_disputes: int = 10,
    n_resamples: int = 1000,
) -> Agreement:
    """Compare rankings by name; only graded groups count."""
    graded = {
        name: {key: one for key, one in of_name.items() if one.status == "graded"}
        for name, of_name in rankings.items()
    }
    names = tuple(graded)
    placed = {name: {key: _place(one) for key, one in of_name.items()} for name, of_name in graded.items()}
    scored = {name: {key: _score(one) for key, one in of_name.items()} for name, of_name in graded.items()}
    classes = {
        name: {key: {one: float(place[0]) for one, place in group.items()} for key, group in of_name.items()}
        for name, of_name in placed.items()
    }
    return Agreement(
        names,
        {name: len(of_name) for name, of_name in graded.items()},
        tuple(_compare(placed, pair, seed) for pair in combinations(names, 2)),
        _reliability(classes, "ordinal", seed, n_resamples),
        _reliability(scored, "interval", seed, n_resamples),
        _disputes(placed, n_disputes),
    )


def _place(ranking: GroupRanking) -> Placed:
    places = {}
    for one in ranking.candidates:
        if one.is_integrity_violation:
            places[one.trajectory_id] = (len(CLASSES), 0)
        elif one.tier is not None:
            places[one.trajectory_id] = (TIERS.index(one.tier) + 1, one.rank or 0)
    return places


def _score(ranking: GroupRanking) -> dict[str, float]:
    return {
        one.trajectory_id: float(one.weighted_score)
        for one in ranking.candidates
        if one.weighted_score is not None and not one.is_integrity_violation
    }


def _compare(
    placed: Mapping[str, Mapping[GroupKey, Placed]], pair: tuple[str, str], seed: int
) -> PairAgreement:
    first, second = (placed[name] for name in pair)
    taus, tops, same = [], [], []
    confusion: Counter[tuple[int, int]] = Counter()
    for key, one in first.items():
        other = second.get(key, {})
        common = [name for name in one if name in other]
        if not common:
            continue
        confusion.update((one[name][0], other[name][0]) for name in common)
        same.append(float(np.mean([one[name][0] == other[name][0] for name in common])))
        tau = _tau(one, other, common)
        if tau is not None:
            taus.append(tau)
        best = [_best(places, common) for places in (one, other)]
        tops.append(len(best[0] & best[1]) / len(best[0] | best[1]))
    numbers = range(1, len(CLASSES) + 1)
    return PairAgreement(
        pair[0],
        pair[1],
        n_groups=len(same),
        n_candidates=sum(confusion.values()),
        tau_b=estimate_mean(taus, seed=seed, within=CORRELATION),
        top1=estimate_mean(tops, seed=seed, is_share=True),
        same_tier=estimate_mean(same, seed=seed, is_share=True),
        confusion=tuple(tuple(confusion[row, column] for column in numbers) for row in numbers),
    )


def _tau(one: Placed, other: Placed, names: Sequence[str]) -> float | None:
    # Tuples order like their places in the sorted list of all of them.
    orders = []
    for places in (one, other):
        values = sorted({places[name] for name in names})
        orders.append([float(values.index(places[name])) for name in names])
    return kendall_tau_b(*orders)


def _best(places: Placed, names: Sequence[str]) -> set[str]:
    best = min(places[name] for name in names)
    return {name for name in names if places[name] == best}


def _reliability(
    values: Mapping[str, Mapping[GroupKey, Mapping[str, float]]], level: str, seed: int, n_resamples: int
) -> Reliability:
    """α over all candidates, its interval from resampled groups."""
    keys = list(dict.fromkeys(key for of_name in values.values() for key in of_name))
    tables = []
    for key in keys:
        names = list(dict.fromkeys(name for of_name in values.values() for name in of_name.get(key, {})))
        table = np.array(
            [[of_name.get(key, {}).get(name, np.nan) for name in names] for of_name in values.values()]
        ).reshape(len(values), len(names))
        tables.append(table[:, np.sum(~np.isnan(table), axis=0) >= 2])
    tables = [table for table in tables if table.shape[1]]
    if not tables:
        return Reliability(None, None, 0)
    measure = "ordinal" if level == "ordinal" else "interval"
    alpha = krippendorff_alpha(np.concatenate(tables, axis=1), measure)  # type: ignore[arg-type]
    generator = np.random.default_rng(seed)
    drawn = []
    for _ in range(n_resamples if alpha is not None and len(tables) > 1 else 0):
        chosen = generator.integers(len(tables), size=len(tables))
        one = krippendorff_alpha(np.concatenate([tables[n] for n in chosen], axis=1), measure)  # type: ignore[arg-type]
        if one is not None:
            drawn.append(one)
    interval = None
    if drawn:
        low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
        interval = Interval(float(low), float(high))
    return Reliability(alpha, interval, sum(table.shape[1] for table in tables))


def _disputes(placed: Mapping[str, Mapping[GroupKey, Placed]], n_disputes: int) -> tuple[Dispute, ...]:
    keys = dict.fromkeys(key for of_name in placed.values() for key in of_name)
    found = []
    for key in keys:
        told = {name: of_name[key] for name, of_name in placed.items() if key in of_name}
        distances = []
        for one, other in combinations(told.values(), 2):
            common = [name for name in one if name in other]
            if not common:
                continue
            apart = float(np.mean([abs(one[name][0] - other[name][0]) for name in common]))
            tau = _tau(one, other, common)
            distances.append(apart + (1 - tau if tau is not None else 0.0))
        if distances and max(distances) > 0:
            says = {
                ranking: {
                    name: _told(place) for name, place in sorted(places.items(), key=lambda item: item[1])
                }
                for ranking, places in told.items()
            }
            found.append(Dispute(key, float(np.mean(distances)), says))
    return tuple(sorted(found, key=lambda dispute: -dispute.distance)[:n_disputes])


def _told(place: tuple[int, int]) -> str:
    name = CLASSES[place[0] - 1]
    return name if name == VIOLATION or not place[1] else f"{name}/{place[1]}"
