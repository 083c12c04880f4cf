"""Which groups of a dump a grading run has to do with: the eligible ones as jobs, the others with their reason."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gagar_cli.core.conditions import Condition, columns_of
from gagar_cli.core.grouping import REASONS, GroupOutlines, count_codes, outline_groups, rows_by_group
from gagar_cli.core.ranking import GroupRanking
from gagar_cli.core.schema import Group, GroupKey
from gagar_cli.core.sharding import Shard
from gagar_cli.core.text import escape_untrusted, shorten
from gagar_cli.errors import UsageError
from gagar_cli.grader.rules import IntegrityScope
from gagar_cli.io.arrived import Member
from gagar_cli.io.dump import Dump
from gagar_cli.io.eligibility import rows_that_meet

CHECKED_REASONS: dict[IntegrityScope, tuple[str, ...]] = {
    "off": (),
    "mixed": ("lone_pass",),
    "all": ("lone_pass", "all_pass"),
}
"""Why the groups cannot be ranked whose passing attempts are checked all the same."""
NOT_ELIGIBLE = "not_eligible"
"""No passing trajectory of the group meets `--eligible`."""


@dataclass(frozen=True, slots=True)
class Job:
    """A group to grade: its place in the index, nothing heavy."""

    key: GroupKey
    rows: Sequence[int]

    def read(self, dump: Dump) -> Group:
        """The group with its heavy columns.

        Raises:
            InputError: a heavy field has a wrong type, or the file changed.
        """
        pairs = dump.read_trajectories(self.rows)
        return Group(self.key, pairs[0][0], tuple(trajectory for _, trajectory in pairs))


@dataclass(frozen=True, slots=True)
class Plan:
    """The groups of a run."""

    n_trajectories: int
    n_groups: int
    """Of this shard."""
    jobs: tuple[Job, ...]
    """Eligible groups, in the order of the dump."""
    skipped: tuple[GroupRanking, ...]
    """All others, those of `checks` among them."""
    checks: tuple[Job, ...] = ()
    """Groups that cannot be ranked, but whose passing attempts are to be checked for integrity."""


def plan_groups(
    dump: Dump,
    *,
    condition: Condition | None = None,
    shard: Shard | None = None,
    integrity: IntegrityScope = "off",
) -> Plan:
    """Sort the groups of a dump.

    A group is eligible when it is mixed and at least two of its passing trajectories meet the condition. Passing
    ones that do not are left out; failing ones are references whatever they meet.

    Raises:
        UsageError: a column of the condition is in no record, or compared with a literal of another kind.
    """
    if condition is not None:
        refuse_missing_columns(dump, condition)
    primary = _primary_rows(dump)
    group, is_valid = _column(dump, "group", primary), ~_column(dump, "invalid", primary)
    is_passed = _column(dump, "passed", primary) & is_valid
    is_kept, is_candidate = is_valid, is_passed
    if condition is not None:
        extras = dump.extras() if primary is None else dump.extras()[primary]
        meets = rows_that_meet(condition, extras, "--eligible").to_numpy()
        is_kept, is_candidate = is_valid & (~is_passed | meets), is_passed & meets
    outlines = outline_groups(group, is_passed, ~is_valid, int(group.max(initial=0)) + 1)
    n_candidates = count_codes(group, len(outlines.n_rows), is_candidate)
    rows = _rows_of_groups(group, is_kept, outlines, primary)
    n_trajectories = n_groups = 0
    jobs, skipped, checks = [], [], []
    for code, key in _keys(dump, rows):
        if shard is not None and not shard.holds(key):
            continue
        n_groups += 1
        n_trajectories += int(outlines.n_rows[code])
        if outlines.n_passed[code] and not n_candidates[code]:
            skipped.append(GroupRanking(key, "skipped", NOT_ELIGIBLE))
        elif outlines.is_eligible[code] and n_candidates[code] > 1:
            jobs.append(Job(key, rows.of(code)))
        else:
            reason = "lone_pass" if outlines.is_eligible[code] else REASONS[outlines.reason[code]]
            skipped.append(GroupRanking(key, "skipped", reason))
            if reason in CHECKED_REASONS[integrity]:
                checks.append(Job(key, rows.of(code)))
    return Plan(n_trajectories, n_groups, tuple(jobs), tuple(skipped), tuple(checks))


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows of the index by group."""

    kept: NDArray[np.integer]
    """Those that are read, group by group."""
    starts: NDArray[np.int64]
    """(n_groups,) where a group's begin."""
    counts: NDArray[np.int64]
    first: NDArray[np.integer]
    """(n_groups,) the first trajectory of a group, be it read or not."""

    def of(self, code: int) -> Sequence[int]:
        """What is read of a group; as a range where it can be one, for groups are many."""
        start, count = int(self.starts[code]), int(self.counts[code])
        rows = self.kept[start : start + count]
        if count and int(rows[-1]) - int(rows[0]) == count - 1:
            return range(int(rows[0]), int(rows[-1]) + 1)
        return tuple(rows.tolist())


