"""Grading while rollouts still arrive: a group is graded as soon as it is whole, those first that were whole first.

A valid trajectory that arrives after its group was graded is late. Its group is marked so (`ungraded`, reason `late`),
and redistribution gives it the base estimator, unless late groups are graded again: then they wait behind all others.
Bad data ends the run once the groups in work are done: they were paid for.
A group that was skipped or left ungraded is looked at again when something arrives for it. What is settled is told by
the ledger, so that a run can be killed at any moment and goes on, whatever arrived in between.
"""

import asyncio
import itertools
import time
from dataclasses import dataclass

from gagar_cli.core.arrivals import Arrivals
from gagar_cli.core.ranking import GroupRanking
from gagar_cli.core.schema import Group, GroupKey
from gagar_cli.core.sharding import Shard
from gagar_cli.core.spending import Budget
from gagar_cli.errors import InputError
from gagar_cli.grade import GradeSettings, check_settings, wanted_columns
from gagar_cli.grading_digest import digest_group
from gagar_cli.grading_plan import CHECKED_REASONS, Job, Plan, skip_reason
from gagar_cli.grading_reading import reading_record
from gagar_cli.grading_record import RunRecord, left_out
from gagar_cli.grading_settling import Settling
from gagar_cli.grading_summary import GradeResult, summarise
from gagar_cli.group_grading import GroupGrader
from gagar_cli.interrupts import run_interruptibly
from gagar_cli.io.arrived import Event, Member
from gagar_cli.io.following import FollowedDump
from gagar_cli.io.rankings import write_rankings_parquet
from gagar_cli.io.read_options import note_of_bad_records
from gagar_cli.io.streams import show_path
from gagar_cli.progress import ProgressCallback, no_progress
from gagar_cli.side_by_side import OPEN_PER_TURN, run_side_by_side

POLL_SECONDS = 0.25
"""Between two looks at the files; a look that finds nothing is a few `stat` calls."""
_REST_SHARE = 4
"""Between two looks at many files, so many times as long as one takes."""


@dataclass(frozen=True, slots=True)
class FollowOptions:
    """When a group counts as whole, and when the run ends."""

    group_size: int | None = None
    """Trajectories of a group; None: only marks, quiet and the end of the dump make a group whole."""
    quiet_seconds: float | None = None
    """A group without a new trajectory for so long is whole; None: quiet means nothing."""
    idle_seconds: float | None = None
    """A dump without anything new for so long is at its end; None: only marks end it."""
    regrade_late: bool = False
    """Grade a group again when a trajectory arrives late."""


def run(
    settings: GradeSettings, options: FollowOptions, progress: ProgressCallback = no_progress
) -> GradeResult:
    """Grade the groups of a growing dump until it ends.

    Raises:
        UsageError: settings that cannot be carried out, or a ledger that was written under other ones.
        InputError: bad data in the dump, or a file that was replaced.
        OutputError: the output exists, is locked, or cannot be written.
        SandboxError: the sandbox that was named is not available.
        EndpointError: the endpoint refuses every call.
    """
    condition, shard = check_settings(settings)
    dump = FollowedDump(settings.dumps, wanted_columns(settings, condition), condition)
    try:
        with RunRecord(settings.output, settings.ledger_path, overwrite=settings.overwrite) as record:
            return run_interruptibly(_Following(settings, options, dump, record, shard, progress).grade_all())
    finally:
        dump.close()


