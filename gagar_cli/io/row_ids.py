"""The trajectory ids of a dump's rows: texts in memory, or hashes there and the texts in a temporary file.

An id is what a row of scalars takes most memory for, and it is needed for messages and outputs only. Up to a number
of rows ids stay texts; beyond it they go to an anonymous file, in compressed blocks, and of each half a hash is kept to
find repeats by. Where ids are to be found by their texts, the whole hash and another of other seeds are kept, to notice
where two texts met by chance. The seeds are drawn anew in each process, so that nobody can make ids that meet.
"""

import os
import tempfile
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from io import BytesIO
from threading import Lock
from typing import BinaryIO, NamedTuple, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gagar_cli.errors import InputError, OutputError
from gagar_cli.io.growing import Growing
from gagar_cli.io.streams import MAX_SPOOL_BYTES

_WAITING_ROWS = 65_536
_BLOCK_ROWS = 8192
"""Few enough that a single id is read in a fraction of a millisecond."""
_MAX_HELD_BLOCKS = 16
_PART_ROWS = 262_144
_SORTED_ROWS = 2_097_152
"""So many keys are sorted at once, roughly: a copy of all of them would be the largest thing there is."""
_SEEDS = (int.from_bytes(os.urandom(7)), int.from_bytes(os.urandom(7)))
_HALF = np.uint64(32)
_LOW_BITS = np.uint64(2**32 - 1)
_MAX_DOUBTS = 4096
"""Hashes that are twice in a group and may be of different ids; more are of segments, or of a copy."""
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


class _Block(NamedTuple):
    first_row: int
    offset: int
    length: int


