"""Rankings laid over a dump's index: every candidate found among the passing trajectories, or refused.

The last line of a group wins. A ranking without a step fits the one group of that id; where several steps have it, the
line is ambiguous and refused. An entry for a trajectory that failed, is invalid or unknown is refused: it would shift
the factors of the others. Lines for groups that the dump does not have are counted.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gagar_cli.core.judging import Trajectories, Verdicts
from gagar_cli.core.overriding import is_overridden
from gagar_cli.core.ranking import TIERS, GroupRanking, RankedCandidate
from gagar_cli.core.rubric import DIMENSIONS, weighted_score
from gagar_cli.core.schema import GroupKey
from gagar_cli.core.text import escape_untrusted, shorten
from gagar_cli.errors import InputError
from gagar_cli.io.dump import Dump
from gagar_cli.io.ranked_columns import LaidLines, lay_plain

_CHUNK_ROWS = 8192
_INDEX_COLUMNS = (
    "row", "primary_row", "group", "step", "group_id", "trajectory_id", "reward", "passed", "invalid",
)  # fmt: skip
_SCHEMA: dict[str, type[pl.DataType]] = {
    "line": pl.Int64,
    "group": pl.UInt32,
    "trajectory_id": pl.String,
    "tier": pl.Int8,
    "rank": pl.Int64,
    "is_violation": pl.Boolean,
    "weighted_score": pl.Float64,
}


class RankedIndex(NamedTuple):
    """A dump's trajectories with what the rankings say of them."""

    trajectories: Trajectories
    verdicts: Verdicts
    primary_rows: NDArray[np.int64]
    """(n_trajectories,) the first row of each in the index."""
    weighted_score: NDArray[np.float64]
    """(n_trajectories,) what the grader's scores come to, 1 to 5; NaN where the rankings do not have it."""
    trajectory_of_row: NDArray[np.int64]
    """(n_rows of the index,) position among the trajectories: the segments of one share it."""
    n_unknown_groups: int
    """Lines for groups that the dump does not have."""
    n_superseded: int
    """Lines that a later line of the same group replaced."""
    n_overridden: int = 0
    """Groups whose ranking a person corrected."""


def lay_rankings(
    dump: Dump, rankings: Iterable[GroupRanking], path: str, *, plain: pl.DataFrame | None = None
) -> RankedIndex:
    """The trajectories of a dump with tier, rank and verdict where the rankings have them.

    `plain` is what `read_plain_rankings` gave for the same file; the rankings are only read where it does not do.

    Raises:
        InputError: no line fits any group, a line fits several, or an entry names a trajectory that cannot be ranked.
    """
    index = dump.index.with_row_index("row").select(_INDEX_COLUMNS)
    is_primary = index["row"] == index["primary_row"]
    # Most dumps have no segments, and a copy of a large index costs as much memory as the index.
    primary = index if is_primary.all() else index.filter(is_primary)
    laid = None if plain is None else lay_plain(plain, primary)
    del plain  # the ids of millions of candidates, which nobody needs from here on
    if laid is None:
        laid = _lay_lines(rankings, primary, dump, path)
    entries = laid.entries

    # Most dumps have no segments either: positions are rows then, and one array says so.
    rows = np.arange(index.height)
    primary_rows, position = rows, rows
    if primary.height < index.height:
        primary_rows = primary["row"].to_numpy().astype(np.int64)
        position = np.full(index.height, -1, dtype=np.int64)
        position[primary_rows] = np.arange(primary.height)
        rows = position[index["primary_row"].to_numpy()]
    found = position[entries["row"].to_numpy()]
    rank = entries["rank"]
    if (cast("int | None", rank.max()) or 0) < 2**31:
        rank = rank.cast(pl.Int32)
    trajectories = Trajectories(
        group=primary["group"].to_numpy().astype(np.int64),
        reward=primary["reward"].fill_null(float("nan")).to_numpy(),
        is_valid=~primary["invalid"].to_numpy(),
        is_passed=primary["passed"].to_numpy(),
        tier=_spread(entries["tier"], found, primary.height, -1),
        rank=_spread(rank, found, primary.height, -1),
        is_violation=_spread(entries["is_violation"], found, primary.height, 0),
    )
    score = np.broadcast_to(np.nan, primary.height)
    if entries["weighted_score"].null_count() < entries.height:
        told = entries["weighted_score"].fill_null(float("nan"))
        score = _spread(told, found, primary.height, np.nan)
    return RankedIndex(
        trajectories,
        laid.verdicts,
        primary_rows,
        score,
        rows,
        n_unknown_groups=laid.n_unknown_groups,
        n_superseded=laid.n_superseded,
        n_overridden=laid.n_overridden,
    )


def _spread(values: pl.Series, rows: NDArray[np.int64], n_rows: int, otherwise: float) -> NDArray[Any]:
    """The values at their rows, and something else in all others."""
    told = values.to_numpy()
    spread = np.full(n_rows, otherwise, dtype=told.dtype)
    spread[rows] = told
    return spread


def _lay_lines(rankings: Iterable[GroupRanking], primary: pl.DataFrame, dump: Dump, path: str) -> LaidLines:
    lines = _Lines(primary, path)
    for ranking in rankings:
        lines.add(ranking)
    return LaidLines(
        _find_entries(lines.latest(), primary, dump, path),
        lines.verdicts(),
        n_unknown_groups=lines.n_unknown_groups,
        n_superseded=lines.n_superseded,
        n_overridden=int(lines.is_overridden.sum()),
    )


