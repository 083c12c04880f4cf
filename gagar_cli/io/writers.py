"""Result files, written whole or not at all, and records on stdout.

A file appears under its name only when it is complete and on disk: temporary name in the same directory, fsync,
rename, fsync of the directory. A reader of stdout may leave at any time; that ends the writing, not the program.
"""

import gzip
import json
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import BinaryIO, cast

import polars as pl
import zstandard

from gagar_cli.core.summaries import versioned
from gagar_cli.errors import OutputError, UsageError
from gagar_cli.io.jsonl import dump_line
from gagar_cli.io.streams import show_path

TABLE_SUFFIXES = (".parquet", ".pq", ".jsonl", ".jsonl.gz", ".jsonl.zst")
"""What `write_frames` tells apart."""
_CHUNK_ROWS = 8192
_LEVEL = 1
"""Of zstd in tables: 4 % larger than its default, and a sixth less time for all of the writing."""


def refuse_existing(path: str, *, overwrite: bool) -> None:
    """Checks an output path before any work is done; `-` is stdout and always fine.

    Raises:
        OutputError: the file exists and is not to be replaced, its directory is missing or not writable.
    """
    if path == "-":
        return
    target = Path(path)
    name = show_path(path)
    if target.is_dir():
        raise OutputError(f"{name}: is a directory, expected a file name")
    if not target.parent.is_dir():
        raise OutputError(f"{show_path(target.parent)}: no such directory")
    if (target.exists() or target.is_symlink()) and not overwrite:
        raise OutputError(f"{name}: exists already", "`--overwrite` replaces it")
    if not os.access(target.parent, os.W_OK | os.X_OK):
        raise OutputError(f"{show_path(target.parent)}: directory is not writable")


def refuse_other_ending(path: str, endings: Sequence[str], flag: str = "-o") -> None:
    """Checks that a name says what will be in the file: another ending would silently be of another kind.

    Raises:
        UsageError: it ends otherwise, and is not `-`.
    """
    if path != "-" and not path.lower().endswith(tuple(endings)):
        raise UsageError(f"{flag} is {show_path(path)}, expected {', '.join(endings)} or -")


def write_summary_file(path: str | Path, record: Mapping[str, object]) -> None:
    """A summary as a file of its own: one JSON object with the number of its schema.

    Raises:
        OutputError: the disk or directory does not take it.
    """
    with write_atomically(path) as stream:
        text = json.dumps(versioned(record), indent=2, ensure_ascii=True, allow_nan=False)
        stream.write(text.encode() + b"\n")


@contextmanager
def write_atomically(path: str | Path) -> Iterator[BinaryIO]:
    """A binary file that takes the name `path` when the block ends well, and vanishes when it does not.

    A symbolic link is followed; the mode of a file that is replaced is kept.

    Raises:
        OutputError: the disk or directory does not take it; what stood there before stands.
    """
    target = Path(os.path.realpath(path))
    temporary: Path | None = None
    try:
        descriptor, made = tempfile.mkstemp(prefix=f".{target.name[:100]}.", suffix=".tmp", dir=target.parent)
        temporary = Path(made)
        os.close(descriptor)
        with temporary.open("r+b") as stream:
            yield stream
            stream.flush()
            os.fchmod(stream.fileno(), _mode_for(target))
            os.fsync(stream.fileno())
        temporary.replace(target)
        sync_directory(target.parent)
    except BaseException as error:
        if temporary is not None:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and not isinstance(error, BrokenPipeError):
            raise OutputError(
                f"{show_path(path)}: cannot be written: {(error.strerror or str(error)).lower()}"
            ) from error
        raise


