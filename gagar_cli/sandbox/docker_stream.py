"""The connection of one `docker exec`: two interleaved streams, sorted and capped while they are read."""

import enum
import selectors
import socket
import ssl
import struct
import time
from collections.abc import Callable

from gagar_cli.sandbox.output import MAX_READ_BYTES, CappedOutput

_LOOK_SECONDS = 0.2
"""How late a cancellation is seen, or the end of a command whose children keep its output open."""
_CHUNK_BYTES = 1 << 16
_HEADER = struct.Struct(">BxxxL")
_STDERR = 2
_NOTHING_YET = (BlockingIOError, ssl.SSLWantReadError)


class End(enum.Enum):
    """Why reading stopped."""

    CLOSED = enum.auto()
    TIMED_OUT = enum.auto()
    FLOODED = enum.auto()
    CANCELLED = enum.auto()


class ExecStream:
    """What one command writes."""

    def __init__(self, max_bytes: int) -> None:
        self.stdout = CappedOutput(max_bytes)
        self.stderr = CappedOutput(max_bytes)
        self._header = b""
        self._n_left = 0
        """Bytes of the current frame that are still to come."""
        self._stream = 0

    def pump(
        self,
        connection: socket.socket,
        *,
        deadline: float,
        is_cancelled: Callable[[], bool],
        has_exited: Callable[[], bool],
    ) -> End:
        """Read until the command has ended, or until one of the limits.

        `deadline` is a time of `time.monotonic`; `has_exited` is asked whenever nothing came for a while.
        """
        connection.setblocking(False)
        with selectors.DefaultSelector() as selector:
            selector.register(connection, selectors.EVENT_READ)
            while not is_cancelled():
                n_seconds = deadline - time.monotonic()
                if n_seconds <= 0:
                    return End.TIMED_OUT
                is_quiet = not selector.select(min(_LOOK_SECONDS, n_seconds))
                # Asked before the last read, which so gets everything that was written until the end.
                is_over = is_quiet and has_exited()
                # Read in any case: TLS may hold back what the selector cannot see.
                if not self._receive(connection, everything=is_over) or is_over:
                    return End.CLOSED
                if self.stdout.n_bytes + self.stderr.n_bytes > MAX_READ_BYTES:
                    return End.FLOODED
        return End.CANCELLED

    def feed(self, chunk: bytes) -> None:
        """Take bytes off the wire: frames of a stream's number, a length, and as many bytes."""
        while chunk:
            if not self._n_left:
                n_missing = _HEADER.size - len(self._header)
                self._header, chunk = self._header + chunk[:n_missing], chunk[n_missing:]
                if len(self._header) == _HEADER.size:
                    self._stream, self._n_left = _HEADER.unpack(self._header)
                    self._header = b""
                continue
            part, chunk = chunk[: self._n_left], chunk[self._n_left :]
            self._n_left -= len(part)
            (self.stderr if self._stream == _STDERR else self.stdout).add(part)

    def _receive(self, connection: socket.socket, *, everything: bool) -> bool:
        """Whether there may be more."""
        while True:
            try:
                chunk = connection.recv(_CHUNK_BYTES)
            except _NOTHING_YET:
                return True
            except OSError:
                return False
            self.feed(chunk)
            if not (chunk and everything):
                return bool(chunk)
