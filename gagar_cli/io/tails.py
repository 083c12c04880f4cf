"""The ends of files that grow: what was added since the last look, and the same records again by place.

JSON lines are read as they are appended; a line counts once its newline is there. A shard that is compressed or
Parquet is read once, when its size has stayed the same from one look to the next and it can be opened. A file that
becomes shorter or another one is an error: what was read from it is gone.
"""

import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from gagar_cli.errors import InputError
from gagar_cli.io.jsonl import Line, parse_line, parse_object
from gagar_cli.io.markers import END_FILE
from gagar_cli.io.records import Fields
from gagar_cli.io.scan import ReadOptions
from gagar_cli.io.sources import JsonlSource, Place, Scanned, Source, nan_rule
from gagar_cli.io.streams import SHARD_SUFFIXES, open_input, show_path

MAX_BYTES_A_LOOK = 16 * 1024**2
"""Of one file, so that the first groups need not wait for the whole of a long dump to be read."""
_BOM = b"\xef\xbb\xbf"
_KEPT_BYTES = 64
"""Of what was read last: a file that was cut and grew again has others there."""


class Tail(Protocol):
    """One file that may grow."""

    name: str
    has_more: bool
    """Whether the last look left something that is there already."""

    def look(self, *, is_last: bool) -> Iterator[Scanned]:
        """The records that were added; with `is_last` also what has no newline, as nothing comes after it."""

    def read(self, places: Sequence[Place]) -> Iterator[dict[str, object]]:
        """The records at the given places."""

    def close(self) -> None:
        """Give back what is open."""


class GrowingFile:
    """JSON lines that are appended to."""

    def __init__(self, path: str, options: ReadOptions) -> None:
        self.name = show_path(path)
        self.has_more = False
        self._path = path
        self._max_record_bytes = options.max_record_bytes
        self._may_be_nan = nan_rule(options.fields.get("reward", "reward"), options.explode)
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


class WholeShard:
    """A compressed or Parquet file, read once it is whole."""

    def __init__(self, path: str, options: ReadOptions, fields: Fields) -> None:
        self.name = show_path(path)
        self.has_more = False
        self._path = path
        self._options = options
        self._fields = fields
        self._seen: tuple[int, int] | None = None
        self._refused: tuple[int, int] | None = None
        self._source: Source | None = None

    def look(self, *, is_last: bool) -> Iterator[Scanned]:
        """All records, at the look that finds the file whole; nothing before and after."""
        if self._source is not None:
            return
        try:
            found = Path(self._path).stat()
        except OSError as error:
            raise InputError(f"{self.name}: {(error.strerror or str(error)).lower()}") from error
        state = (found.st_size, found.st_mtime_ns)
        is_settled = state == self._seen and state != self._refused
        self._seen = state
        if not is_settled and not is_last:
            return
        try:
            self._source = self._open()
        except InputError:
            # Its writer is still at it, for all that can be told.
            if is_last:
                raise
            self._refused = state
            return
        for piece in self._source.scan(self._fields):
            yield from [piece] if isinstance(piece, Scanned) else piece.records()

    def read(self, places: Sequence[Place]) -> Iterator[dict[str, object]]:
        """The records at the given places."""
        assert self._source is not None  # noqa: S101 - places come from its scan
        return self._source.read(places, self._fields)

    def close(self) -> None:
        """Close the file."""
        if self._source is not None:
            self._source.close()

    def _open(self) -> Source:
        options = self._options
        opened = open_input(self._path)
        if opened.kind == "parquet":
            from gagar_cli.io.parquet import ParquetSource

            return ParquetSource(
                self._path,
                opened,
                explode=options.explode,
                group_by=options.group_by,
                max_record_bytes=options.max_record_bytes,
                extras=options.extras,
            )
        return JsonlSource(
            self._path, opened, explode=options.explode, max_record_bytes=options.max_record_bytes
        )


@dataclass(slots=True)
class TailedPath:
    """A file, or a folder in which shards appear."""

    path: str
    open_tail: Callable[[str], Tail]
    tails: dict[str, Tail] = field(default_factory=dict)
    """By path, in the order in which they appeared."""

    def appear(self) -> bool:
        """Take in new shards; whether the folder says that no more come."""
        folder = Path(self.path)
        if not folder.is_dir():
            # What is not there yet may become a file or a folder.
            if folder.exists():
                self._take(self.path)
            return False
        # Asked before listing: what was there before the end file is listed.
        is_ended = (folder / END_FILE).exists()
        with suppress(FileNotFoundError):
            for entry in sorted(folder.iterdir()):
                if entry.name.endswith(SHARD_SUFFIXES) and not entry.name.startswith("."):
                    self._take(str(entry))
        return is_ended

    def _take(self, path: str) -> None:
        if path not in self.tails:
            self.tails[path] = self.open_tail(path)


def open_tail(path: str, options: ReadOptions, fields: Fields) -> Tail:
    """The tail of a file, by its name."""
    if path.lower().endswith((".gz", ".zst", ".parquet", ".pq")):
        return WholeShard(path, options, fields)
    return GrowingFile(path, options)
