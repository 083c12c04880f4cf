"""The ends of files that grow: what was added since the last look, and the same records again by place.

JSON lines are read as they are appended; a line counts once its newline is there. A file of lines that becomes shorter
or another one is an error: what was read from it is gone. Native lines become canonical records by their format, look
by look; every other file is read once, as a whole (`io/followed_files.py` says when).
"""

import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from gagar_cli.errors import InputError
from gagar_cli.io.formats.files import NativeFile, Numbered
from gagar_cli.io.jsonl import Line, parse_line, parse_object
from gagar_cli.io.markers import is_marker
from gagar_cli.io.native import NativeSource
from gagar_cli.io.problems import kind_of_problem
from gagar_cli.io.records import Fields
from gagar_cli.io.scan import ReadOptions
from gagar_cli.io.sources import Place, Scanned, Source, nan_rule
from gagar_cli.io.streams import open_input, show_path

MAX_BYTES_A_LOOK = 16 * 1024**2
"""Of one file, so that the first groups need not wait for the whole of a long dump to be read."""
_BOM = b"\xef\xbb\xbf"
_KEPT_BYTES = 64
"""Of what was read last: a file that was cut and grew again has others there."""


class Tail(Protocol):
    """One file that may grow."""

    name: str
    run: str | None
    """The directory of the run that the file belongs to, where it is a native one."""
    order: tuple[Any, ...]
    """Its place among the files of a whole dump."""

    @property
    def has_more(self) -> bool:
        """Whether the last look left something that is there already."""

    @property
    def notes(self) -> Sequence[str]:
        """What is to be told about the file."""

    def look(self, *, is_last: bool) -> Iterator[Scanned]:
        """The records that were added; with `is_last` also what has no newline, as nothing comes after it."""

    def read(self, places: Sequence[Place]) -> Iterator[dict[str, object]]:
        """The records at the given places."""

    def close(self) -> None:
        """Give back what is open."""


class GrowingFile:
    """JSON lines that are appended to."""

    run: str | None = None
    order: tuple[Any, ...] = ()
    notes: Sequence[str] = ()

    def __init__(
        self, path: str, options: ReadOptions, *, name: str | None = None, is_native: bool = False
    ) -> None:
        """`name`: what messages call it; in native lines any value may be a bare NaN."""
        self.name = show_path(path) if name is None else name
        self.has_more = False
        self._path = path
        self._max_record_bytes = options.max_record_bytes
        self._may_be_nan: Callable[[str], bool] = (
            (lambda _: True)
            if is_native
            else nan_rule(options.fields.get("reward", "reward"), options.explode)
        )
        self._offset = 0
        self._n_lines = 0
        self._inode: int | None = None
        self._last_read = b""
        """The bytes before the offset."""
        self._checksums: dict[int, int] = {}
        """Of each record, by its offset."""

    def look(self, *, is_last: bool) -> Iterator[Scanned]:
        """The lines that were completed since the last look."""
        try:
            found = Path(self._path).stat()
        except FileNotFoundError:
            if self._inode is not None:
                raise self._changed() from None
            return
        except OSError as error:
            raise InputError(f"{self.name}: {(error.strerror or str(error)).lower()}") from error
        if self._inode not in (None, found.st_ino) or found.st_size < self._offset:
            raise self._changed()
        self._inode = found.st_ino
        self.has_more = False
        if found.st_size > self._offset:
            yield from self._new_lines(is_last=is_last)

    def read(self, places: Sequence[Place]) -> Iterator[dict[str, object]]:
        """The objects at the given places."""
        with open_input(self._path).stream as stream:
            for place in places:
                text = os.pread(stream.fileno(), place.length or 0, place.offset or 0)
                if zlib.crc32(text) != self._checksums[place.offset or 0]:
                    raise self._changed()
                yield parse_object(text, "", may_be_nan=self._may_be_nan)

    def close(self) -> None:
        """Nothing is kept open."""

    def _new_lines(self, *, is_last: bool) -> Iterator[Scanned]:
        limit = self._max_record_bytes + 2
        stop = self._offset + MAX_BYTES_A_LOOK
        with open_input(self._path).stream as stream:
            n_kept = len(self._last_read)
            if os.pread(stream.fileno(), n_kept, self._offset - n_kept) != self._last_read:
                raise self._changed()
            stream.seek(self._offset)
            while text := stream.readline(limit):
                is_whole = text.endswith(b"\n")
                if not is_whole and len(text) < limit and not is_last:
                    return
                n_bytes = len(text)
                is_too_long = len(text.rstrip(b"\r\n")) > self._max_record_bytes
                while is_too_long and not is_whole and (rest := stream.readline(1024**2)):
                    n_bytes += len(rest)
                    is_whole = rest.endswith(b"\n")
                if not is_whole and not is_last:
                    return
                self._n_lines += 1
                start = self._offset
                if start == 0 and text.startswith(_BOM):
                    start, text = len(_BOM), text[len(_BOM) :]
                self._offset += n_bytes
                self._last_read = b"" if is_too_long else text[-_KEPT_BYTES:]
                body = text.rstrip(b"\r\n")
                if body.strip():
                    kept = b"" if is_too_long else body
                    line = Line(self._n_lines, start, kept, not is_whole, is_too_long)
                    self._checksums[start] = zlib.crc32(kept)
                    yield Scanned(Place(line.number, start, len(kept)), self._parsed(line))
                if self._offset >= stop:
                    self.has_more = True
                    return

    def _parsed(self, line: Line) -> dict[str, object] | InputError:
        try:
            return parse_line(
                line, self.name, may_be_nan=self._may_be_nan, max_record_bytes=self._max_record_bytes
            )
        except InputError as error:
            return error

    def _changed(self) -> InputError:
        return InputError(
            f"{self.name}: was replaced or cut while it was followed",
            "a followed file may only be appended to; shards go into a folder, each under a name of its own",
        )