def sync_directory(folder: Path) -> None:
    """Make a new or renamed file's name survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_frame(path: str, frame: pl.DataFrame) -> None:
    """A table as Parquet (`.parquet`), as JSON lines (plain, `.gz`, `.zst`), or to stdout (`-`) as JSON lines.

    Raises:
        OutputError: it cannot be written.
    """
    write_frames(path, (frame,))


def write_frames(path: str, frames: Iterable[pl.DataFrame]) -> None:
    """The same for a table in parts of the same columns, one of which is held at a time; categories become texts.

    Raises:
        OutputError: it cannot be written.
    """
    if Path(path).suffix.lower() in (".parquet", ".pq"):
        with write_atomically(path) as stream:
            _write_parquet(stream, iter(frames))
        return
    chunks = (chunk for frame in frames for chunk in frame.iter_slices(_CHUNK_ROWS))
    write_records(path, (record for chunk in chunks for record in chunk.iter_rows(named=True)))


def _write_parquet(stream: BinaryIO, frames: Iterator[pl.DataFrame]) -> None:
    from gagar_cli.io.parquet_texts import CATEGORIES, as_texts, tell_texts

    first, second = next(frames), next(frames, None)
    if second is None:
        as_texts(first).write_parquet(stream, compression="zstd", compression_level=_LEVEL)
        return
    from polars.io.plugins import register_io_source

    def read(
        columns: list[str] | None, _predicate: pl.Expr | None, _n_rows: int | None, _size: int | None
    ) -> Iterator[pl.DataFrame]:
        for frame in chain((first, second), frames):
            yield frame if columns is None else frame.select(columns)

    source = register_io_source(read, schema=first.schema)
    source.sink_parquet(stream, compression="zstd", compression_level=_LEVEL, row_group_size=first.height)
    if pl.selectors.expand_selector(first, CATEGORIES):
        tell_texts(stream, first.schema)


def write_records(path: str, records: Iterable[Mapping[str, object]]) -> int:
    """Records as JSON lines to a file (plain, `.gz`, `.zst`) or to stdout (`-`); how many were written.

    Raises:
        OutputError: it cannot be written.
    """
    return write_lines(path, map(dump_line, records))


def write_lines(path: str, lines: Iterable[bytes]) -> int:
    """Lines that end in a newline, to where `write_records` would put them; how many were written.

    Raises:
        OutputError: it cannot be written.
    """
    return write_pieces(path, ((line,) for line in lines))


def write_pieces(path: str, lines: Iterable[Sequence[bytes | memoryview]]) -> int:
    """The same for lines in pieces, each of which only has to hold until the next line is asked for.

    Raises:
        OutputError: it cannot be written.
    """
    n_lines = 0
    if path == "-":
        stdout = StdoutRecords()
        for pieces in lines:
            if not stdout.write_line(b"".join(pieces)):
                break
            n_lines += 1
        return n_lines
    with write_atomically(path) as raw, _compressed(raw, path) as stream:
        for pieces in lines:
            for piece in pieces:
                stream.write(piece)
            n_lines += 1
    return n_lines


class StdoutRecords:
    """JSON lines on stdout, each flushed when it is complete."""

    def __init__(self) -> None:
        self._stream = cast("BinaryIO | None", getattr(sys.stdout, "buffer", None))

    def write(self, record: Mapping[str, object]) -> bool:
        """Write one record; False when nobody reads any more, then and from then on.

        Raises:
            OutputError: stdout is a file on a full disk, or the like.
        """
        return self.write_line(dump_line(record))

    def write_line(self, line: bytes) -> bool:
        """The same for a line that is made already."""
        if self._stream is None:
            return False
        try:
            self._stream.write(line)
            self._stream.flush()
        except BrokenPipeError:
            self._stream = None
            _silence_stdout()
            return False
        except OSError as error:
            raise OutputError(
                f"stdout: cannot be written: {(error.strerror or str(error)).lower()}"
            ) from error
        return True


def _silence_stdout() -> None:
    """Let the interpreter's own flush at exit go nowhere, instead of failing on the closed pipe."""
    with suppress(OSError, ValueError):
        sink = os.open(os.devnull, os.O_WRONLY)
        os.dup2(sink, sys.stdout.fileno())
        os.close(sink)


def _mode_for(target: Path) -> int:
    try:
        return target.stat().st_mode & 0o777
    except OSError:
        umask = os.umask(0)
        os.umask(umask)
        return 0o666 & ~umask


@contextmanager
def _compressed(raw: BinaryIO, path: str) -> Iterator[BinaryIO]:
    suffix = Path(path).suffix.lower()
    if suffix == ".gz":
        with gzip.GzipFile(fileobj=raw, mode="wb", filename="", mtime=0) as stream:
            yield cast("BinaryIO", stream)
    elif suffix == ".zst":
        with zstandard.ZstdCompressor(level=3).stream_writer(raw, closefd=False) as writer:
            yield cast("BinaryIO", writer)
    else:
        yield raw
