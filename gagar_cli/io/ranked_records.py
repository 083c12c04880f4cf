"""Rankings of any kind laid over a dump's index, line by line and candidate by candidate.

The last line of a group wins. What cannot be laid is refused with its place and reason.
"""

from collections.abc import Iterable

import numpy as np
import polars as pl

from gagar_cli.core.judging import Verdicts
from gagar_cli.core.lateness import late_reason
from gagar_cli.core.overriding import is_overridden
from gagar_cli.core.ranking import TIERS, GroupRanking, RankedCandidate
from gagar_cli.core.rubric import DIMENSIONS, weighted_score
from gagar_cli.core.schema import GroupKey
from gagar_cli.core.text import escape_untrusted, shorten
from gagar_cli.errors import InputError
from gagar_cli.io.dump import Dump
from gagar_cli.io.ranked_columns import LaidLines
from gagar_cli.io.ranked_seen import SeenAttempts

_CHUNK_ROWS = 8192
_COMPLETE_HINT = "a ranking holds every passing trajectory of its group once, and no other"
THRESHOLD_HINT = "without `resolved`, `--pass-threshold` must be the one that `gagar grade` had"
_UNKNOWN_HINT = (
    "ids that the records lack are made from folder, file and line: read the same paths as when grading, "
    "or make them part of the dump with `gagar convert` before"
)
_SCHEMA: dict[str, type[pl.DataType]] = {
    "line": pl.Int64,
    "group": pl.UInt32,
    "trajectory_id": pl.String,
    "tier": pl.Int8,
    "rank": pl.Int64,
    "is_violation": pl.Boolean,
    "weighted_score": pl.Float64,
}


def lay_lines(rankings: Iterable[GroupRanking], primary: pl.DataFrame, dump: Dump, path: str) -> LaidLines:
    """Rankings over the trajectories of a dump; `primary` has a row each, with `row` and the columns of the index.

    Raises:
        InputError: no line fits any group, a line fits several, or an entry names a trajectory that cannot be ranked.
    """
    lines = _Lines(primary, path)
    for ranking in rankings:
        lines.add(ranking)
    entries = lines.latest()
    lines.take_back_late(primary)
    return LaidLines(
        _find_entries(entries, primary, dump, path),
        lines.verdicts(),
        n_unknown_groups=lines.n_unknown_groups,
        n_superseded=lines.n_superseded,
        n_overridden=int(lines.is_overridden.sum()),
    )


def lay_none(n_groups: int) -> LaidLines:
    """What no rankings at all say of so many groups."""
    nothing = np.full(n_groups, None, dtype=np.object_)
    entries = pl.DataFrame(schema={"row": pl.UInt32, **_SCHEMA})
    return LaidLines(entries, Verdicts(np.zeros(n_groups, dtype=bool), nothing, nothing), n_unknown_groups=0)


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
        self._seen = SeenAttempts()
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
        if is_ranked:
            self._seen.add(ranking, self._n_lines, code)
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
            whose = (
                "its only group is not" if self._n_lines == 1 else f"none of its {self._n_lines:,} groups is"
            )
            raise InputError(
                f"{self._path}: {whose} in the dump",
                "rankings and dump go together by step and group_id: were both read with the same `--group-by`?",
            )
        self._pack()
        entries = pl.concat(self._chunks)
        return entries.filter(entries["line"].to_numpy() == self._last_line[entries["group"].to_numpy()])

    def take_back_late(self, primary: pl.DataFrame) -> None:
        """Takes the rankings out of force whose groups got a valid attempt since; what they say of violations stays.

        One that passed may be left out by `--eligible`, as it was when grading: it is the reason only where it is missed.
        """
        late = self._seen.find_late(self._last_line, primary)
        n_late = np.bincount(late["group"].to_numpy(), minlength=len(self._last_line))
        for code in np.flatnonzero(n_late):
            self._reason[code] = late_reason(int(n_late[code]))
        failed = late.filter(~late["passed"])["group"].unique().to_numpy()
        self._is_ranked[failed] = False
        self._status[failed] = "ungraded"

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
            _UNKNOWN_HINT if first["row"] is None else _failed_hint(dump),
        )
    return found


def _failed_hint(dump: Dump) -> str:
    return f"{_COMPLETE_HINT}; {THRESHOLD_HINT}" if dump.report.passes_by_reward else _COMPLETE_HINT


def _describe(entry: dict[str, object], dump: Dump) -> str:
    if entry["row"] is None:
        return "is not in the dump"
    state = "is invalid" if entry["invalid"] else "did not pass"
    return f"{state} ({dump.where(int(str(entry['row'])))})"


def _show(text: str) -> str:
    return f'"{shorten(escape_untrusted(text, keep_newlines=False), 80)}"'
