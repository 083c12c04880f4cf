"""A source: one file of a dump, scanned once for its index and read again by place.

What differs between JSON lines and Parquet ends here. `scan` goes through the file in order and yields what is bad as
a value, so that one bad record does not end the scan; `read` gives single records again, all their fields.
"""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from typing import BinaryIO, NamedTuple, Protocol

from gagar_cli.errors import InputError
from gagar_cli.io.jsonl import has_byte_order_mark, parse_line, parse_object, read_lines
from gagar_cli.io.records import Fields


class Place(NamedTuple):
    """Where a record lies in its source: the 1-based line or row, and its bytes where it is a line."""

    line: int
    offset: int | None = None
    length: int | None = None


class Scanned(NamedTuple):
    """One record of a scan, or why there is none."""

    place: Place
    record: dict[str, object] | InputError


class Source(Protocol):
    """One open file of a dump."""

    name: str
    """The path as the user gave it, safe to show."""
    notes: list[str]

    def scan(self, fields: Fields) -> Iterator[Scanned]:
        """Every record in order, at least with the fields of the index."""

    def read(self, places: Sequence[Place], fields: Fields) -> Iterator[dict[str, object]]:
        """The records at the given places, in that order, at least with the fields of task and trajectory."""

    def read_whole(self, places: Sequence[Place]) -> Iterator[dict[str, object]]:
        """The records at ascending places, with every field of the file."""

    def read_texts(self, places: Sequence[Place]) -> Iterator[str]:
        """The records at the given places as they stand in the file; nothing where it is no text."""

    def close(self) -> None:
        """Give back files and temporary space."""


class JsonlSource:
    """JSON lines in a seekable file: a plain one, or the spool of a compressed one."""

    def __init__(self, name: str, stream: BinaryIO, *, explode: str | None, max_record_bytes: int) -> None:
        self.name = name
        self.notes: list[str] = []
        self._stream = stream
        self._explode = explode
        self._max_record_bytes = max_record_bytes
        self._may_be_nan: Callable[[str], bool] | None = None

    def scan(self, fields: Fields) -> Iterator[Scanned]:
        """Every line that is not blank."""
        self._may_be_nan = _nan_rule(fields.mapping.get("reward", "reward"), self._explode)
        self._stream.seek(0)
        if has_byte_order_mark(self._stream):
            self.notes.append(f"{self.name}: a byte order mark at the start is ignored")
        try:
            for line in read_lines(self._stream, max_record_bytes=self._max_record_bytes):
                place = Place(line.number, line.offset, len(line.text))
                try:
                    yield Scanned(
                        place,
                        parse_line(
                            line,
                            self.name,
                            may_be_nan=self._may_be_nan,
                            max_record_bytes=self._max_record_bytes,
                        ),
                    )
                except InputError as error:
                    yield Scanned(place, error)
        except OSError as error:
            raise InputError(f"{self.name}: {(error.strerror or str(error)).lower()}") from error

    def read(self, places: Sequence[Place], fields: Fields) -> Iterator[dict[str, object]]:  # noqa: ARG002 - a line has all fields
        """The objects at the given places."""
        return self.read_whole(places)

    def read_whole(self, places: Sequence[Place]) -> Iterator[dict[str, object]]:
        """The objects at the given places."""
        for place in places:
            try:
                yield parse_object(self._text(place), "", may_be_nan=self._may_be_nan)
            except InputError as error:
                raise InputError(f"{self.name}:{place.line}: the file changed while it was read") from error

    def read_texts(self, places: Sequence[Place]) -> Iterator[str]:
        """The lines at the given places."""
        for place in places:
            try:
                yield self._text(place).decode()
            except UnicodeDecodeError as error:
                raise InputError(f"{self.name}:{place.line}: the file changed while it was read") from error

    def _text(self, place: Place) -> bytes:
        return os.pread(self._stream.fileno(), place.length or 0, place.offset or 0)

    def close(self) -> None:
        """Close the file; a spool vanishes with it."""
        self._stream.close()


def _nan_rule(reward_path: str, explode: str | None) -> Callable[[str], bool]:
    item = rf"(?:{re.escape(explode)}\[\d+\]\.)?" if explode else ""
    return re.compile(item + re.escape(reward_path)).fullmatch  # type: ignore[return-value]
