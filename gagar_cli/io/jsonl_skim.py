"""A scan of JSON lines for an index: long lines by their ends where that is certain, all others whole.

The file is read in blocks of whole lines. While the ends of one block are parsed, the middles of the one before are
searched in another thread.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import BinaryIO, NamedTuple

from gagar_cli.errors import InputError
from gagar_cli.io.jsonl import Line, parse_object
from gagar_cli.io.jsonl_edges import Edges, Layouts, NameFinder, find_edges

_BLOCK_BYTES = 8 * 1024**2
_BOM = b"\xef\xbb\xbf"
_BLANKS = b" \t\r\n\v\f"
Parsed = dict[str, object] | InputError


class LinePlace(NamedTuple):
    """Where a line that is not blank lies: its 1-based number, and its bytes without the end of line."""

    number: int
    offset: int
    length: int


class _Block(NamedTuple):
    """Whole lines of a file."""

    content: bytearray
    """Taken for another block when the next but one is read."""
    n_bytes: int
    offset: int
    """Of its first byte in the file."""
    is_cut: bool
    """The file ended before a newline."""
    is_too_long: bool
    """One line over the limit, whose content was skipped."""


class _Found(NamedTuple):
    place: LinePlace
    line: Line
    """Its text is empty where there are edges."""
    edges: Edges | None


def skim_lines(
    stream: BinaryIO,
    names: Iterable[str],
    parse: Callable[[Line], Parsed],
    *,
    max_record_bytes: int,
    offset: int = 0,
    number: int = 0,
) -> Iterator[tuple[LinePlace, Parsed]]:
    """Every line that is not blank: its object, or why there is none.

    An object has the members at the ends of its line, or all of them; `names` are never missing. `parse` is the whole
    parse of one line. `offset` bytes and `number` lines are left out.
    """
    finder = NameFinder(names)
    layouts = Layouts()
    with ThreadPoolExecutor(1) as pool:
        waiting: tuple[_Block, list[_Found], Future[list[bool]]] | None = None
        for block in _read_blocks(stream.fileno(), max_record_bytes, offset):
            found, number = _find_lines(block, number, max_record_bytes, is_able=finder.is_able)
            spans = [each.edges.middle for each in found if each.edges]
            search = pool.submit(finder.search, block.content, spans)
            if waiting is not None:
                yield from _settle(*waiting, layouts, parse)
            waiting = (block, found, search)
        if waiting is not None:
            yield from _settle(*waiting, layouts, parse)


def _settle(
    block: _Block,
    found: list[_Found],
    search: "Future[list[bool]]",
    layouts: Layouts,
    parse: Callable[[Line], Parsed],
) -> Iterator[tuple[LinePlace, Parsed]]:
    n_edged = 0
    may_hold = search.result()
    for place, line, edges in found:
        if edges is None:
            yield place, parse(line)
            continue
        is_open = may_hold[n_edged]
        n_edged += 1
        record = None if is_open or edges.layout not in layouts else _members(edges)
        if record is not None:
            yield place, record
            continue
        start = place.offset - block.offset
        parsed = parse(line._replace(text=bytes(block.content[start : start + place.length])))
        if not isinstance(parsed, InputError):
            layouts.learn(edges, parsed)
        yield place, parsed


def _members(edges: Edges) -> dict[str, object] | None:
    try:
        return parse_object(edges.members, "")
    except InputError:
        return None


def _find_lines(
    block: _Block, number: int, max_record_bytes: int, *, is_able: bool
) -> tuple[list[_Found], int]:
    """The lines of a block that are not blank, and the number of the last line; `number` is that before it."""
    found = []
    content = block.content
    view = memoryview(content)
    start = len(_BOM) if block.offset == 0 and content.startswith(_BOM) else 0
    while start < block.n_bytes:
        number += 1
        newline = content.find(b"\n", start, block.n_bytes)
        is_cut = newline < 0 and block.is_cut
        next_start = block.n_bytes if newline < 0 else newline + 1
        stop = next_start
        while stop > start and content[stop - 1] in b"\r\n":
            stop -= 1
        offset = block.offset + start
        if block.is_too_long or stop - start > max_record_bytes:
            line = Line(number, offset, b"", is_cut, is_too_long=True)
            found.append(_Found(LinePlace(number, offset, 0), line, None))
        elif stop > start and not (content[start] in _BLANKS and content[start:stop].isspace()):
            edges = find_edges(content, start, stop) if is_able and not is_cut else None
            line = Line(number, offset, b"" if edges else bytes(view[start:stop]), is_cut)
            found.append(_Found(LinePlace(number, offset, stop - start), line, edges))
        start = next_start
    return found, number


def _read_blocks(descriptor: int, max_record_bytes: int, offset: int) -> Iterator[_Block]:
    # Two buffers in turn: fresh ones would cost more than what is read into them.
    buffers = [bytearray(_BLOCK_BYTES), bytearray(_BLOCK_BYTES)]
    turn = 0
    while n_read := os.preadv(descriptor, [buffers[turn]], offset):
        buffer = buffers[turn]
        n_lines = buffer.rfind(b"\n", 0, n_read) + 1
        is_last = n_read < len(buffer)
        if n_lines or is_last:
            n_bytes = n_lines or n_read
            yield _Block(buffer, n_bytes, offset, is_cut=not n_lines, is_too_long=False)
            offset += n_bytes
        elif len(buffer) < max_record_bytes + 2:
            buffers[turn] = bytearray(min(2 * len(buffer), max_record_bytes + 2))
            continue
        else:
            n_bytes, is_ended = _length_of_line(descriptor, offset)
            yield _Block(buffer, n_read, offset, is_cut=not is_ended, is_too_long=True)
            offset += n_bytes
        turn = 1 - turn


def _length_of_line(descriptor: int, offset: int) -> tuple[int, bool]:
    """The bytes of the line at an offset, and whether it ends in a newline."""
    n_bytes = 0
    while piece := os.pread(descriptor, 1024**2, offset + n_bytes):
        newline = piece.find(b"\n")
        if newline >= 0:
            return n_bytes + newline + 1, True
        n_bytes += len(piece)
    return n_bytes, False