class _Following:
    """One run over a growing dump."""

    def __init__(
        self,
        settings: GradeSettings,
        options: FollowOptions,
        dump: FollowedDump,
        record: RunRecord,
        shard: Shard | None,
        progress: ProgressCallback,
    ) -> None:
        self._settings = settings
        self._options = options
        self._dump = dump
        self._record = record
        self._shard = shard
        self._progress = progress
        self._arrivals = Arrivals(options.group_size, options.quiet_seconds)
        self._files = asyncio.Lock()
        """The dump is used from one thread at a time."""
        self._queue: asyncio.PriorityQueue[tuple[int, int, GroupKey | None]] = asyncio.PriorityQueue()
        self._numbers = itertools.count()
        self._queued: set[GroupKey] = set()
        self._running: set[GroupKey] = set()
        self._touched: set[GroupKey] = set()
        """Groups that got something while they were graded."""
        self._eligible: dict[GroupKey, None] = {}
        self._keys: dict[GroupKey, None] = {}
        self._settling = Settling(
            record, settings.budget, settings.prices, regrades_late=options.regrade_late
        )
        self._failure: InputError | None = None
        """What is wrong with the dump: nothing new is begun, what is being graded is finished."""
        # As in a run over a whole dump: with a budget no more groups go beyond it than must.
        n_turns, is_bounded = settings.concurrency, settings.budget != Budget()
        self._n_workers = n_turns if is_bounded or n_turns == 1 else OPEN_PER_TURN * n_turns
        self._changed_seconds = time.monotonic()
        self._look_seconds = 0.0
        """What the last look took."""

    async def grade_all(self) -> GradeResult:
        """Follow, grade, record and summarise."""
        settings, record = self._settings, self._record
        backlog = await self._first_events()
        async with self._files:
            image = await asyncio.to_thread(self._dump.first_image)
        async with GroupGrader(settings.grader, dump_image=image) as grader:
            record.open(settings.record(grader.backend.name), reading_record(settings.read))
            grader.tell_earlier(record.done.values())
            workers = (self._work(grader) for _ in range(self._n_workers))
            await run_side_by_side([self._follow(backlog), *workers])
        if self._failure is not None:
            raise self._failure
        if not self._dump.n_records:
            shown = ", ".join(map(show_path, settings.dumps[:3]))
            raise InputError(f"{shown}: no records", "; ".join(self._notes()) or None)
        if record.ledger_path not in (None, settings.output) and settings.output != "-":
            write_rankings_parquet(settings.output, record.read_done())
        return summarise(
            record.rankings.values(),
            Plan(self._dump.n_records, len(self._keys), tuple(Job(key, ()) for key in self._eligible), ()),
            settings.endpoint.model,
            backend=grader.backend,
            n_resumed=self._settling.n_resumed,
            n_late=self._settling.n_late,
            prices=settings.prices,
            stopped=self._settling.stopped,
            notes=[*self._notes(), *self._settling.patch_notes(), *record.notes, *grader.notes],
        )

    async def _first_events(self) -> list[Event]:
        """What the files hold when the first record is there: it tells which sandbox is wanted."""
        while True:
            events = await self._look()
            if events or self._is_over():
                return events
            await self._rest()

    async def _rest(self) -> None:
        await asyncio.sleep(max(POLL_SECONDS, _REST_SHARE * self._look_seconds))

    async def _look(self, *, is_last: bool = False) -> list[Event]:
        async with self._files:
            started = time.monotonic()
            events = await asyncio.to_thread(self._dump.look, is_last=is_last)
            self._look_seconds = time.monotonic() - started
        if events:
            self._changed_seconds = time.monotonic()
        return events

    def _is_over(self) -> bool:
        idle = self._options.idle_seconds
        is_idle = idle is not None and time.monotonic() - self._changed_seconds >= idle
        return (self._dump.is_ended or is_idle) and not self._dump.has_more

    async def _follow(self, events: list[Event]) -> None:
        """Queue what is whole until nothing more comes, then let the workers end."""
        try:
            await self._take_all(events)
        except InputError as error:
            self._failure = self._failure or error
        for _ in range(self._n_workers):
            self._queue.put_nowait((2, next(self._numbers), None))

    async def _take_all(self, events: list[Event]) -> None:
        """Take in what arrives and queue what is whole.

        Raises:
            InputError: bad data, or a file that was replaced.
        """
        while True:
            self._take_in(events)
            is_over = self._is_over()
            if is_over:
                self._take_in(await self._look(is_last=True))
            whole = self._arrivals.take_whole(
                time.monotonic(), is_end=is_over, is_awaited=self._dump.is_awaited
            )
            for key in whole:
                self._enqueue(key, is_late=False)
            is_stopped = self._settling.stopped is not None or self._failure is not None
            if is_over or is_stopped or self._is_full():
                return
            if not self._dump.has_more:
                await self._rest()
            events = await self._look()

    def _take_in(self, events: list[Event]) -> None:
        for event in events:
            if self._shard is not None and not self._shard.holds(event.key):
                continue
            if event.kind == "withdrawn":
                self._arrivals.reopen(event.key)
                self._keys.pop(event.key, None)
                continue
            if event.row is None:
                self._arrivals.mark(event.key)
                continue
            self._keys.setdefault(event.key)
            if not self._arrivals.add(event.key, event.row.trajectory_id, time.monotonic()):
                self._take_late(event.key)

    def _take_late(self, key: GroupKey) -> None:
        """Something arrived for a group that was whole; where it waits for its turn it comes just in time."""
        if key in self._running:
            self._touched.add(key)
        elif key not in self._queued:
            self._enqueue(key, is_late=True)

    def _is_full(self) -> bool:
        limit = self._settings.max_groups
        return limit is not None and len(self._eligible) >= limit

    def _enqueue(self, key: GroupKey, *, is_late: bool) -> None:
        self._queued.add(key)
        self._queue.put_nowait((int(is_late), next(self._numbers), key))

    async def _work(self, grader: GroupGrader) -> None:
        while True:
            _, _, key = await self._queue.get()
            if key is None or self._failure is not None:
                return
            self._queued.discard(key)
            if self._arrivals.is_open(key):
                continue  # its file changed meanwhile: it is queued again once it is whole
            self._running.add(key)
            try:
                await self._settle(key, grader)
            except InputError as error:
                self._failure = self._failure or error
                return
            self._running.discard(key)
            if key in self._touched:
                self._touched.discard(key)
                self._enqueue(key, is_late=True)
            n_done, n_waiting = len(self._record.rankings), self._arrivals.n_waiting
            self._progress(n_done, len(self._keys), f"{n_waiting} arriving" if n_waiting else "")

    async def _settle(self, key: GroupKey, grader: GroupGrader) -> None:
        """Skip or settle one group as it stands now."""
        record, settings = self._record, self._settings
        async with self._files:
            members = self._dump.members(key)
            reason = skip_reason(members)
            is_read = reason is None or reason in CHECKED_REASONS[settings.rules.integrity]
            wanted = [each for each in members if not each.invalid and (each.is_eligible or not each.passed)]
            try:
                read = await asyncio.to_thread(_read, self._dump, key, wanted) if is_read else None
            except InputError as error:
                await record.keep(left_out(key, error, settings.read, record.config_digest))
                return
        if read is None:
            await record.keep(GroupRanking(key, "skipped", reason))
            return
        group, input_digest = read
        if key not in self._eligible and self._is_full():
            return
        if reason is None:
            self._eligible.setdefault(key)
        await self._settling.settle(group, input_digest, grader)

    def _notes(self) -> list[str]:
        notes = list(self._dump.notes)
        if n_bad := self._dump.n_bad_records:
            notes.append(note_of_bad_records(n_bad, self._dump.bad_records))
        notes += [f"--eligible names {name}, which no record has" for name in self._dump.missing_columns]
        return notes


def _read(dump: FollowedDump, key: GroupKey, members: list[Member]) -> tuple[Group, str]:
    group = dump.read_group(key, members)
    return group, digest_group(group)
