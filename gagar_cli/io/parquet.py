"""Parquet dumps: scalar columns for the index, heavy columns of single rows on demand, in bounded memory.

A writer's default is one huge row group, and a row cannot be decoded without all before it in its group. So the
first time a row of a row group is asked for, that row group is decoded once, in batches of 16 rows, and each batch is
kept compressed in an anonymous temporary file; every later row costs one batch. 16 rows because a dictionary can make
a row arbitrarily larger than its share of the file. Not handled: encrypted files.
"""

import tempfile
import threading
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, BinaryIO, NamedTuple, cast

import pyarrow as pa
import pyarrow.parquet as pq

from gagar_cli.core.text import escape_untrusted, shorten
from gagar_cli.errors import InputError, OutputError
from gagar_cli.io.records import HEAVY_FIELDS, SCALARS, TASK_FIELDS, Fields
from gagar_cli.io.sources import Place, Scanned
from gagar_cli.io.streams import MAX_SPOOL_BYTES, show_path

HEAVY_BATCH_ROWS = 16
_SCALAR_BATCH_ROWS = 4096
_BUFFER_BYTES = 1024**2


class _Cut(NamedTuple):
    """One batch in the spool."""

    first_row: int
    """0-based within the file."""
    offset: int
    length: int


class ParquetSource:
    """One Parquet file."""

    def __init__(
        self, path: str, *, explode: str | None, group_by: str | None, max_record_bytes: int
    ) -> None:
        self.name = show_path(path)
        self.notes: list[str] = []
        self._explode = explode
        self._group_by = group_by
        self._max_record_bytes = max_record_bytes
        self._lock = threading.Lock()
        self._spool: BinaryIO | None = None
        self._n_spooled_bytes = 0
        self._cuts: dict[int, list[_Cut]] = {}
        self._last: tuple[_Cut, Any] | None = None
        with self._mapped():
            # Without buffer_size a column chunk is read whole, which in one huge row group is the whole file.
            self._file = pq.ParquetFile(path, buffer_size=_BUFFER_BYTES, pre_buffer=False)
            metadata = self._file.metadata
            sizes = [metadata.row_group(index).num_rows for index in range(metadata.num_row_groups)]
        self._starts = [0]
        for size in sizes:
            self._starts.append(self._starts[-1] + size)
        self._columns = list(self._file.schema_arrow.names)
        self._refuse_duplicate_columns()

    def scan(self, fields: Fields) -> Iterator[Scanned]:
        """Every row, with the columns of the index only."""
        fields.note_seen(dict.fromkeys([*self._columns, *_mapped_tops(fields, self._columns)]))
        wanted = self._known([*fields.columns(*SCALARS), *_tops(self._group_by), *_tops(self._explode)])
        types = [self._file.schema_arrow.field(name).type for name in wanted]
        batch_rows = (
            HEAVY_BATCH_ROWS if any(pa.types.is_nested(type_) for type_ in types) else _SCALAR_BATCH_ROWS
        )
        line = 0
        for batch in self._batches(batch_rows, wanted):
            for record in self._rows(batch):
                line += 1
                yield Scanned(Place(line), record)

    def read(self, places: Sequence[Place], fields: Fields) -> Iterator[dict[str, object]]:
        """The rows at the given places, with the columns of task, trajectory and `--explode`."""
        wanted = self._known([*fields.columns(*TASK_FIELDS, *HEAVY_FIELDS), *_tops(self._explode)])
        for place in places:
            with self._lock:
                yield self._row(place.line - 1, wanted)

    def read_whole(self, places: Sequence[Place]) -> Iterator[dict[str, object]]:
        """The rows at ascending places, with every column."""
        remaining = iter(places)
        place = next(remaining, None)
        line = 0
        for batch in self._batches(HEAVY_BATCH_ROWS, self._columns):
            if place is not None and place.line <= line + batch.num_rows:
                records = self._rows(batch)
                while place is not None and place.line <= line + batch.num_rows:
                    yield dict(records[place.line - line - 1])
                    place = next(remaining, None)
            line += batch.num_rows

    def read_texts(self, places: Sequence[Place]) -> Iterator[str]:  # noqa: ARG002 - there is no text
        """Nothing: a row of Parquet has no text."""
        return iter(())

    def close(self) -> None:
        """Close the file and the spool."""
        self._file.close()
        if self._spool is not None:
            self._spool.close()

    def _known(self, names: Sequence[str]) -> list[str]:
        return [name for name in dict.fromkeys(names) if name in self._columns]

    def _refuse_duplicate_columns(self) -> None:
        for name in self._columns:
            if self._columns.count(name) > 1:
                shown = shorten(escape_untrusted(name, keep_newlines=False), 80)
                raise InputError(f"{self.name}: duplicate column {shown}")

    def _batches(
        self, n_rows: int, columns: Sequence[str], row_groups: list[int] | None = None
    ) -> Iterator[Any]:
        if (
            not columns
        ):  # pyarrow yields nothing for no columns; the rows are still there to be counted and refused
            columns = self._columns[:1]
        with self._mapped():
            batches = self._file.iter_batches(n_rows, row_groups=row_groups, columns=list(columns))
        while True:
            with self._mapped():
                batch = next(batches, None)
            if batch is None:
                return
            if batch.nbytes > batch.num_rows * self._max_record_bytes:
                size = f"{self._max_record_bytes // 1024**2} MiB"
                raise InputError(f"{self.name}: {batch.num_rows} rows hold more than {size} each")
            yield batch

    def _rows(self, batch: Any) -> list[dict[str, object]]:
        with self._mapped():
            return cast("list[dict[str, object]]", batch.to_pylist(maps_as_pydicts="strict"))

    def _row(self, row: int, wanted: Sequence[str]) -> dict[str, object]:
        group = bisect_right(self._starts, row) - 1
        if group not in self._cuts:
            self._cuts[group] = self._cut(group, wanted)
        cuts = self._cuts[group]
        cut = cuts[bisect_right(cuts, row, key=lambda each: each.first_row) - 1]
        if self._last is None or self._last[0] != cut:
            spool = self._open_spool()
            spool.seek(cut.offset)
            with self._mapped(), pa.ipc.open_stream(pa.py_buffer(spool.read(cut.length))) as reader:
                self._last = (cut, reader.read_next_batch())
        return self._rows(self._last[1].slice(row - cut.first_row, 1))[0]

    def _cut(self, group: int, wanted: Sequence[str]) -> list[_Cut]:
        spool = self._open_spool()
        options = pa.ipc.IpcWriteOptions(compression="zstd")
        cuts = []
        row = self._starts[group]
        for batch in self._batches(HEAVY_BATCH_ROWS, wanted, [group]):
            self._n_spooled_bytes += batch.nbytes
            if self._n_spooled_bytes > MAX_SPOOL_BYTES:
                raise InputError(f"{self.name}: expands beyond {MAX_SPOOL_BYTES / 1e9:.0f} GB")
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
                writer.write_batch(batch)
            offset = spool.seek(0, 2)
            try:
                length = spool.write(sink.getvalue())
                spool.flush()
            except OSError as error:
                message = f"{self.name}: cannot be kept in the temporary directory: {(error.strerror or '').lower()}"
                raise OutputError(message, "point TMPDIR at a directory with space") from error
            cuts.append(_Cut(row, offset, length))
            row += batch.num_rows
        return cuts

    def _open_spool(self) -> BinaryIO:
        if self._spool is None:
            self._spool = cast("BinaryIO", tempfile.TemporaryFile())  # noqa: SIM115 - closed with the source
        return self._spool

    @contextmanager
    def _mapped(self) -> Iterator[None]:
        """Errors of pyarrow as errors of the input."""
        try:
            yield
        except (pa.ArrowException, OSError, UnicodeDecodeError, KeyError, OverflowError, ValueError) as error:
            detail = shorten(escape_untrusted(str(error), keep_newlines=False), 200)
            raise InputError(f"{self.name}: cannot be read as Parquet: {detail}") from error


def _tops(path: str | None) -> list[str]:
    return [path, path.partition(".")[0]] if path else []


def _mapped_tops(fields: Fields, columns: Sequence[str]) -> list[str]:
    return [path for path in fields.mapping.values() if path.partition(".")[0] in columns]
