"""A scan of JSON lines for an index: long lines by their ends where that is certain, all others whole.

The file is read in blocks of whole lines. While the ends of one block are parsed, other threads search the middles of
the one before and read the one after.
"""

import errno
import os
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import BinaryIO, NamedTuple, cast

from gagar_cli.errors import InputError
from gagar_cli.io.jsonl import Line, parse_value
from gagar_cli.io.jsonl_edges import Edges, Layouts, NameFinder, find_edges
from gagar_cli.io.markers import END_OF_DUMP, END_OF_GROUP
from gagar_cli.io.streams import file_identity

_BLOCK_BYTES = 4 * 1024**2
_BOM = b"\xef\xbb\xbf"
_BLANKS = b" \t\r\n\v\f"
Parsed = dict[str, object] | InputError
_Ends = tuple[dict[str, object], dict[str, object]]


class LinePlace(NamedTuple):
    """Where a line that is not blank lies: its 1-based number, and its bytes without the end of line."""

    number: int
    offset: int
    length: int


class CleanLines:
    """Notes the lines that have none of some names, in any spelling."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names = frozenset(names)
        self.offsets = array("q")
        """Where they start, ascending."""


class _Block(NamedTuple):
    """Whole lines of a file."""

    content: bytearray
    """Taken for another block when the third after it is read."""
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
    clean: CleanLines | None = None,
) -> Iterator[tuple[LinePlace, Parsed]]:
    """Every line that is not blank: its object, or why there is none.

    An object has the members at the ends of its line, or all of them; `names` are never missing. `parse` is the whole
    parse of one line. `offset` bytes and `number` lines are left out. Lines that are certain to have none of the names of
    `clean` are noted there.

    Raises:
        OSError: the file cannot be read, or has other content at the end than at the start.
    """
    clean = CleanLines(()) if clean is None else clean
    # A mark in the middle makes a line something else than a record.
    finder = NameFinder((*names, END_OF_DUMP, END_OF_GROUP), clean.names)
    layouts = Layouts()
    identity = file_identity(stream)
    blocks = _read_blocks(stream.fileno(), max_record_bytes, offset)
    with ThreadPoolExecutor(2) as pool:
        reading = pool.submit(next, blocks, None)
        waiting: tuple[_Block, list[_Found], Future[list[tuple[bool, bool]]]] | None = None
        while block := reading.result():
            reading = pool.submit(next, blocks, None)
            found, number = _find_lines(block, number, max_record_bytes, is_able=finder.is_able)
            spans = [each.edges.middle for each in found if each.edges]
            search = pool.submit(finder.search_both, block.content, spans)
            if waiting is not None:
                yield from _settle(*waiting, layouts, parse, clean)
            waiting = (block, found, search)
        if waiting is not None:
            yield from _settle(*waiting, layouts, parse, clean)
    if file_identity(stream) != identity:
        raise OSError(errno.ESTALE, "the file changed while it was read")


def _settle(
    block: _Block,
    found: list[_Found],
    search: "Future[list[tuple[bool, bool]]]",
    layouts: Layouts,
    parse: Callable[[Line], Parsed],
    clean: CleanLines,
) -> Iterator[tuple[LinePlace, Parsed]]:
    ends = iter(_parse_ends([each.edges for each in found if each.edges]))
    may_hold = iter(search.result())
    for place, line, edges in found:
        if edges is None:
            yield place, parse(line)
            continue
        both = next(ends)
        is_name, is_other = next(may_hold)
        record = None if is_name or both is None else layouts.record(*both)
        if record is not None:
            if not is_other and clean.names.isdisjoint(record):
                clean.offsets.append(place.offset)
            yield place, record
            continue
        start = place.offset - block.offset
        parsed = parse(line._replace(text=bytes(block.content[start : start + place.length])))
        if both is not None and not isinstance(parsed, InputError):
            layouts.learn(*both, parsed)
        yield place, parsed


def _parse_ends(edges: Sequence[Edges]) -> list[_Ends | None]:
    """The members of both ends of each line; None where they are no JSON."""
    try:
        # All at once: each of the texts can only be an object, so that they cannot add up to anything else.
        made = parse_value(b"[%b]" % b",".join(each.objects for each in edges), "")
    except InputError:
        return [None] if len(edges) == 1 else [ends for each in edges for ends in _parse_ends([each])]
    objects = cast("list[dict[str, object]]", made)
    return list(zip(objects[::2], objects[1::2], strict=True))


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
    # Three buffers in turn: fresh ones would cost more than what is read into them.
    buffers = [bytearray(_BLOCK_BYTES) for _ in range(3)]
    turn = 0
    while n_read := _fill(descriptor, buffers[turn], offset):
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
            stop, is_ended = offset, False
            while not is_ended and (piece := os.pread(descriptor, _BLOCK_BYTES, stop)):
                # A block of nothing: whoever waits for one, or leaves, does not wait for a line without end.
                yield _Block(buffer, 0, offset, is_cut=False, is_too_long=False)
                newline = piece.find(b"\n")
                is_ended = newline >= 0
                stop += newline + 1 if is_ended else len(piece)
            yield _Block(buffer, n_read, offset, is_cut=not is_ended, is_too_long=True)
            offset = stop
        turn = (turn + 1) % len(buffers)


def _fill(descriptor: int, buffer: bytearray, offset: int) -> int:
    """Read until a buffer is full or the file ends; one call may give less, and no more than 2 GiB."""
    n_done = 0
    with memoryview(buffer) as view:
        while n_done < len(buffer) and (n_read := os.preadv(descriptor, [view[n_done:]], offset + n_done)):
            n_done += n_read
    return n_done
