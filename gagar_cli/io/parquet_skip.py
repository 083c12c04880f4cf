"""Values of the compact Thrift encoding stepped over, not taken apart: for footers of very many column chunks."""

from typing import NamedTuple

from gagar_cli.io.parquet_thrift import (
    BINARY,
    BYTE,
    DOUBLE,
    FALSE,
    I16,
    I32,
    I64,
    LIST,
    MAX_DEPTH,
    STRUCT,
    TRUE,
    ThriftError,
    read_list_header,
    read_varint,
)


class Span(NamedTuple):
    """Where an element of a list lies."""

    start: int
    stop: int


def list_spans(text: bytes, position: int) -> tuple[list[Span], int]:
    """Where the elements of the list at a position lie, and the position after it.

    Raises:
        ThriftError: the bytes are no list.
    """
    kind, size, position = read_list_header(text, position)
    spans = []
    for _ in range(size):
        start, position = position, skip(text, position, kind, is_element=True)
        spans.append(Span(start, position))
    return spans, position


def skip(text: bytes, position: int, kind: int, depth: int = 0, *, is_element: bool = False) -> int:
    """The position after the value at a position.

    Raises:
        ThriftError: there is no such value.
    """
    try:
        if kind == STRUCT:
            if depth > MAX_DEPTH:
                raise ThriftError("metadata is nested too deep")
            while header := text[position]:
                position += 1
                if header < 16:
                    while text[position] > 127:
                        position += 1
                    position += 1
                kind = header & 15
                if kind in (I64, I32, I16):
                    while text[position] > 127:
                        position += 1
                    position += 1
                elif kind == BINARY:
                    size = text[position]
                    position += 1
                    if size > 127:
                        size, position = read_varint(text, position - 1)
                    position += size
                elif kind > FALSE:
                    position = skip(text, position, kind, depth + 1)
            position += 1
        elif kind in (I16, I32, I64):
            _, position = read_varint(text, position)
        elif kind == BINARY:
            size, position = read_varint(text, position)
            position += size
        elif kind == LIST:
            kind, size, position = read_list_header(text, position)
            if kind in (I64, I32, I16):
                for _ in range(size):
                    while text[position] > 127:
                        position += 1
                    position += 1
                return position
            for _ in range(size):
                position = skip(text, position, kind, depth + 1, is_element=True)
        elif kind in (TRUE, FALSE):
            position += is_element
        elif kind in (BYTE, DOUBLE):
            position += 1 if kind == BYTE else 8
        else:
            raise ThriftError(f"metadata has a value of type {kind}")
    except IndexError as error:
        raise ThriftError("metadata ends too early") from error
    if position > len(text):
        raise ThriftError("metadata ends too early")
    return position
