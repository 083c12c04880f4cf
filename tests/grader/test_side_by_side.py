"""Tool calls of one reply: what runs at the same time, and what is kept in order."""

import asyncio
import threading
import time
from dataclasses import replace

import pytest

from gagar_cli.errors import SandboxError
from gagar_cli.grader import tools
from gagar_cli.grader.acceptance import Acceptance
from gagar_cli.grader.checks import CheckRunner
from gagar_cli.grader.client import EndpointClient, EndpointSettings, RequestedCall
from gagar_cli.grader.loop import Conversation, GroupLimits
from gagar_cli.grader.prompts import opening
from gagar_cli.grader.tools import Toolbox
from gagar_cli.grader.workspace import Workspace
from gagar_cli.sandbox.base import ExecResult
from gagar_cli.sandbox.limited import LimitedSandbox


class SlowSandbox:
    """Takes a while for each command, and keeps count of how many run at the same time."""

    def __init__(self, log: list[str]) -> None:
        self.log = log

    async def run(self, command, *, timeout_seconds: float, cwd: str = ".") -> ExecResult:
        if command[-1] == "break":
            raise SandboxError("the engine went away")
        self.log.append(f"+{command[-1]}")
        await asyncio.sleep(0.05 if command[-1].startswith("slow") else 0.01)
        self.log.append(f"-{command[-1]}")
        return ExecResult(0, command[-1], "", 0.0)

    async def close(self) -> None:
        pass


def check(candidate: str, command: str) -> tuple[str, dict]:
    return ("run_check", {"candidate": candidate, "command": command})


@pytest.fixture
def answers(group, serve, chat):
    """Runs one reply's calls; their answers in order, and what ran when."""

    def ask(*calls, n_turns: int | None = None) -> tuple[list[str], list[str]]:
        endpoint = serve(chat(*calls))
        log: list[str] = []
        turns = asyncio.Semaphore(n_turns or 100)

        async def open_sandbox(patch: str) -> LimitedSandbox:
            return LimitedSandbox(SlowSandbox(log), turns)

        async def converse() -> list[str]:
            client = EndpointClient(EndpointSettings("m", endpoint.base_url, max_attempts=1, call_seconds=5))
            workspace = Workspace(group, seed=0, repository=None)
            toolbox = Toolbox(workspace, CheckRunner(workspace, "x", open_sandbox, max_seconds=9))
            conversation = Conversation(
                opening(workspace), toolbox, Acceptance(workspace), client, GroupLimits(max_turns=1)
            )
            try:
                with pytest.raises(Exception, match=r"no ranking within 1 turns|went away"):
                    await conversation.run()
            finally:
                await client.close()
            return [one["content"] for one in conversation.messages if one["role"] == "tool"]

        return asyncio.run(converse()), log

    return ask


def test_commands_of_different_candidates_run_at_the_same_time_and_are_answered_in_order(answers):
    told, log = answers(check("c01", "slow"), check("c02", "quick"))
    assert log == ["+slow", "+quick", "-quick", "-slow"]
    assert [answer.split(" ")[0] for answer in told] == ["c01:exec:1", "c02:exec:1"]


def test_commands_of_one_candidate_run_one_after_the_other_as_they_were_asked(answers):
    told, log = answers(check("c01", "slow"), check("c01", "quick"), check("c01", "third"))
    assert log == ["+slow", "-slow", "+quick", "-quick", "+third", "-third"]
    assert [answer.split(" ")[0] for answer in told] == ["c01:exec:1", "c01:exec:2", "c01:exec:3"]


def test_no_more_commands_run_than_there_are_turns(answers):
    _, log = answers(check("c01", "a"), check("c02", "b"), n_turns=1)
    assert log == ["+a", "-a", "+b", "-b"]


def test_a_submission_waits_for_the_calls_before_it(answers):
    told, log = answers(check("c01", "slow"), ("submit_ranking", {"candidates": []}), check("c02", "late"))
    assert log == ["+slow", "-slow", "+late", "-late"]
    assert told[1].startswith("error: not accepted")


def test_a_broken_sandbox_ends_the_grading_with_its_own_words(answers):
    answers(check("c01", "break"), check("c02", "slow"))


class CollidingTools:
    """One tool breaks; the other is still being stopped for it when the run is stopped."""

    schemas: tuple = ()

    def __init__(self) -> None:
        self.is_stopping = asyncio.Event()

    async def call(self, name: str, arguments: dict) -> str:
        if arguments["candidate"] == "c01":
            await asyncio.sleep(0.01)
            raise SandboxError("the engine went away")
        try:
            await asyncio.sleep(60)
        finally:
            self.is_stopping.set()
            await asyncio.sleep(0.02)
        return ""


def test_a_run_that_is_stopped_while_a_tool_breaks_is_stopped():
    """Else the accident would stand for the stop, and the run go on with the next group."""
    tools = CollidingTools()

    async def run() -> None:
        conversation = Conversation((), tools, None, None, GroupLimits())
        calls = [
            RequestedCall(name, "run_check", {"candidate": name, "command": "x"}, "")
            for name in ("c01", "c02")
        ]
        using = asyncio.create_task(conversation._use_tools(calls))
        await tools.is_stopping.wait()
        using.cancel()
        with pytest.raises(asyncio.CancelledError):
            await using

    asyncio.run(run())


def test_an_expression_that_takes_long_holds_up_no_other_group(group):
    """On so little text everything else is done at once; an expression may take a second for it."""
    slow = replace(group.trajectories[0], test_output="a" * 90_000)
    workspace = Workspace(
        replace(group, trajectories=(slow, *group.trajectories[1:])), seed=0, repository=None
    )

    async def run() -> tuple[float, float]:
        search = asyncio.create_task(
            Toolbox(workspace, None).call("search", {"text": r"\C(a?){1000}b", "regex": True})
        )
        began = last = time.monotonic()
        longest = 0.0
        while not search.done():
            await asyncio.sleep(0.005)
            longest, last = max(longest, time.monotonic() - last), time.monotonic()
        assert "c01:turn:1:1│call bash" in await search
        return time.monotonic() - began, longest

    assert workspace.is_quick
    seconds, longest = asyncio.run(run())
    assert longest < seconds / 2


def test_a_group_whose_tools_were_slow_once_does_not_hold_up_the_others_again(group, monkeypatch):
    threads: list[int] = []

    class Watched(Workspace):
        @property
        def problem_statement(self) -> str:
            threads.append(threading.get_ident())
            return "a task"

        @problem_statement.setter
        def problem_statement(self, text: str) -> None:
            pass

    async def run(toolbox: Toolbox) -> list[bool]:
        """Which of two looks were taken on the event loop."""
        is_here = []
        for _ in range(2):
            threads.clear()
            await toolbox.call("overview", {})
            is_here.append(set(threads) == {threading.get_ident()})
        return is_here

    workspace = Watched(group, seed=0, repository=None)
    assert workspace.is_quick
    monkeypatch.setattr(tools, "QUICK_SECONDS", 60.0)
    assert asyncio.run(run(Toolbox(workspace, None))) == [True, True]
    monkeypatch.setattr(tools, "QUICK_SECONDS", 0.0)
    assert asyncio.run(run(Toolbox(workspace, None))) == [True, False]
