"""JSON lines copied with members added, as bytes: nothing is decoded that the new names do not touch.

Lines come in blocks. One search over a block tells which lines may hold one of the names already; all others get the
new members before their closing brace and are written as they are. Where a name is among the scalars at the ends of a
long line, only the ends are put together anew (`io/splice.py`); elsewhere the whole line is. Lines of which a scan for
the index found already that they have none of the usual names are not searched again.
"""

import os
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import BinaryIO

from gagar_cli.io.jsonl_edges import Edges, NameFinder, find_edges
from gagar_cli.io.splice import encode_members, splice_ends, splice_members

_BLOCK_BYTES = 2 * 1024**2
"""Of lines that are searched: a search costs as much as one of some hundred kilobytes before it starts."""
_COPIED_BYTES = 512 * 1024
"""Of lines that are only copied: what was read is still in the processor's cache when it is written."""
_BLANKS = b" \t\r\n"
Piece = bytes | memoryview
Span = tuple[int, int]
ADDED_NAMES = frozenset(
    {
        "advantage", "advantage_base", "advantage_input", "reward_effective", "reward_equivalent", "quality_factor",
        "factor_shift", "tier", "rank", "grading", "lambda", "capped",
    }
)  # fmt: skip
"""What redistribution adds; with other names every line is searched."""


class CleanSpan(tuple[int, int]):
    """A line that is known to have none of `ADDED_NAMES`."""

    __slots__ = ()


def blocks_of(lines: Iterable[bytes]) -> Iterator[tuple[bytearray, list[Span]]]:
    """Lines that come one by one in blocks, and where each lies there: a splice of one costs little less than of many."""
    block, spans = bytearray(), list[Span]()
    for line in lines:
        spans.append((len(block), len(block) + len(line)))
        block += line + b"\n"
        if len(block) >= _COPIED_BYTES:
            yield block, spans
            block, spans = bytearray(), list[Span]()
    if spans:
        yield block, spans


class LineSplicer:
    """Adds members to lines; `renamed` gives old names to new ones, as for `splice_members`."""

    def __init__(self, names: Iterable[str], renamed: Mapping[str, str]) -> None:
        touched = {*names, *renamed, *renamed.values()}
        self._renamed = renamed
        self._finder = NameFinder(touched)
        self._are_usual = touched <= ADDED_NAMES
        self.replaced: set[str] = set()
        """Names whose old value was lost in some line."""

    def splice(
        self, block: bytes | bytearray, spans: Sequence[Span], members: Sequence[Mapping[str, object]]
    ) -> Iterator[Sequence[Piece]]:
        """The new lines, each in pieces that hold until the block is used again; the lines are valid JSON objects."""
        may_hold = self._search(block, spans)
        doubtful = [span for span, is_open in zip(spans, may_hold, strict=True) if is_open]
        edges = iter(self._find_clean_middles(block, doubtful))
        view = memoryview(block)
        for span, is_open, added in zip(spans, may_hold, members, strict=True):
            if not is_open:
                yield _append(view, span, added)
            elif ends := next(edges):
                yield self._splice_ends(view, span, ends, added)
            else:
                yield self._splice_whole(view, span, added)

    def _search(self, block: bytes | bytearray, spans: Sequence[Span]) -> list[bool]:
        """Whether each line may have one of the names."""
        if not self._finder.is_able:
            return [True] * len(spans)
        unknown = [span for span in spans if not (self._are_usual and isinstance(span, CleanSpan))]
        may_hold = dict(zip(unknown, self._finder.search(block, unknown), strict=True))
        return [may_hold.get(span, False) for span in spans]

    def _find_clean_middles(self, block: bytes | bytearray, spans: Sequence[Span]) -> list[Edges | None]:
        """The ends of lines of which the names are only there; None where they may be elsewhere."""
        edges = [find_edges(block, *span) for span in spans] if self._finder.is_able else [None] * len(spans)
        may_hold = iter(self._finder.search(block, [each.middle for each in edges if each]))
        return [None if each is None or next(may_hold) else each for each in edges]

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


def read_spans(
    stream: BinaryIO, spans: Iterable[tuple[int, int]], clean: Sequence[int] = ()
) -> Iterator[tuple[bytearray, list[Span]]]:
    """Blocks of a file with the given ascending lines (offset and length), and where each lies in its block.

    A block is used again for the next one. `clean` are the offsets, ascending, of lines that have none of `ADDED_NAMES`.

    Raises:
        EOFError: the file ends before a line does.
    """
    buffer = bytearray(_BLOCK_BYTES)
    waiting: list[Span] = []
    are_clean = True
    for offset, length in spans:
        place = bisect_left(clean, offset)
        is_clean = place < len(clean) and clean[place] == offset
        limit = _COPIED_BYTES if are_clean and is_clean else _BLOCK_BYTES
        if waiting and offset + length - waiting[0][0] > limit:
            yield buffer, _read_block(stream, buffer, waiting)
            waiting, are_clean = [], True
        if length > len(buffer):
            buffer = bytearray(length)
        span = (offset, offset + length)
        waiting.append(CleanSpan(span) if is_clean else span)
        are_clean &= is_clean
    if waiting:
        yield buffer, _read_block(stream, buffer, waiting)


def _read_block(stream: BinaryIO, buffer: bytearray, spans: Sequence[Span]) -> list[Span]:
    """Fill the buffer with lines of the file; where they lie in it, of the same kind as their spans."""
    first = spans[0][0]
    n_wanted = spans[-1][1] - first
    n_done = 0
    with memoryview(buffer) as view:
        while n_done < n_wanted and (
            n_read := os.preadv(stream.fileno(), [view[n_done:n_wanted]], first + n_done)
        ):
            n_done += n_read
    if n_done < n_wanted:
        raise EOFError
    moved = ((start - first, stop - first) for start, stop in spans)
    return [
        CleanSpan(there) if isinstance(span, CleanSpan) else there
        for span, there in zip(spans, moved, strict=True)
    ]


def _append(view: memoryview, span: Span, added: Mapping[str, object]) -> Sequence[Piece]:
    start, stop = span
    while view[stop - 1] in _BLANKS:
        stop -= 1
    stop -= 1
    while view[stop - 1] in _BLANKS:
        stop -= 1
    comma = "" if view[stop - 1] == ord("{") else ", "
    return (view[start:stop], f"{comma}{encode_members(added)}}}\n".encode())
