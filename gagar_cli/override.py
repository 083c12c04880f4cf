"""A correction by a person: one line appended to a rankings file, under the lock that its runs take.

The line holds the whole ranking as it is after the correction, with who made it, why, and what was before. Nothing
is taken away: the lines before it stay, and the last line of a group wins. A run that goes on leaves it as it is.
"""

import getpass
import os
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from gagar_cli.core.overriding import PLACES, Override, apply_override, overrides_of
from gagar_cli.core.ranking import GroupRanking
from gagar_cli.errors import InputError, UsageError
from gagar_cli.io.jsonl import show_value
from gagar_cli.io.ledger import Ledger
from gagar_cli.io.ranking_records import ranking_from_record, ranking_to_record
from gagar_cli.io.rankings import latest_rankings
from gagar_cli.io.reading_back import find_ranking
from gagar_cli.io.records import placed
from gagar_cli.io.streams import show_path

MAX_TEXT_CHARS = 2000


@dataclass(frozen=True, slots=True)
class OverrideSettings:
    """What is corrected."""

    rankings: str
    group_id: str
    trajectory_id: str
    tier: str
    """T1, T2, T3 or `violation`."""
    reason: str
    author: str
    step: int | None = None
    rank: int | None = None
    """Place in the tier; None for that of the weighted score."""


@dataclass(frozen=True, slots=True)
class OverrideResult:
    """What was corrected."""

    rankings: str
    before: GroupRanking
    after: GroupRanking
    notes: tuple[str, ...]

    def to_record(self) -> dict[str, object]:
        """The result as one JSON object."""
        return {
            "rankings": self.rankings,
            "override": dict(overrides_of(self.after)[-1]),
            "n_overrides": len(overrides_of(self.after)),
            "ranking": ranking_to_record(self.after),
        }


def run(settings: OverrideSettings) -> OverrideResult:
    """Append the correction.

    Raises:
        UsageError: no such group or candidate, a group without a ranking, or a place that does not exist.
        InputError: the file is no JSONL of rankings.
        OutputError: a run holds the file, or it cannot be written.
    """
    _check(settings)
    path = settings.rankings
    with Ledger.open(path, config=None) as ledger:
        rankings = []
        for number, record in enumerate(ledger.records, start=1):
            try:
                rankings.append(ranking_from_record(record))
            except InputError as error:
                raise placed(error, f"{show_path(path)}: record {number}") from error
        before = find_ranking(latest_rankings(rankings), settings.group_id, settings.step, path)
        override = Override(
            settings.trajectory_id,
            settings.tier,
            settings.reason.strip(),
            settings.author.strip(),
            rank=settings.rank,
            at=datetime.now(UTC).isoformat(timespec="seconds"),
        )
        after = apply_override(before, override)
        ledger.append(ranking_to_record(after))
        return OverrideResult(path, before, after, tuple(ledger.notes))


def default_author() -> str | None:
    """The name of whoever is logged in; None where the machine does not know."""
    with suppress(OSError, KeyError):
        return getpass.getuser()
    return None


def _check(settings: OverrideSettings) -> None:
    if settings.tier not in PLACES:
        raise UsageError(f"--tier is {show_value(settings.tier)}, expected {', '.join(PLACES)}")
    if settings.tier not in PLACES[:3] and settings.rank is not None:
        raise UsageError("--rank is a place in a tier, and a violation has none", "leave it out")
    for flag, text in (("--reason", settings.reason), ("--author", settings.author)):
        if not text.strip() or len(text) > MAX_TEXT_CHARS:
            raise UsageError(f"{flag} has {len(text.strip())} characters, expected 1 to {MAX_TEXT_CHARS:,}")
    path = settings.rankings
    suffix = Path(path).suffix.lower()
    if path == "-" or suffix in (".parquet", ".pq", ".gz", ".zst"):
        raise UsageError(
            f"{show_path(path)}: cannot be appended to, expected plain JSON lines",
            f"a table's lines are in {show_path(path)}.ledger.jsonl: correct that, and the same `gagar grade` makes "
            "the table anew",
        )
    if not os.path.lexists(path):
        raise InputError(f"{show_path(path)}: no such file or directory")
