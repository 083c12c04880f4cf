"""One bubblewrap command while it runs."""

import asyncio
import contextlib
import os
import signal
from asyncio.subprocess import Process

from gagar_cli.sandbox.output import MAX_READ_BYTES, CappedOutput

_END_SECONDS = 5.0
"""For the last processes of an ended sandbox to be gone."""
_CHUNK_BYTES = 1 << 16


class CommandRun:
    """A command's outermost process, and its pipes: fed, read under a cap, emptied after its end."""

    def __init__(self, process: Process, max_bytes: int) -> None:
        self.process = process
        self.stdout = CappedOutput(max_bytes)
        self.stderr = CappedOutput(max_bytes)
        self._tasks: list[asyncio.Task[None]] = []
        # asyncio's own `kill` may reap the process behind the back of the watcher that waits for it.
        self._handle: int | None = None
        with contextlib.suppress(ProcessLookupError):
            self._handle = os.pidfd_open(process.pid)

    def kill(self) -> None:
        """End the outermost process; the whole PID namespace goes with it. From any thread."""
        if self._handle is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._handle, signal.SIGKILL)

    async def pump(self, patch: bytes, timeout_seconds: float) -> bool:
        """Feed and read until the command has ended; whether that was within the time."""
        self._tasks = [
            asyncio.create_task(self._read(self.process.stdout, self.stdout)),
            asyncio.create_task(self._read(self.process.stderr, self.stderr)),
            asyncio.create_task(self._feed(patch)),
        ]
        try:
            async with asyncio.timeout(timeout_seconds):
                # Its end, not that of its output, which children of its own may hold open.
                await self.process.wait()
        except TimeoutError:
            return False
        return True

    async def finish(self) -> None:
        """Wait for the end of the namespace, which closes the pipes."""
        await asyncio.wait(self._tasks, timeout=_END_SECONDS)
        for task in self._tasks:
            task.cancel()
        await self.process.wait()
        handle, self._handle = self._handle, None
        if handle is not None:
            os.close(handle)

    async def _read(self, stream: asyncio.StreamReader | None, output: CappedOutput) -> None:
        assert stream is not None  # noqa: S101 - both are pipes
        while chunk := await stream.read(_CHUNK_BYTES):
            output.add(chunk)
            if self.stdout.n_bytes + self.stderr.n_bytes > MAX_READ_BYTES:
                self.kill()

    async def _feed(self, patch: bytes) -> None:
        if self.process.stdin is None:
            return
        try:
            self.process.stdin.write(patch)
            await self.process.stdin.drain()
            self.process.stdin.close()
        except (BrokenPipeError, ConnectionResetError):
            pass
