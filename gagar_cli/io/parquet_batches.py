"""Parquet by way of pyarrow: columns of any type in batches, single rows on demand, in bounded memory.

A writer's default is one huge row group, and a row cannot be decoded without all before it in its group. So the
first time a row of a row group is asked for, that row group is decoded once, in batches of at most 16 rows, and each
batch is kept compressed in an anonymous temporary file; every later row costs one batch. 16 rows because a dictionary
can make a row arbitrarily larger than its share of the file; fewer where that share is large already. Not handled:
encrypted files.
"""

import tempfile
import threading
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from gagar_cli.core.text import escape_untrusted, shorten
from gagar_cli.errors import InputError, OutputError
from gagar_cli.io.jsonl import show_value
from gagar_cli.io.sources import Place, Scanned, ScannedTable
from gagar_cli.io.streams import MAX_SPOOL_BYTES, file_identity

HEAVY_BATCH_ROWS = 16
_SCALAR_BATCH_ROWS = 262_144
_BUFFER_BYTES = 1024**2
_HEAVY_BATCH_BYTES = 16 * 1024**2
"""What a batch of heavy columns comes to at most, as the file tells it, where it is more than one row."""
_LARGE_BYTES = 4 * 1024**2
"""A batch of this size is handled so that memory stays low; the time that takes would be noticed with small ones."""
_ONE_THREAD = {"use_threads": False}
"""Each thread keeps memory of its own."""
if "jemalloc" in pa.supported_memory_backends():
    # Others hold on to a quarter more of what decoding a large page took in between.
    pa.set_memory_pool(pa.jemalloc_memory_pool())


class _Cut(NamedTuple):
    """One batch in the spool."""

    first_row: int
    """0-based within the file."""
    offset: int
    length: int


class _Batch(NamedTuple):
    """One batch, decoded."""

    first_row: int
    """0-based within the file."""
    batch: Any


