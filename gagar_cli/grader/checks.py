"""`run_check`: a command in one candidate's own checkout, in that candidate's own sandbox.

Sandboxes are opened at the first command and closed with the group. Nothing is ever run for a candidate whose patch
is refused. What comes back of a command is untrusted too: it is shown under the coordinate of the candidate.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from gagar_cli.core.comparisons import leave_out_comparisons
from gagar_cli.core.text import split_lines
from gagar_cli.core.verification import RunOutcome, count_tests, drop_runner_files, judge_probe, judge_runs
from gagar_cli.errors import CheckoutError
from gagar_cli.grader.pages import cite, show_inline
from gagar_cli.grader.workspace import Workspace
from gagar_cli.sandbox.base import ExecResult, Sandbox

OpenSandbox = Callable[[str], Awaitable[Sandbox]]
"""Given a candidate's patch: its sandbox, or SandboxError."""

MAX_COMMAND_CHARS = 4_000
TESTS_PRESET = "tests"
VERIFY_PRESET = "verify"
_MAX_PLACES = 3


class Verification(NamedTuple):
    """What two runs of a candidate's tests say together."""

    number: int
    """Of the run with the base's test runner, as findings cite it."""
    result: ExecResult
    plain_number: int
    """Of the run with the whole patch."""
    plain: RunOutcome
    restored: tuple[str, ...]
    """Files of the test runner whose changes were left out; empty where there were none, and only one run."""
    doubts: tuple[str, ...]
    """Why the pass is not to be believed."""
    probe_number: int | None = None
    """Of a run without the patch's comparisons that answer the same whatever they are asked; None where it has none."""


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
        self._sandboxes: dict[tuple[str, str], Sandbox] = {}
        self._locks: dict[str, asyncio.Lock] = {}

    async def run(
        self, candidate: str, command: str, timeout_seconds: float | None
    ) -> tuple[int, ExecResult]:
        """Run a shell command (or the preset `tests`) for a candidate; its number and result.

        Raises:
            CheckoutError: the patch is unknown, refused, or does not apply.
            SandboxError: the sandbox broke.
        """
        patch = self._applicable_patch(candidate)
        if command == TESTS_PRESET and self._workspace.task.test_command:
            command = self._workspace.task.test_command
        return await self._run(candidate, patch, command, timeout_seconds)

    async def verify(self, candidate: str, timeout_seconds: float | None) -> Verification:
        """Run the task's tests with the whole patch, and again with the base's test runner where the patch changes it.

        A pass is tried once more without the comparisons of the patch that answer the same whatever they are asked.

        Raises:
            CheckoutError: as `run`; or the task names no test command.
            SandboxError: the sandbox broke.
        """
        patch = self._applicable_patch(candidate)
        command = self._workspace.task.test_command
        if not command:
            raise CheckoutError("the task names no test command, so there is nothing to verify")
        restored = drop_runner_files(patch)
        number, result = await self._run(candidate, patch, command, timeout_seconds)
        plain_number, plain = number, _outcome(command, result)
        if restored.dropped:
            number, result = await self._run(candidate, restored.text, command, timeout_seconds)
        outcome = _outcome(command, result)
        doubts = judge_runs(command, plain, outcome)
        probe_number = None
        probe = leave_out_comparisons(restored.text)
        if probe.left_out and outcome.exit_code == 0:
            probe_number, without = await self._run(candidate, probe.text, command, timeout_seconds)
            places = [
                f"{candidate}:{show_inline(found.path)}:{found.line}"
                for found in probe.left_out[:_MAX_PLACES]
            ]
            doubts += judge_probe(outcome, _outcome(command, without), places)
        return Verification(number, result, plain_number, plain, restored.dropped, doubts, probe_number)

    async def _run(
        self, candidate: str, patch: str, command: str, timeout_seconds: float | None
    ) -> tuple[int, ExecResult]:
        seconds = min(timeout_seconds or self._max_seconds, self._max_seconds)
        async with self._locks.setdefault(candidate, asyncio.Lock()):
            if (candidate, patch) not in self._sandboxes:
                self._sandboxes[candidate, patch] = await self._open_sandbox(patch)
            sandbox = self._sandboxes[candidate, patch]
            result = await sandbox.run(["sh", "-c", command], timeout_seconds=seconds)
        self.n_checks += 1
        lines = [*split_lines(result.stdout), *split_lines(result.stderr)]
        return self._workspace.next_execution(candidate, lines), result

    def _applicable_patch(self, candidate: str) -> str:
        attempt = self._workspace.attempts[candidate]
        if attempt.trajectory.model_patch is None:
            raise CheckoutError(f"the patch of {candidate} is unknown, so there is nothing to run")
        if attempt.refusals:
            raise CheckoutError(f"the patch of {candidate} is refused: {attempt.refusals[0]}")
        return attempt.trajectory.model_patch

    async def close(self) -> None:
        """Close every sandbox that was opened; one that cannot be closed does not keep the others open.

        Once begun it is waited for, also where the group is stopped meanwhile.
        """
        sandboxes, self._sandboxes = list(self._sandboxes.values()), {}
        closing = asyncio.gather(*(sandbox.close() for sandbox in sandboxes), return_exceptions=True)
        try:
            await asyncio.shield(closing)
        except asyncio.CancelledError:
            await closing
            raise


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


def describe_verification(candidate: str, verification: Verification) -> list[str]:
    """The lines above the output of a verification run."""
    lines = [describe(candidate, verification.number, verification.result)]
    if verification.restored:
        lines.append("this run has the base commit's test runner; left out of the patch:")
        lines += [cite("  file", path) for path in verification.restored]
        lines.append(
            f"the run with the whole patch, {candidate}:exec:{verification.plain_number}: {verification.plain}"
        )
    else:
        lines.append("the patch changes no file of the test runner: one run is both")
    if verification.probe_number is not None:
        lines.append(
            f"the run without its comparisons that heed nothing: {candidate}:exec:{verification.probe_number}"
        )
    return [*lines, *(f"verification {doubt}" for doubt in verification.doubts or ("found nothing",))]


def _outcome(command: str, result: ExecResult) -> RunOutcome:
    return RunOutcome(result.exit_code, count_tests(command, f"{result.stdout}\n{result.stderr}"))
