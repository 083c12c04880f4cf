"""Rollout dumps in two phases: an index of scalar columns for all of it, then the heavy columns of a few rows.

A dump is files, folders of shards, or `-`; JSON lines (plain, gzip, zstd) or Parquet. `open_dump` reads everything
once and refuses what is ambiguous; afterwards memory holds the index only, and `read_trajectories` fetches single
records by place. Of a long dump the ids lie in a file too (`io/row_ids.py`). The files must stay as they are while a
dump is open.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import groupby, pairwise
from operator import attrgetter
from types import TracebackType
from typing import Self

import numpy as np
import polars as pl

from gagar_cli.core.schema import Task, Trajectory
from gagar_cli.errors import InputError, UsageError
from gagar_cli.io.contradictions import note_contradictions
from gagar_cli.io.extras import extra_column
from gagar_cli.io.index import locate, number_trajectories, segments_of
from gagar_cli.io.joined import JoinedSource
from gagar_cli.io.joins import Joins
from gagar_cli.io.jsonl_copy import blocks_of
from gagar_cli.io.native import NativeSource
from gagar_cli.io.open_sources import open_sources
from gagar_cli.io.packed_logs import LogStore
from gagar_cli.io.reading_notes import once_a_kind
from gagar_cli.io.records import Fields, exploded, placed
from gagar_cli.io.row_ids import Hash, hash_texts
from gagar_cli.io.row_places import PLACE_COLUMNS, RowPlaces, distinct_places
from gagar_cli.io.row_table import ChosenRow, RowTable, chosen_rows
from gagar_cli.io.scan import DumpReport, ReadOptions, Report, Scan
from gagar_cli.io.sources import JsonlSource, Place, Source
from gagar_cli.io.trajectories import join_segments, read_task, read_trajectory

__all__ = ["Dump", "DumpReport", "ReadOptions", "open_dump"]

_PART_ROWS = 65_536


class Dump:
    """An open dump: its index, and its records on demand. A context manager; owns files and temporary space."""

    def __init__(
        self,
        index: pl.DataFrame | RowTable,
        report: DumpReport,
        sources: Sequence[Source],
        fields: Fields,
        explode: str | None,
        resources: ExitStack | None = None,
    ) -> None:
        self._whole = index if isinstance(index, pl.DataFrame) else None
        self._apart = index if isinstance(index, RowTable) else None
        self.report = report
        self._sources = tuple(sources)
        self._fields = fields
        self._explode = explode
        self._resources = resources
        self._segments = {} if self._whole is None else segments_of(self._whole)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the files; the index stays usable, but for ids that lie in one."""
        for source in self._sources:
            source.close()
        if self._resources is not None:
            self._resources.close()

    @property
    def index(self) -> pl.DataFrame:
        """One row a record: `INDEX_COLUMNS`, and extras.

        Where ids are kept apart it is made anew at each call, as narrow as its values and without `trajectory_id`, which
        `keys` has.
        """
        return self._whole if self._apart is None else self._apart.part()  # type: ignore[return-value]

    def full_index(self) -> pl.DataFrame:
        """The index with all ids, in the types of its columns; of a long dump it takes many times the memory."""
        if self._apart is None:
            return self.index
        return number_trajectories(self._apart.whole(), has_segments=False)

    @property
    def rows_apart(self) -> RowTable | None:
        """The rows without their texts, where those are in a file; every row is a trajectory of its own then."""
        return self._apart

    @property
    def n_rows(self) -> int:
        """The height of the index."""
        return self.report.n_records

    def keys(self, start: int = 0, stop: int | None = None) -> pl.DataFrame:
        """`step`, `group_id` and `trajectory_id` of the rows from `start` to before `stop`."""
        if self._apart is not None:
            return self._apart.keys(start, stop)
        return self.index[start:stop].select("step", "group_id", "trajectory_id")

    def extras(self) -> pl.DataFrame:
        """The extra columns, by the names of `extra_column`."""
        index = self.index if self._apart is None else self._apart.frame
        return index.select(name for name in index.columns if name.startswith(extra_column("")))

    def column(self, name: str) -> pl.Series | None:
        """A column of the index; None where it says nothing, its type as narrow as its values."""
        if self._apart is not None:
            return self._apart.column(name)
        column = self.index[name]
        return None if column.null_count() == len(column) else column

    @property
    def sources(self) -> tuple[str, ...]:
        """The names of the files, shards one by one; the index's `source` counts into them."""
        return tuple(source.name for source in self._sources)

    @property
    def forms(self) -> tuple[tuple[str, str], ...]:
        """The format of each source, and why it was taken for that."""
        unknown = ("canonical", "no native format is recognised in it")
        return tuple(getattr(source, "form", None) or unknown for source in self._sources)

    def where(self, row: int) -> str:
        """The place of a row of the index as messages tell it: `dump.jsonl:12`, `dump.jsonl:12[3]` when exploded."""
        if self._apart is not None:
            return locate(self._apart.places(row, row + 1), self._sources, 0)
        return locate(self.index, self._sources, row)

    def read_trajectories(self, rows: Sequence[int]) -> list[tuple[Task, Trajectory]]:
        """Task and trajectory of each row, in the given order; a first segment brings the later ones with it.

        Memory: one record, and those asked for without their long logs. Raises:
            InputError: a heavy field has a wrong type, or the file changed.
            OutputError: the temporary directory has no space for long logs.
        """
        wanted = sorted({part for row in rows for part in self._segments.get(row, (row,))})
        read = dict(zip(wanted, self._read_rows(wanted), strict=True))
        made = []
        for row in rows:
            task, trajectory = read[row]
            if row in self._segments:
                trajectory = join_segments(trajectory, [read[part][1] for part in self._segments[row]])
            made.append((task, trajectory))
        return made

    def iter_records(self, columns: Sequence[str] | None = None) -> Iterator[dict[str, object]]:
        """Every record of the index in its order with all its fields, exploded ones laid over their parent.

        `columns`: paths of which at least the fields that they begin with are wanted, for files that are read by columns.
        """
        names = None
        if columns is not None:
            paths = [*columns, *([self._explode] if self._explode else [])]
            names = list(dict.fromkeys(name for path in paths for name in (path, path.partition(".")[0])))
        for number, start, stop in self._runs():
            places = RowPlaces(self.places, start, stop)
            records = self._sources[number].read_whole(places, names)
            for record, (_, items) in zip(records, places.told(), strict=True):
                for item in items:
                    yield record if item is None else exploded(record, self._explode, item)

    @property
    def uncopied(self) -> str | None:
        """The name of the first native file whose records `iter_blocks` does not give as they stand in it."""
        natives = (source for source in self._sources if getattr(source, "form", None) is not None)
        others = (each for each in natives if not (self.is_spliceable and getattr(each, "has_lines", False)))
        return next((each.name for each in others), None)

    @property
    def is_spliceable(self) -> bool:
        """Whether every row of the index is one line of JSON, so that `iter_texts` can give it."""
        if self._apart is not None:
            offset = self._apart.column("offset")
            return self._apart.column("item") is None and offset is not None and not offset.has_nulls()
        return self.index["item"].null_count() == self.index.height and not self.index["offset"].has_nulls()

    def iter_texts(self) -> Iterator[bytes]:
        """The lines of the records in the order of the index, as they are in the file; needs `is_spliceable`."""
        for number, places in self._line_places():
            yield from self._sources[number].read_texts(places)

    def iter_blocks(self) -> Iterator[tuple[bytes | bytearray, list[tuple[int, int]]]]:
        """The same in blocks of many lines, and where each line lies in its block; a block holds until the next one.

        Lines of native files are those in the file, where it has one for each record (`uncopied`).
        """
        for number, places in self._line_places():
            source = self._sources[number]
            if isinstance(source, JsonlSource):
                yield from source.read_blocks(places)
            else:
                read = source.read_lines if isinstance(source, NativeSource) else source.read_texts
                yield from blocks_of(read(places))

    def _line_places(self) -> Iterator[tuple[int, list[Place]]]:
        """The places of rows that are lines, source by source in parts: a place is an object, and rows are many."""
        for start in range(0, self.n_rows, _PART_ROWS):
            part = self.places(start, start + _PART_ROWS)
            for (number,), rows in part.group_by("source", maintain_order=True):
                yield number, distinct_places(rows.select(PLACE_COLUMNS).iter_rows())[0]

    def places(self, start: int, stop: int) -> pl.DataFrame:
        """Where the records from `start` to before `stop` lie: `source`, `line`, `offset`, `length` and `item`."""
        return self.index[start:stop] if self._apart is None else self._apart.places(start, stop)

    def _runs(self) -> Iterator[tuple[int, int, int]]:
        """The sources in the order of their rows, each with its first row and the one after its last."""
        source = self.index["source"] if self._apart is None else self._apart.column("source")
        if source is None:
            yield 0, 0, self.n_rows
            return
        numbers = source.to_numpy()
        borders = np.flatnonzero(numbers[1:] != numbers[:-1]) + 1
        for start, stop in pairwise([0, *borders.tolist(), len(numbers)]):
            yield int(numbers[start]), start, stop

    def _read_rows(self, rows: Sequence[int]) -> Iterator[tuple[Task, Trajectory]]:
        store = LogStore()
        chosen = chosen_rows(self.index, rows) if self._apart is None else self._apart.chosen(rows)
        for number, part in groupby(chosen, key=attrgetter("source")):
            source = self._sources[number]
            row_values = list(part)
            places, spread = distinct_places(
                (each.line, each.offset, each.length, each.item) for each in row_values
            )
            remaining = iter(row_values)
            records = source.read(places, self._fields)
            for items in spread:
                record = next(records)  # not by `zip`, which holds on to what it gave last
                for item in items:
                    row = next(remaining)
                    merged = record if item is None else exploded(record, self._explode, item)
                    # As `where`, without asking the index once a record.
                    where = f"{source.name}:{row.line}" + ("" if item is None else f"[{item}]")
                    task, trajectory = self._build(merged, where, row)
                    yield task, store.packed(trajectory)
                    del merged, trajectory
                # What was made of it stays; the next one needs its place.
                del record

    def _build(self, record: Mapping[str, object], where: str, row: ChosenRow) -> tuple[Task, Trajectory]:
        try:
            return read_task(record, self._fields), read_trajectory(
                record,
                self._fields,
                trajectory_id=row.trajectory_id,
                reward=float("nan") if row.reward is None else row.reward,
                passed=row.passed,
                where=where,
            )
        except InputError as error:
            raise placed(error, where) from error


