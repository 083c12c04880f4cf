"""What a tier table does: factors and amplification of example groups, from the same functions as redistribution."""

from dataclasses import dataclass

import numpy as np

from gagar_cli.core.batches import Batch
from gagar_cli.core.caps import Cap
from gagar_cli.core.double_double import DoubleDouble
from gagar_cli.core.factors import dense_places, quality_factors
from gagar_cli.core.gagar import gagar
from gagar_cli.core.method_options import SettledCap, settle_cap
from gagar_cli.core.ranking import TIERS
from gagar_cli.core.tier_tables import TierTable

EXAMPLES: tuple[tuple[str, tuple[str, ...], int], ...] = (
    ("one of each tier", ("T1.1", "T2.1", "T3.1"), 3),
    ("the best and the worst", ("T1.1", "T3.1"), 2),
    ("distinct T2 only", ("T2.1", "T2.2", "T2.3"), 3),
    ("T2 with a tie", ("T1.1", "T2.1", "T2.2", "T2.2"), 4),
    ("one good among many poor", ("T1.1", *["T3.1"] * 6), 1),
    ("a lone T3 pass", ("T3.1",), 7),
)
"""What it shows, the passes as tier.rank, and how many fail beside them."""


@dataclass(frozen=True, slots=True)
class TierExample:
    """One group under a table."""

    title: str
    places: tuple[str, ...]
    n_failed: int
    factors: tuple[float, ...]
    amplification: tuple[float, ...]
    """Advantage over base of each pass."""
    is_capped: bool

    def to_record(self) -> dict[str, object]:
        """The example as a JSON object."""
        return {
            "title": self.title,
            "places": list(self.places),
            "n_failed": self.n_failed,
            "factors": list(self.factors),
            "amplification": list(self.amplification),
            "is_capped": self.is_capped,
        }


@dataclass(frozen=True, slots=True)
class ShownTable:
    """A table, the cap in force, and what they do."""

    name: str
    table: TierTable
    settled: SettledCap
    examples: tuple[TierExample, ...]

    def to_record(self) -> dict[str, object]:
        """All of it as a JSON object."""
        return {
            "table": self.table.to_record(),
            "cap": self.settled.cap,
            "limit": self.settled.limit,
            "cap_from": self.settled.source,
            "examples": [each.to_record() for each in self.examples],
        }


def show_table(name: str, table: TierTable, *, cap: Cap | None, limit: float | None) -> ShownTable:
    """The example groups under a table and its cap, or that of the flags."""
    settled = settle_cap(table, cap=cap, limit=limit)
    examples = tuple(_show(table, settled.cap, settled.limit, *example) for example in EXAMPLES)
    return ShownTable(name, table, settled, examples)


def _show(
    table: TierTable, cap: Cap, limit: float, title: str, places: tuple[str, ...], n_failed: int
) -> TierExample:
    parts = [place.split(".") for place in places]
    tier = np.array([TIERS.index(name) for name, _ in parts])
    rank = np.array([int(number) for _, number in parts])
    made = quality_factors(table, dense_places(np.zeros(len(parts), dtype=int), tier, rank, table.ties))
    n_passed, size = len(parts), len(parts) + n_failed
    padding = np.ones(n_failed)
    is_passed = np.arange(size)[None, :] < n_passed
    batch = Batch(
        rewards=is_passed.astype(np.float64),
        is_valid=np.ones((1, size), dtype=bool),
        is_passed=is_passed,
        is_graded=np.array([True]),
        factors=DoubleDouble(
            np.concatenate((made.high, padding))[None, :], np.concatenate((made.low, 0 * padding))[None, :]
        ),
    )
    estimate = gagar(batch, cap, limit)
    gains = estimate.advantage[0, :n_passed] / estimate.base[0, :n_passed]
    return TierExample(
        title, places, n_failed, tuple(made.high.tolist()), tuple(gains.tolist()), bool(estimate.is_capped[0])
    )
