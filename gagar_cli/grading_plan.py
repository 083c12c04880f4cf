"""Which groups of a dump a grading run has to do with: the eligible ones as jobs, the others with their reason."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from gagar_cli.core.conditions import Condition, columns_of
from gagar_cli.core.grouping import REASONS, GroupOutlines, outline_groups
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
    rows: tuple[int, ...]

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
    index = dump.index.with_row_index("row").filter(pl.col("row") == pl.col("primary_row"))
    meets = pl.repeat(value=True, n=index.height, dtype=pl.Boolean, eager=True)
    if condition is not None:
        meets = rows_that_meet(condition, index, "--eligible")
    index = index.with_columns(meets.alias("meets"))
    outlines = outline_index(index)
    heads = index.group_by("group", maintain_order=True).agg(
        "step", "group_id", "row", "invalid", "passed", "meets"
    )
    n_trajectories = n_groups = 0
    jobs, skipped, checks = [], [], []
    for code, steps, names, rows, invalid, passed, meet in heads.iter_rows():
        key = GroupKey(steps[0], names[0])
        if shard is not None and not shard.holds(key):
            continue
        n_groups += 1
        n_trajectories += len(rows)
        is_passed = np.asarray(passed) & ~np.asarray(invalid)
        n_candidates = int((is_passed & np.asarray(meet)).sum())
        is_kept = ~np.asarray(invalid) & (~is_passed | np.asarray(meet))
        job = Job(key, tuple(np.asarray(rows)[is_kept].tolist()))
        if n_candidates == 0 and is_passed.any():
            skipped.append(GroupRanking(key, "skipped", NOT_ELIGIBLE))
        elif not outlines.is_eligible[code] or n_candidates < 2:
            reason = REASONS[outlines.reason[code]] if not outlines.is_eligible[code] else "lone_pass"
            skipped.append(GroupRanking(key, "skipped", reason))
            if reason in CHECKED_REASONS[integrity]:
                checks.append(job)
        else:
            jobs.append(job)
    return Plan(n_trajectories, n_groups, tuple(jobs), tuple(skipped), tuple(checks))


def outline_index(primary: pl.DataFrame) -> GroupOutlines:
    """The outlines of the groups of primary rows."""
    n_groups = int(primary["group"].max() or 0) + 1  # type: ignore[arg-type] # a maximum of unsigned integers
    group, is_passed, is_invalid = (primary[name].to_numpy() for name in ("group", "passed", "invalid"))
    return outline_groups(group, is_passed, is_invalid, n_groups)


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
