"""Scalars of long JSON lines from their two ends, without a walk through the large values between.

A line's members at its start and before its closing brace are cut out by patterns that can only match where a valid
object has them: quotes inside texts are escaped, so counting from either end never loses which text is one. What is
cut out is parsed as strictly as a whole line. The middle is certain to hold none of the wanted names when no text
there has one in quotes, nor escapes that could spell one. Whatever is not certain (another layout than those of lines
that were parsed whole, a name in the middle, text that is no UTF-8, a short line) is None and wants the whole parse.

What this does not do: the middle is not parsed, so JSON that is broken only there goes unnoticed.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl

MIN_LINE_BYTES = 8192
"""Shorter lines are parsed whole sooner."""
_WINDOW_BYTES = 2048
_FIRST_WINDOW_BYTES = 512
"""Enough for most; a text that starts before it counts as a large value when the members after it fill less than half."""
_TEXT = rb'"[^"\\\x00-\x1f]*+(?:\\.[^"\\\x00-\x1f]*+)*+"'
_SCALAR = rb"(?:" + _TEXT + rb"|-?[0-9][0-9.eE+-]*+|true|false|null)"
_MEMBER = rb"[ \t\r]*+" + _TEXT + rb"[ \t\r]*+:[ \t\r]*+" + _SCALAR + rb"[ \t\r]*+"
_HEAD = re.compile(rb"[ \t\r]*+\{(?:" + _MEMBER + rb",)*+")
_TAIL = re.compile(rb"(?:," + _MEMBER + rb")++\}[ \t\r\n]*+\Z")
_KEYS = re.compile(rb"[{,][ \t\r]*+(" + _TEXT + rb")[ \t\r]*+:[ \t\r]*+" + _SCALAR)
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_.-]+")


class Edges(NamedTuple):
    """The two ends of a line of which every member is a scalar; positions in the block that holds the line."""

    head_stop: int
    """After the comma behind the last member of the head, or after the opening brace."""
    tail_start: int
    """The comma before the first member of the tail."""
    members: bytes
    """Both ends as the text of one object."""
    layout: tuple[bytes, ...]
    """The keys of both, as written, with an empty one between head and tail."""

    @property
    def middle(self) -> tuple[int, int]:
        """Where what lies between them starts and stops."""
        return self.head_stop, self.tail_start


def find_edges(block: bytes | bytearray, start: int, stop: int) -> Edges | None:
    """The ends of the line at `start` to `stop`; None where it is short or has no scalar before its closing brace."""
    if stop - start < MIN_LINE_BYTES:
        return None
    head = _HEAD.match(block, start, start + _WINDOW_BYTES)
    tail = _TAIL.search(block, stop - _FIRST_WINDOW_BYTES, stop)
    if tail is None or tail.start() < stop - _FIRST_WINDOW_BYTES // 2:
        tail = _TAIL.search(block, stop - _WINDOW_BYTES, stop)
    if head is None or tail is None:
        return None
    first, last = head[0], tail[0]
    keys = (*_KEYS.findall(first), b"", *_KEYS.findall(last))
    return Edges(head.end(), tail.start(), bytes(first + last[1:]), keys)


class NameFinder:
    """Tells which texts may have one of some names as a key."""

    def __init__(self, names: Iterable[str]) -> None:
        names = sorted(set(names))
        self.is_able = all(_PLAIN_NAME.fullmatch(name) for name in names)
        """Other names have several spellings, which are not looked for."""
        halves = {f"{ord(character) >> 4:x}" for name in names if self.is_able for character in name}
        self._needles = [f'"{name}"' for name in names]
        escape = rf"\\u00[{''.join(sorted(halves))}]"
        # One pass over all texts: two would take nearly twice the time.
        self._either = "|".join([*(re.escape(needle) for needle in self._needles), escape])
        # A backslash that is escaped itself starts no escape.
        self._escape = rf"(?:^|[^\\])(?:\\\\)*{escape}"

    def search(self, block: bytes | bytearray, spans: Sequence[tuple[int, int]]) -> list[bool]:
        """Whether each of some ascending spans of a block may hold a name, or is no UTF-8."""
        import pyarrow as pa

        if not spans:
            return []
        # One array of the spans and the gaps between them, over the block itself.
        offsets = np.asarray(spans, dtype=np.int64).reshape(-1)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(block)]
        pieces = pl.Series(pa.Array.from_buffers(pa.large_binary(), len(offsets) - 1, buffers))
        try:
            texts = pieces.gather_every(2).cast(pl.String)
        except pl.exceptions.ComputeError:  # not UTF-8, and it is not said where
            return [len(spans) == 1 or self.search(block, [span])[0] for span in spans]
        may_hold = texts.str.contains(self._either)
        rows = may_hold.arg_true()
        if len(rows):
            some = texts.gather(rows)
            held = some.str.contains_any(self._needles) | some.str.contains(self._escape)
            may_hold = may_hold.scatter(rows, held)
        return may_hold.to_list()


class Layouts:
    """Layouts of lines that were parsed whole; a line that is torn elsewhere rarely looks like one of them."""

    _MAX_KNOWN = 4096

    def __init__(self) -> None:
        self._known: set[tuple[bytes, ...]] = set()

    def __contains__(self, layout: tuple[bytes, ...]) -> bool:
        return layout in self._known

    def learn(self, edges: Edges, keys: Collection[str]) -> None:
        """Remember the layout of a line whose keys, from a whole parse, are these."""
        split = edges.layout.index(b"")
        head, tail = edges.layout[:split], edges.layout[split + 1 :]
        quoted = [f'"{key}"'.encode() for key in keys]
        is_same = quoted[: len(head)] == list(head) and quoted[len(quoted) - len(tail) :] == list(tail)
        if is_same and len(self._known) < self._MAX_KNOWN:
            self._known.add(edges.layout)
