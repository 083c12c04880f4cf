"""JSON lines on stdout from a thread, where a reader that does not read must not keep the program from stopping.

A write that blocks in a thread cannot be interrupted. So each piece waits until it fits into the pipe, and the waiting
ends when the program is to stop: a reader that reads gets its line whole, one that does not may find the last one torn.
"""

import os
import select
import sys
import threading
from collections.abc import Mapping

from gagar_cli.errors import OutputError
from gagar_cli.io.jsonl import dump_line
from gagar_cli.io.writers import StdoutRecords

_PIECE_BYTES = 4096
"""What a pipe takes at once when it says that it takes something."""
_WAIT_MILLISECONDS = 100


class PatientStdout:
    """Writes records until it is stopped or nobody reads any more."""

    def __init__(self, descriptor: int | None = None) -> None:
        """`descriptor` stands for stdout; None: stdout itself, also where it is no file."""
        self._descriptor = descriptor
        self._plain: StdoutRecords | None = None
        self._stopping = threading.Event()
        if descriptor is None:
            try:
                sys.stdout.flush()
                self._descriptor = sys.stdout.fileno()
            except (OSError, ValueError, AttributeError):
                self._plain = StdoutRecords()

    @property
    def is_stopped(self) -> bool:
        """Whether nothing more is written to a reader that does not read."""
        return self._stopping.is_set()

    def stop(self) -> None:
        """From now on do not wait for the reader."""
        self._stopping.set()

    def write(self, record: Mapping[str, object]) -> bool:
        """Write one record; False when nobody reads, or the wait for it was stopped.

        Raises:
            OutputError: stdout is a file on a full disk, or the like.
        """
        if self._plain is not None:
            return self._plain.write(record)
        assert self._descriptor is not None  # noqa: S101 - one of both
        rest = memoryview(dump_line(record))
        poll = select.poll()
        poll.register(self._descriptor, select.POLLOUT)
        try:
            while rest:
                if poll.poll(_WAIT_MILLISECONDS):
                    rest = rest[os.write(self._descriptor, rest[:_PIECE_BYTES]) :]
                elif self.is_stopped:
                    return False
        except BrokenPipeError:
            return False
        except OSError as error:
            raise OutputError(
                f"stdout: cannot be written: {(error.strerror or str(error)).lower()}"
            ) from error
        return True