class RowIds:
    """Collects ids in the order of the rows; `max_in_memory` None keeps all of them as texts.

    `is_sought`: whether ids will be found by `take_hashes`. Reading may be done by several threads.
    """

    def __init__(
        self, max_in_memory: int | None = None, *, hash_: Hash = hash_texts, is_sought: bool = True
    ) -> None:
        self._max_in_memory = max_in_memory
        self._hash = hash_
        self._is_sought = is_sought
        self._texts: list[pl.Series] = []
        self._keys, self._checks = _no_hashes()
        self._blocks: list[_Block] = []
        self._stream: BinaryIO | None = None
        self._n_waiting = 0
        self._held: dict[int, pl.Series] = {}
        self._lock = Lock()
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
            self._keep_hashes(texts)
        elif self._max_in_memory is not None and self.n_rows > self._max_in_memory:
            try:
                self._stream = cast("BinaryIO", tempfile.TemporaryFile())  # noqa: SIM115 - closed with the dump
            except OSError as error:
                raise _unkept(error) from error
            for each in self._texts:
                self._keep_hashes(each)
        if self._n_waiting >= _WAITING_ROWS:
            self._write()

    def take_hashes(self) -> Hashes:
        """The hashes of all rows, which are not kept any longer; made of the texts where there are none."""
        if len(self._checks) < self.n_rows:
            self._keys, self._checks = _no_hashes()
            for start in range(0, self.n_rows, _WAITING_ROWS):
                hashes = self._hash(self.texts(start, start + _WAITING_ROWS))
                self._keys.extend(pl.Series(hashes.key))
                self._checks.extend(pl.Series(hashes.check))
        keys, checks = self._keys, self._checks
        self._keys, self._checks = _no_hashes()
        return Hashes(
            keys.values().astype(np.uint64, copy=False), checks.values().astype(np.uint32, copy=False)
        )

    def are_distinct(self, group: NDArray[np.integer]) -> bool:
        """Whether no id is twice in a group, for ids whose texts are in a file.

        `group`: (n_rows,) code of each row's group. Hashes for which there is no other use are not kept any longer.
        """
        keys = self._keys.values()
        n_parts = 1 << (self.n_rows // _SORTED_ROWS).bit_length()
        doubts = np.empty(0, dtype=np.uint64)
        for number in range(n_parts):
            mask = np.uint64(n_parts - 1)
            part = np.concatenate([made[made & mask == number] for _, made in _keys_in_groups(keys, group)])
            part.sort()
            doubts = np.concatenate((doubts, np.unique(part[1:][part[1:] == part[:-1]])))
            if len(doubts) > _MAX_DOUBTS:
                break
        is_distinct = len(doubts) <= _MAX_DOUBTS and self._are_told_apart(doubts, keys, group)
        if not self._is_sought:
            self._keys, self._checks = _no_hashes()
        return is_distinct

    def _are_told_apart(
        self, doubts: NDArray[np.uint64], keys: NDArray[np.generic], group: NDArray[np.integer]
    ) -> bool:
        """Whether rows of one hash and group have different ids after all."""
        if not len(doubts):
            return True
        rows = [np.flatnonzero(np.isin(made, doubts)) + start for start, made in _keys_in_groups(keys, group)]
        chosen = np.concatenate(rows).tolist()
        pairs = set(zip(group[chosen].tolist(), self.texts_of(chosen), strict=True))
        return len(pairs) == len(chosen)

    def texts(self, start: int = 0, stop: int | None = None) -> pl.Series:
        """The ids of the rows from `start` to before `stop`; all of them take the memory that they take as texts."""
        stop = self.n_rows if stop is None else min(stop, self.n_rows)
        if not self.is_in_file:
            if len(self._texts) > 1:
                self._texts = [pl.concat(self._texts)]
            return self._texts[0][start:stop] if self._texts else pl.Series(_NAME, [], dtype=pl.String)
        with self._lock:
            self._write()
            found = []
            for number in range(self._block_of(start), len(self._blocks)):
                first = self._blocks[number].first_row
                if first >= stop:
                    break
                found.append(self._read(number)[max(start - first, 0) : stop - first])
        return pl.concat(found) if found else pl.Series(_NAME, [], dtype=pl.String)

    def texts_of(self, rows: Sequence[int]) -> list[str]:
        """The ids of some rows, in their order; for few of them."""
        if not self.is_in_file:
            return self.texts()[pl.Series(rows, dtype=pl.UInt32)].to_list()
        with self._lock:
            self._write()
            found = []
            for row in rows:
                number = self._block_of(row)
                found.append(self._read(number)[row - self._blocks[number].first_row])
        return found

    def close(self) -> None:
        """Give the file's space back."""
        if self._stream is not None:
            self._stream.close()

    def _keep_hashes(self, texts: pl.Series) -> None:
        hashes = self._hash(texts)
        if self._is_sought:
            self._keys.extend(pl.Series(hashes.key))
            self._checks.extend(pl.Series(hashes.check))
        else:
            self._keys.extend(pl.Series((hashes.key & _LOW_BITS).astype(np.uint32)))

    def _write(self) -> None:
        """Write what is not in the file yet, where there is one."""
        if self._stream is None or not self._texts:
            return
        texts = pl.concat(self._texts).alias(_NAME).to_frame()
        first_row = self.n_rows - self._n_waiting
        offset = self._blocks[-1].offset + self._blocks[-1].length if self._blocks else 0
        packed = BytesIO()
        blocks = []
        for start in range(0, texts.height, _BLOCK_ROWS):
            n_before = packed.tell()
            texts[start : start + _BLOCK_ROWS].write_ipc_stream(packed, compression="lz4")
            blocks.append(_Block(first_row + start, offset + n_before, packed.tell() - n_before))
        if offset + packed.tell() > MAX_SPOOL_BYTES:
            raise InputError(f"the trajectory ids take more than {MAX_SPOOL_BYTES / 1e9:.0f} GB")
        try:
            _write_at(self._stream.fileno(), offset, packed.getbuffer())
        except OSError as error:
            raise _unkept(error) from error
        self._blocks += blocks
        self._texts, self._n_waiting = [], 0

    def _block_of(self, row: int) -> int:
        return max(bisect_right(self._blocks, row, key=lambda block: block.first_row) - 1, 0)

    def _read(self, number: int) -> pl.Series:
        """A block; some are held, for rows are mostly asked for in order."""
        if number not in self._held:
            if len(self._held) >= _MAX_HELD_BLOCKS:
                del self._held[next(iter(self._held))]
            _, offset, length = self._blocks[number]
            descriptor = cast("BinaryIO", self._stream).fileno()
            self._held[number] = pl.read_ipc_stream(_read_at(descriptor, offset, length))[_NAME]
        return self._held[number]


def _no_hashes() -> tuple[Growing, Growing]:
    return Growing("key", is_narrow=False), Growing("check", is_narrow=False)


def _keys_in_groups(
    keys: NDArray[np.generic], group: NDArray[np.integer]
) -> Iterator[tuple[int, NDArray[np.uint64]]]:
    """Half of each key behind the code of its group, part by part, with the first row of each part."""
    for start in range(0, len(keys), _PART_ROWS):
        made = group[start : start + _PART_ROWS].astype(np.uint64)
        made <<= _HALF
        made |= keys[start : start + _PART_ROWS].astype(np.uint64, copy=False) & _LOW_BITS
        yield start, made


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
