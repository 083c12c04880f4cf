"""What a run remembers of a ranking: what settles its group, what summaries count, and where the whole of it lies.

Rankings are full of texts, and a run has many of them: one that is on disk is read back where all of it is needed.
"""

import sys
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Self

from gagar_cli.core.consistency import RankingConsistency, consistency_of
from gagar_cli.core.lateness import LATE, late_names
from gagar_cli.core.overriding import is_overridden
from gagar_cli.core.ranking import TIERS, GroupRanking, Status
from gagar_cli.core.schema import GroupKey
from gagar_cli.core.spending import Spending, spending_of
from gagar_cli.grader.session import OWED_REASONS
from gagar_cli.io.ledger import Place


@dataclass(slots=True)
class KeptRanking:
    """A ranking without its texts. Changes once: when it is on disk."""

    key: GroupKey
    status: Status
    reason: str | None
    input_digest: str | None
    config_digest: str | None
    mode: object
    """Of its grading."""
    has_grader: bool
    """Whether it tells of a grading at all."""
    is_repeated: bool
    is_overridden: bool
    late: tuple[str, ...]
    """The trajectories that it is marked late for."""
    spending: Spending
    n_by_tier: tuple[int, ...]
    """Candidates, in the order of `TIERS`."""
    n_violations: int
    n_disputed: int
    n_findings: int
    n_unproven: int
    consistency: RankingConsistency
    ranking: GroupRanking | None = None
    """All of it, as long as it is on no disk."""
    place: Place | None = None
    """Where it is in the ledger, from then on."""

    @classmethod
    def of(cls, ranking: GroupRanking, *, place: Place | None = None) -> Self:
        """What is kept of a ranking; it is not held."""
        grader, candidates = ranking.grader, ranking.candidates
        tiers = Counter(candidate.tier for candidate in candidates)
        return cls(
            key=ranking.key,
            status=ranking.status,
            reason=_shared(ranking.reason),
            input_digest=ranking.input_digest,
            config_digest=_shared(ranking.config_digest),
            mode=grader.get("mode"),
            has_grader=bool(grader),
            is_repeated=bool(grader.get("repeats")),
            is_overridden=is_overridden(ranking),
            late=late_names(ranking),
            spending=spending_of(grader),
            n_by_tier=tuple(tiers[tier] for tier in TIERS),
            n_violations=sum(candidate.is_integrity_violation for candidate in candidates),
            n_disputed=_count_disputed(grader),
            n_findings=sum(len(candidate.findings) for candidate in candidates),
            n_unproven=sum(len(candidate.unproven) for candidate in candidates),
            consistency=consistency_of(ranking),
            place=place,
        )

    @property
    def is_amendment(self) -> bool:
        """Whether it only corrects or marks an earlier one: its grading was paid for there."""
        return self.is_overridden or (self.reason or "").startswith(LATE)

    def is_owed(self, more_reasons: Collection[str] = ()) -> bool:
        """Whether its group is to be tried again; `more_reasons` are further starts of reasons."""
        if self.status == "ungraded":
            return (self.reason or "").startswith((*OWED_REASONS, *more_reasons))
        return self.status == "skipped" and not self.has_grader


def _shared(text: str | None) -> str | None:
    return None if text is None else sys.intern(text)


def _count_disputed(grader: Mapping[str, object]) -> int:
    integrity = grader.get("integrity")
    verdicts = integrity.get("verdicts") if isinstance(integrity, Mapping) else None
    return sum(verdict.get("verdict") == "disputed" for verdict in verdicts or ())
