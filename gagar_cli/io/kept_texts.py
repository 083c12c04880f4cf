"""Texts out of memory: compressed in a temporary file without a name, decoded whenever they are asked for."""

import errno
import gc
import os
import tempfile
import weakref
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple, cast

import zstandard

from gagar_cli.errors import OutputError

_LEVEL = 1
_N_THREADS = 2
_BATCH_BYTES = 4_000_000
"""So much is compressed at once."""
_MANY_FILES = 32


class _OpenFiles:
    """How many files are open, those that nobody can reach among them.

    What is part of a cycle, such as an error that was kept with its traceback, stays until the collector runs; and that
    counts objects, of which logs out of memory have few.
    """

    n_files = 0
    n_expected = _MANY_FILES

    def make_room(self) -> None:
        """Run the collector where there are many more than it left last time."""
        if self.n_files >= self.n_expected:
            gc.collect()
            self.n_expected = self.n_files + _MANY_FILES

    def close(self, descriptor: int) -> None:
        """One less."""
        self.n_files -= 1
        os.close(descriptor)


_OPEN = _OpenFiles()


class KeptText(NamedTuple):
    """A text, or a block of messages, in a file."""

    file: "TextFile"
    offset: int
    n_packed_bytes: int

    def read(self) -> bytes:
        """What was kept. May be called from several threads."""
        return self.file.read(self.offset, self.n_packed_bytes)

    def text(self) -> str:
        """The text that was kept."""
        return self.read().decode("utf-8", "surrogatepass")


class TextFile:
    """A file without a name, written at its end; closed when nothing refers to it."""

    def __init__(self) -> None:
        self._descriptor: int | None = None
        self._n_bytes = 0

    def read(self, offset: int, n_packed_bytes: int) -> bytes:
        """What was kept at a place."""
        packed = os.pread(cast("int", self._descriptor), n_packed_bytes, offset)
        return zstandard.ZstdDecompressor().decompress(packed)

    def keep(self, texts: Iterable[bytes]) -> Iterator[KeptText]:
        """Where each text is kept; they are asked for as there is room for them.

        Raises:
            OutputError: there is no space, or no file can be opened.
        """
        batch: list[bytes] = []
        n_bytes = 0
        for text in texts:
            batch.append(text)
            n_bytes += len(text)
            if n_bytes >= _BATCH_BYTES:
                yield from self._keep_all(batch)
                batch, n_bytes = [], 0
        if batch:
            yield from self._keep_all(batch)

    def __reduce__(self) -> str | tuple[object, ...]:
        """Refused: a copy would go on reading where the descriptor once pointed."""
        raise TypeError("a file of kept texts cannot be copied")

    def _keep_all(self, texts: Sequence[bytes]) -> list[KeptText]:
        # A compressor holds a megabyte: no longer than this.
        compressor = zstandard.ZstdCompressor(level=_LEVEL)
        made = compressor.multi_compress_to_buffer(list(texts), threads=_N_THREADS)
        packed = [made[place].tobytes() for place in range(len(made))]
        ends = list(accumulate(map(len, packed), initial=self._n_bytes))
        try:
            self._append(b"".join(packed))
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            hint = "point TMPDIR at a directory with space"
            if error.errno in (errno.EMFILE, errno.ENFILE):
                hint = (
                    "allow more of them with `ulimit -n`, or lower `--concurrency`: every open group has one"
                )
            raise OutputError(
                f"a long log cannot be kept in the temporary directory: {reason}", hint
            ) from error
        return [KeptText(self, start, end - start) for start, end in pairwise(ends)]

    def _append(self, packed: bytes) -> None:
        if self._descriptor is None:
            _OPEN.make_room()
            with tempfile.TemporaryFile(buffering=0) as stream:
                self._descriptor = os.dup(stream.fileno())
            weakref.finalize(self, _OPEN.close, self._descriptor)
            _OPEN.n_files += 1
        while packed:
            n_written = os.pwrite(self._descriptor, packed, self._n_bytes)
            self._n_bytes += n_written
            packed = packed[n_written:]
