"""The trajectory ids of a dump's rows: texts in memory, or hashes there and the texts in a temporary file.

An id is what a row of scalars takes most memory for, and it is needed for messages and outputs only. Up to a number
of rows ids stay texts; beyond it they go to an anonymous file, in compressed blocks, and two hashes of each are kept:
one to find ids by, another, of other seeds, to notice where two texts met by chance. The seeds are drawn anew in each
process, so that nobody can make ids that meet.
"""

import os
import tempfile
from collections.abc import Callable
from io import BytesIO
from typing import BinaryIO, NamedTuple, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gagar_cli.errors import InputError, OutputError
from gagar_cli.io.streams import MAX_SPOOL_BYTES

_BLOCK_ROWS = 131_072
_SEEDS = (int.from_bytes(os.urandom(7)), int.from_bytes(os.urandom(7)))
_NAME = "trajectory_id"


class Hashes(NamedTuple):
    """Two hashes of each of some texts, equal where the texts are."""

    key: NDArray[np.uint64]
    check: NDArray[np.uint32]


Hash = Callable[[pl.Series], Hashes]


def hash_texts(texts: pl.Series) -> Hashes:
    """The hashes of texts, the same all over a process."""
    check = texts.hash(_SEEDS[1]).to_numpy() >> np.uint64(32)
    return Hashes(texts.hash(_SEEDS[0]).to_numpy(), check.astype(np.uint32))


def join_hashes(parts: list[Hashes]) -> Hashes:
    """Hashes of several batches as one."""
    if not parts:
        return Hashes(np.empty(0, dtype=np.uint64), np.empty(0, dtype=np.uint32))
    return Hashes(
        np.concatenate([each.key for each in parts]), np.concatenate([each.check for each in parts])
    )


class _Block(NamedTuple):
    first_row: int
    offset: int
    length: int


class RowIds:
    """Collects ids in the order of the rows; `max_in_memory` None keeps all of them as texts."""

    def __init__(self, max_in_memory: int | None = None, *, hash_: Hash = hash_texts) -> None:
        self._max_in_memory = max_in_memory
        self._hash = hash_
        self._texts: list[pl.Series] = []
        self._hashes: list[Hashes] = []
        self._blocks: list[_Block] = []
        self._stream: BinaryIO | None = None
        self._n_waiting = 0
        self._last: tuple[int, pl.Series] | None = None
        self.n_rows = 0

    @property
    def is_in_file(self) -> bool:
        """Whether the texts are in a file and hashes in memory."""
        return self._stream is not None

    def append(self, texts: pl.Series) -> None:
        """Take the ids of the next rows.

        Raises:
            OutputError: the temporary directory is full or cannot be written.
        """
        self._texts.append(texts)
        self.n_rows += len(texts)
        self._n_waiting += len(texts)
        if self.is_in_file:
            self._hashes.append(self._hash(texts))
        elif self._max_in_memory is not None and self.n_rows > self._max_in_memory:
            try:
                self._stream = cast("BinaryIO", tempfile.TemporaryFile())  # noqa: SIM115 - closed with the dump
            except OSError as error:
                raise _unkept(error) from error
            self._hashes = [self._hash(each) for each in self._texts]
        if self.is_in_file and self._n_waiting >= _BLOCK_ROWS:
            self._write()

    def take_hashes(self) -> Hashes:
        """The hashes of all rows, which are not kept any longer; made of the texts where there are none."""
        parts, self._hashes = self._hashes, []
        if self.n_rows and not parts:
            parts = [
                self._hash(self.texts(start, start + _BLOCK_ROWS))
                for start in range(0, self.n_rows, _BLOCK_ROWS)
            ]
        return join_hashes(parts)

    def key_parts(self) -> list[NDArray[np.uint64]]:
        """The first hashes, batch by batch, where texts are in a file."""
        return [each.key for each in self._hashes]

    def texts(self, start: int = 0, stop: int | None = None) -> pl.Series:
        """The ids of the rows from `start` to before `stop`; all of them take the memory that they take as texts."""
        stop = self.n_rows if stop is None else min(stop, self.n_rows)
        if not self.is_in_file:
            if len(self._texts) > 1:
                self._texts = [pl.concat(self._texts)]
            return self._texts[0][start:stop] if self._texts else pl.Series(_NAME, [], dtype=pl.String)
        self._write()
        found = []
        for number, block in enumerate(self._blocks):
            end = self._blocks[number + 1].first_row if number + 1 < len(self._blocks) else self.n_rows
            if block.first_row < stop and end > start:
                texts = self._read(number)
                found.append(texts[max(start - block.first_row, 0) : stop - block.first_row])
        return pl.concat(found) if found else pl.Series(_NAME, [], dtype=pl.String)

    def close(self) -> None:
        """Give the file's space back."""
        if self._stream is not None:
            self._stream.close()

    def _write(self) -> None:
        if self._stream is None or not self._texts:
            return
        block = BytesIO()
        pl.concat(self._texts).alias(_NAME).to_frame().write_ipc_stream(block, compression="lz4")
        offset = self._blocks[-1].offset + self._blocks[-1].length if self._blocks else 0
        if offset + block.tell() > MAX_SPOOL_BYTES:
            raise InputError(f"the trajectory ids take more than {MAX_SPOOL_BYTES / 1e9:.0f} GB")
        try:
            _write_at(self._stream.fileno(), offset, block.getbuffer())
        except OSError as error:
            raise _unkept(error) from error
        self._blocks.append(_Block(self.n_rows - self._n_waiting, offset, block.tell()))
        self._texts, self._n_waiting = [], 0

    def _read(self, number: int) -> pl.Series:
        """A block; the last one that was read is kept, for rows are mostly asked for in order."""
        if self._last is None or self._last[0] != number:
            self._last = None  # before the next one is decoded
            _, offset, length = self._blocks[number]
            descriptor = cast("BinaryIO", self._stream).fileno()
            self._last = (number, pl.read_ipc_stream(_read_at(descriptor, offset, length))[_NAME])
        return self._last[1]


def _write_at(descriptor: int, offset: int, content: memoryview) -> None:
    # Not through a buffer: what does not fit would be left in it, and fail again when the file is closed.
    while content:
        n_bytes = os.pwrite(descriptor, content, offset)
        content, offset = content[n_bytes:], offset + n_bytes


def _read_at(descriptor: int, offset: int, length: int) -> BytesIO:
    """A block, in pieces: the system gives less than 2 GiB at once."""
    made = BytesIO()
    while made.tell() < length and (
        piece := os.pread(descriptor, length - made.tell(), offset + made.tell())
    ):
        made.write(piece)
    made.seek(0)
    return made


def _unkept(error: OSError) -> OutputError:
    reason = (error.strerror or str(error)).lower()
    return OutputError(
        f"trajectory ids cannot be kept in the temporary directory: {reason}",
        "point TMPDIR at a directory with space",
    )
