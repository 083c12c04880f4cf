"""Opening what the user names: regular files, folders of shards, `-`; compressed input is spooled once.

Records are read again by byte offset, which neither a pipe nor a compressed file allows: both are copied once into
an anonymous temporary file, under a cap on what they may expand to. Devices, sockets and named pipes are refused:
reading them may never end.
"""

import errno
import gzip
import itertools
import os
import stat
import sys
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple, cast

import zstandard

from gagar_cli.core.text import escape_untrusted, shorten
from gagar_cli.errors import InputError, OutputError
from gagar_cli.io.remote import is_remote, list_remote, masked, open_remote

Kind = Literal["jsonl", "parquet"]

MAX_SPOOL_BYTES = 20 * 1000**3
MAX_EXPANSION = 100
EXPANSION_FLOOR_BYTES = 256 * 1024**2
"""Below this size any ratio is harmless: short, repetitive logs compress beyond 100:1."""

SHARD_SUFFIXES = (".jsonl", ".jsonl.gz", ".jsonl.zst", ".parquet")
_MAGICS = ((b"PAR1", "parquet"), (b"\x1f\x8b", "gzip"), (b"\x28\xb5\x2f\xfd", "zstd"))
_SUFFIXES = {".parquet": "parquet", ".pq": "parquet", ".gz": "gzip", ".zst": "zstd"}
_CHUNK_BYTES = 1024**2
_ZSTD_FEED_BYTES = 1024  # a run-length block turns 4 bytes into 128 KiB: this bounds one piece to 32 MiB


class Opened(NamedTuple):
    """A seekable stream at its start, and what it holds."""

    stream: BinaryIO
    kind: Kind
    is_spool: bool
    """An anonymous copy, gone when it is closed."""


def show_path(path: str | Path) -> str:
    """A path as messages show it."""
    return escape_untrusted(masked(str(path)), keep_newlines=False)


def list_shards(path: str) -> list[str]:
    """The files that a named input stands for: itself, or the sorted shards of a folder.

    Raises:
        InputError: the folder cannot be listed or holds no shard.
    """
    if is_remote(path):
        return list_remote(path, SHARD_SUFFIXES)
    folder = Path(path)
    if path == "-" or not folder.is_dir():
        return [path]
    try:
        shards = sorted(str(entry) for entry in folder.iterdir() if _is_shard(entry.name))
    except OSError as error:
        raise InputError(f"{show_path(path)}: {_reason(error)}") from error
    if not shards:
        raise InputError(f"{show_path(path)}: no shards in this folder, expected {', '.join(SHARD_SUFFIXES)}")
    return shards


FileIdentity = tuple[int, int, int, int]
"""What changes when a path gets another file or other content."""


def file_identity(stream: BinaryIO) -> FileIdentity:
    """That of an open file."""
    return _identity(os.fstat(stream.fileno()))


def path_identity(path: str | os.PathLike[str]) -> FileIdentity | None:
    """That of what lies at a path; None where nothing does, or nothing that can be looked at."""
    try:
        return _identity(Path(path).stat())
    except OSError:
        return None


def _identity(found: os.stat_result) -> FileIdentity:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _is_shard(name: str) -> bool:
    return name.endswith(SHARD_SUFFIXES) and not name.startswith(".")


def open_input(path: str) -> Opened:
    """A file or `-` as a seekable stream of JSON lines or Parquet; the caller closes it.

    Raises:
        InputError: missing, unreadable, not a regular file, damaged, or expanding beyond the caps.
        OutputError: the temporary directory is full.
    """
    if path == "-":
        if sys.stdin is None:
            raise InputError("-: standard input is closed", "pipe JSON lines in, or name a file")
        stdin = cast("BinaryIO", sys.stdin.buffer)
        head = stdin.peek(4)[:4] if hasattr(stdin, "peek") else b""
        return Opened(
            _spool(_expanded(stdin, _kind_of("", head), path), path, n_input=None), "jsonl", is_spool=True
        )
    if is_remote(path):
        return _open_remote(path)
    raw = open_regular(path)
    try:
        head = raw.read(4)
        raw.seek(0)
        kind = _kind_of(path, head)
        if kind in ("jsonl", "parquet"):
            return Opened(raw, cast("Kind", kind), is_spool=False)
        n_input = os.fstat(raw.fileno()).st_size
        spooled = _spool(_expanded(raw, kind, path), path, n_input=n_input)
    except BaseException:
        raw.close()
        raise
    raw.close()
    return Opened(spooled, "jsonl", is_spool=True)


