"""Rollout dumps in two phases: an index of scalar columns for all of it, then the heavy columns of a few rows.

A dump is files, folders of shards, or `-`; JSON lines (plain, gzip, zstd) or Parquet. `open_dump` reads everything
once and refuses what is ambiguous; afterwards memory holds the index only, and `read_trajectories` fetches single
records by place. The files must stay as they are while a dump is open.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from types import TracebackType
from typing import Self

import polars as pl

from gagar_cli.core.schema import Task, Trajectory
from gagar_cli.errors import InputError, UsageError
from gagar_cli.io.index import locate
from gagar_cli.io.joined import JoinedSource
from gagar_cli.io.joins import KEYS, Joins
from gagar_cli.io.native import NativeSource, Spool, open_native
from gagar_cli.io.native_files import find_native
from gagar_cli.io.records import PROMPT_FIELDS, Fields, exploded, placed
from gagar_cli.io.scan import DumpReport, ReadOptions, Scan
from gagar_cli.io.sources import JsonlSource, Place, Source
from gagar_cli.io.streams import Opened, list_shards, open_input
from gagar_cli.io.trajectories import join_segments, read_task, read_trajectory

__all__ = ["Dump", "DumpReport", "ReadOptions", "open_dump"]


class Dump:
    """An open dump: its index, and its records on demand. A context manager; owns files and temporary space."""

    def __init__(
        self,
        index: pl.DataFrame,
        report: DumpReport,
        sources: Sequence[Source],
        fields: Fields,
        explode: str | None,
        resources: ExitStack | None = None,
    ) -> None:
        self.index = index
        self.report = report
        self._sources = tuple(sources)
        self._fields = fields
        self._explode = explode
        self._resources = resources
        self._segments = _segments_of(index)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the files; the index stays usable."""
        for source in self._sources:
            source.close()
        if self._resources is not None:
            self._resources.close()

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
        return locate(self.index, self._sources, row)

    def read_trajectories(self, rows: Sequence[int]) -> list[tuple[Task, Trajectory]]:
        """Task and trajectory of each row, in the given order; a first segment brings the later ones with it.

        Memory: the records asked for. Raises:
            InputError: a heavy field has a wrong type, or the file changed.
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
        for (number,), rows in self.index.group_by("source", maintain_order=True):
            source = self._sources[number]
            places, spread = _distinct_places(rows)
            for record, items in zip(source.read_whole(places, names), spread, strict=True):
                for item in items:
                    yield record if item is None else exploded(record, self._explode, item)

    @property
    def is_spliceable(self) -> bool:
        """Whether every row of the index is one line of JSON, so that `iter_texts` can give it."""
        return self.index["item"].null_count() == self.index.height and not self.index["offset"].has_nulls()

    def iter_texts(self) -> Iterator[bytes]:
        """The lines of the records in the order of the index, as they are in the file; needs `is_spliceable`."""
        for (number,), rows in self.index.group_by("source", maintain_order=True):
            places, _ = _distinct_places(rows)
            yield from self._sources[number].read_texts(places)

    def iter_blocks(self) -> Iterator[tuple[bytes | bytearray, list[tuple[int, int]]]]:
        """The same in blocks of many lines, and where each line lies in its block; a block holds until the next one."""
        for (number,), rows in self.index.group_by("source", maintain_order=True):
            places, _ = _distinct_places(rows)
            source = self._sources[number]
            if isinstance(source, JsonlSource):
                yield from source.read_blocks(places)
            else:
                yield from ((text, [(0, len(text))]) for text in source.read_texts(places))

    def _read_rows(self, rows: Sequence[int]) -> Iterator[tuple[Task, Trajectory]]:
        for (number,), part in self.index[list(rows)].group_by("source", maintain_order=True):
            source = self._sources[number]
            places, spread = _distinct_places(part)
            row_values = part.select("line", "trajectory_id", "reward", "passed").iter_rows()
            for record, items in zip(source.read(places, self._fields), spread, strict=True):
                for item in items:
                    line, trajectory_id, reward, passed = next(row_values)
                    merged = record if item is None else exploded(record, self._explode, item)
                    # As `where`, without asking the index once a record.
                    where = f"{source.name}:{line}" + ("" if item is None else f"[{item}]")
                    yield self._build(merged, where, trajectory_id, reward, passed=passed)

    def _build(
        self,
        record: Mapping[str, object],
        where: str,
        trajectory_id: str,
        reward: float | None,
        *,
        passed: bool,
    ) -> tuple[Task, Trajectory]:
        try:
            return read_task(record, self._fields), read_trajectory(
                record,
                self._fields,
                trajectory_id=trajectory_id,
                reward=float("nan") if reward is None else reward,
                passed=passed,
                where=where,
            )
        except InputError as error:
            raise placed(error, where) from error


def open_dump(paths: Sequence[str], options: ReadOptions) -> Dump:
    """Read the index of a dump: every record once, types checked, ids settled.

    Raises:
        UsageError: no path, `-` twice, or a mapped name that is not canonical.
        InputError: a file cannot be read, a record is bad (unless skipped), ids clash, or there are no records.
        OutputError: no space to expand a compressed input.
    """
    if not paths or list(paths).count("-") > 1:
        raise UsageError("a dump is files, folders, or `-` once")
    fields = Fields(options.fields)
    with ExitStack() as opened:
        sources, notes = _open_sources(paths, options, opened)
        joins: Joins | None = None
        if options.joins:
            joins = Joins(
                options.joins, [each.run_directory for each in sources if isinstance(each, NativeSource)]
            )
            opened.callback(joins.close)
            sources = [*(JoinedSource(source, joins, fields, options.explode) for source in sources)]
        index, report = Scan(sources, fields, options).run()
        if joins is not None:
            joins.refuse_shared()
        joined = joins.notes() if joins is not None else ()
        report = replace(report, notes=(*notes, *report.notes, *joined))
        resources = opened.pop_all()
    return Dump(index, report, sources, fields, options.explode, resources)


def _open_sources(
    paths: Sequence[str], options: ReadOptions, opened: ExitStack
) -> tuple[list[Source], list[str]]:
    """The sources of native files and of the others, and notes."""
    is_own_form = options.format is None and bool(options.fields or options.explode)
    forced = "canonical" if is_own_form else options.format
    found, others, notes = find_native(paths, forced, opened)
    sources: list[Source] = []
    if found:
        spool = Spool()
        opened.callback(spool.close)
        sources += open_native(found, spool, keep_raw=options.keep_raw, group_by=options.group_by)
    # What grouping and joining look at, for readers that choose columns.
    needed = (*(KEYS if options.joins else ()), *(PROMPT_FIELDS if options.group_by == "prompt" else ()))
    chosen = replace(options, extras=tuple(dict.fromkeys((*options.extras, *needed))))
    for named in others:
        for path in list_shards(named.path):
            sources.append(_open_source(path, named.opened or open_input(path), chosen))
            opened.callback(sources[-1].close)
    return sources, notes


def _open_source(path: str, opened: Opened, options: ReadOptions) -> Source:
    if opened.kind == "parquet":
        # With the file its library would cost 40 MB of memory, which JSON lines have no use for.
        from gagar_cli.io.parquet import ParquetSource

        return ParquetSource(
            path,
            opened,
            explode=options.explode,
            group_by=options.group_by,
            max_record_bytes=options.max_record_bytes,
            extras=options.extras,
        )
    return JsonlSource(
        path,
        opened,
        explode=options.explode,
        max_record_bytes=options.max_record_bytes,
        skim=(*options.extras, options.group_by or "") if options.is_index_only else None,
        # What a join or a prompt needs lies outside of the columns of a table.
        flat=None
        if options.joins or options.group_by in ("prompt", "directory")
        else (*options.extras, options.group_by or ""),
    )


def _distinct_places(rows: pl.DataFrame) -> tuple[list[Place], list[list[int | None]]]:
    """The places of rows of one source in order, each once, and the items wanted of each."""
    places: list[Place] = []
    items: list[list[int | None]] = []
    for line, offset, length, item in rows.select("line", "offset", "length", "item").iter_rows():
        # Native records may share a line (branches of one trace): their places differ.
        if not places or (places[-1].line, places[-1].offset) != (line, offset):
            places.append(Place(line, offset, length))
            items.append([])
        items[-1].append(item)
    return places, items


def _segments_of(index: pl.DataFrame) -> dict[int, list[int]]:
    """For each first row of a trajectory in several records: all its rows in the order of `segment`."""
    rows = pl.int_range(index.height, dtype=pl.UInt32, eager=True).alias("row")
    if (index["primary_row"] == rows).all():
        return {}
    parts = index.select("primary_row", "segment", rows).filter(pl.col("primary_row").is_duplicated())
    grouped: dict[int, list[int]] = {}
    for primary, row in parts.sort("segment", "row").select("primary_row", "row").iter_rows():
        grouped.setdefault(primary, []).append(row)
    return grouped
