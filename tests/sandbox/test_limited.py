import asyncio

from gagar_cli.sandbox.base import ExecResult
from gagar_cli.sandbox.limited import LimitedSandbox, default_n_commands


class Counting:
    """Knows how many of its kind ran at the same time."""

    n_running = n_most = 0

    async def run(self, command, *, timeout_seconds: float, cwd: str) -> ExecResult:
        Counting.n_running += 1
        Counting.n_most = max(Counting.n_most, Counting.n_running)
        await asyncio.sleep(0.01)
        Counting.n_running -= 1
        return ExecResult(0, "", "", 0.01)

    async def close(self) -> None:
        pass


def test_sandboxes_share_one_limit():
    async def run_all() -> None:
        turns = asyncio.Semaphore(3)
        sandboxes = [LimitedSandbox(Counting(), turns) for _ in range(12)]
        await asyncio.gather(*(one.run(["true"], timeout_seconds=1) for one in sandboxes))

    asyncio.run(run_all())
    assert Counting.n_most == 3


def test_there_is_at_least_one_turn():
    assert default_n_commands() >= 2
