"""A sandbox whose commands wait for their turn: a machine runs only so many side by side, whatever is asked for."""

import asyncio
import os
from dataclasses import dataclass

from gagar_cli.sandbox.base import Command, ExecResult, Sandbox


def default_n_commands() -> int:
    """Two for each processor that we may use: commands wait for files too, and more of them only wait for each other."""
    return 2 * len(os.sched_getaffinity(0))


@dataclass(frozen=True, slots=True)
class LimitedSandbox:
    """A sandbox under a limit that all sandboxes of a run share."""

    sandbox: Sandbox
    turns: asyncio.Semaphore

    async def run(self, command: Command, *, timeout_seconds: float, cwd: str = ".") -> ExecResult:
        """Wait for a turn, then run; the wait does not count as the command's time.

        Raises:
            SandboxError: as the sandbox's own.
        """
        async with self.turns:
            return await self.sandbox.run(command, timeout_seconds=timeout_seconds, cwd=cwd)

    async def close(self) -> None:
        """Close the sandbox."""
        await self.sandbox.close()
