"""One bubblewrap command while it runs: its outermost process and what it writes, seen by the event loop alone.

No threads and no streams between: a command may last a few milliseconds, and every handing over costs a part of one.
"""

import asyncio
import contextlib
import os
import signal
from subprocess import Popen

from gagar_cli.sandbox.output import MAX_READ_BYTES, CappedOutput

_END_SECONDS = 5.0
"""For the last processes of an ended sandbox to be gone."""
_CHUNK_BYTES = 1 << 16


class CommandRun:
    """A command's outermost process, and its pipes: read under a cap, emptied after its end.

    Made in a running event loop, for a process whose output is in pipes. Wants `finish` in any case.
    """

    def __init__(self, process: Popen[bytes], max_bytes: int) -> None:
        self.process = process
        self.stdout = CappedOutput(max_bytes)
        self.stderr = CappedOutput(max_bytes)
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._drained: asyncio.Future[None] = self._loop.create_future()
        # Nobody else reaps the process, so that its number is its own until then.
        self._handle: int | None = os.pidfd_open(process.pid)
        self._loop.add_reader(self._handle, self._reap, self._handle)
        assert process.stdout is not None  # noqa: S101 - both are pipes
        assert process.stderr is not None  # noqa: S101
        self._pipes = {process.stdout.fileno(): self.stdout, process.stderr.fileno(): self.stderr}
        for pipe in self._pipes:
            os.set_blocking(pipe, False)
            self._loop.add_reader(pipe, self._read, pipe)

    def kill(self) -> None:
        """End the outermost process; the whole PID namespace goes with it. From any thread."""
        if self._handle is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._handle, signal.SIGKILL)

    async def wait(self, timeout_seconds: float) -> bool:
        """Wait until the command has ended; whether that was within the time.

        Its end, not that of its output, which children of its own may hold open.
        """
        await asyncio.wait([self._ended], timeout=timeout_seconds)
        return self._ended.done()

    async def finish(self) -> None:
        """Wait for the end of the namespace, which closes the pipes. The command has ended, or was killed."""
        try:
            await asyncio.wait([self._drained], timeout=_END_SECONDS)
            await self._ended
        finally:
            for pipe in list(self._pipes):
                self._close(pipe)
            for file in (self.process.stdout, self.process.stderr):
                assert file is not None  # noqa: S101 - both are pipes
                file.close()
            handle, self._handle = self._handle, None
            if handle is not None:
                self._loop.remove_reader(handle)
                os.close(handle)

    def _reap(self, handle: int) -> None:
        if self.process.poll() is not None:
            self._loop.remove_reader(handle)
            self._ended.set_result(None)

    def _read(self, pipe: int) -> None:
        try:
            chunk = os.read(pipe, _CHUNK_BYTES)
        except BlockingIOError:
            return
        if not chunk:
            self._close(pipe)
            return
        self._pipes[pipe].add(chunk)
        if self.stdout.n_bytes + self.stderr.n_bytes > MAX_READ_BYTES:
            self.kill()

    def _close(self, pipe: int) -> None:
        self._loop.remove_reader(pipe)
        del self._pipes[pipe]
        if not self._pipes and not self._drained.done():
            self._drained.set_result(None)
