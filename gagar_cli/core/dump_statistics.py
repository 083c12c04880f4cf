"""What is in a dump, in numbers: who passed, how long attempts were, and what the rankings say of the passes.

One entry a trajectory; statistics are of whatever trajectories are given, so a part of a dump is described by its rows
alone. Integrity has been applied: a violation counts as a failure.
"""

from dataclasses import asdict, dataclass
from math import fsum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gagar_cli.core.batches import BoolArray, IntArray
from gagar_cli.core.double_double import FloatArray
from gagar_cli.core.grouping import count_codes, outline_groups
from gagar_cli.core.ranking import TIERS
from gagar_cli.core.summaries import renamed

FINDING_KINDS = ("patch", "turn", "test_output", "repo", "exec")
OF_RANKINGS = ("n_candidates_by_tier", "weighted_scores", "n_findings_by_kind", "n_unproven")
"""The names in a record that say nothing where nothing was ranked."""
PASS_RATE_BINS = ("0%", *(f"{low}-{low + 10}%" for low in range(0, 100, 10)), "100%")
"""None passed; then tenths, each without its upper end but for the last, which has neither 0 nor 1; all passed."""


@dataclass(frozen=True, slots=True)
class Observed:
    """What was read, one entry a trajectory."""

    group: IntArray
    is_valid: BoolArray
    is_passed: BoolArray
    n_turns: FloatArray
    """NaN where it is not told."""
    n_tokens: FloatArray
    is_truncated: FloatArray
    """1, 0, or NaN where it is not told."""
    cost_usd: FloatArray
    """What the attempt cost; NaN where it is not told."""
    tier: NDArray[np.int8]
    """Index into `TIERS`, −1 where there is none."""
    score: FloatArray
    """Weighted, 1 to 5; NaN where there is none."""
    n_findings: IntArray
    """(n_trajectories, n_kinds) by `FINDING_KINDS`."""
    n_unproven: IntArray

    def part(self, is_chosen: BoolArray) -> "Observed":
        """The chosen trajectories alone."""
        return Observed(**{name: getattr(self, name)[is_chosen] for name in self.__slots__})


class Spread(NamedTuple):
    """Of the values that are known; None where there are none."""

    n: int
    mean: float | None = None
    median: float | None = None
    p90: float | None = None
    largest: float | None = None

    def to_record(self) -> dict[str, float | None]:
        """As JSON."""
        return renamed(self._asdict(), {"n": "n_values", "largest": "max"})


_NAMES = {
    "n_by_outcome": "n_trajectories_by_outcome",
    "pass_rates": "n_groups_by_pass_rate",
    "passes_of_mixed": "n_mixed_groups_by_passes",
    "truncated": "truncated_share",
    "tiers": "n_candidates_by_tier",
    "scores": "weighted_scores",
    "findings": "n_findings_by_kind",
}


@dataclass(frozen=True, slots=True)
class DumpStatistics:
    """The numbers of one set of trajectories."""

    n_trajectories: int
    n_by_outcome: dict[str, int]
    n_groups: int
    n_groups_by_kind: dict[str, int]
    """Groups by what they are: `eligible` (two passes or more beside a failure), and the reasons why not."""
    pass_rates: dict[str, int]
    """Groups with a valid trajectory, by the share that passed."""
    passes_of_mixed: dict[str, int]
    """Groups with passes and failures by how many passed: what there is to rank."""
    turns: dict[str, Spread]
    tokens: dict[str, Spread]
    truncated: dict[str, float | None]
    """Share of those that tell, by outcome."""
    n_with_truncated: dict[str, int]
    """Those that tell, by outcome."""
    cost_usd: float | None
    """Sum over the trajectories that tell; None where none does."""
    n_with_cost: int
    tiers: dict[str, int]
    scores: dict[str, Spread]
    """Weighted scores by tier."""
    findings: dict[str, int]
    n_unproven: int

    @property
    def pass_rate(self) -> float | None:
        """Of the valid trajectories."""
        n_valid = self.n_by_outcome["passed"] + self.n_by_outcome["failed"]
        return self.n_by_outcome["passed"] / n_valid if n_valid else None

    def to_record(self) -> dict[str, object]:
        """The numbers as a JSON object."""
        spreads = {
            name: {key: spread.to_record() for key, spread in getattr(self, name).items()}
            for name in ("turns", "tokens", "scores")
        }
        return renamed({**asdict(self), **spreads}, _NAMES) | {"pass_rate": self.pass_rate}


