"""Parquet dumps: scalar columns for the index, heavy columns of single rows on demand.

Flat columns come by way of polars, which reads them in a fifth of the time and whose start is paid already; lists and
structs, types that it takes for others, single rows, and whatever it refuses come by way of pyarrow
(`io/parquet_batches.py`), which goes on at the row where the other stopped and words the error.
"""

import threading
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from gagar_cli.errors import InputError
from gagar_cli.io.records import HEAVY_FIELDS, SCALARS, TASK_FIELDS, Fields
from gagar_cli.io.sources import Place, Scanned, ScannedTable
from gagar_cli.io.streams import Opened, file_identity, show_path

if TYPE_CHECKING:
    from gagar_cli.io.parquet_batches import ParquetBatches

_BATCH_ROWS = 262_144
_FLAT_TYPES = (
    pl.String, pl.Boolean, pl.Float32, pl.Float64, pl.Null,
    pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64,
)  # fmt: skip
_REFUSALS = (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError)


class ParquetSource:
    """One Parquet file."""

    def __init__(
        self,
        path: str,
        opened: Opened,
        *,
        explode: str | None,
        group_by: str | None,
        max_record_bytes: int,
        extras: Sequence[str] = (),
    ) -> None:
        self.name = show_path(path)
        self.notes: list[str] = []
        # A copy has no name; its descriptor can be opened again like one.
        self._copy = opened.stream if opened.is_spool else None
        self._path = f"/proc/self/fd/{opened.stream.fileno()}" if opened.is_spool else path
        self._identity = file_identity(opened.stream)
        self._explode = explode
        self._group_by = group_by
        self._extras = tuple(extras)
        self._max_record_bytes = max_record_bytes
        self._opened_batches: ParquetBatches | None = None
        self._lock = threading.Lock()
        if self._copy is None:
            opened.stream.close()
        types = self._read_schema()
        self._flat = {name for name, type_ in types.items() if type_ in _FLAT_TYPES}
        self._columns = list(types) or self._batches.columns

    @property
    def n_bytes(self) -> int:
        """The size of the file."""
        return self._identity[2]

    @property
    def n_rows(self) -> int | None:
        """The rows of the file, as its footer tells; None where polars cannot."""
        try:
            return int(self._lazy_frame().select(pl.len()).collect().item())
        except _REFUSALS:
            return None

    def scan(self, fields: Fields) -> Iterator[Scanned | ScannedTable]:
        """Every row, with the columns of the index only."""
        fields.note_seen(dict.fromkeys([*self._columns, *_heavy_paths(fields, self._columns)]))
        named = [*fields.columns(*SCALARS, *self._extras), *_tops(self._group_by), *_tops(self._explode)]
        wanted = self._known(named)
        line = 1
        if wanted and self._explode is None and self._flat.issuperset(wanted):
            try:
                for frame in self._read_flat(wanted):
                    yield from _pieces(frame, line)
                    line += frame.height
            except _REFUSALS:
                pass
            else:
                return
        yield from self._batches.scan(wanted, line)

    def read(self, places: Sequence[Place], fields: Fields) -> Iterator[dict[str, object]]:
        """The rows at the given places, with the columns of task, trajectory and `--explode`."""
        named = [*fields.columns(*TASK_FIELDS, *HEAVY_FIELDS, *self._extras), *_tops(self._explode)]
        return self._batches.read(places, self._known(named))

    def read_whole(
        self, places: Sequence[Place], columns: Sequence[str] | None = None
    ) -> Iterator[dict[str, object]]:
        """The rows at ascending places, with every column, or those named."""
        return self._batches.read_whole(places, None if columns is None else self._known(columns))

    def read_texts(self, places: Sequence[Place]) -> Iterator[bytes]:  # noqa: ARG002 - there is no text
        """Nothing: a row of Parquet has no text."""
        return iter(())

    def close(self) -> None:
        """Close temporary files, and the copy that was read."""
        if self._opened_batches is not None:
            self._opened_batches.close()
        if self._copy is not None:
            self._copy.close()

    @property
    def _batches(self) -> "ParquetBatches":
        with self._lock:  # groups are read by several threads, and share one spool
            if self._opened_batches is None:
                # Its library costs 40 MB of memory and a fifth of a second, which flat columns have no use for.
                from gagar_cli.io.parquet_batches import ParquetBatches

                self._opened_batches = ParquetBatches(
                    self._path,
                    self.name,
                    identity=self._identity,
                    is_exploded=self._explode is not None,
                    max_record_bytes=self._max_record_bytes,
                )
            return self._opened_batches

    def _read_schema(self) -> dict[str, pl.DataType]:
        """Names and types; nothing where polars cannot tell."""
        try:
            return dict(self._lazy_frame().collect_schema())
        except _REFUSALS:
            return {}

    def _read_flat(self, wanted: Sequence[str]) -> Iterator[pl.DataFrame]:
        """The columns in parts; the end, before a part whose values may be larger than records may be."""
        self._refuse_change()
        for frame in self._lazy_frame().select(wanted).collect_batches(chunk_size=_BATCH_ROWS):
            if frame.estimated_size() > frame.height * self._max_record_bytes:
                raise pl.exceptions.ComputeError("records over the limit")
            yield frame
        self._refuse_change()

    def _lazy_frame(self) -> pl.LazyFrame:
        return pl.scan_parquet(Path(self._path).absolute(), glob=False, hive_partitioning=False)

    def _refuse_change(self) -> None:
        with Path(self._path).open("rb") as stream:
            if file_identity(stream) != self._identity:
                raise InputError(f"{self.name}: the file changed while it was read")

    def _known(self, names: Sequence[str]) -> list[str]:
        return [name for name in dict.fromkeys(names) if name in self._columns]


def _pieces(frame: pl.DataFrame, line: int) -> Iterator[Scanned | ScannedTable]:
    if line == 1:
        # The first record settles what groups all of them, and only records can.
        yield from _scanned(frame.head(1), line)
        frame, line = frame.slice(1), line + 1
    if frame.height:
        yield ScannedTable(line, frame, partial(_scanned, frame, line))


def _scanned(frame: pl.DataFrame, line: int) -> Iterator[Scanned]:
    for number, record in enumerate(frame.iter_rows(named=True), start=line):
        yield Scanned(Place(number), record)


def _tops(path: str | None) -> list[str]:
    return [path, path.partition(".")[0]] if path else []


def _heavy_paths(fields: Fields, columns: Sequence[str]) -> list[str]:
    """Mapped paths of fields that the scan does not read, as far as their columns exist."""
    heavy = (path for name, path in fields.mapping.items() if name not in SCALARS)
    return [path for path in heavy if path.partition(".")[0] in columns]
