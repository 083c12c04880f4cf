"""Output of untrusted commands, kept within a cap while it is read: the head and the tail, the middle dropped.

What is wanted whole goes to a file, under a cap of its own.
"""

from typing import BinaryIO

MAX_READ_BYTES = 64 * 1024 * 1024
"""Of both streams together; a command that writes more is ended, since reading it all would take a core."""


class CappedOutput:
    """One stream: the first and the last half of `max_bytes`, with a note of what is missing between."""

    max_read_bytes = MAX_READ_BYTES

    def __init__(self, max_bytes: int) -> None:
        self._half = max(1, max_bytes // 2)
        self._head = bytearray()
        self._tail = bytearray()
        self.n_bytes = 0
        """Bytes that the command wrote to the stream."""

    def add(self, chunk: bytes) -> None:
        """Take the next bytes."""
        self.n_bytes += len(chunk)
        room = self._half - len(self._head)
        self._head += chunk[:room]
        self._tail += chunk[room:]
        # Cut only now and then: every cut moves the whole tail.
        if len(self._tail) > 2 * self._half:
            del self._tail[: -self._half]

    @property
    def n_dropped(self) -> int:
        """Bytes that are counted and not kept."""
        return max(0, self.n_bytes - 2 * self._half)

    @property
    def is_truncated(self) -> bool:
        """Whether bytes were dropped."""
        return self.n_dropped > 0

    @property
    def content(self) -> bytes:
        """What was kept."""
        tail = bytes(self._tail[-self._half :])
        note = b"\n[%d bytes dropped]\n" % self.n_dropped if self.is_truncated else b""
        return bytes(self._head) + note + tail

    @property
    def text(self) -> str:
        """What was kept, decoded leniently."""
        return self.content.decode("utf-8", "replace")


class FileOutput:
    """One stream as a file: whole, or the command is ended."""

    text = ""
    """Nothing of it belongs to the result."""

    def __init__(self, file: BinaryIO, max_bytes: int) -> None:
        self.max_read_bytes = max_bytes
        self.n_bytes = 0
        self.is_truncated = False
        """There was more than the cap, or more than the disk takes."""
        self._file = file

    def add(self, chunk: bytes) -> None:
        """Write the next bytes."""
        self.n_bytes += len(chunk)
        try:
            if not self.is_truncated and self.n_bytes <= self.max_read_bytes:
                self._file.write(chunk)
                return
        except OSError:
            # Told by the loss: the reader ends the command as one that writes too much.
            self.n_bytes += self.max_read_bytes
        self.is_truncated = True


def is_flood(stdout: CappedOutput | FileOutput, stderr: CappedOutput) -> bool:
    """Whether a command has written more than is read of any."""
    return stdout.n_bytes + stderr.n_bytes > max(stdout.max_read_bytes, stderr.max_read_bytes)
