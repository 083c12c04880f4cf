"""Pages: tool output in bounded pieces, every untrusted line behind its coordinate.

`COORD│TEXT` marks text that somebody else wrote; a line without `│` is the tool's own. Long lines are cut on the page
(evidence is still checked against the whole line) and can be read on by column; long output is paged with the call
that continues it. Lines are made and escaped when they are shown: a page of a log of any size costs a page.
"""

import bisect
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, overload

from gagar_cli.core.text import counted, escape_untrusted

PAGE_LINES = 200
PAGE_CHARS = 24_000
LINE_CHARS = 500
PIECE_CHARS = 8_000
"""Of one long line, read on by column."""

GUTTER = "│"
_LOOKALIKES = str.maketrans({char: f"\\u{{{ord(char):x}}}" for char in "│┃╎╏┆┇┊┋║▏▕⎪⎥⎢⏐∣❘❙｜￨︱︲"})
"""In names, which stand before the gutter: neither it nor what could be taken for it."""


class Place(NamedTuple):
    """One untrusted line and where it stands."""

    coordinate: str
    text: str
    focus: int = 0
    """The character that must be among those shown."""


Line = Place | str
"""Untrusted behind its coordinate, or the tool's own words."""


class Part(NamedTuple):
    """Some lines that are made when they are needed."""

    n_lines: int
    make: Callable[[], Sequence[Line]]


class Slices(Sequence[Line]):
    """Lines of which only those are made that are asked for."""

    def __init__(self, n_lines: int, between: Callable[[int, int], Sequence[Line]]) -> None:
        """`between` makes the lines from a 0-based place up to another."""
        self._n_lines = n_lines
        self._between = between

    def __len__(self) -> int:
        return self._n_lines

    @overload
    def __getitem__(self, index: int) -> Line: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Line]: ...
    def __getitem__(self, index: int | slice) -> Line | Sequence[Line]:
        places = range(self._n_lines)[index]
        if isinstance(places, int):
            return self._between(places, places + 1)[0]
        return self._between(places.start, places.stop)[:: places.step]


class Lines(Sequence[str]):
    """What a tool could show, as lines; each is made and rendered when it is asked for."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self._parts = [part for part in parts if part.n_lines]
        self._ends = list(itertools.accumulate(part.n_lines for part in self._parts))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            shown = (render(line, start + n) for n, line in enumerate(self._raw(start, stop), 1))
            return list(shown) if step == 1 else [self[place] for place in range(start, stop, step)]
        place = range(len(self))[index]
        return render(self.raw(place), place + 1)

    def __iter__(self) -> Iterator[str]:
        lines = (line for part in self._parts for line in part.make())
        return (render(line, number) for number, line in enumerate(lines, 1))

    def raw(self, place: int) -> Line:
        """A line as it is, by its 0-based place."""
        return self._raw(place, place + 1)[0]

    def _raw(self, start: int, stop: int) -> list[Line]:
        lines: list[Line] = []
        first = bisect.bisect_right(self._ends, start)
        for part, end in zip(self._parts[first:], self._ends[first:], strict=True):
            begin = end - part.n_lines
            if begin >= stop:
                break
            lines += part.make()[max(0, start - begin) : stop - begin]
        return lines


def as_lines(lines: Sequence[Line]) -> Lines:
    """Lines that are there already."""
    return Lines([Part(len(lines), lambda: lines)])


def render(line: Line, number: int | None = None) -> str:
    """A line as the grader sees it; `number` is its 1-based place in what is paged."""
    return line if isinstance(line, str) else cite(*line, number=number)


def cite(coordinate: str, text: str, focus: int = 0, *, number: int | None = None) -> str:
    """One untrusted line behind its coordinate, harmless and of bounded length.

    Of a line that is too long, the part around `focus` is shown and how to read on.
    """
    start = max(0, focus - LINE_CHARS // 4) if focus > LINE_CHARS * 3 // 4 else 0
    return _piece(coordinate, text, (start, LINE_CHARS), number)


def show_inline(text: str) -> str:
    """A name or short text within a line of ours: harmless, and unable to pose as a gutter."""
    return text if _is_plain(text) else escape_untrusted(text, keep_newlines=False).translate(_LOOKALIKES)


def _is_plain(text: str) -> bool:
    """Printable ASCII without what could open a control token: nothing of it is ever escaped, and most lines are so."""
    return text.isascii() and text.isprintable() and "<" not in text and "[" not in text


def page(
    lines: Sequence[str], start: int, *, empty: str = "nothing to show", column: int | None = None
) -> str:
    """The lines from `start` (1-based) that fit on one page, with a footer that says how to go on.

    With a `column`: that one line from its so-many-th character on.
    """
    if not lines:
        return empty
    if start > len(lines):
        return f"error: start is {start}, there {'is' if len(lines) == 1 else 'are'} {counted(len(lines), 'line')}"
    if column is not None:
        line = lines.raw(start - 1) if isinstance(lines, Lines) else lines[start - 1]
        if isinstance(line, str) or column > len(line.text):
            return f"error: line {start} has no column {column}"
        return _piece(line.coordinate, line.text, (column - 1, PIECE_CHARS), start)
    shown: list[str] = []
    n_chars = 0
    for line in lines[start - 1 : start - 1 + PAGE_LINES]:
        n_chars += len(line) + 1
        if shown and n_chars > PAGE_CHARS:
            break
        shown.append(line[:PAGE_CHARS])
    end = start - 1 + len(shown)
    header = [f"lines {start}-{end} of {len(lines)}"] if start > 1 or end < len(lines) else []
    footer = [f"more: call again with start={end + 1}"] if end < len(lines) else []
    return "\n".join([*header, *shown, *footer])


def _piece(coordinate: str, text: str, window: tuple[int, int], number: int | None) -> str:
    """A line, or so many characters of it from a place on, with how much is missing on either side."""
    start, max_chars = window
    text = text.removesuffix("\r")
    before = f"[{start} characters before] …" if start else ""
    rest = len(text) - start - max_chars
    after = ""
    if rest > 0:
        how = f": start={number}, column={start + max_chars + 1}" if number else ""
        after = f"… [{rest} more characters{how}]"
    shown = text[start : start + max_chars]
    if not _is_plain(shown):
        shown = escape_untrusted(shown, keep_newlines=False)
    return f"{show_inline(coordinate)}{GUTTER}{before}{shown}{after}"


def head_and_tail(lines: Sequence[str], more: str) -> list[str]:
    """At most a page of lines: some from the start, most from the end, where failures are told; what is left out is said."""
    if not lines:
        return ["no output"]
    head = _fitting(lines[: PAGE_LINES // 4], PAGE_CHARS // 4)
    if head == len(lines):
        return list(lines)
    rest = lines[max(head, len(lines) - PAGE_LINES // 2) :]
    tail = _fitting(list(reversed(rest)), PAGE_CHARS // 2)
    n_left_out = len(lines) - head - tail
    middle = [f"({counted(n_left_out, 'line')} left out: {more})"] if n_left_out else []
    return [*lines[:head], *middle, *lines[len(lines) - tail :]]


def _fitting(lines: Sequence[str], max_chars: int) -> int:
    """How many lines fit, at least one."""
    n_chars = 0
    for number, line in enumerate(lines):
        n_chars += len(line) + 1
        if n_chars > max_chars and number:
            return number
    return len(lines)
