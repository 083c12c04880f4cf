"""Short JSON lines for an index, many at once: lines of scalars only, checked and taken apart by one pattern.

The first lines are parsed whole and teach a layout: these keys in this order, each with a value of this kind. A line that
the layout's pattern matches from end to end is one strict JSON object with just these keys, each once, its numbers in
range, its wanted texts without escapes: nothing is left for a parser to decide. Every other line goes the slow way,
alone. What matches becomes a table; what a value means is checked elsewhere (`io/columns.py`).
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import pairwise
from typing import BinaryIO, NamedTuple

import numpy as np
import polars as pl

from gagar_cli.errors import InputError
from gagar_cli.io.jsonl import Line
from gagar_cli.io.markers import END_OF_DUMP, END_OF_GROUP

MIN_FILE_BYTES = 256 * 1024
"""Smaller files are parsed sooner than tables are made of them."""
_BLOCK_BYTES = 4 * 1024**2
_MIN_RUN_LINES = 64
_MAX_LAYOUTS = 4
_MAX_IDLE_BLOCKS = 2
_MAX_KEYS = 60
_BOM = b"\xef\xbb\xbf"
_PLAIN_KEY = re.compile(r"[A-Za-z0-9_.-]{1,80}")
_INTEGER = r"-?(?:0|[1-9][0-9]{0,17})"
_NUMBER = r"-?(?:0|[1-9][0-9]{0,15})(?:\.[0-9]{1,20})?(?:[eE][+-]?[0-9]{1,2})?"
_PLAIN_TEXT = r'[^"\\\x00-\x1f]*'
_ANY_TEXT = r'"(?:[^"\\\x00-\x1f]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*"'
_ANY = rf"(?:{_ANY_TEXT}|{_NUMBER}|true|false|null)"
_VALUES: dict[str, tuple[str, pl.DataType]] = {
    "text": (rf'(?:"({_PLAIN_TEXT})"|null)', pl.String()),
    "integer": (rf"(?:({_INTEGER})|null)", pl.Int64()),
    "number": (rf"(?:({_NUMBER})|null)", pl.Float64()),
    "flag": (r"(?:(true|false)|null)", pl.Boolean()),
    "null": ("null()", pl.Null()),
}
_USUAL_KINDS = {
    "group_id": "text", "instance_id": "text", "trajectory_id": "text", "step": "integer", "segment": "integer",
    "n_turns": "integer", "n_output_tokens": "integer", "reward": "number", "advantage": "number",
    "resolved": "flag", "passed": "flag", "infra_failure": "flag", "invalid": "flag", "mask_sample": "flag",
}  # fmt: skip
"""What a null in the first line stands for; and a reward of 1 may be 0.5 elsewhere."""
Parse = Callable[[Line], dict[str, object] | InputError]


class FlatTable(NamedTuple):
    """Neighbouring lines of one layout."""

    first_line: int
    keys: tuple[str, ...]
    """All keys of the lines, in their order."""
    table: pl.DataFrame
    """The wanted ones."""
    spans: pl.DataFrame
    """`offset` in the file and `length` of each line, without its end."""
    lines: Callable[[], Iterator[Line]]


class _Layout(NamedTuple):
    pattern: str
    keys: tuple[str, ...]
    columns: tuple[tuple[str, str], ...]
    """Name and kind of the wanted keys, in the order of the pattern's groups."""


class _Block(NamedTuple):
    """Whole lines of a file."""

    content: bytes
    offset: int
    number: int
    """Of its first line."""
    stops: "np.ndarray[tuple[int], np.dtype[np.int64]]"
    """Where each line's newline is."""

    def line(self, row: int) -> Line:
        start = int(self.stops[row - 1]) + 1 if row else 0
        text = self.content[start : int(self.stops[row])].rstrip(b"\r\n")
        return Line(self.number + row, self.offset + start, text, is_cut=False)


