"""Parquet files written again as one, decoded and encoded in batches: what a splice cannot do.

Memory is bounded by one batch and one row group of the output; types and metadata are those of the first file.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, BinaryIO

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from gagar_cli.core.text import escape_untrusted, shorten
from gagar_cli.errors import InputError
from gagar_cli.io.full_copy import lost_names, new_name
from gagar_cli.io.read_progress import Report
from gagar_cli.io.streams import show_path

_BATCH_BYTES = 16 * 1024**2
_MIN_BATCH_ROWS, _MAX_BATCH_ROWS = 16, 4096
_TABLE_BYTES = 32 * 1024**2
_MAX_TABLE_ROWS = 131_072
"""A table becomes a row group: small enough for memory, large enough to compress."""


def rewrite_parquet(
    stream: BinaryIO,
    shards: Sequence[str],
    index: pl.DataFrame,
    added: pl.DataFrame,
    *,
    report: Report | None = None,
) -> tuple[str, ...]:
    """Write the rows of the index with the columns of `added`; the names that lost their values come back.

    Raises:
        InputError: files of different columns, or a file that changed.
    """
    lost: set[str] = set()
    first: Any = None
    schema: Any = None
    writer: Any = None
    first_row = 0
    try:
        for number, shard in enumerate(shards):
            lines = index.filter(pl.col("source") == number)["line"].to_numpy()
            with _mapped(shard), pq.ParquetFile(shard, buffer_size=1024**2, pre_buffer=False) as file:
                names, found = _renamed(file.schema_arrow, added)
                lost |= lost_names(file.schema_arrow.names, added.columns)
                if writer is None:
                    schema, columns = _extended(found, added)
                    writer = pq.ParquetWriter(stream, schema, compression=_codec(file))
                    first = found
                elif {*found} != {*first}:
                    raise InputError(
                        f"{show_path(shard)}: columns differ from those of {show_path(shards[0])}",
                        "copy such files one by one, or name the output `.jsonl`",
                    )
                for table, start in _tables(file, lines, show_path(shard)):
                    part = added.slice(first_row + start, table.num_rows).to_arrow().cast(columns)
                    # In the order of the first file, which the others need not have.
                    arrays = [table.column(names[found.get_field_index(name)]) for name in first.names]
                    arrays += part.columns
                    writer.write_table(pa.table(arrays, schema=schema))
                    if report is not None:
                        report(first_row + start + table.num_rows, added.height, "records copied")
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
        renamed = new_name(field.name, schema.names, added.columns)
        if renamed is not None:
            names.append(field.name)
            fields.append(field.with_name(renamed))
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
