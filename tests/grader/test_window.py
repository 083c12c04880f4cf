"""What one conversation learns of the model's window holds for the others of its run."""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler

import pytest

from gagar_cli.core.ranking import FLAGS
from gagar_cli.core.rubric import DIMENSIONS
from gagar_cli.errors import LimitError
from gagar_cli.grader.acceptance import Acceptance
from gagar_cli.grader.client import EndpointClient, EndpointSettings, Reply
from gagar_cli.grader.loop import Conversation, GroupLimits
from gagar_cli.grader.prompts import opening
from gagar_cli.grader.tools import Toolbox
from gagar_cli.grader.window import MIN_CONTEXT_CHARS, Window
from gagar_cli.grader.workspace import Workspace
from tests.servers import ThreadedServer

N_GROUPS = 6
OVERFLOW = (400, {"error": {"message": "This model's maximum context length is 8192 tokens"}})
RANKING = {
    "candidates": [
        {
            "id": name,
            "scores": dict.fromkeys(DIMENSIONS, 5),
            "flags": dict.fromkeys(FLAGS, False),
            "findings": [],
            "rationale": "because",
        }
        for name in ("c01", "c02")
    ]
}


def without_usage(body: dict) -> dict:
    """So that only refusals tell of the window."""
    return {name: value for name, value in body.items() if name != "usage"}


def hold(group, endpoint, n_groups: int) -> tuple[list[Conversation], EndpointClient]:
    """The group graded so many times over one client, one after the other."""

    async def run() -> tuple[list[Conversation], EndpointClient]:
        client = EndpointClient(EndpointSettings("m", endpoint.base_url, max_attempts=1, protocol="tools"))
        held = []
        try:
            for _ in range(n_groups):
                workspace = Workspace(group, seed=0, repository=None)
                limits = GroupLimits()
                held.append(
                    Conversation(
                        opening(workspace), Toolbox(workspace, None), Acceptance(workspace, 2), client, limits
                    )
                )
                await held[-1].run()
        finally:
            await client.close()
        return held, client

    return asyncio.run(run())


@pytest.fixture
def long_group(group):
    log = "a line of the log\n" * 300
    return replace(group, trajectories=tuple(replace(one, test_output=log) for one in group.trajectories))


class SmallWindow:
    """An endpoint that refuses what is longer than its window, and else reads six times, then submits."""

    def __init__(self, chat, max_chars: int) -> None:
        self.n_refused = 0
        reading = without_usage(chat(*[("view_test_output", {"candidate": "c01"})] * 3))
        submission = without_usage(chat(("submit_ranking", RANKING)))
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                messages = json.loads(self.rfile.read(int(self.headers["content-length"])))["messages"]
                n_chars = sum(len(message.get("content") or "") for message in messages)
                n_replies = sum(message["role"] == "assistant" for message in messages)
                status, body = (200, reading if n_replies < 6 else submission)
                if n_chars > max_chars:
                    endpoint.n_refused += 1
                    status, body = OVERFLOW
                data = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_arguments: object) -> None:
                pass

        server = ThreadedServer(Handler)
        self.base_url, self.close = server.base_url, server.close


@pytest.fixture
def small(chat) -> Iterator[SmallWindow]:
    endpoint = SmallWindow(chat, 24_000)
    yield endpoint
    endpoint.close()


def test_a_window_is_learnt_once_for_all_groups(long_group, small):
    held, client = hold(long_group, small, N_GROUPS)
    assert 1 <= small.n_refused <= 2
    assert 12_000 <= client.window.max_chars <= 24_000
    # Of each conversation more was said than its window holds.
    assert all(len(json.dumps(one.messages)) > 24_000 for one in held)


def test_a_group_that_fits_no_window_leaves_others_the_least_that_is_of_use(group, serve):
    with pytest.raises(LimitError, match="window is too small"):
        hold(group, serve(OVERFLOW), 1)
    window = Window()
    window.narrow(100)
    assert window.max_chars == MIN_CONTEXT_CHARS


def test_what_is_learnt_never_grows():
    window = Window()
    for n_chars in (60_000, 90_000):
        window.narrow(n_chars)
    assert window.max_chars == 30_000


def reply(n_tokens: int, n_cached: int = 0) -> Reply:
    return Reply("ready", (), "stop", n_tokens, n_cached, 1)


@pytest.mark.parametrize(
    ("n_chars", "answer", "is_cut"),
    [
        (32_000, reply(4_000), False),
        (32_001, reply(4_000), True),
        (20_000, reply(100), False),
        (32_001, replace(reply(4_000), is_estimated=True), False),
        (32_001, reply(1_000, n_cached=4_000), False),
    ],
    ids=["dense enough", "cut", "too short to tell", "not reported", "cached apart"],
)
def test_a_prompt_that_counts_too_few_tokens_was_cut(n_chars, answer, is_cut):
    window = Window()
    window.weigh(answer, n_chars)
    assert (window.cut_note is not None) == is_cut


def test_a_cut_prompt_is_noted_once(serve, chat):
    async def run() -> list[str]:
        client = EndpointClient(EndpointSettings("m", serve(*[chat(content="ready")] * 2).base_url))
        try:
            for n_chars in (30_000, 40_000):
                await client.complete([{"role": "user", "content": "y" * n_chars}], [])
        finally:
            await client.close()
        return client.notes

    (note,) = asyncio.run(run())
    assert note.startswith("the endpoint seems to cut prompts: it counted 300")
    assert "as 140 tokens" in note
    assert "`--max-context-tokens`" in note
