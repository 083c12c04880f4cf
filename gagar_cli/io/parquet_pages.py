"""Scalar columns as Parquet column chunks: one chunk for each row group of a file that they are to join.

Plain encoding, strings of few different values by a dictionary, zstd, pages of bounded size, nulls as definition
levels: the parts of the format that every reader has had from the start. Values are encoded for the whole column at
once, so that a row group costs little however many there are. Not handled: other types, text of many values.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import polars as pl
import zstandard
from numpy.typing import NDArray

from gagar_cli.io import parquet_thrift as thrift
from gagar_cli.io.parquet_thrift import Field, ThriftList, integer, varint

_PAGE_ROWS = 131_072
_MAX_CATEGORIES = 256
"""An index of the dictionary is one byte, packed as it lies."""
_DICTIONARY_WIDTH = 8
_PLAIN, _RLE, _RLE_DICTIONARY = 0, 3, 8
_ZSTD = 6
_DATA_PAGE, _DICTIONARY_PAGE = 0, 2
_OPTIONAL = 1
_PHYSICAL = {pl.Boolean: 0, pl.Int64: 2, pl.Float64: 5, pl.String: 6}
_STRING = 6
_LEVELS_ENCODED = b"\x15" + integer(_RLE) + b"\x15" + integer(_RLE) + b"\0"


class Chunk(NamedTuple):
    """A column chunk: its bytes, and its entry in the row group."""

    pages: list[bytes]
    entry: bytes
    n_plain_bytes: int
    n_bytes: int


@dataclass(frozen=True, slots=True)
class EncodedColumn:
    """A column whose values are encoded and wait to be cut into row groups."""

    name: str
    physical: int
    values: memoryview | NDArray[np.bool_]
    """Encoded values that are not null; booleans are packed page by page."""
    width: int
    """Bytes a value."""
    dictionary: bytes | None
    n_categories: int
    is_known: NDArray[np.bool_] | None
    """(n_rows,) not null; None where no value is."""
    n_known_before: NDArray[np.int64] | None
    """(n_rows + 1,) how many values are not null before each row."""


def encode_column(column: pl.Series) -> EncodedColumn | None:
    """The column ready to be cut; None where its type or its texts are not handled."""
    physical = _PHYSICAL.get(type(column.dtype))
    if physical is None:
        return None
    is_known = None if not column.has_nulls() else column.is_not_null().to_numpy()
    before = None if is_known is None else np.concatenate(([0], np.cumsum(is_known, dtype=np.int64)))
    known = column.drop_nulls()
    dictionary, n_categories = None, 0
    if physical == _STRING:
        texts = known.unique(maintain_order=True).sort()
        if len(texts) > _MAX_CATEGORIES:
            return None
        encoded = [text.encode() for text in texts.to_list()]
        dictionary = b"".join(len(text).to_bytes(4, "little") + text for text in encoded)
        n_categories = len(encoded)
        known = (
            known.cast(pl.Enum(texts)).to_physical().cast(pl.UInt8) if n_categories else known.cast(pl.UInt8)
        )
    array = np.ascontiguousarray(known.to_numpy())
    values = array if physical == _PHYSICAL[pl.Boolean] else array.data.cast("B")
    return EncodedColumn(
        column.name, physical, values, array.itemsize, dictionary, n_categories, is_known, before
    )


def schema_element(column: EncodedColumn) -> list[Field]:
    """The column in the schema of a file."""
    fields = [
        Field(1, thrift.I32, column.physical),
        Field(3, thrift.I32, _OPTIONAL),
        Field(4, thrift.BINARY, column.name.encode()),
    ]
    if column.physical == _STRING:
        logical = [Field(1, thrift.STRUCT, [])]
        fields += [Field(6, thrift.I32, 0), Field(10, thrift.STRUCT, logical)]
    return fields


class ChunkWriter:
    """Cuts one encoded column into chunks."""

    def __init__(self, column: EncodedColumn) -> None:
        self._column = column
        self._compressor = zstandard.ZstdCompressor(level=1)
        encodings = [_PLAIN, _RLE] if column.dictionary is None else [_PLAIN, _RLE, _RLE_DICTIONARY]
        head = [
            Field(1, thrift.I32, column.physical),
            Field(2, thrift.LIST, ThriftList(thrift.I32, list(encodings))),
            Field(3, thrift.LIST, ThriftList(thrift.BINARY, [column.name.encode()])),
            Field(4, thrift.I32, _ZSTD),
        ]
        self._entry_head = thrift.encode_struct(head)[:-1]
        self._dictionary_page = b""
        self._n_dictionary_bytes = 0
        if column.dictionary is not None:
            fields = [Field(1, thrift.I32, column.n_categories), Field(2, thrift.I32, _PLAIN)]
            header = thrift.field_header(7, 3, thrift.STRUCT) + thrift.encode_struct(fields)
            self._dictionary_page, self._n_dictionary_bytes = self._page(
                column.dictionary, _DICTIONARY_PAGE, header
            )

    def cut(self, start: int, stop: int, offset: int) -> Chunk:
        """The chunk of rows `start` to `stop` (0-based, the last one out), to be written at `offset` of the file."""
        pages = [self._dictionary_page] if self._dictionary_page else []
        n_plain = self._n_dictionary_bytes
        first_page = offset + len(self._dictionary_page)
        for first in range(start, max(stop, start + 1), _PAGE_ROWS):
            page, n_page = self._data_page(first, min(first + _PAGE_ROWS, stop))
            pages.append(page)
            n_plain += n_page
        n_bytes = sum(map(len, pages))
        n_nulls = self._n_nulls(start, stop)
        # Headers of fields are literal from here on: there may be a hundred thousand chunks.
        entry = bytearray(b"\x26" + integer(offset) + b"\x1c" + self._entry_head)
        entry += b"\x16" + integer(stop - start) + b"\x16" + integer(n_plain) + b"\x16" + integer(n_bytes)
        entry += b"\x26" + integer(first_page)
        last_field = 9
        if self._dictionary_page:
            entry += b"\x26" + integer(offset)
            last_field = 11
        entry += bytes([12 - last_field << 4 | thrift.STRUCT]) + b"\x36" + integer(n_nulls) + b"\0"
        entry += b"\0\0"
        return Chunk(pages, bytes(entry), n_plain, n_bytes)

    def _data_page(self, start: int, stop: int) -> tuple[bytes, int]:
        column = self._column
        first, last = start, stop
        if column.n_known_before is not None:
            first, last = int(column.n_known_before[start]), int(column.n_known_before[stop])
        if isinstance(column.values, memoryview):
            values = bytes(column.values[first * column.width : last * column.width])
        else:
            values = np.packbits(column.values[first:last], bitorder="little").tobytes()
        if column.dictionary is not None:
            n_groups = -(-(last - first) // 8)
            padding = bytes(n_groups * 8 - (last - first))
            values = bytes([_DICTIONARY_WIDTH]) + varint(n_groups << 1 | 1) + values + padding
        levels = self._levels(start, stop, last - first)
        body = len(levels).to_bytes(4, "little") + levels + values
        encoding = _PLAIN if column.dictionary is None else _RLE_DICTIONARY
        header = b"\x15" + integer(stop - start) + b"\x15" + integer(encoding) + _LEVELS_ENCODED
        return self._page(body, _DATA_PAGE, thrift.field_header(5, 3, thrift.STRUCT) + header)

    def _levels(self, start: int, stop: int, n_known: int) -> bytes:
        """Which rows have a value, as runs of one level or bit by bit."""
        n_rows = stop - start
        if self._column.is_known is None or n_known in (0, n_rows):
            return varint(n_rows << 1) + bytes([n_known > 0]) if n_rows else b""
        n_groups = -(-n_rows // 8)
        bits = np.packbits(self._column.is_known[start:stop], bitorder="little").tobytes()
        return varint(n_groups << 1 | 1) + bits

    def _page(self, body: bytes, kind: int, header: bytes) -> tuple[bytes, int]:
        """A page with its header, and its size before compression, the header included."""
        compressed = self._compressor.compress(body)
        sizes = b"\x15" + integer(len(body)) + b"\x15" + integer(len(compressed))
        text = b"\x15" + integer(kind) + sizes + header + b"\0"
        return text + compressed, len(text) + len(body)

    def _n_nulls(self, start: int, stop: int) -> int:
        before = self._column.n_known_before
        return 0 if before is None else stop - start - int(before[stop] - before[start])


def encode_columns(columns: Sequence[pl.Series]) -> list[EncodedColumn] | None:
    """All of the columns, or None where one is not handled."""
    encoded = [encode_column(column) for column in columns]
    known = [column for column in encoded if column is not None]
    return known if len(known) == len(encoded) else None


def row_ranges(sizes: Sequence[int]) -> Iterator[tuple[int, int]]:
    """First and last row of each row group, the last one out."""
    start = 0
    for size in sizes:
        yield start, start + size
        start += size