def open_dump(
    paths: Sequence[str], options: ReadOptions, *, hash_: Hash = hash_texts, progress: Report | None = None
) -> Dump:
    """Read the index of a dump: every record once, types checked, ids settled.

    `hash_` finds ids kept in a file; texts that share a hash cost time, no more. `progress` is told how much was read.

    Raises:
        UsageError: no path, `-` twice, or a mapped name that is not canonical.
        InputError: a file cannot be read, a record is bad (unless skipped), ids clash, or there are no records.
        OutputError: no space to expand a compressed input.
    """
    if not paths or list(paths).count("-") > 1:
        raise UsageError("a dump is files, folders, or `-` once")
    fields = Fields(options.fields)
    with ExitStack() as opened:
        sources, notes = open_sources(paths, options, opened)
        joins: Joins | None = None
        if options.joins:
            runs = [each.run_directory for each in sources if isinstance(each, NativeSource)]
            joins = Joins(options.joins, runs, options.pass_threshold)
            opened.callback(joins.close)
            sources = [*(JoinedSource(source, joins, fields, options.explode) for source in sources)]
        scan = Scan(sources, fields, options, hash_=hash_, report=progress)
        opened.callback(scan.close)
        index, report = scan.run_apart()
        if joins is not None:
            joins.refuse_shared()
        joined = joins.notes() if joins is not None else ()
        report = replace(report, notes=tuple(once_a_kind((*notes, *report.notes, *joined))))
        resources = opened.pop_all()
    dump = Dump(index, report, sources, fields, options.explode, resources)
    note_contradictions(dump, options.pass_threshold)
    return dump
