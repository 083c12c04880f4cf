"""One bubblewrap command while it runs: its outermost process and what it writes, seen by the event loop alone.

No threads and no streams between: a command may last a few milliseconds, and every handing over costs a part of one.
"""

import asyncio
import contextlib
import os
import signal
from subprocess import Popen

from gagar_cli.sandbox.launcher import GO
from gagar_cli.sandbox.output import CappedOutput, FileOutput, is_flood

_END_SECONDS = 5.0
"""For the last processes of an ended sandbox to be gone."""
_CHUNK_BYTES = 1 << 16


class CommandRun:
    """A command's outermost process, and its pipes: read under a cap, emptied after its end.

    Made in a running event loop, for a process whose output is in pipes. Wants `finish` in any case.
    """

    def __init__(self, process: Popen[bytes], max_bytes: int, stdout: FileOutput | None = None) -> None:
        self.process = process
        self.stdout = stdout or CappedOutput(max_bytes)
        self.stderr = CappedOutput(max_bytes)
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._drained: asyncio.Future[None] = self._loop.create_future()
        self._spoke: asyncio.Future[None] = self._loop.create_future()
        self._is_condemned = False
        # Nobody else reaps the process, so that its number is its own until then.
        try:
            self._handle: int | None = os.pidfd_open(process.pid)
        except OSError:
            # A launcher whose input ends, ends.
            for file in (process.stdin, process.stdout, process.stderr):
                if file is not None:
                    file.close()
            raise
        self._loop.add_reader(self._handle, self._reap, self._handle)
        assert process.stdout is not None  # noqa: S101 - both are pipes
        assert process.stderr is not None  # noqa: S101
        self._pipes: dict[int, CappedOutput | FileOutput] = {
            process.stdout.fileno(): self.stdout,
            process.stderr.fileno(): self.stderr,
        }
        for pipe in self._pipes:
            os.set_blocking(pipe, False)
            self._loop.add_reader(pipe, self._read, pipe)

    def kill(self) -> None:
        """End the outermost process; the whole PID namespace goes with it. From any thread.

        Not before the launcher is there: until then a part of the namespace would be left behind, and wait forever.
        """
        self._is_condemned = True
        if self._spoke.done() and self._handle is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._handle, signal.SIGKILL)

    async def let_go(self, timeout_seconds: float) -> None:
        """Let the launcher go, once it is there: by then its namespace ends with the outermost process."""
        assert self.process.stdin is not None  # noqa: S101 - it is a pipe
        await asyncio.wait([self._spoke], timeout=timeout_seconds)
        if self._spoke.done():
            with contextlib.suppress(BrokenPipeError):
                self.process.stdin.write(GO)

    async def wait(self, timeout_seconds: float) -> bool:
        """Wait until the command has ended; whether that was within the time.

        Its end, not that of its output, which children of its own may hold open.
        """
        await asyncio.wait([self._ended], timeout=timeout_seconds)
        return self._ended.done()

    async def finish(self) -> None:
        """End the command, and wait for the end of the namespace, however often that is cancelled meanwhile."""
        ending = asyncio.ensure_future(self._finish())
        is_cancelled = False
        while not ending.done():
            try:
                await asyncio.wait([ending])
            except asyncio.CancelledError:
                is_cancelled = True
        ending.result()
        if is_cancelled:
            raise asyncio.CancelledError

    async def _finish(self) -> None:
        # The end of the namespace closes the pipes.
        assert self.process.stdin is not None  # noqa: S101 - it is a pipe
        # A launcher that was not let go ends by itself.
        self.process.stdin.close()
        self.kill()
        try:
            if not self._spoke.done():
                await asyncio.wait([self._spoke], timeout=_END_SECONDS)
                self._tell_spoke()
            await asyncio.wait([self._drained], timeout=_END_SECONDS)
            await self._ended
        finally:
            for pipe in list(self._pipes):
                self._close(pipe)
            for file in (self.process.stdin, self.process.stdout, self.process.stderr):
                assert file is not None  # noqa: S101 - all are pipes
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
        output = self._pipes[pipe]
        output.add(chunk)
        if output is self.stderr:
            self._tell_spoke()
        if is_flood(self.stdout, self.stderr):
            self.kill()

    def _tell_spoke(self) -> None:
        if not self._spoke.done():
            self._spoke.set_result(None)
        if self._is_condemned:
            self.kill()

    def _close(self, pipe: int) -> None:
        self._loop.remove_reader(pipe)
        if self._pipes.pop(pipe) is self.stderr:
            self._tell_spoke()
        if not self._pipes and not self._drained.done():
            self._drained.set_result(None)