class LineFeed(NativeFile):
    """Native lines as they come in: its values are those of one look, without marks."""

    def __init__(self, path: str, name: str) -> None:
        self.path = path
        self.name = name
        self.spooled = None
        self.marks: list[Scanned] = []
        self.failure: InputError | None = None
        """Why the lines ended before their time; no format may take it for a bad record."""
        self._lines: Iterator[Scanned] = iter(())

    def fill(self, lines: Iterator[Scanned]) -> None:
        """Take the lines of one look."""
        self._lines = lines
        self.marks = []

    def values(self) -> Iterator[Numbered]:
        """The lines that came in; marks are kept aside."""
        try:
            for scanned in self._lines:
                if isinstance(scanned.record, dict) and is_marker(scanned.record):
                    self.marks.append(scanned)
                else:
                    yield Numbered(scanned.place.line, scanned.record)
        except InputError as error:
            self.failure = error

    def document(self) -> Any:
        """The one line that came in.

        Raises:
            InputError: it is none or several, or cannot be read.
        """
        found = [each.record for each in self.values()]
        if len(found) != 1:
            raise InputError(f"{self.name}: {len(found):,} lines, expected one JSON document")
        if isinstance(found[0], InputError):
            raise found[0]
        return found[0]

    def close(self) -> None:
        """Nothing is kept open."""


class NativeLines:
    """Native lines that are appended to, read as canonical records."""

    order: tuple[Any, ...] = ()

    def __init__(self, lines: GrowingFile, feed: LineFeed, source: NativeSource, fields: Fields) -> None:
        """`source` reads what `feed` gives."""
        self.name = lines.name
        self.run: str | None = source.run_directory
        self._lines = lines
        self._feed = feed
        self._source = source
        self._fields = fields
        self._is_connected = source.is_connected
        self._is_read = False
        """All of them, where the format needs them together."""

    @property
    def has_more(self) -> bool:
        """As the lines have it."""
        return self._lines.has_more

    @property
    def notes(self) -> Sequence[str]:
        """What the format says of the file, each kind of note once."""
        return self._source.notes

    def look(self, *, is_last: bool) -> Iterator[Scanned]:
        """The records of the lines that were completed since the last look."""
        if self._is_connected:
            if not is_last or self._is_read:
                return
            self._is_read = True
        self._feed.fill(self._new_lines(is_last=is_last))
        yield from self._source.scan(self._fields)
        if self._feed.failure is not None:
            raise self._feed.failure
        yield from self._feed.marks
        # Formats say at the end of a file what they found in it: here that is every look.
        notes = self._source.notes
        notes[:] = {kind_of_problem(note): note for note in notes}.values()

    def read(self, places: Sequence[Place]) -> Iterator[dict[str, object]]:
        """The records at the given places."""
        return self._source.read_whole(places)

    def _new_lines(self, *, is_last: bool) -> Iterator[Scanned]:
        yield from self._lines.look(is_last=is_last)
        while self._is_connected and self._lines.has_more:
            yield from self._lines.look(is_last=is_last)

    def close(self) -> None:
        """The spool closes with the dump."""


class WholeFile:
    """A file that is read once, as a whole."""

    has_more = False
    order: tuple[Any, ...] = ()

    def __init__(self, source: Source, fields: Fields) -> None:
        self.name = source.name
        self.run: str | None = getattr(source, "run_directory", None)
        self._source = source
        self._fields = fields
        self._is_read = False

    @property
    def notes(self) -> Sequence[str]:
        """What its reader says of it."""
        return self._source.notes

    def look(self, *, is_last: bool) -> Iterator[Scanned]:  # noqa: ARG002 - all of it is there
        """All records, at the first look."""
        if self._is_read:
            return
        self._is_read = True
        for piece in self._source.scan(self._fields):
            yield from [piece] if isinstance(piece, Scanned) else piece.records()

    def read(self, places: Sequence[Place]) -> Iterator[dict[str, object]]:
        """The records at the given places."""
        return self._source.read(places, self._fields)

    def close(self) -> None:
        """Close the file; what is converted is kept with the dump."""
        if not isinstance(self._source, NativeSource):
            self._source.close()
