"""The compact Thrift encoding of Parquet's metadata, read and written.

A struct is a list of fields in their order, without names: what this program does not know is kept. The encoder writes
the one canonical form; bytes that come back different were not canonical and are better left alone. Damage is
`ThriftError`, whatever the bytes; nothing is allocated that the bytes do not hold. Not handled: sets, maps and uuids,
which Parquet's metadata does not have.
"""

import struct
from typing import NamedTuple, TypeVar

TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, STRUCT = 1, 2, 3, 4, 5, 6, 7, 8, 9, 12
MAX_DEPTH = 32
"""Parquet's own nesting ends at 6."""
_MAX_VARINT_BYTES = 10
_SHORT = [bytes([number]) for number in range(128)]
_DOUBLE = struct.Struct("<d")
_T = TypeVar("_T")


class ThriftError(ValueError):
    """Bytes that are not what they should be."""


class ThriftList(NamedTuple):
    """A list with the type of its elements."""

    kind: int
    values: "list[Value]"


class Field(NamedTuple):
    """One field of a struct."""

    id: int
    kind: int
    value: "Value"


Value = bool | int | float | bytes | ThriftList | list[Field]


def get(fields: list[Field], field_id: int, type_: type[_T]) -> _T | None:
    """The value of a field; None where it is missing or of another type."""
    value = next((field.value for field in fields if field.id == field_id), None)
    return value if type(value) is type_ else None


def put(fields: list[Field], field_id: int, value: Value) -> list[Field]:
    """The fields with another value in one that is there."""
    return [field._replace(value=value) if field.id == field_id else field for field in fields]


def decode_struct(
    text: bytes, position: int = 0, *, last_id: int = 0, depth: int = 0
) -> tuple[list[Field], int]:
    """The fields of the struct at a position, and the position after it; `last_id` is that of a field before.

    Raises:
        ThriftError: the bytes are no struct.
    """
    fields: list[Field] = []
    field_id, kind, position = read_field_header(text, position, last_id)
    while kind:
        value, position = decode_value(text, position, kind, depth=depth + 1)
        fields.append(Field(field_id, kind, value))
        field_id, kind, position = read_field_header(text, position, field_id)
    return fields, position


def read_field_header(text: bytes, position: int, last_id: int) -> tuple[int, int, int]:
    """The id and type of the next field of a struct, and where its value lies; type 0 where the struct ends.

    Raises:
        ThriftError: the bytes end, or a field comes out of its order: of two by one id, readers take different ones.
    """
    try:
        header = text[position]
        position += 1
        if header >> 4:
            return last_id + (header >> 4), header & 15, position
        if header == 0:
            return 0, 0, position
        field_id, position = read_varint(text, position)
    except IndexError as error:
        raise ThriftError("metadata ends too early") from error
    field_id = _unzigzag(field_id)
    if field_id <= last_id:
        raise ThriftError("metadata has fields out of order")
    return field_id, header & 15, position


def read_list_header(text: bytes, position: int) -> tuple[int, int, int]:
    """The element type and size of the list at a position, and where its elements start.

    Raises:
        ThriftError: the bytes are no list.
    """
    try:
        header = text[position]
        size = header >> 4
        position += 1
        if size == 15:
            size, position = read_varint(text, position)
    except IndexError as error:
        raise ThriftError("metadata ends too early") from error
    if size > len(text) - position:
        raise ThriftError("metadata has a list that is too long")
    return header & 15, size, position


def encode_struct(fields: list[Field], *, last_id: int = 0) -> bytes:
    """The canonical bytes of a struct; `decode_struct` is its inverse."""
    pieces = bytearray()
    for field_id, kind, value in fields:
        if kind in (TRUE, FALSE):
            kind = TRUE if value else FALSE
        delta = field_id - last_id
        pieces += bytes([delta << 4 | kind]) if 0 < delta < 16 else bytes([kind]) + varint(_zigzag(field_id))
        if kind not in (TRUE, FALSE):
            pieces += _encode(value, kind)
        last_id = field_id
    pieces.append(0)
    return bytes(pieces)


def list_header(kind: int, size: int) -> bytes:
    """What stands before the elements of a list."""
    return bytes([size << 4 | kind]) if size < 15 else bytes([0xF0 | kind]) + varint(size)


def field_header(field_id: int, last_id: int, kind: int) -> bytes:
    """What stands before the value of a field that comes less than 16 after the last one."""
    return bytes([field_id - last_id << 4 | kind])


def varint(number: int) -> bytes:
    """A number from 0, 7 bits a byte."""
    if number < 128:
        return _SHORT[number]
    pieces = bytearray()
    while number > 127:
        pieces.append(number & 127 | 128)
        number >>= 7
    pieces.append(number)
    return bytes(pieces)


def integer(number: int) -> bytes:
    """A signed number of 64 bits as the values of fields are written."""
    return varint(_zigzag(number))


def read_varint(text: bytes, position: int) -> tuple[int, int]:
    """A number from 0 and the position after it; IndexError where the bytes end.

    Raises:
        ThriftError: more bytes than 64 bits need.
    """
    number = shift = 0
    while True:
        byte = text[position]
        position += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, position
        shift += 7
        if shift >= 7 * _MAX_VARINT_BYTES:
            raise ThriftError("metadata has a number that is too long")


def decode_value(text: bytes, position: int, kind: int, *, depth: int = 0) -> tuple[Value, int]:
    """The value at a position, and the position after it.

    Raises:
        ThriftError: there is no such value.
    """
    if depth > MAX_DEPTH:
        raise ThriftError("metadata is nested too deep")
    if kind == STRUCT:
        return decode_struct(text, position, depth=depth)
    try:
        if kind in (I16, I32, I64):
            number, position = read_varint(text, position)
            return _unzigzag(number), position
        if kind == BINARY:
            size, position = read_varint(text, position)
            if size > len(text) - position:
                raise ThriftError("metadata ends too early")
            return text[position : position + size], position + size
        if kind == LIST:
            return _decode_list(text, position, depth)
        if kind in (TRUE, FALSE):
            return kind == TRUE, position
        if kind == BYTE:
            return text[position], position + 1
        if kind == DOUBLE:
            return float(_DOUBLE.unpack_from(text, position)[0]), position + 8
    except (IndexError, struct.error) as error:
        raise ThriftError("metadata ends too early") from error
    raise ThriftError(f"metadata has a value of type {kind}")


def _decode_list(text: bytes, position: int, depth: int) -> tuple[ThriftList, int]:
    kind, size, position = read_list_header(text, position)
    values: list[Value] = []
    for _ in range(size):
        # Flags in lists are bytes, in structs they are types.
        value, position = decode_value(
            text, position, BYTE if kind in (TRUE, FALSE) else kind, depth=depth + 1
        )
        values.append(value == TRUE if kind in (TRUE, FALSE) else value)
    return ThriftList(kind, values), position


def _encode(value: Value, kind: int) -> bytes:
    if isinstance(value, ThriftList):
        elements = (
            bytes([TRUE if each else FALSE]) if value.kind in (TRUE, FALSE) else _encode(each, value.kind)
            for each in value.values
        )
        return list_header(value.kind, len(value.values)) + b"".join(elements)
    if isinstance(value, list):
        return encode_struct(value)
    if isinstance(value, bytes):
        return varint(len(value)) + value
    if isinstance(value, float):
        return _DOUBLE.pack(value)
    return bytes([value]) if kind == BYTE else integer(value)


def _zigzag(number: int) -> int:
    return number << 1 if number >= 0 else (-number << 1) - 1


def _unzigzag(number: int) -> int:
    return number >> 1 ^ -(number & 1)
