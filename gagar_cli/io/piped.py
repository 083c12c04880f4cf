"""Standard input while it is still written to: what has come is kept in an anonymous file, which is followed like any other."""

import os
import select
import sys
import tempfile
from typing import BinaryIO, cast

from gagar_cli.errors import InputError, OutputError
from gagar_cli.io.streams import MAX_SPOOL_BYTES

_PIECE_BYTES = 1024**2
_BYTES_A_LOOK = 16 * 1024**2
_FLOWING_SECONDS = 0.01
"""Once something came, so long is waited for more: a pipe holds little, and its writer fills it again at once."""
_PACKED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"PAR1")


class PipedLines:
    """What has come through standard input so far."""

    def __init__(self) -> None:
        """Take standard input.

        Raises:
            InputError: it is closed.
        """
        if sys.stdin is None:
            raise InputError("-: standard input is closed", "pipe JSON lines in, or name a file")
        self._source = sys.stdin.buffer.fileno()
        self._file = cast("BinaryIO", tempfile.TemporaryFile(buffering=0))  # noqa: SIM115 - closed with the dump
        self._n_bytes = 0
        self.is_ended = False
        """Its writer has closed it."""
        self.has_more = False
        """What was taken in at the last look was all that one look takes."""

    @property
    def path(self) -> str:
        """Where what came can be read."""
        return f"/proc/self/fd/{self._file.fileno()}"

    def take_in(self) -> None:
        """Keep what is there to be read, and what follows it at once.

        Raises:
            InputError: it is compressed, or more than can be kept.
        """
        self.has_more = False
        start = self._n_bytes
        while not self.is_ended:
            if self._n_bytes - start >= _BYTES_A_LOOK:
                self.has_more = True
                return
            patience = _FLOWING_SECONDS if self._n_bytes > start else 0
            if not select.select([self._source], [], [], patience)[0]:
                return
            piece = os.read(self._source, _PIECE_BYTES)
            self.is_ended = not piece
            if not self._n_bytes and piece.startswith(_PACKED):
                raise InputError(
                    "-: compressed, or Parquet: only JSON lines are followed through a pipe",
                    "expand it on the way, such as with `zcat`, or follow the file itself",
                )
            self._keep(piece)

    def close(self) -> None:
        """Give the space back."""
        self._file.close()

    def _keep(self, piece: bytes) -> None:
        self._n_bytes += len(piece)
        if self._n_bytes > MAX_SPOOL_BYTES:
            raise InputError(
                f"-: more than {MAX_SPOOL_BYTES / 1e9:.0f} GB", "write it to files, and follow those"
            )
        rest = memoryview(piece)
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError as error:
            raise OutputError(
                f"standard input cannot be kept in the temporary directory: {(error.strerror or str(error)).lower()}",
                "point TMPDIR at a directory with space",
            ) from error