class ParquetBatches:
    """One Parquet file, at a path that can be opened again."""

    def __init__(
        self, path: str, name: str, *, identity: tuple[int, ...], is_exploded: bool, max_record_bytes: int
    ) -> None:
        self.name = name
        self._path = path
        self._identity = identity
        self._is_exploded = is_exploded
        self._max_record_bytes = max_record_bytes
        self._lock = threading.Lock()
        self._spool: BinaryIO | None = None
        self._n_spooled_bytes = 0
        self._cuts: dict[int, list[_Cut]] = {}
        self._last: _Batch | None = None
        with self._mapped(), self._opened() as table:
            metadata = table.metadata
            sizes = [metadata.row_group(index).num_rows for index in range(metadata.num_row_groups)]
            self._types = {field.name: field.type for field in table.schema_arrow}
            names = table.schema_arrow.names
        self._starts = [0, *accumulate(sizes)]
        self.columns = list(self._types)
        if len(names) > len(self.columns):
            twice = next(name for name in names if names.count(name) > 1)
            raise InputError(f"{self.name}: duplicate column {show_value(twice)}")

    def scan(self, wanted: Sequence[str], first_line: int = 1) -> Iterator[Scanned | ScannedTable]:
        """Every row from a 1-based one on, with columns of the file."""
        types = [self._types[name] for name in wanted]
        is_flat = not any(pa.types.is_nested(type_) for type_ in types)
        is_plain = not self._is_exploded and all(_is_plain(type_) for type_ in types)
        line = 1
        for batch in self._batches(_SCALAR_BATCH_ROWS if is_flat else HEAVY_BATCH_ROWS, wanted):
            n_skipped = min(max(first_line - line, 0), batch.num_rows)
            batch, line = batch.slice(n_skipped), line + n_skipped
            if is_plain and line == 1 and batch.num_rows:
                # The first record settles what groups all of them, and only records can.
                yield from self._scanned(batch.slice(0, 1), line)
                batch = batch.slice(1)
                line += 1
            if not batch.num_rows:
                continue
            table = _as_table(batch) if is_plain else None
            if table is not None:
                yield ScannedTable(line, table, partial(self._scanned, batch, line))
            else:
                yield from self._scanned(batch, line)
            line += batch.num_rows

    def _scanned(self, batch: Any, line: int) -> Iterator[Scanned]:
        for number, record in enumerate(self._rows(batch), start=line):
            yield Scanned(Place(number), record)

    def read(self, places: Sequence[Place], wanted: Sequence[str]) -> Iterator[dict[str, object]]:
        """The rows at the given places, with columns of the file."""
        for place in places:
            yield self._row(place.line - 1, wanted)

    def read_whole(
        self, places: Sequence[Place], columns: Sequence[str] | None = None
    ) -> Iterator[dict[str, object]]:
        """The rows at ascending places, with every column, or those named."""
        remaining = iter(places)
        place = next(remaining, None)
        line = 0
        for batch in self._batches(HEAVY_BATCH_ROWS, self.columns if columns is None else columns):
            if place is not None and place.line <= line + batch.num_rows:
                records = self._rows(batch)
                while place is not None and place.line <= line + batch.num_rows:
                    yield dict(records[place.line - line - 1])
                    place = next(remaining, None)
            line += batch.num_rows

    def close(self) -> None:
        """Close the spool."""
        if self._spool is not None:
            self._spool.close()

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        with Path(self._path).open("rb") as stream:
            self._refuse_change(stream)
            # Without buffer_size a column chunk is read whole, which in one huge row group is the whole file.
            with pq.ParquetFile(stream, buffer_size=_BUFFER_BYTES, pre_buffer=False) as table:
                yield table
            self._refuse_change(stream)

    def _refuse_change(self, stream: BinaryIO) -> None:
        if file_identity(stream) != self._identity:
            raise InputError(f"{self.name}: the file changed while it was read")

    def _batches(self, n_rows: int, columns: Sequence[str], row_group: int | None = None) -> Iterator[Any]:
        """Batches of at most so many rows; of one row group fewer, where these would be large."""
        # No columns would give no batches; the rows are still there, to be counted and refused.
        chosen = list(columns or self.columns[:1])
        with self._mapped(), self._opened() as table:
            row_groups = None
            if row_group is not None:
                row_groups = [row_group]
                n_rows = min(n_rows, _n_rows_at_once(table.metadata.row_group(row_group), chosen))
            threads = {} if n_rows >= HEAVY_BATCH_ROWS else _ONE_THREAD
            for batch in table.iter_batches(n_rows, row_groups=row_groups, columns=chosen, **threads):
                if batch.nbytes > batch.num_rows * self._max_record_bytes:
                    size = f"{self._max_record_bytes // 1024**2} MiB"
                    raise InputError(f"{self.name}: {batch.num_rows} rows hold more than {size} each")
                yield batch
                del batch  # before the next one is decoded

    def _rows(self, batch: Any) -> list[dict[str, object]]:
        with self._mapped():
            return cast("list[dict[str, object]]", batch.to_pylist(maps_as_pydicts="strict"))

    def _row(self, row: int, wanted: Sequence[str]) -> dict[str, object]:
        with self._lock:
            last = self._last
            if last is None or not last.first_row <= row < last.first_row + last.batch.num_rows:
                self._last = last = None  # before the next one is decoded
                self._last = last = self._loaded(row, wanted)
            record = self._rows(last.batch.slice(row - last.first_row, 1))[0]
            n_bytes = last.batch.nbytes
            if last.batch.num_rows == 1:
                self._last = last = None
            _release(n_bytes)
            return record

    def _loaded(self, row: int, wanted: Sequence[str]) -> _Batch:
        """The batch that has a row."""
        group = bisect_right(self._starts, row) - 1
        if group not in self._cuts:
            found = self._cut(group, wanted)
            if isinstance(found, _Batch):
                return found
            self._cuts[group] = found
        cuts = self._cuts[group]
        cut = cuts[bisect_right(cuts, row, key=lambda each: each.first_row) - 1]
        spool = self._open_spool()
        spool.seek(cut.offset)
        kept = pa.py_buffer(spool.read(cut.length))
        with self._mapped(), pa.ipc.open_stream(kept, options=pa.ipc.IpcReadOptions(**_ONE_THREAD)) as reader:
            return _Batch(cut.first_row, reader.read_next_batch())

    def _cut(self, group: int, wanted: Sequence[str]) -> list[_Cut] | _Batch:
        """Where the batches of a row group are kept; a large one that is all of it is as soon decoded again."""
        row, stop = self._starts[group : group + 2]
        cuts: list[_Cut] = []
        for batch in self._batches(HEAVY_BATCH_ROWS, wanted, group):
            if batch.nbytes >= _LARGE_BYTES and batch.num_rows == stop - row and not cuts:
                return _Batch(row, batch)
            cuts.append(self._kept(row, batch))
            row += batch.num_rows
            n_bytes = batch.nbytes
            del batch
            _release(n_bytes)
        return cuts

    def _kept(self, row: int, batch: Any) -> _Cut:
        self._n_spooled_bytes += batch.nbytes
        if self._n_spooled_bytes > MAX_SPOOL_BYTES:
            raise InputError(f"{self.name}: expands beyond {MAX_SPOOL_BYTES / 1e9:.0f} GB")
        sink = pa.BufferOutputStream()
        options = pa.ipc.IpcWriteOptions(compression="zstd", **_ONE_THREAD)
        with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
            writer.write_batch(batch)
        spool = self._open_spool()
        try:
            offset = spool.seek(0, 2)
            length = spool.write(sink.getvalue())
            spool.flush()
        except OSError as error:
            raise self._unkept(error) from error
        return _Cut(row, offset, length)

    def _open_spool(self) -> BinaryIO:
        if self._spool is None:
            try:
                self._spool = cast("BinaryIO", tempfile.TemporaryFile())  # noqa: SIM115 - closed with the source
            except OSError as error:
                raise self._unkept(error) from error
        return self._spool

    def _unkept(self, error: OSError) -> OutputError:
        reason = (error.strerror or str(error)).lower()
        message = f"{self.name}: cannot be kept in the temporary directory: {reason}"
        return OutputError(message, "point TMPDIR at a directory with space")

    @contextmanager
    def _mapped(self) -> Iterator[None]:
        """Errors of pyarrow as errors of the input."""
        try:
            yield
        except (pa.ArrowException, OSError, UnicodeDecodeError, KeyError, OverflowError, ValueError) as error:
            detail = shorten(escape_untrusted(str(error), keep_newlines=False), 200)
            raise InputError(f"{self.name}: cannot be read as Parquet: {detail}") from error