class FlatScan:
    """A scan of lines from the start of a file for as long as they are flat; `offset` and `n_lines` tell how far it came.

    `names` are the keys wanted; `parse` is the whole parse of one line.
    """

    def __init__(
        self, stream: BinaryIO, names: Iterable[str], parse: Parse, *, max_record_bytes: int
    ) -> None:
        self.offset = 0
        self.n_lines = 0
        self._descriptor = stream.fileno()
        self._names = frozenset(names)
        self._parse = parse
        self._max_record_bytes = min(max_record_bytes, _BLOCK_BYTES)
        self._layouts: list[_Layout] = []

    def __iter__(self) -> Iterator[FlatTable | tuple[Line, dict[str, object] | InputError]]:
        """Tables of lines, and single lines with their objects; stops where this is no gain."""
        n_idle = 0
        while n_idle < _MAX_IDLE_BLOCKS and (block := self._next_block()) is not None:
            if not self._layouts and not self._has_learned(block.line(0)):
                return
            self.offset = block.offset + len(block.content)
            self.n_lines = block.number + len(block.stops) - 1
            n_tables = 0
            for piece in self._pieces(block):
                n_tables += isinstance(piece, FlatTable)
                yield piece
            n_idle = 0 if n_tables else n_idle + 1

    def _next_block(self) -> _Block | None:
        content = os.pread(self._descriptor, _BLOCK_BYTES, self.offset)
        if self.offset == 0 and content.startswith(_BOM):
            self.offset = len(_BOM)
            content = content[len(_BOM) :]
        n_bytes = content.rfind(b"\n") + 1
        if not n_bytes:
            return None
        content = content[:n_bytes]
        stops = np.flatnonzero(np.frombuffer(content, dtype=np.uint8) == ord("\n"))
        return _Block(content, self.offset, self.n_lines + 1, stops)

    def _pieces(self, block: _Block) -> Iterator[FlatTable | tuple[Line, dict[str, object] | InputError]]:
        # The first line alone: readers settle by it what groups the records.
        start = 1 if block.number == 1 else 0
        if start:
            yield from self._alone(block, 0)
        if start == len(block.stops):
            return
        codes, tables = self._matched(block)
        borders = np.flatnonzero(np.diff(codes[start:])) + start + 1
        for first, stop in pairwise([start, *borders.tolist(), len(codes)]):
            code = int(codes[first])
            if code < 0 or stop - first < _MIN_RUN_LINES:
                for row in range(first, stop):
                    yield from self._alone(block, row)
            else:
                place = int(np.count_nonzero(codes[:first] == code))
                yield self._table(block, self._layouts[code], tables[code].slice(place, stop - first), first)

    def _alone(self, block: _Block, row: int) -> Iterator[tuple[Line, dict[str, object] | InputError]]:
        line = block.line(row)
        if not line.text.strip():
            return
        if len(line.text) > self._max_record_bytes:
            line = line._replace(text=b"", is_too_long=True)
        record = self._parse(line)
        if len(self._layouts) < _MAX_LAYOUTS and isinstance(record, dict):
            self._learn(line.text, record)
        yield line, record

    def _has_learned(self, line: Line) -> bool:
        record = self._parse(line) if line.text.strip() else {}
        return isinstance(record, dict) and self._learn(line.text, record)

    def _learn(self, text: bytes, record: Mapping[str, object]) -> bool:
        layout = _layout_of(record, self._names)
        if layout is None or layout in self._layouts or not re.fullmatch(layout.pattern[1:-2], text.decode()):
            return False
        self._layouts.append(layout)
        return True

    def _matched(
        self, block: _Block
    ) -> tuple["np.ndarray[tuple[int], np.dtype[np.int8]]", dict[int, pl.DataFrame]]:
        """The number of each line's layout, -1 for none, and the tables of the lines of each."""
        codes = np.full(len(block.stops), -1, dtype=np.int8)
        tables: dict[int, pl.DataFrame] = {}
        lines = _lines_of(block)
        if lines is None:
            return codes, tables
        rows = np.arange(len(codes))
        for code, layout in enumerate(self._layouts):
            groups = lines.str.extract_groups(layout.pattern).struct.unnest()
            is_match = groups[:, -1].is_not_null()
            tables[code] = _typed(groups.filter(is_match), layout)
            codes[rows[is_match.to_numpy()]] = code
            rows, lines = rows[~is_match.to_numpy()], lines.filter(~is_match)
            if not len(rows):
                break
        return codes, tables

    def _table(self, block: _Block, layout: _Layout, table: pl.DataFrame, first: int) -> FlatTable:
        stops = block.stops[first : first + table.height]
        starts = np.concatenate(([block.stops[first - 1] + 1 if first else 0], stops[:-1] + 1))
        spans = pl.DataFrame({"offset": starts + block.offset, "length": stops - starts})
        rows = range(first, first + table.height)
        return FlatTable(
            block.number + first, layout.keys, table, spans, lambda: (block.line(row) for row in rows)
        )


def _lines_of(block: _Block) -> pl.Series | None:
    """The lines with their newlines as text; None where the block is no UTF-8."""
    import pyarrow as pa

    offsets = np.concatenate(([0], block.stops + 1)).astype(np.int64)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(block.content)]
    lines = pl.Series(pa.Array.from_buffers(pa.large_binary(), len(block.stops), buffers))
    try:
        return lines.cast(pl.String)
    except pl.exceptions.ComputeError:
        return None


def _layout_of(record: Mapping[str, object], names: frozenset[str]) -> _Layout | None:
    if not 0 < len(record) <= _MAX_KEYS or not {END_OF_DUMP, END_OF_GROUP}.isdisjoint(record):
        return None
    members = []
    columns = []
    for key, value in record.items():
        kind = _kind_of(key, value)
        if kind is None or not _PLAIN_KEY.fullmatch(key):
            return None
        pattern = _ANY
        if key in names:
            columns.append((key, kind))
            pattern = _VALUES[kind][0]
        members.append(f'"{key.replace(".", "[.]")}": ?{pattern}')
    # The last group is there in every line that matches.
    return _Layout("^\\{" + ", ?".join(members) + "\\}()\n$", tuple(record), tuple(columns))


def _kind_of(key: str, value: object) -> str | None:
    usual = _USUAL_KINDS.get(key)
    if value is None:
        return usual or "null"
    if isinstance(value, bool):
        return "flag"
    if isinstance(value, float) or (isinstance(value, int) and usual == "number"):
        return "number"
    if isinstance(value, int):
        return "integer"
    return "text" if isinstance(value, str) else None


def _typed(groups: pl.DataFrame, layout: _Layout) -> pl.DataFrame:
    columns = []
    for position, (name, kind) in enumerate(layout.columns):
        found = groups[:, position].alias(name)
        if kind == "flag":
            columns.append((found == "true").alias(name))
        elif kind == "null":
            columns.append(pl.Series(name, [None] * len(found), dtype=pl.Null))
        else:
            columns.append(found.cast(_VALUES[kind][1]))
    return pl.DataFrame(columns)
