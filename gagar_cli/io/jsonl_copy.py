"""JSON lines copied with members added, as bytes: nothing is decoded that the new names do not touch.

Lines come in blocks. One search over a block tells which lines may hold one of the names already; all others get the
new members before their closing brace and are written as they are. Where a name is among the scalars at the ends of a
long line, only the ends are put together anew (`io/splice.py`); elsewhere the whole line is.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import BinaryIO

from gagar_cli.io.jsonl_edges import Edges, NameFinder, find_edges
from gagar_cli.io.splice import encode_members, splice_ends, splice_members

_BLOCK_BYTES = 8 * 1024**2
_BLANKS = b" \t\r\n"
Piece = bytes | memoryview
Span = tuple[int, int]


class LineSplicer:
    """Adds members to lines; `renamed` gives old names to new ones, as for `splice_members`."""

    def __init__(self, names: Iterable[str], renamed: Mapping[str, str]) -> None:
        touched = {*names, *renamed, *renamed.values()}
        self._renamed = renamed
        self._finder = NameFinder(touched)
        self._keys = {f'"{name}"'.encode() for name in touched}
        self.replaced: set[str] = set()
        """Names whose old value was lost in some line."""

    def splice(
        self, block: bytes | bytearray, spans: Sequence[Span], members: Sequence[Mapping[str, object]]
    ) -> Iterator[Sequence[Piece]]:
        """The new lines, each in pieces that hold until the block is used again; the lines are valid JSON objects."""
        edges = [find_edges(block, start, stop) for start, stop in spans]
        parts = [each.middle if each else span for each, span in zip(edges, spans, strict=True)]
        may_hold = self._finder.search(block, parts) if self._finder.is_able else [True] * len(spans)
        view = memoryview(block)
        for span, ends, is_open, added in zip(spans, edges, may_hold, members, strict=True):
            if is_open:
                yield self._splice_whole(view, span, added)
            elif ends is None or not any(key in self._keys or b"\\" in key for key in ends.layout):
                yield _append(view, span, added)
            else:
                yield self._splice_ends(view, span, ends, added)

    def _splice_whole(self, view: memoryview, span: Span, added: Mapping[str, object]) -> Sequence[Piece]:
        spliced = splice_members(str(view[slice(*span)], "utf-8"), added, self._renamed)
        self.replaced |= spliced.replaced
        return (spliced.text.encode(), b"\n")

    def _splice_ends(
        self, view: memoryview, span: Span, ends: Edges, added: Mapping[str, object]
    ) -> Sequence[Piece]:
        start, stop = ends.middle
        head, tail = str(view[span[0] : start], "utf-8"), str(view[stop : span[1]], "utf-8")
        new_head, new_tail, replaced = splice_ends(head, tail, added, self._renamed)
        self.replaced |= replaced
        return (new_head.encode(), view[start:stop], new_tail.encode() + b"\n")


def read_spans(stream: BinaryIO, spans: Iterable[tuple[int, int]]) -> Iterator[tuple[bytearray, list[Span]]]:
    """Blocks of a file with the given ascending lines (offset and length), and where each lies in its block.

    A block is used again for the next one.

    Raises:
        EOFError: the file ends before a line does.
    """
    buffer = bytearray(_BLOCK_BYTES)
    waiting: list[tuple[int, int]] = []
    for offset, length in spans:
        if waiting and offset + length - waiting[0][0] > len(buffer):
            yield _read_block(stream, buffer, waiting)
            waiting = []
        if length > len(buffer):
            buffer = bytearray(length)
        waiting.append((offset, length))
    if waiting:
        yield _read_block(stream, buffer, waiting)


def _read_block(
    stream: BinaryIO, buffer: bytearray, spans: Sequence[tuple[int, int]]
) -> tuple[bytearray, list[Span]]:
    first = spans[0][0]
    n_wanted = spans[-1][0] + spans[-1][1] - first
    n_done = 0
    with memoryview(buffer) as view:
        while n_done < n_wanted and (
            n_read := os.preadv(stream.fileno(), [view[n_done:n_wanted]], first + n_done)
        ):
            n_done += n_read
    if n_done < n_wanted:
        raise EOFError
    return buffer, [(offset - first, offset - first + length) for offset, length in spans]


def _append(view: memoryview, span: Span, added: Mapping[str, object]) -> Sequence[Piece]:
    start, stop = span
    while view[stop - 1] in _BLANKS:
        stop -= 1
    stop -= 1
    while view[stop - 1] in _BLANKS:
        stop -= 1
    comma = "" if view[stop - 1] == ord("{") else ", "
    return (view[start:stop], f"{comma}{encode_members(added)}}}\n".encode())