def describe(observed: Observed) -> DumpStatistics:
    """The numbers of the given trajectories."""
    is_present = count_codes(observed.group) > 0
    n_groups = int(np.count_nonzero(is_present))
    group = observed.group if is_present.all() else (np.cumsum(is_present) - 1)[observed.group]
    outlines = outline_groups(group, observed.is_passed, ~observed.is_valid, n_groups)
    n_passed = count_codes(group[observed.is_passed], n_groups)
    n_valid = count_codes(group[observed.is_valid], n_groups)
    outcomes = {
        "passed": observed.is_passed,
        "failed": observed.is_valid & ~observed.is_passed,
        "invalid": ~observed.is_valid,
    }
    is_ranked = observed.tier >= 0
    by_tier = {name: is_ranked & (observed.tier == code) for code, name in enumerate(TIERS)}
    truncated = {name: spread(observed.is_truncated[chosen]) for name, chosen in outcomes.items()}
    costs = observed.cost_usd[~np.isnan(observed.cost_usd)]
    return DumpStatistics(
        n_trajectories=len(group),
        n_by_outcome={name: int(chosen.sum()) for name, chosen in outcomes.items()},
        n_groups=n_groups,
        n_groups_by_kind=outlines.count_by_reason(),
        pass_rates=_pass_rates(n_passed, n_valid),
        passes_of_mixed=_counts(n_passed[outlines.is_mixed]),
        turns={name: spread(observed.n_turns[chosen]) for name, chosen in outcomes.items()},
        tokens={name: spread(observed.n_tokens[chosen]) for name, chosen in outcomes.items()},
        truncated={name: each.mean for name, each in truncated.items()},
        n_with_truncated={name: each.n for name, each in truncated.items()},
        cost_usd=fsum(costs) if len(costs) else None,
        n_with_cost=len(costs),
        tiers={name: int(chosen.sum()) for name, chosen in by_tier.items()},
        scores={name: spread(observed.score[chosen]) for name, chosen in by_tier.items()},
        findings=dict(zip(FINDING_KINDS, observed.n_findings.sum(axis=0).tolist(), strict=True)),
        n_unproven=int(observed.n_unproven.sum()),
    )


def spread(values: FloatArray) -> Spread:
    """The spread of the values that are no NaN.

    >>> spread(np.array([1.0, 3.0, np.nan]))
    Spread(n=2, mean=2.0, median=2.0, p90=2.8, largest=3.0)
    """
    is_unknown = np.isnan(values)
    known = values[~is_unknown] if is_unknown.any() else values
    if not len(known):
        return Spread(0)
    median, p90 = np.quantile(known, [0.5, 0.9]).tolist()
    return Spread(len(known), float(known.mean()), median, p90, float(known.max()))


def _pass_rates(n_passed: IntArray, n_valid: IntArray) -> dict[str, int]:
    known = n_valid > 0
    passed, valid = n_passed[known], n_valid[known]
    # In whole numbers: 3 of 10 belongs into the fourth tenth, whatever 0.3 is in binary.
    tenth = np.minimum(10 * passed // valid, 9) + 1
    place = np.where(passed == 0, 0, np.where(passed == valid, len(PASS_RATE_BINS) - 1, tenth))
    counts = np.bincount(place, minlength=len(PASS_RATE_BINS))
    return dict(zip(PASS_RATE_BINS, counts.tolist(), strict=True))


def _counts(values: IntArray) -> dict[str, int]:
    found, counts = np.unique(values, return_counts=True)
    return {str(value): count for value, count in zip(found.tolist(), counts.tolist(), strict=True)}