def _primary_rows(dump: Dump) -> NDArray[np.uint32] | None:
    """The rows that stand for a trajectory; None where all do."""
    if dump.rows_apart is not None:
        return None
    primary = dump.index["primary_row"].to_numpy()
    rows = np.arange(len(primary), dtype=np.uint32)
    is_primary = primary == rows
    return None if is_primary.all() else rows[is_primary]


def _column(dump: Dump, name: str, primary: NDArray[np.uint32] | None) -> NDArray[Any]:
    """What each trajectory has in a column."""
    column = dump.column(name)
    values = np.zeros(dump.n_rows, dtype=bool) if column is None else column.to_numpy()
    return values if primary is None else values[primary]


def _rows_of_groups(
    group: NDArray[np.integer],
    is_kept: NDArray[np.bool_],
    outlines: GroupOutlines,
    primary: NDArray[np.uint32] | None,
) -> _Rows:
    order: NDArray[np.integer] = rows_by_group(group)
    first = order[np.cumsum(outlines.n_rows) - outlines.n_rows]
    counts = outlines.n_rows
    if not is_kept.all():
        order = order[is_kept[order]]
        counts = count_codes(group, len(counts), is_kept)
    if primary is not None:
        order, first = primary[order], primary[first]
    return _Rows(order, np.cumsum(counts) - counts, counts, first)


def _keys(dump: Dump, rows: _Rows) -> Iterator[tuple[int, GroupKey]]:
    """The groups by code, in the order of their first trajectories."""
    codes = np.argsort(rows.first, kind="stable")
    if dump.rows_apart is not None:
        keys = dump.rows_apart.groups[codes].with_columns(pl.col("group_id").cast(pl.String))
    else:
        keys = dump.index.select("step", "group_id")[rows.first[codes]]
    for code, (step, name) in zip(codes.tolist(), keys.iter_rows(), strict=True):
        yield code, GroupKey(step, name)


def refuse_missing_columns(dump: Dump, condition: Condition) -> None:
    """Columns that no record has.

    Raises:
        UsageError: naming the first.
    """
    for name in columns_of(condition):
        if name in dump.report.missing_columns:
            shown = shorten(escape_untrusted(name, keep_newlines=False), 80)
            raise UsageError(
                f"--eligible names {shown}, which no record has",
                "a column or path of the dump, such as meta.task_type",
            )


def skip_reason(members: Sequence[Member]) -> str | None:
    """Why a group of a growing dump cannot be ranked; None where it can. The reasons, and their order, of a whole dump."""
    valid = [member for member in members if not member.invalid]
    passing = [member for member in valid if member.passed]
    n_candidates = sum(member.is_eligible for member in passing)
    conditions = [not valid, len(valid) == 1, len(passing) == len(valid), not passing, len(passing) == 1]
    if passing and not n_candidates:
        return NOT_ELIGIBLE
    for number, is_met in enumerate(conditions, start=1):
        if is_met:
            return REASONS[number]
    return None if n_candidates > 1 else "lone_pass"
