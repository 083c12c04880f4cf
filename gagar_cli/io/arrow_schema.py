"""The Arrow schema that writers keep in a Parquet file's metadata, with columns added, renamed or left out.

A reader that finds it at odds with the columns ignores all of it, and every type that Parquet cannot tell is lost. It
is a message of Arrow's IPC format (arrow.apache.org/docs/format/Columnar.html), put together anew by hand: pyarrow
takes more time and memory to import than all the rest of a copy.
"""

import base64
import binascii
from collections.abc import Iterator, Mapping

import polars as pl

from gagar_cli.io.flatbuffer import (
    Buffer,
    FlatBufferError,
    Old,
    Scalar,
    Table,
    Text,
    Thing,
    Vector,
    put_before,
)
from gagar_cli.io.parquet_schema import FooterRefusedError

METADATA_KEY = b"ARROW:schema"
_CONTINUATION = b"\xff\xff\xff\xff"
# Slots of the tables, by Arrow's Message.fbs and Schema.fbs.
_VERSION, _HEADER_TYPE, _HEADER, _MESSAGE_METADATA = 0, 1, 2, 4
_ENDIANNESS, _FIELDS, _SCHEMA_METADATA, _FEATURES = 0, 1, 2, 3
_NAME, _NULLABLE, _TYPE_TYPE, _TYPE, _DICTIONARY, _CHILDREN, _FIELD_METADATA = range(7)
_SCHEMA_HEADER = 1
_INT_64 = Table({0: Scalar("i", 64), 1: Scalar("B", 1)})
_DOUBLE = Table({0: Scalar("h", 2)})
_NOTHING = Table({})
_TYPES: Mapping[type[pl.DataType], tuple[int, Table]] = {
    pl.Int64: (2, _INT_64),
    pl.Float64: (3, _DOUBLE),
    pl.Boolean: (6, _NOTHING),
    pl.String: (20, _NOTHING),
}
"""The number and the table of each type that a column may have."""


def extended_schema(encoded: bytes, added: pl.DataFrame, names: Mapping[str, str | None]) -> bytes:
    """The encoded schema with the columns of `added` at its end.

    `names` gives every column of the file its new name, in their order; None leaves it out.

    Raises:
        FooterRefusedError: it is no schema, or one of other columns; or a new column has another type.
    """
    try:
        content = _content(base64.b64decode(encoded, validate=True))
        made = put_before(_message(Buffer(content), added, names), content)
    except (FlatBufferError, binascii.Error) as error:
        raise FooterRefusedError(f"the Arrow schema cannot be read: {error}") from error
    made += bytes(-len(made) % 8)
    return base64.b64encode(_CONTINUATION + len(made).to_bytes(4, "little") + made)


def _content(message: bytes) -> bytes:
    """The message without its length; old writers have no mark before it."""
    start = 8 if message.startswith(_CONTINUATION) else 4
    n_bytes = int.from_bytes(message[start - 4 : start], "little")
    if len(message) < start + n_bytes:
        raise FlatBufferError("it ends too early")
    return message[start : start + n_bytes]


def _message(old: Buffer, added: pl.DataFrame, names: Mapping[str, str | None]) -> Table:
    message = old.root
    schema = old.reference(message, _HEADER)
    if old.scalar(message, _HEADER_TYPE, "B", 0).value != _SCHEMA_HEADER or schema is None:
        raise FlatBufferError("it is another message")
    fields = old.reference(schema, _FIELDS)
    kept = [*_kept_fields(old, [] if fields is None else old.vector(fields), names)]
    new_schema = {
        _ENDIANNESS: old.scalar(schema, _ENDIANNESS, "h", 0),
        _FIELDS: Vector([*kept, *(_new_field(column) for column in added.get_columns())]),
        **_references(old, schema, _SCHEMA_METADATA, _FEATURES),
    }
    return Table(
        {
            _VERSION: old.scalar(message, _VERSION, "h", 0),
            _HEADER_TYPE: Scalar("B", _SCHEMA_HEADER),
            _HEADER: Table(new_schema),
            **_references(old, message, _MESSAGE_METADATA),
        }
    )


def _kept_fields(old: Buffer, fields: list[int], names: Mapping[str, str | None]) -> Iterator[Thing]:
    if len(fields) != len(names):
        raise FlatBufferError("it has other columns than the file")
    for field, (name, new_name) in zip(fields, names.items(), strict=True):
        position = old.reference(field, _NAME)
        # Told at the first that differs: many fields may refer to one long text.
        if (b"" if position is None else old.text(position)) != name.encode():
            raise FlatBufferError("it has other columns than the file")
        if new_name == name:
            yield Old(field)
        elif new_name is not None:
            others = _references(old, field, _TYPE, _DICTIONARY, _CHILDREN, _FIELD_METADATA)
            numbers = {slot: old.scalar(field, slot, "B", 0) for slot in (_NULLABLE, _TYPE_TYPE)}
            yield Table({_NAME: Text(new_name.encode()), **numbers, **others})


def _new_field(column: pl.Series) -> Table:
    if type(column.dtype) not in _TYPES:
        raise FlatBufferError(f"a new column is {column.dtype}")
    number, type_ = _TYPES[type(column.dtype)]
    return Table(
        {
            _NAME: Text(column.name.encode()),
            _NULLABLE: Scalar("B", 1),
            _TYPE_TYPE: Scalar("B", number),
            _TYPE: type_,
            _CHILDREN: Vector([]),
        }
    )


def _references(old: Buffer, table: int, *slots: int) -> dict[int, Thing]:
    found = {slot: old.reference(table, slot) for slot in slots}
    return {slot: Old(position) for slot, position in found.items() if position is not None}
