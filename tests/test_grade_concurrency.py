"""How many groups are open and how many calls are on their way, in every command that grades groups."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from gagar_cli.audit import AuditSettings
from gagar_cli.audit import run as run_audit
from gagar_cli.audit_plan import Source
from gagar_cli.calibrate import CalibrateSettings
from gagar_cli.calibrate import run as run_calibration
from gagar_cli.core.spending import Budget
from gagar_cli.grade import GradeSettings, run
from gagar_cli.grader.client import EndpointSettings
from gagar_cli.grader.offline.app import complete
from gagar_cli.group_grading import GroupGraderSettings
from tests.servers import BackgroundServer

PATCH = "--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-x = {n}\n+x = {m}\n"
SECONDS = 0.02


class CountingEndpoint:
    """The offline model on a real socket, a moment late; counts the calls and conversations that are open."""

    def __init__(self) -> None:
        self.n_most_calls = self.n_most_open = 0
        self._n_calls = self._n_open = 0
        server = BackgroundServer(self._serve)
        self.base_url, self.close = server.base_url, server.close

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            length = next(
                int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")
            )
            body = json.dumps(await self._answer(json.loads(await reader.readexactly(length)))).encode()
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body))

    async def _answer(self, request: dict) -> dict:
        self._n_calls += 1
        # A conversation begins without a history.
        self._n_open += len(request["messages"]) == 2
        self.n_most_calls = max(self.n_most_calls, self._n_calls)
        self.n_most_open = max(self.n_most_open, self._n_open)
        await asyncio.sleep(SECONDS)
        self._n_calls -= 1
        answer = complete(request)
        calls = answer["choices"][0]["message"].get("tool_calls") or ()
        self._n_open -= any(call["function"]["name"] == "submit_ranking" for call in calls)
        return answer


@pytest.fixture
def endpoint() -> Iterator[CountingEndpoint]:
    served = CountingEndpoint()
    yield served
    served.close()


@pytest.fixture
def dump(tmp_path) -> Path:
    """Twelve groups that can be ranked."""
    records = [
        {
            "group_id": f"task-{group}",
            "trajectory_id": f"{group}-{number}",
            "reward": float(number < 2),
            "model_patch": PATCH.format(n=group, m=number),
            "problem_statement": f"set x in task {group}",
        }
        for group in range(12)
        for number in range(3)
    ]
    path = tmp_path / "dump.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def grade(dump: Path, endpoint: CountingEndpoint, concurrency: int, **changes) -> None:
    settings = EndpointSettings("offline", endpoint.base_url)
    output = str(dump.with_name("rankings.jsonl"))
    result = run(GradeSettings((str(dump),), output, settings, concurrency=concurrency, **changes))
    assert result.n_graded == 12


def test_calls_are_bounded_and_more_groups_are_open_than_that(dump, endpoint):
    grade(dump, endpoint, 3)
    assert endpoint.n_most_calls == 3
    assert 3 < endpoint.n_most_open <= 6


def test_one_call_at_a_time_finishes_a_group_before_the_next(dump, endpoint):
    grade(dump, endpoint, 1)
    assert (endpoint.n_most_calls, endpoint.n_most_open) == (1, 1)


def test_with_a_budget_no_more_groups_are_open_than_calls(dump, endpoint):
    grade(dump, endpoint, 3, budget=Budget(max_tokens=10**9))
    assert (endpoint.n_most_calls, endpoint.n_most_open) == (3, 3)


def test_a_calibration_has_as_many_calls_and_groups_open(endpoint, tmp_path):
    patch = "--- a/a.py\n+++ b/a.py\n@@ -1,2 +1,3 @@\n def f(x):\n-    return x\n+    y = x + {n}\n+    return y\n"
    path = tmp_path / "passing.jsonl"
    records = [
        {
            "group_id": f"task-{n}",
            "trajectory_id": f"{n}",
            "reward": 1.0,
            "model_patch": patch.format(n=n),
            "problem_statement": f"add {n}",
        }
        for n in range(12)
    ]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    judge = EndpointSettings("offline", endpoint.base_url, max_connections=3)
    settings = CalibrateSettings(
        (str(path),), str(tmp_path / "card"), GroupGraderSettings(judge), (judge,), concurrency=3
    )
    assert run_calibration(settings).cards[0].n_groups == 12
    assert endpoint.n_most_calls == 3
    assert 3 < endpoint.n_most_open <= 6


def test_an_audit_has_as_many_calls_and_tasks_open(endpoint, dump, tmp_path):
    other = tmp_path / "other.jsonl"
    other.write_text(dump.read_text().replace('"trajectory_id": "', '"trajectory_id": "other-'))
    judge = EndpointSettings("offline", endpoint.base_url, max_connections=3)
    run_audit(
        AuditSettings(
            source=Source((("old", (str(dump),)), ("new", (str(other),)))),
            output=str(tmp_path / "audit"),
            grader=GroupGraderSettings(judge),
            judges=(judge,),
            concurrency=3,
        )
    )
    assert endpoint.n_most_calls == 3
    assert 3 < endpoint.n_most_open <= 6
