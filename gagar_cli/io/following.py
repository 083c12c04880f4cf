"""A dump that grows while it is read: an index that takes in what was added, and whole groups on demand.

The records are those of `open_dump`, read by the same rules: the first record settles what groups all of them, a bad
one stops or is skipped, a trajectory occurs once. What `open_dump` knows at the end (whether any record of a file has
`resolved`, or a reward) counts here from when it is first seen. With joined files a record has come once its verdict is there.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from gagar_cli.core.conditions import Condition
from gagar_cli.core.schema import Group, GroupKey, Task, Trajectory
from gagar_cli.errors import InputError
from gagar_cli.io.arrived import Event, Member, Row, judge_member
from gagar_cli.io.eligibility import rows_that_meet
from gagar_cli.io.extras import ExtraColumns
from gagar_cli.io.followed_files import FollowedFiles
from gagar_cli.io.followed_joins import FollowedJoins
from gagar_cli.io.followed_rows import give_up, has_own_verdict, notes_of_rewards, quote, refuse_copy
from gagar_cli.io.group_field import GroupField
from gagar_cli.io.joins import KEYS
from gagar_cli.io.markers import END_OF_GROUP
from gagar_cli.io.packed_logs import LogStore
from gagar_cli.io.reading_notes import once_a_kind
from gagar_cli.io.records import SCALARS, Fields, attempts_of, exploded, placed, read_scalars
from gagar_cli.io.scan import MAX_LISTED_PROBLEMS, ReadOptions, _made_id
from gagar_cli.io.sources import Place, Scanned
from gagar_cli.io.tails import Tail
from gagar_cli.io.trajectories import join_segments, read_task, read_trajectory


class FollowedDump:
    """The index of a growing dump. Used from one thread at a time."""

    def __init__(
        self, paths: Sequence[str], options: ReadOptions, condition: Condition | None = None
    ) -> None:
        """Look for the named files and folders.

        Raises:
            UsageError: what cannot be followed, no such format, or a mapped name that is not canonical.
            InputError: a path that is not there, in a folder that is not there either.
        """
        self._options = options
        self._condition = condition
        self._fields = Fields(options.fields)
        self._extras = ExtraColumns(options.extras, self._fields)
        self._light = frozenset(self._fields.columns(*SCALARS, *KEYS, *options.extras, "attempt"))
        """Top-level names of what a verdict and the condition rest on."""
        self._grouped_by = GroupField(options, self._fields)
        self._paid: set[Tail] = set()
        """Files of which any record has a reward."""
        self._judged: dict[Tail, bool] = {}
        """Files of which any record has `resolved`, and whether one has its own."""
        self._groups: dict[GroupKey, list[Row]] = {}
        self._marked: dict[GroupKey, None] = {}
        """Groups that their writer called whole, and that wait for verdicts."""
        self.n_bad_records = 0
        self.bad_records: list[str] = []
        self.n_records = 0
        self._joins = FollowedJoins(options.joins) if options.joins else None
        self._files = FollowedFiles(paths, options, self._fields)

    @property
    def is_ended(self) -> bool:
        """Whether every file and folder has said that no more comes, and no verdict is awaited."""
        if not self._files.is_ended:
            return False
        return self._joins is None or self._joins.is_ended or not any(map(self.is_awaited, self._groups))

    @property
    def has_more(self) -> bool:
        """Whether another look finds something at once."""
        return self._files.has_more

    @property
    def missing_columns(self) -> tuple[str, ...]:
        """Columns of the condition that no record had so far."""
        return self._extras.missing

    @property
    def notes(self) -> list[str]:
        """What is to be told."""
        joined = self._joins.notes() if self._joins is not None else ()
        return once_a_kind([*self._files.notes, *joined, *notes_of_rewards(self._groups, self._options)])

    def close(self) -> None:
        """Close what is open."""
        self._files.close()
        if self._joins is not None:
            self._joins.close()

    def is_awaited(self, key: GroupKey) -> bool:
        """Whether a verdict of the group has not come yet."""
        return self._joins is not None and any(row.is_awaited for row in self._groups.get(key, ()))

    def look(self, *, is_last: bool = False) -> list[Event]:
        """What was added since the last look, in order; with `is_last` nothing more is expected.

        Raises:
            InputError: a bad record (unless skipped), a file that was replaced, or that nothing can be read from.
        """
        events: list[Event] = []
        for tail, scanned in self._files.look(is_last=is_last):
            events += self._withdraw(tail) if scanned is None else self._take(tail, scanned)
        if self._joins is not None and self._joins.renew(self._files.runs, is_last=is_last):
            events += self._rejoin()
        events += give_up(self._groups) if is_last else ()
        for key in [key for key in self._marked if not self.is_awaited(key)]:
            del self._marked[key]
            events.append(Event("end_of_group", key))
        return events

    def members(self, key: GroupKey) -> list[Member]:
        """The trajectories of a group, in the order that they have in the whole dump.

        They may have come in another one, and come in yet another when a run goes on: the group is the same.
        """
        by_id: dict[str, list[Row]] = {}
        for row in self._groups.get(key, ()):
            by_id.setdefault(row.trajectory_id, []).append(row)
        has_joined = self._joins is not None and self._joins.has_verdicts
        is_told = partial(Row.is_told, judged=self._judged, fields=self._fields, has_joined=has_joined)
        judge = partial(judge_member, pass_threshold=self._options.pass_threshold)
        members = [
            judge(rows, has_resolved=is_told(rows[0]), has_reward=rows[0].tail in self._paid)
            for rows in by_id.values()
        ]
        return sorted(members, key=lambda member: member.rows[0].order)

    def first_image(self) -> str | None:
        """The docker image that the first record names."""
        first = next((rows[0] for rows in self._groups.values()), None)
        if first is None:
            return None
        member = Member((first,), passed=False, invalid=False, reward=0.0)
        return self._built([member])[0][0][0].docker_image

    def read_group(self, key: GroupKey, members: Sequence[Member]) -> Group:
        """A group of these members, with their heavy columns.

        Memory: one record, and those of the group without their long logs. Raises:
            InputError: a heavy field has a wrong type, or the file changed.
            OutputError: the temporary directory has no space for long logs.
        """
        built = self._built(members)
        trajectories = []
        for parts in built:
            first = parts[0][1]
            is_split = len(parts) > 1
            trajectories.append(join_segments(first, [part for _, part in parts]) if is_split else first)
        return Group(key, built[0][0][0] if built else Task(), tuple(trajectories))

    def _built(self, members: Sequence[Member]) -> list[list[tuple[Task, Trajectory]]]:
        """What the rows of each member hold: each record is read once, and those of one file in one pass over it."""
        wanted: dict[Tail, dict[Place, list[tuple[Row, Member]]]] = {}
        for member in members:
            for row in member.rows:
                wanted.setdefault(row.tail, {}).setdefault(row.place, []).append((row, member))
        store = LogStore()
        made: dict[int, tuple[Task, Trajectory]] = {}
        for tail, places in wanted.items():
            records = tail.read(sorted(places))
            for place in sorted(places):
                record = next(records)
                for row, member in places[place]:
                    made[id(row)] = self._build(row, record, member, store)
                del record  # before the next one is there
        return [[made[id(row)] for row in member.rows] for member in members]

    def _take(self, tail: Tail, scanned: Scanned) -> Iterator[Event]:
        place, record = scanned
        where = f"{tail.name}:{place.line}"
        try:
            if isinstance(record, InputError):
                raise record
            if record.get(END_OF_GROUP) is True:
                self._marked.setdefault(self._grouped_by.key_of(record))
                return
            if self._options.explode is None:
                yield from self._add(tail, place, record, None)
                return
            items = len(attempts_of(record, self._options.explode))
        except InputError as error:
            self._reject(error if error is record else placed(error, where))
            return
        for item in range(items):
            try:
                yield from self._add(tail, place, exploded(record, self._options.explode, item), item)
            except InputError as error:
                self._reject(placed(error, f"{where}[{item}]"))

    def _add(
        self, tail: Tail, place: Place, record: Mapping[str, object], item: int | None
    ) -> Iterator[Event]:
        if self._options.group_by == "directory" and "directory" not in record:
            record = {**record, "directory": Path(tail.name).resolve().parent.name}
        light = None
        if self._joins is not None:
            light = {name: value for name, value in record.items() if name in self._light}
            record = self._joins.overlay(record, self._fields, tail.run, f"{tail.name}:{place.line}")
        if self._fields.unseen:
            self._fields.note_seen(record)
        is_own = has_own_verdict(record if light is None else light, self._fields, tail)
        if is_own or light is not None:
            self._judged[tail] = self._judged.get(tail, False) or is_own
        self._grouped_by.settle(record)
        scalars = read_scalars(record, self._fields, self._grouped_by.name)
        source = os.path.normpath(tail.name)
        key = GroupKey(scalars.step, scalars.group or f"{source}:{place.line}")
        trajectory_id = scalars.trajectory_id or _made_id(source, place.line, item)
        row = Row(tail, place, item, trajectory_id, scalars, self._meets(record), light)
        rows = self._groups.get(key, [])
        refuse_copy(row, rows)
        if len(rows) >= self._options.max_group_size:
            raise InputError(
                f"group {quote(key.group_id)} has more than {self._options.max_group_size:,} trajectories",
                "it is more likely a wrong group key: name the right one with `--group-by FIELD`",
            )
        self._groups.setdefault(key, rows).append(row)
        if scalars.reward is not None:
            self._paid.add(tail)
        self.n_records += 1
        if not row.is_awaited:
            yield Event("record", key, row)

    def _withdraw(self, tail: Tail) -> Iterator[Event]:
        """What a file gave holds no longer: its groups are open again, with what other files gave."""
        for key, rows in list(self._groups.items()):
            kept = [row for row in rows if row.tail is not tail]
            if len(kept) == len(rows):
                continue
            self.n_records -= len(rows) - len(kept)
            self._groups[key] = kept
            yield Event("withdrawn", key)
            yield from (Event("record", key, row) for row in kept if not row.is_awaited)
            if not kept:
                del self._groups[key]

    def _rejoin(self) -> Iterator[Event]:
        """Lay over every record what the joined files say now; those come that have, or change, their verdict.

        Raises:
            InputError: what is said of one attempt and would go to several.
        """
        assert self._joins is not None  # noqa: S101 - only called with joined files
        for key, rows in self._groups.items():
            for number, row in enumerate(rows):
                record = self._joins.overlay(row.light or {}, self._fields, row.tail.run, row.where)
                scalars = read_scalars(record, self._fields, None)
                found = replace(row, scalars=scalars._replace(group=row.scalars.group))
                if found.verdict == row.verdict:
                    continue
                rows[number] = found = replace(found, is_eligible=self._meets(record))
                if scalars.reward is not None:
                    self._paid.add(row.tail)
                if not found.is_awaited:
                    yield Event("record", key, found)
        self._joins.check()

    def _meets(self, record: Mapping[str, object]) -> bool:
        """Whether the run's condition holds for a record; the kinds of values are settled by the first ones."""
        if self._condition is None:
            return True
        values = self._extras.read(record)
        one = ExtraColumns(self._options.extras, self._fields)
        one.read(record)
        one.add(values)
        return bool(rows_that_meet(self._condition, one.finish(), "--eligible")[0])

    def _reject(self, error: InputError) -> None:
        self.n_bad_records += 1
        self.bad_records += [error.message][: MAX_LISTED_PROBLEMS - len(self.bad_records)]
        if self._options.on_bad_record == "fail":
            hint = error.hint or "`--on-bad-record skip` leaves bad records out and counts them"
            raise InputError(error.message, hint) from error

    def _build(
        self, row: Row, record: Mapping[str, object], member: Member, store: LogStore
    ) -> tuple[Task, Trajectory]:
        if row.item is not None:
            record = exploded(record, self._options.explode, row.item)
        try:
            if self._joins is not None:
                record = self._joins.overlay(record, self._fields, row.tail.run)
            return read_task(record, self._fields), read_trajectory(
                record,
                self._fields,
                trajectory_id=row.trajectory_id,
                reward=member.reward,
                passed=member.passed,
                where=row.where,
                store=store,
            )
        except InputError as error:
            raise placed(error, row.where) from error
