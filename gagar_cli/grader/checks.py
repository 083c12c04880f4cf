"""`run_check`: a command in one candidate's own checkout, in that candidate's own sandbox.

Sandboxes are opened at the first command and closed with the group. Nothing is ever run for a candidate whose patch
is refused. What comes back of a command is untrusted too: it is shown under the coordinate of the candidate.
"""

import asyncio
from collections.abc import Awaitable, Callable

from gagar_cli.core.text import split_lines
from gagar_cli.errors import CheckoutError
from gagar_cli.grader.workspace import Workspace
from gagar_cli.sandbox.base import ExecResult, Sandbox

OpenSandbox = Callable[[str], Awaitable[Sandbox]]
"""Given a candidate's patch: its sandbox, or SandboxError."""

MAX_COMMAND_CHARS = 4_000
TESTS_PRESET = "tests"


class CheckRunner:
    """The sandboxes of one group's candidates."""

    def __init__(
        self, workspace: Workspace, name: str, open_sandbox: OpenSandbox, *, max_seconds: float
    ) -> None:
        self.name = name
        self.n_checks = 0
        self._workspace = workspace
        self._open_sandbox = open_sandbox
        self._max_seconds = max_seconds
        self._sandboxes: dict[str, Sandbox] = {}
        self._locks: dict[str, asyncio.Lock] = {}

    async def run(
        self, candidate: str, command: str, timeout_seconds: float | None
    ) -> tuple[int, ExecResult]:
        """Run a shell command (or the preset `tests`) for a candidate; its number and result.

        Raises:
            CheckoutError: the patch is unknown, refused, or does not apply.
            SandboxError: the sandbox broke.
        """
        attempt = self._workspace.attempts[candidate]
        if attempt.trajectory.model_patch is None:
            raise CheckoutError(f"the patch of {candidate} is unknown, so there is nothing to run")
        if attempt.refusals:
            raise CheckoutError(f"the patch of {candidate} is refused: {attempt.refusals[0]}")
        if command == TESTS_PRESET and self._workspace.task.test_command:
            command = self._workspace.task.test_command
        seconds = min(timeout_seconds or self._max_seconds, self._max_seconds)
        async with self._locks.setdefault(candidate, asyncio.Lock()):
            if candidate not in self._sandboxes:
                self._sandboxes[candidate] = await self._open_sandbox(attempt.trajectory.model_patch)
            result = await self._sandboxes[candidate].run(["sh", "-c", command], timeout_seconds=seconds)
        self.n_checks += 1
        lines = [*split_lines(result.stdout), *split_lines(result.stderr)]
        return self._workspace.next_execution(candidate, lines), result

    async def close(self) -> None:
        """Close every sandbox that was opened; one that cannot be closed does not keep the others open."""
        sandboxes, self._sandboxes = list(self._sandboxes.values()), {}
        await asyncio.gather(*(sandbox.close() for sandbox in sandboxes), return_exceptions=True)


def describe(candidate: str, number: int, result: ExecResult) -> str:
    """The line above a command's output: what the sandbox saw from outside."""
    if result.timed_out:
        outcome = "timed out"
    elif result.out_of_memory:
        outcome = "ran out of memory"
    else:
        outcome = f"exit {result.exit_code}"
    cut = ", output cut" if result.truncated else ""
    return f"{candidate}:exec:{number} {outcome}, {result.seconds:.1f} s{cut}"
