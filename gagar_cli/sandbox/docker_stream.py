"""The connection of one `docker exec`: two interleaved streams, sorted and capped while they are read."""

import enum
import selectors
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from gagar_cli.sandbox.output import CappedOutput, FileOutput, is_flood

_LOOK_SECONDS = 0.2
"""How late a cancellation is seen, or the end of a command whose children keep its output open."""
_FLUSH_SECONDS = 1.0
"""For what a command wrote to come through a busy engine after its end, where its children keep the output open."""
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


class Reading(NamedTuple):
    """How a command's output is read."""

    timeout_seconds: float
    cancelled: threading.Event
    stdout: FileOutput | None


class ExecStream:
    """What one command writes."""

    def __init__(self, max_bytes: int, stdout: FileOutput | None = None) -> None:
        self.stdout = stdout or CappedOutput(max_bytes)
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
        closing: float | None = None
        with selectors.DefaultSelector() as selector:
            selector.register(connection, selectors.EVENT_READ)
            while not is_cancelled():
                now = time.monotonic()
                if closing is not None and now >= closing:
                    return End.CLOSED
                if now >= deadline:
                    return End.TIMED_OUT
                is_quiet = not selector.select(min(_LOOK_SECONDS, deadline - now))
                if is_quiet and closing is None and has_exited():
                    closing = time.monotonic() + _FLUSH_SECONDS
                # Read in any case: TLS may hold back what the selector cannot see.
                if not self._receive(connection):
                    return End.CLOSED
                if is_flood(self.stdout, self.stderr):
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

    def _receive(self, connection: socket.socket) -> bool:
        """Whether there may be more."""
        try:
            chunk = connection.recv(_CHUNK_BYTES)
        except _NOTHING_YET:
            return True
        except OSError:
            return False
        self.feed(chunk)
        return bool(chunk)