def _n_rows_at_once(row_group: Any, columns: Sequence[str]) -> int:
    """How many rows of these columns are a batch of moderate size, at least one."""
    chunks = (row_group.column(index) for index in range(row_group.num_columns))
    # A column's name may have dots, as paths of nested ones do.
    n_bytes = sum(
        int(chunk.total_uncompressed_size)
        for chunk in chunks
        if any(f"{chunk.path_in_schema}.".startswith(f"{name}.") for name in columns)
    )
    return max(_HEAVY_BATCH_BYTES * int(row_group.num_rows) // max(n_bytes, 1), 1)


def _release(n_bytes: int) -> None:
    """Give free memory back after so many bytes were handled."""
    if n_bytes >= _LARGE_BYTES:
        pa.default_memory_pool().release_unused()


def _is_plain(type_: Any) -> bool:
    """Whether polars takes the type as it is; the slow way takes all others."""
    if pa.types.is_dictionary(type_):
        return _is_plain(type_.value_type)
    tests = (
        pa.types.is_string, pa.types.is_large_string, pa.types.is_integer, pa.types.is_boolean,
        pa.types.is_float32, pa.types.is_float64, pa.types.is_null,
    )  # fmt: skip
    return any(test(type_) for test in tests)


def _as_table(batch: Any) -> pl.DataFrame | None:
    """The batch for polars; None where it is not sound, its names included."""
    try:
        return cast("pl.DataFrame", pl.from_arrow(batch)) if _is_sound(batch) else None
    except pl.exceptions.PanicException:
        return None


def _is_sound(batch: Any) -> bool:
    """Whether the batch may leave pyarrow: text that is no UTF-8 is undefined behaviour elsewhere."""
    try:
        batch.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True
