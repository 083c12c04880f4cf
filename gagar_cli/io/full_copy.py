"""A whole dump written again with columns added: nothing that was there is typed anew.

JSON lines keep their text, only cut between members. One Parquet file keeps its bytes (`io/parquet_splice.py`); where
that cannot be, and for several, it is streamed in batches with its schema. A column that is added replaces one of the
same name, but for `advantage`: what the dump had stays as `advantage_input`. Memory is bounded by one record, or one
batch of Parquet.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from gagar_cli.core.text import escape_untrusted, shorten
from gagar_cli.errors import InputError, UsageError
from gagar_cli.io.dump import Dump
from gagar_cli.io.jsonl import dump_line
from gagar_cli.io.jsonl_copy import LineSplicer, Piece
from gagar_cli.io.parquet_schema import FooterRefusedError
from gagar_cli.io.parquet_splice import splice_columns
from gagar_cli.io.streams import list_shards, show_path
from gagar_cli.io.writers import write_atomically, write_pieces

KEPT_AS = {"advantage": "advantage_input"}
_CHUNK_ROWS = 4096
_LINES_A_REPORT = 256
Report = Callable[[int, int, str], None]
"""Told how many records are done, of how many, and what is done with them."""
_BATCH_BYTES = 16 * 1024**2
_MIN_BATCH_ROWS, _MAX_BATCH_ROWS = 16, 4096
_TABLE_BYTES = 32 * 1024**2
_MAX_TABLE_ROWS = 131_072
"""A table becomes a row group: small enough for memory, large enough to compress."""


def is_parquet(path: str) -> bool:
    """Whether a path names a Parquet file by its suffix."""
    return Path(path).suffix.lower() in (".parquet", ".pq")


def write_full_copy(
    path: str,
    dump: Dump,
    paths: Sequence[str],
    added: pl.DataFrame,
    *,
    report: Report | None = None,
) -> tuple[str, ...]:
    """The dump with the columns of `added`, one row of it for each row of the index, in reading order.

    `paths` are what the dump was opened with. JSON lines for `-` and for any suffix but Parquet's. The names of the
    dump's columns that `added` replaced come back; `advantage` is not one of them where it is kept.

    Raises:
        UsageError: Parquet is asked for, and the dump is not Parquet or is exploded.
        InputError: Parquet files of different columns, or a file that changed.
        OutputError: it cannot be written.
    """
    if not is_parquet(path):
        replaced: set[str] = set()
        write_pieces(path, _counted(_lines(dump, added, replaced), added.height, report))
        return tuple(name for name in added.columns if name in replaced)
    index = dump.index
    if not (index["item"].null_count() == index["offset"].null_count() == index.height):
        raise UsageError(
            f"--full-copy to {show_path(path)} needs a Parquet dump with one row an attempt",
            "name the output `.jsonl`, or leave out `--full-copy` for a sidecar",
        )
    shards = [shard for each in paths for shard in list_shards(each)]
    with write_atomically(path) as stream:
        if len(shards) == 1:
            try:
                return _splice_parquet(stream, shards[0], added)
            except FooterRefusedError:
                stream.seek(0)
                stream.truncate()
        return _write_parquet(stream, shards, index, added)


def _lines(dump: Dump, added: pl.DataFrame, replaced: set[str]) -> Iterator[Sequence[Piece]]:
    """The records as JSON lines, in the order of the index; names that lose their value are added to `replaced`."""
    chunks = added.iter_slices(_CHUNK_ROWS)
    values = (row for chunk in chunks for row in chunk.iter_rows(named=True))
    if not dump.is_spliceable:
        for record, members in zip(dump.iter_records(), values, strict=True):
            replaced |= _lost(record, members)
            yield (dump_line(_overlay(record, members)),)
        return
    splicer = LineSplicer(added.columns, KEPT_AS)
    for block, spans in dump.iter_blocks():
        yield from splicer.splice(block, spans, list(islice(values, len(spans))))
    replaced |= splicer.replaced


def _lost(names: Collection[str], added: Collection[str]) -> set[str]:
    """Columns that are replaced and not kept under another name."""
    return {name for name in added if name in names and (name not in KEPT_AS or KEPT_AS[name] in names)}


def _overlay(record: dict[str, object], members: dict[str, object]) -> dict[str, object]:
    kept = {KEPT_AS[key]: record[key] for key in KEPT_AS if key in record and KEPT_AS[key] not in record}
    return {key: value for key, value in record.items() if key not in members} | kept | members


def _counted(
    lines: Iterator[Sequence[Piece]], n_lines: int, report: Report | None
) -> Iterator[Sequence[Piece]]:
    for n_done, line in enumerate(lines):
        if report is not None and n_done % _LINES_A_REPORT == 0:
            report(n_done, n_lines, "records copied")
        yield line


def _splice_parquet(stream: BinaryIO, shard: str, added: pl.DataFrame) -> tuple[str, ...]:
    present = splice_columns(stream, shard, added, lambda name, names: _new_name(name, names, added.columns))
    lost = _lost(present, added.columns)
    return tuple(name for name in added.columns if name in lost)


def _new_name(name: str, present: Collection[str], added: Collection[str]) -> str | None:
    """What a column of the dump is called in the copy; None where it is replaced."""
    if name in KEPT_AS and KEPT_AS[name] not in present:
        return KEPT_AS[name]
    return None if name in added else name


def _write_parquet(
    stream: BinaryIO, shards: Sequence[str], index: pl.DataFrame, added: pl.DataFrame
) -> tuple[str, ...]:
    lost: set[str] = set()
    schema: Any = None
    writer: Any = None
    first_row = 0
    try:
        for number, shard in enumerate(shards):
            lines = index.filter(pl.col("source") == number)["line"].to_numpy()
            with _mapped(shard), pq.ParquetFile(shard, buffer_size=1024**2, pre_buffer=False) as file:
                names, found = _renamed(file.schema_arrow, added)
                lost |= _lost(file.schema_arrow.names, added.columns)
                if writer is None:
                    schema, columns = _extended(found, added)
                    writer = pq.ParquetWriter(stream, schema, compression=_codec(file))
                elif not found.equals(pa.schema([schema.field(name) for name in found.names])):
                    raise InputError(
                        f"{show_path(shard)}: columns differ from those of {show_path(shards[0])}",
                        "copy such files one by one, or name the output `.jsonl`",
                    )
                for table, start in _tables(file, lines, show_path(shard)):
                    part = added.slice(first_row + start, table.num_rows).to_arrow().cast(columns)
                    arrays = [table.column(name) for name in names] + part.columns
                    writer.write_table(pa.table(arrays, schema=schema))
            first_row += len(lines)
    finally:
        if writer is not None:
            writer.close()
    return tuple(name for name in added.columns if name in lost)


def _renamed(schema: Any, added: pl.DataFrame) -> tuple[list[str], Any]:
    """Columns of a file that are kept, by their old names, and their schema under the new ones."""
    names = []
    fields = []
    for field in schema:
        new_name = _new_name(field.name, schema.names, added.columns)
        if new_name is not None:
            names.append(field.name)
            fields.append(field.with_name(new_name))
    return names, pa.schema(fields, metadata=schema.metadata)


def _extended(schema: Any, added: pl.DataFrame) -> tuple[Any, Any]:
    columns = added.head(0).to_arrow(compat_level=pl.CompatLevel.oldest()).schema
    return pa.schema([*schema, *columns], metadata=schema.metadata), columns


def _codec(file: Any) -> str:
    """The compression of the file's first column; the copy is compressed alike."""
    metadata = file.metadata
    if not metadata.num_row_groups or not metadata.num_columns:
        return "zstd"
    codec = str(metadata.row_group(0).column(0).compression).lower()
    return {"uncompressed": "none", "lz4_raw": "lz4"}.get(codec, codec)


