"""A command that is given up while its sandbox is still being set up: nothing of it runs, and nothing is left."""

import asyncio
import contextlib
import os
import time
from pathlib import Path

import pytest

from gagar_cli.sandbox.base import Checkout, SandboxLimits
from gagar_cli.sandbox.bubblewrap import BubblewrapBackend
from gagar_cli.sandbox.bubblewrap_groups import group_places
from gagar_cli.sandbox.owner import current_owner, owned_name

SETUP_MILLISECONDS = range(24)
"""Of a sandbox, with room for a busy machine."""


def processes_with(word: str) -> list[str]:
    """Also those that never became the command: the whole argument list of bubblewrap is theirs."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if word.encode() in path.read_bytes().split(b"\0"):
                found.append(path.parent.name)
    return found


def left_over(word: str) -> list[str]:
    prefix = owned_name(current_owner(), "")
    return processes_with(word) + [path.name for place in group_places() for path in place.glob(prefix + "*")]


@pytest.mark.parametrize("has_groups", [True, False], ids=["groups", "no groups"])
def test_nothing_is_left_of_a_command_that_is_given_up_early(bubblewrap, tree, has_groups):
    if has_groups and bubblewrap.groups is None:
        pytest.skip("no control group can be made here")
    backend = BubblewrapBackend(
        bubblewrap.program,
        has_overlay=bubblewrap._has_overlay,
        groups=bubblewrap.groups if has_groups else None,
    )
    word = f"51{os.getpid()}.25"

    async def give_up_early() -> None:
        sandbox = await backend.open(Checkout(tree), "", SandboxLimits())
        for milliseconds in SETUP_MILLISECONDS:
            command = asyncio.create_task(sandbox.run(["sleep", word], timeout_seconds=60))
            await asyncio.sleep(milliseconds / 1000)
            command.cancel()
            await asyncio.wait([command])
        assert (await sandbox.run("echo usable", timeout_seconds=20)).stdout == "usable\n"

    asyncio.run(give_up_early())
    deadline = time.monotonic() + 2
    while left_over(word) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert left_over(word) == []


def test_a_time_that_is_over_before_the_setup_is_a_timeout_and_leaves_nothing(bubblewrap, tree):
    word = f"52{os.getpid()}.25"

    async def run_shortly():
        sandbox = await bubblewrap.open(Checkout(tree), "", SandboxLimits())
        return [await sandbox.run(["sleep", word], timeout_seconds=n / 1000) for n in range(1, 20, 3)]

    for result in asyncio.run(run_shortly()):
        assert (result.timed_out, result.exit_code, result.stdout) == (True, None, "")
    assert left_over(word) == []


def test_a_command_that_is_given_up_again_while_it_ends_has_ended_all_the_same(bubblewrap, tree):
    started = []

    async def give_up_twice() -> None:
        sandbox = await bubblewrap.open(Checkout(tree), "", SandboxLimits())
        for n in range(8):
            command = asyncio.create_task(sandbox.run("yes & sleep 60", timeout_seconds=60))
            while not sandbox._running:
                await asyncio.sleep(0.001)
            (run,) = sandbox._running
            started.append(run.process)
            await asyncio.sleep(n / 200)
            for _ in range(3):
                command.cancel()
                await asyncio.sleep(0)
            with contextlib.suppress(asyncio.CancelledError):
                await command
            assert run.process.returncode is not None

    asyncio.run(give_up_twice())
    assert len(started) == 8
