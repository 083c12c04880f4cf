"""A dump that grows while it is read: an index that takes in what was added, and whole groups on demand.

The records are those of `open_dump`, read by the same rules: the first record settles what groups all of them, a bad
one stops or is skipped, a trajectory occurs once. What `open_dump` knows at the end (whether any record has `resolved`,
or a reward) counts here from when it is first seen. Files are followed by `io/tails.py`.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from gagar_cli.core.conditions import Condition
from gagar_cli.core.schema import Group, GroupKey, Task, Trajectory
from gagar_cli.core.text import escape_untrusted, shorten
from gagar_cli.errors import InputError, UsageError
from gagar_cli.io.arrived import Event, Member, Row, judge_member
from gagar_cli.io.eligibility import rows_that_meet
from gagar_cli.io.extras import ExtraColumns
from gagar_cli.io.markers import END_OF_DUMP, END_OF_GROUP
from gagar_cli.io.records import (
    MISSING,
    Fields,
    attempts_of,
    exploded,
    placed,
    read_group_key,
    read_scalars,
)
from gagar_cli.io.scan import ReadOptions, _made_id
from gagar_cli.io.sources import Place, Scanned
from gagar_cli.io.streams import show_path
from gagar_cli.io.tails import Tail, TailedPath, open_tail
from gagar_cli.io.trajectories import join_segments, read_task, read_trajectory


class FollowedDump:
    """The index of a growing dump. Used from one thread at a time."""

    def __init__(
        self, paths: Sequence[str], options: ReadOptions, condition: Condition | None = None
    ) -> None:
        """Look for the named files and folders.

        Raises:
            UsageError: stdin, a native format, joined files, or a mapped name that is not canonical.
            InputError: a path that is not there, in a folder that is not there either.
        """
        if options.joins or options.format not in (None, "canonical"):
            flag = "--join" if options.joins else "--format"
            raise UsageError(
                f"{flag} is not for --follow", "records that are followed hold all that is known of them"
            )
        self._options = options
        self._condition = condition
        self._fields = Fields(options.fields)
        self._extras = ExtraColumns(options.extras, self._fields)
        self._group_field: str | None = None
        self._is_grouped = False
        self._has_reward = False
        self._groups: dict[GroupKey, list[Row]] = {}
        self._ended: set[str] = set()
        self.n_bad_records = 0
        self.n_records = 0
        for path in paths:
            if path == "-":
                raise UsageError("--follow needs files or folders", "without it, `-` is read to its end")
            if not Path(path).exists() and not Path(path).absolute().parent.is_dir():
                raise InputError(f"{show_path(path)}: no such file or directory")
        opener = partial(open_tail, options=options, fields=self._fields)
        self._paths = [TailedPath(path, opener) for path in paths]

    @property
    def is_ended(self) -> bool:
        """Whether every file and folder has said that no more comes."""
        return len(self._ended) == len(self._paths)

    @property
    def has_more(self) -> bool:
        """Whether another look finds something at once."""
        return any(tail.has_more for path in self._paths for tail in path.tails.values())

    @property
    def missing_columns(self) -> tuple[str, ...]:
        """Columns of the condition that no record had so far."""
        return self._extras.missing

    def close(self) -> None:
        """Close what is open."""
        for path in self._paths:
            for tail in path.tails.values():
                tail.close()

    def look(self, *, is_last: bool = False) -> list[Event]:
        """What was added since the last look, in order; with `is_last` nothing more is expected.

        Raises:
            InputError: a bad record (unless skipped), or a file that was replaced.
        """
        events: list[Event] = []
        for path in self._paths:
            if path.appear():
                self._ended.add(path.path)
            for tail in list(path.tails.values()):
                for scanned in tail.look(is_last=is_last or path.path in self._ended):
                    events += self._take(path, tail, scanned)
        return events

    def members(self, key: GroupKey) -> list[Member]:
        """The trajectories of a group, in the order in which they came."""
        by_id: dict[str, list[Row]] = {}
        for row in self._groups.get(key, ()):
            by_id.setdefault(row.trajectory_id, []).append(row)
        judge = partial(
            judge_member,
            has_resolved="resolved" not in self._fields.unseen,
            has_reward=self._has_reward,
            pass_threshold=self._options.pass_threshold,
        )
        return [judge(rows) for rows in by_id.values()]

    def first_image(self) -> str | None:
        """The docker image that the first record names."""
        first = next((rows[0] for rows in self._groups.values()), None)
        if first is None:
            return None
        record = self._read_records([first])[id(first.tail), first.place]
        member = Member((first,), passed=False, invalid=False, reward=0.0)
        return self._build(first, record, member)[0].docker_image

    def read_group(self, key: GroupKey, members: Sequence[Member]) -> Group:
        """A group of these members, with their heavy columns.

        Raises:
            InputError: a heavy field has a wrong type, or the file changed.
        """
        records = self._read_records([row for member in members for row in member.rows])
        task: Task | None = None
        trajectories = []
        for member in members:
            parts = [self._build(row, records[id(row.tail), row.place], member) for row in member.rows]
            task = task or parts[0][0]
            first = parts[0][1]
            is_split = len(parts) > 1
            trajectories.append(join_segments(first, [part for _, part in parts]) if is_split else first)
        return Group(key, task or Task(), tuple(trajectories))

    def _take(self, path: TailedPath, tail: Tail, scanned: Scanned) -> Iterator[Event]:
        place, record = scanned
        where = f"{tail.name}:{place.line}"
        try:
            if isinstance(record, InputError):
                raise record
            if record.get(END_OF_DUMP) is True:
                self._ended.add(path.path)
                return
            if record.get(END_OF_GROUP) is True:
                yield Event("end_of_group", self._key_of(record))
                return
            if self._options.explode is None:
                yield self._add(tail, place, record, None)
                return
            items = len(attempts_of(record, self._options.explode))
        except InputError as error:
            self._reject(error if error is record else placed(error, where))
            return
        for item in range(items):
            try:
                yield self._add(tail, place, exploded(record, self._options.explode, item), item)
            except InputError as error:
                self._reject(placed(error, f"{where}[{item}]"))

    def _add(self, tail: Tail, place: Place, record: Mapping[str, object], item: int | None) -> Event:
        if self._fields.unseen:
            self._fields.note_seen(record)
        self._settle_group_field(record)
        scalars = read_scalars(record, self._fields, self._group_field)
        source = os.path.normpath(tail.name)
        key = GroupKey(scalars.step, scalars.group or f"{source}:{place.line}")
        trajectory_id = scalars.trajectory_id or _made_id(source, place.line, item)
        row = Row(tail, place, item, trajectory_id, scalars, self._meets(record))
        rows = self._groups.get(key, [])
        self._refuse_copy(row, rows)
        if len(rows) >= self._options.max_group_size:
            raise InputError(
                f"group {_quote(key.group_id)} has more than {self._options.max_group_size:,} trajectories",
                "it is more likely a wrong group key: name the right one with `--group-by FIELD`",
            )
        self._groups.setdefault(key, rows).append(row)
        self._has_reward = self._has_reward or scalars.reward is not None
        self.n_records += 1
        return Event("record", key, row)

    def _settle_group_field(self, record: Mapping[str, object]) -> None:
        has_group_id = self._fields.find(record, "group_id") not in (MISSING, None)
        if self._is_grouped:
            if has_group_id and self._group_field != "group_id":
                raise InputError("group_id appears first here, the records before have none")
            return
        if has_group_id:
            self._group_field = "group_id"
        elif self._options.group_by:
            self._group_field = self._options.group_by
        elif self._fields.find(record, "instance_id") not in (MISSING, None):
            self._group_field = "instance_id"
        elif self._options.explode is None:
            raise InputError(
                "no group_id and no instance_id", "say what groups the records with `--group-by FIELD`"
            )
        self._is_grouped = True

    def _key_of(self, mark: Mapping[str, object]) -> GroupKey:
        step = self._fields.find(mark, "step")
        if step is not MISSING and not isinstance(step, int | None):
            raise InputError("step is not an integer or null")
        group = read_group_key(mark, self._fields, self._group_field or "group_id")
        return GroupKey(step if isinstance(step, int) else None, group)

    def _meets(self, record: Mapping[str, object]) -> bool:
        """Whether the run's condition holds for a record; the kinds of values are settled by the first ones."""
        if self._condition is None:
            return True
        values = self._extras.read(record)
        one = ExtraColumns(self._options.extras, self._fields)
        one.read(record)
        one.add(values)
        return bool(rows_that_meet(self._condition, one.finish(), "--eligible")[0])

    def _refuse_copy(self, row: Row, others: Sequence[Row]) -> None:
        for other in others:
            if other.trajectory_id != row.trajectory_id:
                continue
            if other.scalars.segment == row.scalars.segment:
                raise InputError(
                    f"trajectory {_quote(row.trajectory_id)} occurs twice in its group: see {other.where}",
                    "parts of one trajectory differ in `segment`; separate attempts need separate ids",
                )
            if other.verdict != row.verdict:
                raise InputError(
                    f"a segment of trajectory {_quote(row.trajectory_id)} disagrees: see {other.where}",
                    "segments of one trajectory share its reward",
                )

    def _reject(self, error: InputError) -> None:
        self.n_bad_records += 1
        if self._options.on_bad_record == "fail":
            hint = error.hint or "`--on-bad-record skip` leaves bad records out and counts them"
            raise InputError(error.message, hint) from error

    def _read_records(self, rows: Sequence[Row]) -> dict[tuple[int, Place], dict[str, object]]:
        """The records of rows by tail and place: each once, and those of one tail together."""
        wanted: dict[int, tuple[Tail, set[Place]]] = {}
        for row in rows:
            wanted.setdefault(id(row.tail), (row.tail, set()))[1].add(row.place)
        return {
            (key, place): record
            for key, (tail, places) in wanted.items()
            for place, record in zip(sorted(places), tail.read(sorted(places)), strict=True)
        }

    def _build(self, row: Row, record: Mapping[str, object], member: Member) -> tuple[Task, Trajectory]:
        if row.item is not None:
            record = exploded(record, self._options.explode, row.item)
        try:
            return read_task(record, self._fields), read_trajectory(
                record,
                self._fields,
                trajectory_id=row.trajectory_id,
                reward=member.reward,
                passed=member.passed,
                where=row.where,
            )
        except InputError as error:
            raise placed(error, row.where) from error


def _quote(text: str) -> str:
    return f'"{shorten(escape_untrusted(text, keep_newlines=False), 80)}"'