def _tables(file: Any, lines: Any, name: str) -> Iterator[tuple[Any, int]]:
    """The rows that the index has, in tables of bounded bytes, each with its place among them."""
    pending: list[Any] = []
    n_before = 0
    n_given = 0
    for batch in file.iter_batches(_rows_at_once(file)):
        start, stop = np.searchsorted(lines, (n_before + 1, n_before + batch.num_rows + 1))
        is_whole = stop - start == batch.num_rows
        pending.append(batch if is_whole else batch.take(pa.array(lines[start:stop] - n_before - 1)))
        n_before += batch.num_rows
        n_rows = sum(each.num_rows for each in pending)
        if n_rows >= _MAX_TABLE_ROWS or sum(each.nbytes for each in pending) >= _TABLE_BYTES:
            yield pa.Table.from_batches(pending), n_given
            pending = []
            n_given += n_rows
    if pending:
        yield pa.Table.from_batches(pending), n_given
        n_given += sum(each.num_rows for each in pending)
    if n_given != len(lines):
        raise InputError(f"{name}: the file changed while it was read")


def _rows_at_once(file: Any) -> int:
    """How many rows to decode together; the footer's sizes do not tell, as a repeated value is stored once."""
    first = next(file.iter_batches(_MIN_BATCH_ROWS), None)
    if first is None or not first.num_rows:
        return _MIN_BATCH_ROWS
    return int(
        np.clip(_BATCH_BYTES * first.num_rows // max(first.nbytes, 1), _MIN_BATCH_ROWS, _MAX_BATCH_ROWS)
    )


@contextmanager
def _mapped(path: str) -> Iterator[None]:
    """Errors of pyarrow as errors of the input."""
    try:
        yield
    except pa.ArrowException as error:
        detail = shorten(escape_untrusted(str(error), keep_newlines=False), 200)
        raise InputError(f"{show_path(path)}: cannot be copied: {detail}") from error
