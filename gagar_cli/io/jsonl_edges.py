"""Scalars of long JSON lines from their two ends, without a walk through the large values between.

A line's members at its start and before its closing brace are cut out by patterns that can only match where a valid
object has them: quotes inside texts are escaped, so counting from either end never loses which text is one. What is
cut out is parsed as strictly as a whole line. The middle is certain to hold none of the wanted names when no text
there has one in quotes, nor escapes that could spell one. Whatever is not certain (another layout than those of lines
that were parsed whole, a name in the middle, text that is no UTF-8, a short line) is None and wants the whole parse.

What this does not do: the middle is not parsed, so JSON that is broken only there goes unnoticed.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
import polars as pl

from gagar_cli.io.arrow_pieces import Pieces

MIN_LINE_BYTES = 8192
"""Shorter lines are parsed whole sooner."""
_WINDOW_BYTES = 2048
_FIRST_WINDOW_BYTES = 512
"""Enough for most; a text that starts before it counts as a large value when the members after it fill less than half."""
_TEXT = rb'"[^"\\\x00-\x1f]*+(?:\\.[^"\\\x00-\x1f]*+)*+"'
_SCALAR = rb"(?:" + _TEXT + rb"|-?[0-9][0-9.eE+-]*+|true|false|null)"
_MEMBER = rb"[ \t\r]*+" + _TEXT + rb"[ \t\r]*+:[ \t\r]*+" + _SCALAR + rb"[ \t\r]*+"
_HEAD = re.compile(rb"[ \t\r]*+\{(?:" + _MEMBER + rb",)*+")
# The first comma stands alone: a search looks for a literal start sooner than for a group.
_TAIL = re.compile(rb"," + _MEMBER + rb"(?:," + _MEMBER + rb")*+\}[ \t\r\n]*+\Z")
_ESCAPED_BACKSLASH = "\\\\"
_NEVER = pl.lit(value=False).alias("other")
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_.-]+")


class Edges(NamedTuple):
    """The two ends of a line of which every member is a scalar; positions in the block that holds the line."""

    head_stop: int
    """After the comma behind the last member of the head, or after the opening brace."""
    tail_start: int
    """The comma before the first member of the tail."""
    head: bytes
    tail: bytes

    @property
    def middle(self) -> tuple[int, int]:
        """Where what lies between them starts and stops."""
        return self.head_stop, self.tail_start

    @property
    def objects(self) -> bytes:
        """Both ends as texts of objects, with a comma between them."""
        return b"%b},{%b" % (self.head.removesuffix(b","), self.tail[1:])


def find_edges(block: bytes | bytearray, start: int, stop: int) -> Edges | None:
    """The ends of the line at `start` to `stop`; None where it is short or has no scalar before its closing brace."""
    if stop - start < MIN_LINE_BYTES:
        return None
    head = _HEAD.match(block, start, start + _WINDOW_BYTES)
    tail = _TAIL.search(block, stop - _FIRST_WINDOW_BYTES, stop)
    if tail is None or tail.start() < stop - _FIRST_WINDOW_BYTES // 2:
        tail = _TAIL.search(block, stop - _WINDOW_BYTES, stop)
    if head is None or tail is None or head.end() > tail.start():
        return None
    return Edges(head.end(), tail.start(), bytes(head[0]), bytes(tail[0]))


class NameFinder:
    """Tells which texts may have one of some names as a key, and apart from that one of some other names."""

    def __init__(self, names: Iterable[str], others: Iterable[str] = ()) -> None:
        first, second = sorted(set(names)), sorted(set(others))
        every = (*first, *second)
        self.is_able = all(_PLAIN_NAME.fullmatch(name) for name in every)
        """Other names have several spellings, which are not looked for."""
        halves = {f"{ord(character) >> 4:x}" for name in every if self.is_able for character in name}
        escape = rf"\\u00[{''.join(sorted(halves))}]"
        # One pass over all texts: two would take nearly twice the time.
        self._any = f"{_quoted(every)}|{escape}"
        text = pl.col("")
        # A backslash that is escaped itself starts no escape.
        single = text.str.replace_all(_ESCAPED_BACKSLASH, "", literal=True)
        self._held = [
            text.str.contains(_quoted(first)).alias("name"),
            text.str.contains(_quoted(second)).alias("other") if second else _NEVER,
            single.str.contains(escape).alias("escape"),
        ]

    def search(self, block: bytes | bytearray, spans: Sequence[tuple[int, int]]) -> list[bool]:
        """Whether each of some ascending spans of a block may hold a name, or is no UTF-8."""
        return [may_hold for may_hold, _ in self.search_both(block, spans)]

    def search_both(
        self, block: bytes | bytearray, spans: Sequence[tuple[int, int]]
    ) -> list[tuple[bool, bool]]:
        """The same of the names and of the others."""
        if not spans:
            return []
        # One column of the spans and the gaps between them, over the block itself.
        pieces = Pieces(block, np.array(list(chain.from_iterable(spans)), dtype=np.int64))
        try:
            texts = pl.Series(pieces).gather_every(2).cast(pl.String)
        except pl.exceptions.ComputeError:  # not UTF-8, and it is not said where
            if len(spans) == 1:
                return [(True, True)]
            return [found for span in spans for found in self.search_both(block, [span])]
        may_hold = texts.str.contains(self._any)
        if not may_hold.any():
            return [(False, False)] * len(spans)
        held = texts.filter(may_hold).to_frame().select_seq(self._held).iter_rows()
        both = ((is_name or is_escape, is_other or is_escape) for is_name, is_other, is_escape in held)
        return [next(both) if is_found else (False, False) for is_found in may_hold.to_list()]


def _quoted(names: Iterable[str]) -> str:
    return "|".join(re.escape(f'"{name}"') for name in names)


class Layouts:
    """Keys at the ends of lines that were parsed whole; a line that is torn elsewhere rarely looks like one of them."""

    _MAX_KNOWN = 4096

    def __init__(self) -> None:
        self._known: set[tuple[tuple[str, ...], tuple[str, ...]]] = set()

    def record(self, head: Mapping[str, object], tail: Mapping[str, object]) -> dict[str, object] | None:
        """The members of both ends; None where no line with these keys was learnt."""
        return {**head, **tail} if (tuple(head), tuple(tail)) in self._known else None

    def learn(self, head: Mapping[str, object], tail: Mapping[str, object], keys: Collection[str]) -> None:
        """Remember the ends of a line whose keys, from a whole parse, are these."""
        first, last, every = tuple(head), tuple(tail), tuple(keys)
        is_same = first == every[: len(first)] and last == every[len(every) - len(last) :]
        if is_same and len(self._known) < self._MAX_KNOWN:
            self._known.add((first, last))