class _Lines:
    """Collects the lines of a rankings file, the last one of each group in force."""

    def __init__(self, primary: pl.DataFrame, path: str) -> None:
        self._path = path
        groups = primary.unique("group", keep="first", maintain_order=True).select(
            "step", "group_id", "group"
        )
        self._codes = {GroupKey(step, group_id): code for step, group_id, code in groups.iter_rows()}
        self._by_id: dict[str, list[int]] = {}
        for key, code in self._codes.items():
            self._by_id.setdefault(key.group_id, []).append(code)
        n_groups = len(self._codes)
        self._last_line = np.full(n_groups, -1, dtype=np.int64)
        self._is_ranked = np.zeros(n_groups, dtype=bool)
        self._status = np.full(n_groups, None, dtype=np.object_)
        self._reason = np.full(n_groups, None, dtype=np.object_)
        self._rows: list[tuple[object, ...]] = []
        self._chunks = [pl.DataFrame(schema=_SCHEMA)]
        self._n_lines = 0
        self.n_unknown_groups = 0
        self.n_superseded = 0
        self.is_overridden = np.zeros(n_groups, dtype=bool)

    def add(self, ranking: GroupRanking) -> None:
        self._n_lines += 1
        code = self._find(ranking.key)
        if code is None:
            self.n_unknown_groups += 1
            return
        self.n_superseded += int(self._last_line[code] >= 0)
        self._last_line[code] = self._n_lines
        is_ranked = ranking.status == "graded"
        self._is_ranked[code] = is_ranked
        self.is_overridden[code] = is_overridden(ranking)
        self._status[code] = None if is_ranked else ranking.status
        self._reason[code] = None if is_ranked else (ranking.reason or "not_told")
        for candidate in ranking.candidates:
            is_placed = candidate.tier is not None and candidate.rank is not None
            tier = TIERS.index(candidate.tier) if is_placed and candidate.tier else -1
            rank = candidate.rank if is_placed else -1
            is_violation = candidate.is_integrity_violation
            self._rows.append(
                (
                    self._n_lines,
                    code,
                    candidate.trajectory_id,
                    tier,
                    rank,
                    is_violation,
                    _score(candidate),
                )
            )
        if len(self._rows) >= _CHUNK_ROWS:
            self._pack()

    def latest(self) -> pl.DataFrame:
        """The entries of the lines in force.

        Raises:
            InputError: there are lines, and none is for a group of the dump.
        """
        if self._n_lines and self.n_unknown_groups == self._n_lines:
            raise InputError(
                f"{self._path}: none of its {self._n_lines:,} groups is in the dump",
                "rankings and dump go together by step and group_id: were both read with the same `--group-by`?",
            )
        self._pack()
        entries = pl.concat(self._chunks)
        return entries.filter(entries["line"].to_numpy() == self._last_line[entries["group"].to_numpy()])

    def verdicts(self) -> Verdicts:
        return Verdicts(self._is_ranked, self._status, self._reason)

    def _find(self, key: GroupKey) -> int | None:
        code = self._codes.get(key)
        if code is not None or key.step is not None:
            return code
        codes = self._by_id.get(key.group_id, [])
        if len(codes) > 1:
            raise InputError(
                f"{self._path}: group {_show(key.group_id)} has no step, and the dump has it in {len(codes)} steps",
                "give each line the `step` of its group",
            )
        return codes[0] if codes else None

    def _pack(self) -> None:
        if self._rows:
            self._chunks.append(pl.DataFrame(self._rows, schema=_SCHEMA, orient="row"))
            self._rows = []


def _score(candidate: RankedCandidate) -> float | None:
    """The weighted score, worked out where a ranking has only the five scores."""
    if candidate.weighted_score is None and set(candidate.scores) == set(DIMENSIONS):
        return float(weighted_score(candidate.scores))
    return candidate.weighted_score


def _find_entries(entries: pl.DataFrame, primary: pl.DataFrame, dump: Dump, path: str) -> pl.DataFrame:
    """The entries with the row of their trajectory.

    Raises:
        InputError: naming the first entry that is for no passing trajectory, or there twice.
    """
    wanted = primary.select("group", "trajectory_id", "row", "passed", "invalid")
    found = entries.join(wanted, on=["group", "trajectory_id"], how="left", maintain_order="left")
    bad = found.filter(pl.col("row").is_null() | ~pl.col("passed"))
    twice = found.filter(~found.select(pl.struct("group", "trajectory_id").is_first_distinct()).to_series())
    for rows, is_twice in ((bad, False), (twice, True)):
        if not rows.height:
            continue
        first = rows.row(0, named=True)
        group = primary.filter(pl.col("group") == first["group"]).row(0, named=True)
        place = f"{path}: group {_show(str(GroupKey(group['step'], group['group_id'])))}"
        others = f" (and {rows.height - 1:,} more like it)" if rows.height > 1 else ""
        what = "is ranked twice" if is_twice else _describe(first, dump)
        raise InputError(
            f"{place}: trajectory {_show(first['trajectory_id'])} {what}{others}",
            "a ranking holds every passing trajectory of its group once, and no other",
        )
    return found


def _describe(entry: dict[str, object], dump: Dump) -> str:
    if entry["row"] is None:
        return "is not in the dump"
    state = "is invalid" if entry["invalid"] else "did not pass"
    return f"{state} ({dump.where(int(str(entry['row'])))})"


def _show(text: str) -> str:
    return f'"{shorten(escape_untrusted(text, keep_newlines=False), 80)}"'
