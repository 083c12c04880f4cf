"""A source: one file of a dump, scanned once for its index and read again by place.

What differs between JSON lines and Parquet ends here. `scan` goes through the file in order and yields what is bad as
a value, so that one bad record does not end the scan; `read` gives single records again, all their fields.
"""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from typing import BinaryIO, NamedTuple, Protocol, cast

import polars as pl

from gagar_cli.errors import InputError
from gagar_cli.io.jsonl import Line, has_byte_order_mark, parse_line, parse_object, read_lines
from gagar_cli.io.jsonl_copy import ADDED_NAMES, Span, read_spans
from gagar_cli.io.jsonl_flat import MIN_FILE_BYTES, FlatScan, FlatTable
from gagar_cli.io.jsonl_skim import CleanLines, skim_lines
from gagar_cli.io.jsonl_tables import Skimmed, SkimmedTable, tabled
from gagar_cli.io.records import SCALARS, Fields
from gagar_cli.io.streams import Opened, file_identity, open_regular, show_path


class Place(NamedTuple):
    """Where a record lies in its source: the 1-based line or row, and its bytes where it is a line."""

    line: int
    offset: int | None = None
    length: int | None = None


class Scanned(NamedTuple):
    """One record of a scan, or why there is none."""

    place: Place
    record: dict[str, object] | InputError


class ScannedTable(NamedTuple):
    """Neighbouring records of a scan as a table, for readers that check whole columns; `records` has them one by one."""

    first_line: int
    table: pl.DataFrame
    records: Callable[[], Iterator[Scanned]]
    spans: pl.DataFrame | None = None
    """`offset` and `length` of each record, where they are lines."""


class Source(Protocol):
    """One open file of a dump."""

    name: str
    """The path as the user gave it, safe to show."""
    notes: list[str]

    def scan(self, fields: Fields) -> Iterator[Scanned | ScannedTable]:
        """Every record in order, one by one or as tables, at least with the fields of the index."""

    def read(self, places: Sequence[Place], fields: Fields) -> Iterator[dict[str, object]]:
        """The records at the given places, in that order, at least with the fields of task and trajectory."""

    def read_whole(
        self, places: Sequence[Place], columns: Sequence[str] | None = None
    ) -> Iterator[dict[str, object]]:
        """The records at ascending places, with every field of the file, or at least the columns named, where it has them."""

    def read_texts(self, places: Sequence[Place]) -> Iterator[bytes]:
        """The records at the given places as they stand in the file; nothing where it is no text."""

    def close(self) -> None:
        """Give back files and temporary space."""


