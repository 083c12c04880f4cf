"""Rankings laid over a dump's index: every candidate found among the passing trajectories, or refused.

The last line of a group wins. A ranking without a step fits the one group of that id; where several steps have it, the
line is ambiguous and refused. An entry for a trajectory that failed, is invalid or unknown is refused: it would shift
the factors of the others. Lines for groups that the dump does not have are counted.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gagar_cli.core.judging import Trajectories, Verdicts
from gagar_cli.core.ranking import GroupRanking
from gagar_cli.io.dump import Dump
from gagar_cli.io.ranked_columns import LaidLines, lay_plain
from gagar_cli.io.row_ids import Hash, hash_texts

_INDEX_COLUMNS = (
    "row", "group", "step", "group_id", "trajectory_id", "reward", "passed", "invalid",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class RankedIndex:
    """A dump's trajectories with what the rankings say of them."""

    trajectories: Trajectories
    verdicts: Verdicts
    weighted_score: NDArray[np.float64]
    """(n_trajectories,) what the grader's scores come to, 1 to 5; NaN where the rankings do not have it."""
    n_unknown_groups: int
    """Lines for groups that the dump does not have."""
    n_superseded: int
    """Lines that a later line of the same group replaced."""
    n_overridden: int = 0
    """Groups whose ranking a person corrected."""
    segments: "Segments | None" = None
    """None where every row of the index is a trajectory of its own."""

    @property
    def n_trajectories(self) -> int:
        """How many trajectories there are."""
        return len(self.trajectories.group)

    @property
    def primary_rows(self) -> NDArray[np.int64]:
        """(n_trajectories,) the first row of each in the index."""
        return np.arange(self.n_trajectories) if self.segments is None else self.segments.primary_rows

    @property
    def trajectory_of_row(self) -> NDArray[np.int64]:
        """(n_rows of the index,) position among the trajectories: the segments of one share it."""
        return np.arange(self.n_trajectories) if self.segments is None else self.segments.trajectory_of_row


class Segments(NamedTuple):
    """Which rows of the index are one trajectory."""

    primary_rows: NDArray[np.int64]
    trajectory_of_row: NDArray[np.int64]


def lay_rankings(
    dump: Dump,
    rankings: Iterable[GroupRanking],
    path: str,
    *,
    plain: pl.DataFrame | None = None,
    hash_: Hash = hash_texts,
) -> RankedIndex:
    """The trajectories of a dump with tier, rank and verdict where the rankings have them.

    `plain` is what `read_plain_rankings` gave for the same file; the rankings are only read where it does not do. Dump,
    `plain` and this have one `hash_`.

    Raises:
        InputError: no line fits any group, a line fits several, or an entry names a trajectory that cannot be ranked.
    """
    apart = dump.rows_apart
    primary = _primary(dump.index) if apart is None else apart.frame
    laid = None if plain is None else lay_plain(plain, primary if apart is None else apart, hash_=hash_)
    del plain  # the hashes of millions of candidates, which nobody needs from here on
    if laid is None:
        laid = _lay_lines(rankings, primary, dump, path)
    segments = None
    rows = laid.entries["row"].to_numpy()
    if primary.height < dump.n_rows:
        segments = _segments(primary, dump.index)
        rows = segments.trajectory_of_row[rows]
    height = primary.height
    score: NDArray[np.float64] = np.broadcast_to(np.nan, height)
    if laid.entries["weighted_score"].null_count() < laid.entries.height:
        told = laid.entries["weighted_score"].fill_null(float("nan"))
        score = _spread(told, rows, height, np.nan)
    return RankedIndex(
        _trajectories(primary, laid.entries, rows),
        laid.verdicts,
        score,
        n_unknown_groups=laid.n_unknown_groups,
        n_superseded=laid.n_superseded,
        n_overridden=laid.n_overridden,
        segments=segments,
    )


def _lay_lines(rankings: Iterable[GroupRanking], primary: pl.DataFrame, dump: Dump, path: str) -> LaidLines:
    # Plain rankings have no use for what overrides and rubrics are.
    from gagar_cli.io.ranked_records import lay_lines, lay_none

    apart = dump.rows_apart
    if apart is None:
        return lay_lines(rankings, primary, dump, path)
    lines = iter(rankings)
    first = next(lines, None)
    # The whole index takes many times the memory, for texts that nobody looks for where nothing is ranked.
    if first is None:
        return lay_none(apart.groups.height)
    return lay_lines(chain((first,), lines), _numbered(apart.whole()), dump, path)


def _primary(index: pl.DataFrame) -> pl.DataFrame:
    """The first row of each trajectory, with its number."""
    is_primary = index["primary_row"] == pl.int_range(index.height, dtype=pl.UInt32, eager=True)
    rows = _numbered(index)
    # Most dumps have no segments, and a copy of a large index costs as much memory as the index.
    return rows if is_primary.all() else rows.filter(is_primary)


def _numbered(index: pl.DataFrame) -> pl.DataFrame:
    return index.with_row_index("row").select(_INDEX_COLUMNS)


def _segments(primary: pl.DataFrame, index: pl.DataFrame) -> Segments:
    primary_rows = primary["row"].to_numpy().astype(np.int64)
    position = np.full(index.height, -1, dtype=np.int64)
    position[primary_rows] = np.arange(primary.height)
    return Segments(primary_rows, position[index["primary_row"].to_numpy()])


def _trajectories(primary: pl.DataFrame, entries: pl.DataFrame, rows: NDArray[np.integer]) -> Trajectories:
    """What the columns of the dump and the entries say; what is the same for all takes no memory."""
    height = primary.height
    is_valid: NDArray[np.bool_] = np.broadcast_to(np.True_, height)
    if "invalid" in primary.columns:
        is_valid = ~primary["invalid"].to_numpy()
    is_violation: NDArray[np.bool_] = np.broadcast_to(np.False_, height)
    if entries["is_violation"].any():
        is_violation = _spread(entries["is_violation"], rows, height, 0)
    rank = entries["rank"]
    # Narrower ones would not hold the ranks that others give in their place.
    rank = rank.cast(pl.Int64 if rank.shrink_dtype().dtype == pl.Int64 else pl.Int32)
    return Trajectories(
        group=primary["group"].to_numpy().view(np.int32),
        reward=primary["reward"].fill_null(float("nan")).to_numpy(),
        is_valid=is_valid,
        is_passed=primary["passed"].to_numpy(),
        tier=_spread(entries["tier"], rows, height, -1),
        rank=_spread(rank, rows, height, -1),
        is_violation=is_violation,
    )


def _spread(values: pl.Series, rows: NDArray[np.integer], n_rows: int, otherwise: float) -> NDArray[Any]:
    """The values at their rows, and something else in all others."""
    told = values.to_numpy()
    spread = np.full(n_rows, otherwise, dtype=told.dtype)
    spread[rows] = told
    return spread
