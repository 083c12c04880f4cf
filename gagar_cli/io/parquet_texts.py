"""A Parquet file that was written with categories, told to be one of texts.

The two are the same but for one note on types in the footer: a category is written as its code without a text being
made for each row, and whoever reads the file finds texts.
"""

from io import BytesIO
from typing import BinaryIO

import polars as pl

from gagar_cli.io.parquet_footer import MAGIC, read_footer
from gagar_cli.io.parquet_thrift import STRUCT, Field, ThriftList, decode_struct, encode_struct, get, put

CATEGORIES = pl.selectors.by_dtype(pl.Categorical, pl.Enum)
_METADATA = 5
"""The field of a footer that has notes, each a key and a value."""
_TYPES = b"ARROW:schema"


def as_texts(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame with texts in place of categories."""
    return frame.with_columns(CATEGORIES.cast(pl.String))


def tell_texts(stream: BinaryIO, schema: pl.Schema) -> None:
    """Change the footer of a complete file of that schema, so that its categories are texts."""
    empty = BytesIO()
    as_texts(pl.DataFrame(schema=schema)).write_parquet(empty)
    types = next(get(note, 2, bytes) for note in _notes(_fields(empty)[0]) if get(note, 1, bytes) == _TYPES)
    fields, start = _fields(stream)
    notes = [put(note, 2, types or b"") if get(note, 1, bytes) == _TYPES else note for note in _notes(fields)]
    footer = encode_struct(put(fields, _METADATA, ThriftList(STRUCT, list(notes))))
    stream.seek(start)
    stream.truncate()
    stream.write(footer + len(footer).to_bytes(4, "little") + MAGIC)


def _fields(stream: BinaryIO) -> tuple[list[Field], int]:
    """The fields of the footer, and where it starts."""
    text, start = read_footer(stream)
    return decode_struct(text)[0], start


def _notes(fields: list[Field]) -> list[list[Field]]:
    notes = get(fields, _METADATA, ThriftList)
    return [note for note in notes.values if isinstance(note, list)] if notes else []