class JsonlSource:
    """JSON lines in a seekable file: a plain one, or the spool of a compressed one.

    A plain file is open only while it is read, because a dump may have more shards than a process may open files.
    """

    def __init__(
        self,
        path: str,
        opened: Opened,
        *,
        explode: str | None,
        max_record_bytes: int,
        skim: Sequence[str] | None = None,
        flat: Sequence[str] | None = None,
    ) -> None:
        self.name = show_path(path)
        self._flat = flat if explode is None else None
        self._skim = skim if explode is None else None
        self.notes: list[str] = []
        self._path = path
        self._identity = file_identity(opened.stream)
        self._kept: BinaryIO | None = opened.stream if opened.is_spool else None
        self._explode = explode
        self._max_record_bytes = max_record_bytes
        self._may_be_nan: Callable[[str], bool] | None = None
        self._clean = CleanLines(())
        if not opened.is_spool:
            opened.stream.close()

    @property
    def n_bytes(self) -> int:
        """The size of the file, expanded."""
        return self._identity[2]

    def scan(self, fields: Fields) -> Iterator[Scanned | ScannedTable]:
        """Every line that is not blank."""
        self._may_be_nan = nan_rule(fields.mapping.get("reward", "reward"), self._explode)
        with self._reading() as stream:
            yield from self._scan(stream, fields)
            self._refuse_change(stream)

    def _scan(self, stream: BinaryIO, fields: Fields) -> Iterator[Scanned | ScannedTable]:
        stream.seek(0)
        if has_byte_order_mark(stream):
            self.notes.append(f"{self.name}: a byte order mark at the start is ignored")
        limit = self._max_record_bytes
        offset = number = 0
        if self._flat is not None and os.fstat(stream.fileno()).st_size >= MIN_FILE_BYTES:
            names = fields.columns(*SCALARS, *filter(None, self._flat))
            scan = FlatScan(stream, names, self._parsed, max_record_bytes=limit)
            yield from self._scan_flat(scan, fields)
            offset, number = scan.offset, scan.n_lines
        if self._skim is not None:
            names = fields.columns(*SCALARS, *filter(None, self._skim))
            self._clean = CleanLines(ADDED_NAMES)
            lines = skim_lines(
                stream,
                names,
                self._parsed,
                max_record_bytes=limit,
                offset=offset,
                number=number,
                clean=self._clean,
            )
            yield from self._scan_skimmed(tabled(lines, names), fields)
            return
        stream.seek(offset)
        for line in read_lines(stream, max_record_bytes=limit, offset=offset, number=number):
            yield self._scanned(line)

    def _scan_flat(self, scan: FlatScan, fields: Fields) -> Iterator[Scanned | ScannedTable]:
        for piece in scan:
            if not isinstance(piece, FlatTable):
                line, parsed = piece
                yield Scanned(Place(line.number, line.offset, len(line.text)), parsed)
                continue
            fields.note_seen(dict.fromkeys(piece.keys))
            yield ScannedTable(
                piece.first_line, piece.table, partial(self._scanned_all, piece.lines), piece.spans
            )

    def _scan_skimmed(
        self, pieces: Iterator[Skimmed | SkimmedTable], fields: Fields
    ) -> Iterator[Scanned | ScannedTable]:
        for piece in pieces:
            if not isinstance(piece, SkimmedTable):
                yield _skimmed(piece)
                continue
            for _, record in piece.lines if fields.unseen else ():
                fields.note_seen(cast("dict[str, object]", record))
            first_line = piece.lines[0][0].number
            yield ScannedTable(first_line, piece.table, partial(map, _skimmed, piece.lines), piece.spans)

    def _scanned_all(self, lines: Callable[[], Iterator[Line]]) -> Iterator[Scanned]:
        return (self._scanned(line) for line in lines())

    def _scanned(self, line: Line) -> Scanned:
        return Scanned(Place(line.number, line.offset, len(line.text)), self._parsed(line))

    def read(self, places: Sequence[Place], fields: Fields) -> Iterator[dict[str, object]]:  # noqa: ARG002 - a line has all fields
        """The objects at the given places."""
        return self.read_whole(places)

    def read_whole(
        self,
        places: Sequence[Place],
        columns: Sequence[str] | None = None,  # noqa: ARG002 - a line is read whole
    ) -> Iterator[dict[str, object]]:
        """The objects at the given places."""
        for place, text in zip(places, self.read_texts(places), strict=True):
            try:
                yield parse_object(text, "", may_be_nan=self._may_be_nan)
            except InputError as error:
                raise self._changed(place) from error

    def read_texts(self, places: Sequence[Place]) -> Iterator[bytes]:
        """The lines at the given places."""
        with self._reading() as stream:
            for place in places:
                text = os.pread(stream.fileno(), place.length or 0, place.offset or 0)
                if len(text) != place.length:
                    raise self._changed(place)
                yield text
            self._refuse_change(stream)

    def read_blocks(self, places: Sequence[Place]) -> Iterator[tuple[bytearray, list[Span]]]:
        """The lines at ascending places, many at once: blocks that hold until the next one, and where lines lie there."""
        with self._reading() as stream:
            try:
                spans = ((place.offset or 0, place.length or 0) for place in places)
                yield from read_spans(stream, spans, self._clean.offsets)
            except EOFError as error:
                raise self._changed(places[0]) from error
            self._refuse_change(stream)

    def close(self) -> None:
        """Close what is open; a spool vanishes with it."""
        if self._kept is not None:
            self._kept.close()

    @contextmanager
    def _reading(self) -> Iterator[BinaryIO]:
        # Each reading has a stream of its own: groups are read from several threads.
        try:
            if self._kept is not None:
                yield self._kept
            else:
                with closing(self._reopened()) as stream:
                    yield stream
        except OSError as error:
            raise InputError(f"{self.name}: {(error.strerror or str(error)).lower()}") from error

    def _reopened(self) -> BinaryIO:
        stream = open_regular(self._path)
        try:
            self._refuse_change(stream)
        except InputError:
            stream.close()
            raise
        return stream

    def _refuse_change(self, stream: BinaryIO) -> None:
        """Where a line is told by its offset, another file's line may be there: looked for before and after reading."""
        if file_identity(stream) != self._identity:
            raise InputError(f"{self.name}: the file changed while it was read")

    def _parsed(self, line: Line) -> dict[str, object] | InputError:
        try:
            return parse_line(
                line, self.name, may_be_nan=self._may_be_nan, max_record_bytes=self._max_record_bytes
            )
        except InputError as error:
            return error

    def _changed(self, place: Place) -> InputError:
        return InputError(f"{self.name}:{place.line}: the file changed while it was read")


def _skimmed(line: Skimmed) -> Scanned:
    place, parsed = line
    return Scanned(Place(*place), parsed)


def nan_rule(reward_path: str, explode: str | None) -> Callable[[str], bool]:
    """Which paths of a record may hold a bare NaN: the reward, of an attempt too."""
    item = rf"(?:{re.escape(explode)}\[\d+\]\.)?" if explode else ""
    return re.compile(item + re.escape(reward_path)).fullmatch  # type: ignore[return-value]
