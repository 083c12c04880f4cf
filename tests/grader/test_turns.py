"""Turns of a run: at the endpoint and at sandboxes; waiting for one is nobody's time."""

import asyncio
import threading
import time

import pytest

from gagar_cli.core.ranking import FLAGS
from gagar_cli.core.rubric import DIMENSIONS
from gagar_cli.errors import LimitError
from gagar_cli.grader.acceptance import Acceptance
from gagar_cli.grader.client import EndpointClient, EndpointSettings
from gagar_cli.grader.loop import GroupLimits
from gagar_cli.grader.prompts import opening
from gagar_cli.grader.session import GroupMeans, grade_group
from gagar_cli.grader.talks import Talks
from gagar_cli.grader.tools import Toolbox
from gagar_cli.grader.turns import GroupTurn, call_apart
from gagar_cli.grader.workspace import Workspace
from gagar_cli.sandbox.base import ExecResult

PRAISE = {"scores": dict.fromkeys(DIMENSIONS, 5), "flags": dict.fromkeys(FLAGS, False), "findings": []}
RANKING = {"candidates": [{"id": name, "rationale": "fine", **PRAISE} for name in ("c01", "c02")]}


@pytest.mark.parametrize("is_quick", [True, False])
def test_only_what_takes_its_time_is_done_in_a_thread(is_quick):
    async def run() -> bool:
        return await call_apart(threading.get_ident, is_quick=is_quick) == threading.get_ident()

    assert asyncio.run(run()) == is_quick


def test_a_group_takes_one_turn_however_often_it_needs_it():
    async def run() -> tuple[int, int]:
        turns = asyncio.Semaphore(3)
        turn = GroupTurn(turns)
        await asyncio.gather(*(turn.take(asyncio.Semaphore.acquire) for _ in range(5)))
        n_left = turns._value
        turn.give_back()
        turn.give_back()
        return n_left, turns._value

    assert asyncio.run(run()) == (2, 3)


def test_a_group_that_is_stopped_while_it_waits_keeps_nobody_from_a_turn():
    async def run() -> None:
        turns = asyncio.Semaphore(1)
        holder, waiter, last = (GroupTurn(turns) for _ in range(3))
        await holder.take(asyncio.Semaphore.acquire)
        waiting = asyncio.create_task(waiter.take(asyncio.Semaphore.acquire))
        await asyncio.sleep(0.01)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        waiter.give_back()
        holder.give_back()
        await asyncio.wait_for(last.take(asyncio.Semaphore.acquire), 1)
        assert turns.locked()

    asyncio.run(run())


def test_waiting_for_a_turn_at_the_endpoint_is_no_time_of_the_group(group, serve, chat):
    """The second conversation of the group has the time of both, less what was really used."""
    replies = [chat(("submit_ranking", RANKING))] * 2

    async def run() -> float:
        client = EndpointClient(EndpointSettings("m", serve(*replies).base_url, max_connections=1))
        talks = Talks(client, GroupLimits(max_seconds=0.6))
        workspace = Workspace(group, seed=0, repository=None)
        started = time.monotonic()
        try:
            for _ in range(2):
                await client.turns.acquire()
                asyncio.get_running_loop().call_later(0.8, client.turns.release)
                await talks.hold(opening(workspace), Toolbox(workspace, None), Acceptance(workspace))
        finally:
            await client.close()
        return time.monotonic() - started

    assert asyncio.run(run()) > 1.6


def test_an_answer_that_is_late_is_still_the_groups_time(group, serve, chat):
    async def run() -> None:
        client = EndpointClient(EndpointSettings("m", serve().base_url, backoff_seconds=50.0))
        workspace = Workspace(group, seed=0, repository=None)
        talks = Talks(client, GroupLimits(max_seconds=0.3))
        try:
            with pytest.raises(LimitError, match=r"no ranking within 0\.[23]"):
                await talks.hold(opening(workspace), Toolbox(workspace, None), Acceptance(workspace))
        finally:
            await client.close()
        assert client.turns._value == 64

    asyncio.run(run())


def hold_behind(group, endpoint, *, max_seconds: float, **settings) -> float:
    """The seconds that a conversation takes."""

    async def run() -> float:
        values = {"backoff_seconds": 0.0, "max_failures": 1, "max_connections": 1, **settings}
        client = EndpointClient(EndpointSettings("m", endpoint.base_url, **values))
        workspace = Workspace(group, seed=0, repository=None)
        talks = Talks(client, GroupLimits(max_seconds=max_seconds))
        started = time.monotonic()
        try:
            await talks.hold(opening(workspace), Toolbox(workspace, None), Acceptance(workspace))
        finally:
            await client.close()
        return time.monotonic() - started

    return asyncio.run(run())


def test_a_wait_that_the_endpoint_asks_for_is_no_time_of_the_group_nor_of_the_call(group, serve, chat):
    later = (429, b"later", {"retry-after": "1"})
    endpoint = serve(later, chat(("submit_ranking", RANKING)))
    assert hold_behind(group, endpoint, max_seconds=0.6, call_seconds=0.6) > 1.0


def test_a_pause_of_the_run_is_no_time_of_the_group(group, serve, chat):
    endpoint = serve((500, b"down"), (500, b"down"), chat(("submit_ranking", RANKING)))
    assert hold_behind(group, endpoint, max_seconds=0.6, pause_seconds=1.0) > 1.0


class Sandbox:
    """Says yes, and counts the sandboxes that are open."""

    def __init__(self, open_now: list["Sandbox"]) -> None:
        self._open_now = open_now
        open_now.append(self)

    async def run(self, argv: object, timeout_seconds: float) -> ExecResult:
        await asyncio.sleep(0.05)
        return ExecResult(0, "", "", 0.1)

    async def close(self) -> None:
        self._open_now.remove(self)


def test_no_more_groups_than_there_are_turns_have_sandboxes(group, serve, chat):
    """Each group runs commands for both candidates at once, so two sandboxes are open at most."""
    checks = [("run_check", {"candidate": name, "command": "true"}) for name in ("c01", "c02")]
    n_most = 0

    async def run() -> list[str]:
        nonlocal n_most
        turns, open_now = asyncio.Semaphore(1), []

        async def open_sandbox(patch: str) -> Sandbox:
            nonlocal n_most
            sandbox = Sandbox(open_now)
            n_most = max(n_most, len(open_now))
            return sandbox

        async def grade() -> str:
            # An endpoint of its own: each conversation gets its replies in order.
            endpoint = serve(chat(*checks), chat(("submit_ranking", RANKING)))
            client = EndpointClient(EndpointSettings("m", endpoint.base_url, max_attempts=1))
            means = GroupMeans(sandbox_name="x", open_sandbox=open_sandbox, sandbox_turns=turns)
            try:
                graded = await grade_group(group, client, means, limits=GroupLimits(), seed=0)
            finally:
                await client.close()
            return graded.ranking.reason or graded.ranking.status

        return await asyncio.gather(*(grade() for _ in range(4)))

    assert asyncio.run(run()) == ["graded"] * 4
    assert n_most == 2
