"""What a confirmed integrity violation costs: its reward, its tier, or nothing.

Rankings carry the verdict; what follows from it is chosen when advantages are made, so that another choice needs no
grading. `zero` leaves the flag, and the reward becomes a failure's before any mean. `t3` puts the trajectory behind everything in
T3 and leaves its reward. `report` puts it where its scores belong, as if there were no verdict.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from gagar_cli.core.ranking import TIERS, GroupRanking, RankedCandidate

if TYPE_CHECKING:
    from gagar_cli.core.schema import GroupKey

IntegrityAction = Literal["zero", "t3", "report"]
_FLAG = "integrity_violation"
_LOWEST = TIERS[-1]


class ViolationActs:
    """Acts on the violations of rankings, one after the other, and counts them; the last line of a group counts."""

    def __init__(self, action: IntegrityAction) -> None:
        self._action = action
        self._n_by_group: dict[GroupKey, int] = {}

    @property
    def n_violations(self) -> int:
        """Violations in the lines that count, whatever was done about them."""
        return sum(self._n_by_group.values())

    def act(self, rankings: Iterable[GroupRanking]) -> Iterable[GroupRanking]:
        """The rankings as the action leaves them."""
        for ranking in rankings:
            n_violations = sum(one.is_integrity_violation for one in ranking.candidates)
            if n_violations or ranking.key in self._n_by_group:
                self._n_by_group[ranking.key] = n_violations
            yield act_on_violations(ranking, self._action)


def act_on_violations(ranking: GroupRanking, action: IntegrityAction) -> GroupRanking:
    """The ranking as the action leaves it.

    A group that its violations had left without two candidates is graded again where the action gives them a place.
    With `report`, a violation whose ranking does not tell where it would stand has no place: its group is then short of
    a candidate.
    """
    violations = [one for one in ranking.candidates if one.is_integrity_violation]
    if action == "zero" or not violations:
        return ranking
    tiers = dict.fromkeys((one.trajectory_id for one in violations), _LOWEST)
    if action == "report":
        tiers = _tiers_if_kept(ranking)
    honest = [one for one in ranking.candidates if not one.is_integrity_violation]
    placed = {one.trajectory_id: one for one in honest}
    for one in violations:
        placed[one.trajectory_id] = _cleared(one, tiers.get(one.trajectory_id))
    for tier in TIERS:
        members = [one for one in honest if one.tier == tier]
        arrivals = [one for one in violations if tiers.get(one.trajectory_id) == tier]
        ranks = _ranks_with(members, arrivals, is_last=action == "t3") if arrivals else {}
        placed |= {name: replace(placed[name], rank=rank) for name, rank in ranks.items()}
    candidates = tuple(placed[one.trajectory_id] for one in ranking.candidates)
    n_placed = sum(one.tier is not None for one in candidates)
    if ranking.status == "skipped" and n_placed > 1:
        return replace(ranking, status="graded", reason=None, candidates=candidates)
    return replace(ranking, candidates=candidates)


def _tiers_if_kept(ranking: GroupRanking) -> dict[str, str]:
    """What the ranking says of the tiers that violations would have without the verdict."""
    integrity = ranking.grader.get("integrity")
    verdicts = integrity.get("verdicts") if isinstance(integrity, Mapping) else None
    found = {}
    for verdict in verdicts if isinstance(verdicts, list) else ():
        tier = verdict.get("tier_if_kept") if isinstance(verdict, Mapping) else None
        if tier in TIERS:
            found[str(verdict.get("trajectory_id"))] = str(tier)
    return found


def _cleared(candidate: RankedCandidate, tier: str | None) -> RankedCandidate:
    return replace(candidate, tier=tier, rank=None, flags={**candidate.flags, _FLAG: False})


def _ranks_with(
    members: Iterable[RankedCandidate], arrivals: Iterable[RankedCandidate], *, is_last: bool
) -> dict[str, int]:
    """The ranks of a tier after arrivals: behind everybody, or before the first place that weighs less than they do."""
    by_rank: dict[int, list[RankedCandidate]] = {}
    for one in members:
        by_rank.setdefault(one.rank or 0, []).append(one)
    order = [
        (_weight(by_rank[rank]), [one.trajectory_id for one in by_rank[rank]]) for rank in sorted(by_rank)
    ]
    for one in sorted(arrivals, key=lambda arrival: -_weight([arrival])):
        weight = 0.0 if is_last else _weight([one])
        behind = next((number for number, (other, _) in enumerate(order) if other <= weight), len(order))
        if behind < len(order) and order[behind][0] == weight:
            order[behind][1].append(one.trajectory_id)
        else:
            order.insert(behind, (weight, [one.trajectory_id]))
    return {name: rank for rank, (_, names) in enumerate(order, 1) for name in names}


def _weight(tied: Iterable[RankedCandidate]) -> float:
    """The best weighted score among tied candidates; unknown ones stand before all that is known."""
    return max(6.0 if one.weighted_score is None else one.weighted_score for one in tied)