def _open_remote(path: str) -> Opened:
    """A copy of a remote file, expanded; Parquet as it is."""
    with open_remote(path) as raw:
        head = raw.read(4)
        pieces = itertools.chain([head], iter(lambda: raw.read(_CHUNK_BYTES), b""))
        kind = _kind_of(path, head)
        if kind in ("jsonl", "parquet"):
            return Opened(_spool(pieces, path, n_input=None), cast("Kind", kind), is_spool=True)
        with _spool(pieces, path, n_input=None) as packed:
            n_input = os.fstat(packed.fileno()).st_size
            return Opened(
                _spool(_expanded(packed, kind, path), path, n_input=n_input), "jsonl", is_spool=True
            )


def open_regular(path: str) -> BinaryIO:
    """A regular file as it is; nothing else is waited for.

    Raises:
        InputError: missing, unreadable, or not a regular file.
    """
    try:
        # Without O_NONBLOCK, opening a named pipe waits for a writer for ever.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except ValueError as error:
        raise InputError(f"{show_path(path)}: not a path: {error}") from error
    except OSError as error:
        if error.errno == errno.ENXIO:
            raise InputError(
                f"{show_path(path)}: not a regular file", "pipe it in and name it `-`"
            ) from error
        raise InputError(f"{show_path(path)}: {_reason(error)}") from error
    stream = (
        os.fdopen(descriptor, "rb", buffering=_CHUNK_BYTES, closefd=True) if _is_regular(descriptor) else None
    )
    if stream is None:
        os.close(descriptor)
        raise InputError(f"{show_path(path)}: not a regular file", "pipe it in and name it `-`")
    return stream


def _is_regular(descriptor: int) -> bool:
    return stat.S_ISREG(os.fstat(descriptor).st_mode)


def _kind_of(path: str, head: bytes) -> str:
    name = path.partition("?")[0] if is_remote(path) else path
    by_name = _SUFFIXES.get(Path(name).suffix.lower()) if name else None
    return by_name or next((kind for magic, kind in _MAGICS if head.startswith(magic)), "jsonl")


def _expanded(raw: BinaryIO, kind: str, path: str) -> Iterator[bytes]:
    name = show_path(path)
    try:
        if kind == "gzip":
            with gzip.GzipFile(fileobj=raw, mode="rb") as stream:
                yield from iter(lambda: stream.read(_CHUNK_BYTES), b"")
        elif kind == "zstd":
            yield from _expanded_zstd(raw, name)
        elif kind == "parquet":
            raise InputError(f"{name}: Parquet cannot be read from a pipe", "give the file's path")
        else:
            yield from iter(lambda: raw.read(_CHUNK_BYTES), b"")
    except EOFError as error:
        raise InputError(f"{name}: truncated {kind} stream") from error
    except (gzip.BadGzipFile, zlib.error, zstandard.ZstdError) as error:
        detail = shorten(escape_untrusted(str(error), keep_newlines=False), 80)
        raise InputError(f"{name}: damaged {kind} stream: {detail}") from error
    except OSError as error:
        raise InputError(f"{name}: {_reason(error)}") from error


def _expanded_zstd(raw: BinaryIO, name: str) -> Iterator[bytes]:
    # Not `stream_reader`: it takes a frame that ends too early for a complete one.
    decompressor = zstandard.ZstdDecompressor()
    frame = None
    while piece := raw.read(_ZSTD_FEED_BYTES):
        while piece:
            if frame is None:
                frame = decompressor.decompressobj(write_size=16 * 1024)
            if expanded := frame.decompress(piece):
                yield expanded
            piece = frame.unused_data if frame.eof else b""
            frame = None if frame.eof else frame
    if frame is not None:
        raise InputError(f"{name}: truncated zstd stream")


def _spool(pieces: Iterator[bytes], path: str, *, n_input: int | None) -> BinaryIO:
    limit = MAX_SPOOL_BYTES
    if n_input is not None:
        limit = min(limit, max(EXPANSION_FLOOR_BYTES, MAX_EXPANSION * n_input))
    try:
        spool = cast("BinaryIO", tempfile.TemporaryFile(buffering=_CHUNK_BYTES))  # noqa: SIM115 - handed to the caller
    except OSError as error:
        raise OutputError(
            f"no temporary file: {_reason(error)}", "point TMPDIR at a directory with space"
        ) from error
    n_bytes = 0
    try:
        for piece in pieces:
            n_bytes += len(piece)
            if n_bytes > limit:
                raise InputError(
                    f"{show_path(path)}: expands beyond {limit / 1e6:,.0f} MB", "expand it to a plain file"
                )
            spool.write(piece)
        spool.flush()
        spool.seek(0)
    except OSError as error:
        spool.close()
        message = f"{show_path(path)}: cannot be expanded into the temporary directory: {_reason(error)}"
        raise OutputError(message, "point TMPDIR at a directory with space") from error
    except BaseException:
        spool.close()
        raise
    return spool


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
