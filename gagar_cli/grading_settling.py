"""What a run does with a group that was read: leave it as it was settled, mark it late, or grade it, once a group.

A valid trajectory that an earlier ranking of its group did not see is late. The ranking is then out of force: it is
marked so, or the group is graded again. Where a budget leaves no room for that the mark is what stays.
"""

from collections.abc import Collection
from dataclasses import replace

from gagar_cli.core.lateness import LATE, late_ids, marked_late
from gagar_cli.core.schema import Group, GroupKey
from gagar_cli.core.spending import Budget, Prices, spending_of
from gagar_cli.grading_kept import KeptRanking
from gagar_cli.grading_record import RunRecord
from gagar_cli.group_grading import GroupGrader
from gagar_cli.io.patch_notes import PatchCount, count_patches


class Settling:
    """Settles the groups of one run, by its record and within its budget."""

    def __init__(
        self, record: RunRecord, budget: Budget, prices: Prices | None, *, regrades_late: bool = True
    ) -> None:
        self.n_resumed = 0
        """Groups that an earlier run had settled."""
        self.stopped: str | None = None
        """Why nothing more is graded, where a budget of the run is used up."""
        self._n_groups = 0
        self._has_patch = False
        self._lacking: dict[GroupKey, PatchCount] = {}
        """Of the groups that were read those in which passing attempts have no patch, or an empty one."""
        self._record = record
        self._budget = budget
        self._prices = prices
        self._regrades_late = regrades_late
        self._late: set[tuple[GroupKey, str]] = set()

    def patch_notes(self, missing_columns: Collection[str] = ()) -> list[str]:
        """What is told of passing attempts that lack a patch, and where no attempt has one."""
        is_without = self._n_groups > 0 and not self._has_patch
        return sum(self._lacking.values(), PatchCount()).notes(
            ("model_patch",) if is_without else missing_columns
        )

    @property
    def n_late(self) -> int:
        """Valid trajectories that arrived after their group was graded."""
        return len(self._late)

    async def settle(self, group: Group, input_digest: str, grader: GroupGrader) -> KeptRanking | None:
        """The ranking of a group as it stands now, on disk; None where the run's budget left no room for it.

        Raises:
            EndpointError: only one that every other group would meet too.
            OutputError: it cannot be written.
        """
        record, key = self._record, group.key
        self._n_groups += 1
        patches = count_patches(group.trajectories)
        self._has_patch = self._has_patch or patches.has_patch
        self._lacking.pop(key, None)
        if patches.is_lacking:
            self._lacking[key] = patches
        before = record.done.get(key)
        late = self._late_ids(before, group, input_digest)
        known = before.late if before is not None else ()
        self._late |= {(key, name) for name in (*known, *late)}
        if before is not None and late and not self._regrades_late:
            return await record.keep(marked_late(record.read(before), late, input_digest))
        earlier = record.settled(key, input_digest, owed=(LATE,) if self._regrades_late else ())
        if earlier is not None:
            self.n_resumed += key not in record.rankings
            return await record.keep_settled(earlier)
        # What is settled comes through without the endpoint, also when nothing more may be spent.
        self.stopped = self._budget.exceeded_by(record.spent, self._prices)
        if self.stopped is None:
            return await self._grade(group, input_digest, grader)
        if before is not None and late:
            return await record.keep(marked_late(record.read(before), late, input_digest))
        return await record.keep_settled(before) if before is not None and known else None

    def _late_ids(self, before: KeptRanking | None, group: Group, input_digest: str) -> tuple[str, ...]:
        """As `late_ids`; the earlier ranking is only read where its group changed."""
        if before is None or before.input_digest == input_digest:
            return ()
        here = [trajectory.trajectory_id for trajectory in group.trajectories]
        return late_ids(self._record.read(before), here, input_digest, self._record.config_digest)

    async def _grade(self, group: Group, input_digest: str, grader: GroupGrader) -> KeptRanking:
        graded = await grader.grade(group)
        about = graded.ranking.grader
        if self._prices is not None:
            about = {**about, "cost": round(spending_of(about).cost(self._prices), 9)}
        ranking = replace(
            graded.ranking,
            grader=about,
            input_digest=input_digest,
            config_digest=self._record.config_digest,
        )
        return await self._record.keep(ranking, graded.messages)
