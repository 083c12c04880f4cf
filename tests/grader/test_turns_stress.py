"""Many groups under everything that can end one: each comes to its end, and every turn and sandbox is given back."""

import asyncio
import json
import random
from collections import Counter
from dataclasses import replace

import pytest

from gagar_cli.core.ranking import FLAGS
from gagar_cli.core.rubric import DIMENSIONS
from gagar_cli.core.schema import Group, GroupKey
from gagar_cli.errors import SandboxError
from gagar_cli.grader.client import EndpointClient, EndpointSettings
from gagar_cli.grader.loop import GroupLimits
from gagar_cli.grader.rules import GradingRules
from gagar_cli.grader.session import GroupMeans, grade_group
from gagar_cli.sandbox.base import ExecResult
from gagar_cli.sandbox.limited import LimitedSandbox
from tests.servers import listening

N_GROUPS, N_TURNS = 40, 3
MAX_SECONDS = 60
SCORES = {"scores": dict.fromkeys(DIMENSIONS, 5), "flags": dict.fromkeys(FLAGS, False), "findings": []}

TAMPERING = """\
diff --git a/conftest.py b/conftest.py
--- /dev/null
+++ b/conftest.py
@@ -0,0 +1,2 @@
+def pytest_runtest_makereport(item, call):
+    return None
"""


class Endpoint:
    """A raw endpoint that fails, stalls and talks at random."""

    def __init__(self, dice: random.Random, chat) -> None:
        self._dice = dice
        self._chat = chat

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            length = next(
                int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")
            )
            request = json.loads(await reader.readexactly(length))
            await asyncio.sleep(self._dice.choice((0, 0, 0.001, 0.01)))
            if not await self._answer(request, writer):
                return

    async def _answer(self, request: dict, writer: asyncio.StreamWriter) -> bool:
        kind = self._dice.random()
        if kind < 0.02:
            return False
        if kind < 0.03:
            await asyncio.sleep(0.3)
        status, headers, body = b"200 OK", b"", self._reply(request)
        if kind < 0.06:
            status, body = b"500 Broken", {}
        elif kind < 0.08:
            status, headers, body = b"429 Later", b"retry-after: 0.02\r\n", {}
        sent = json.dumps(body).encode()
        writer.write(b"HTTP/1.1 %s\r\n%scontent-length: %d\r\n\r\n%s" % (status, headers, len(sent), sent))
        await writer.drain()
        return True

    def _reply(self, request: dict) -> dict:
        kind = self._dice.random()
        if kind < 0.1:
            body = self._chat(content="let me think")
            body["choices"][0]["finish_reason"] = "length"
            return body
        if kind < 0.55:
            names = self._dice.sample(("c01", "c02"), self._dice.choice((1, 2, 2)))
            return self._chat(*(("run_check", {"candidate": name, "command": "true"}) for name in names))
        shown = [name for name in ("c01", "c02") if f"{name}:" in json.dumps(request["messages"])]
        entries = [{"id": name, "rationale": "fine", **SCORES} for name in shown or ("c01", "c02")]
        return self._chat(("submit_ranking", {"candidates": entries}))


class RandomSandbox:
    """Fails now and then, also while it is stopped."""

    def __init__(self, dice: random.Random, open_now: set["RandomSandbox"]) -> None:
        self._dice = dice
        self._open_now = open_now
        open_now.add(self)

    async def run(self, command, *, timeout_seconds: float, cwd: str = ".") -> ExecResult:
        try:
            await asyncio.sleep(self._dice.choice((0, 0.001, 0.02)))
        except asyncio.CancelledError:
            await asyncio.sleep(0.002)
            raise
        if self._dice.random() < 0.03:
            raise SandboxError("the engine went away")
        return ExecResult(0, "", "", 0.0)

    async def close(self) -> None:
        await asyncio.sleep(0)
        self._open_now.discard(self)


async def storm(group: Group, dice: random.Random, base_url: str) -> Counter[str]:
    settings = EndpointSettings(
        "m", base_url, max_connections=N_TURNS, call_seconds=0.2, max_attempts=4, backoff_seconds=0.001
    )
    client = EndpointClient(settings)
    commands, sandboxes = asyncio.Semaphore(2), asyncio.Semaphore(N_TURNS)
    open_now: set[RandomSandbox] = set()

    async def open_sandbox(patch: str) -> LimitedSandbox:
        await asyncio.sleep(dice.choice((0, 0.005)))
        if dice.random() < 0.02:
            raise SandboxError("no room")
        return LimitedSandbox(RandomSandbox(dice, open_now), commands)

    means = GroupMeans(sandbox_name="x", open_sandbox=open_sandbox, sandbox_turns=sandboxes)

    async def grade(number: int) -> str:
        attempts = group.trajectories
        if number % 4 == 0:
            # A lone pass with something to vote on.
            attempts = (replace(attempts[0], model_patch=TAMPERING), *attempts[2:])
        one = replace(group, key=GroupKey(number, "tables"), trajectories=attempts)
        limits = GroupLimits(
            max_turns=dice.choice((2, 5, 12)),
            max_seconds=dice.choice((0.02, 0.1, 5.0)),
            max_tokens=dice.choice((500, 100_000)),
        )
        rules = GradingRules(mode=dice.choice(("agentic", "pointwise-agentic")), repeats=dice.choice((1, 2)))
        ranking = (await grade_group(one, client, means, limits=limits, seed=number, rules=rules)).ranking
        return (ranking.reason or ranking.status).split(":")[0]

    try:
        tasks = [asyncio.create_task(grade(number)) for number in range(N_GROUPS)]
        while not all(task.done() for task in tasks):
            await asyncio.sleep(0.02)
            if dice.random() < 0.3:
                dice.choice(tasks).cancel()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
    finally:
        await client.close()
    assert (client.turns._value, sandboxes._value, commands._value) == (N_TURNS, N_TURNS, 2)
    assert open_now == set()
    return Counter(end if isinstance(end, str) else type(end).__name__ for end in ends)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_groups_that_fail_are_stopped_or_run_out_of_budget_give_everything_back(group, chat, seed):
    async def run() -> Counter[str]:
        dice = random.Random(seed)
        async with asyncio.timeout(MAX_SECONDS), listening(Endpoint(dice, chat)) as port:
            return await storm(group, dice, f"http://127.0.0.1:{port}/v1")

    ends = asyncio.run(run())
    assert ends.total() == N_GROUPS
    assert ends["limit"]
    assert ends["graded"]
    assert set(ends) <= {"graded", "lone_pass", "limit", "sandbox", "verdict", "endpoint", "CancelledError"}
