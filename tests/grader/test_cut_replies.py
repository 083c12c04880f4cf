import asyncio
import contextlib
import json
from typing import Any

import pytest

from gagar_cli.core.ranking import FLAGS
from gagar_cli.core.rubric import DIMENSIONS
from gagar_cli.errors import EndpointError, LimitError, VerdictError
from gagar_cli.grader.acceptance import Acceptance
from gagar_cli.grader.client import EndpointClient, EndpointSettings
from gagar_cli.grader.cut_replies import MIN_RAISED_TOKENS, larger_bound
from gagar_cli.grader.loop import Conversation, GroupLimits
from gagar_cli.grader.prompts import opening
from gagar_cli.grader.replies import Reply, RequestedCall
from gagar_cli.grader.talks import Talks
from gagar_cli.grader.tools import Toolbox
from gagar_cli.grader.workspace import Workspace
from gagar_cli.interrupts import run_interruptibly
from gagar_cli.tables_ranking import conversation_lines

PRAISE = {"scores": dict.fromkeys(DIMENSIONS, 5), "flags": dict.fromkeys(FLAGS, False), "findings": []}
RANKING = {"candidates": [{"id": name, "rationale": "fine", **PRAISE} for name in ("c01", "c02")]}

LIMITS = GroupLimits()


def cut(body: dict[str, Any]) -> dict[str, Any]:
    body["choices"][0]["finish_reason"] = "length"
    return body


def half_a_call(chat) -> dict[str, Any]:
    body = cut(chat(("submit_ranking", {})))
    body["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] = json.dumps(RANKING)[:40]
    return body


def converse(
    group, endpoint, limits: GroupLimits = LIMITS, **settings
) -> tuple[Conversation, EndpointClient]:
    """A conversation to its end, and the client that held it."""
    workspace = Workspace(group, seed=0, repository=None)

    async def hold() -> tuple[Conversation, EndpointClient]:
        client = EndpointClient(EndpointSettings("m", endpoint.base_url, max_attempts=1, **settings))
        toolbox, acceptance = Toolbox(workspace, None), Acceptance(workspace)
        conversation = Conversation(opening(workspace), toolbox, acceptance, client, limits)
        try:
            await conversation.run()
        finally:
            await client.close()
        return conversation, client

    return run_interruptibly(hold())


def bounds(endpoint) -> list[int | None]:
    return [request.get("max_tokens", request.get("max_completion_tokens")) for request in endpoint.requests]


def test_a_reply_that_was_cut_is_asked_again_with_twice_the_room(group, serve, chat):
    endpoint = serve(half_a_call(chat), chat(("overview", {})), chat(("submit_ranking", RANKING)))
    conversation, client = converse(group, endpoint, max_output_tokens=500)
    assert bounds(endpoint) == [500, 1_000, 500]
    assert endpoint.requests[0]["messages"] == endpoint.requests[1]["messages"]
    # Both calls were paid for; what is sent holds the whole reply only.
    assert (conversation.usage.n_calls, conversation.usage.n_output_tokens) == (3, 30)
    assert [message["role"] for message in endpoint.requests[2]["messages"]] == [
        *("system", "user", "assistant", "tool")
    ]
    assert [note for note in client.notes if "--max-output-tokens" in note]


def test_the_log_holds_what_was_cut_off_as_it_was_said(group, serve, chat):
    endpoint = serve(half_a_call(chat), chat(("overview", {})), chat(("submit_ranking", RANKING)))
    conversation, _ = converse(group, endpoint, max_output_tokens=500)
    said = [message for message in conversation.messages if message["role"] == "assistant"]
    assert len(said) == conversation.usage.n_calls
    assert [message.get("cut_off", False) for message in said] == [True, False, False]
    assert said[0]["tool_calls"][0]["function"]["arguments"] == json.dumps(RANKING)[:40]
    shown = "\n".join(conversation_lines(tuple(conversation.messages)))
    assert "assistant (cut off at its largest length, asked again)\n" in shown
    assert json.dumps(RANKING)[:40] in shown


def test_a_conversation_that_goes_on_from_a_log_leaves_out_what_was_cut_off(group, serve, chat):
    endpoint = serve(chat(("submit_ranking", RANKING)))
    workspace = Workspace(group, seed=0, repository=None)
    cut_off = {"role": "assistant", "content": "half", "cut_off": True}

    async def hold() -> None:
        client = EndpointClient(EndpointSettings("m", endpoint.base_url, max_attempts=1))
        talks = Talks(client, LIMITS)
        try:
            await talks.hold([*opening(workspace), cut_off], Toolbox(workspace, None), Acceptance(workspace))
        finally:
            await client.close()

    asyncio.run(hold())
    assert [message["role"] for message in endpoint.requests[0]["messages"]] == ["system", "user"]


@pytest.mark.parametrize("second", [(400, {"error": {"message": "invalid max_tokens: too many"}}), (401, {})])
def test_the_log_holds_a_cut_reply_once_where_no_other_took_its_place(group, serve, chat, second):
    endpoint = serve(cut(chat(content="hm")), second, chat(("submit_ranking", RANKING)))
    workspace = Workspace(group, seed=0, repository=None)
    talks: list[Talks] = []

    async def hold() -> None:
        client = EndpointClient(
            EndpointSettings("m", endpoint.base_url, max_attempts=1, max_output_tokens=500)
        )
        talks.append(Talks(client, LIMITS))
        try:
            await talks[0].hold(opening(workspace), Toolbox(workspace, None), Acceptance(workspace))
        finally:
            await client.close()

    with contextlib.suppress(EndpointError):
        asyncio.run(hold())
    said = [message for message in talks[0].messages if message.get("content") == "hm"]
    assert [message.get("cut_off", False) for message in said] == [second[0] == 401]


def test_a_reply_that_was_cut_twice_is_told_to_the_model(group, serve, chat):
    endpoint = serve(half_a_call(chat), half_a_call(chat), chat(("submit_ranking", RANKING)))
    converse(group, endpoint, max_output_tokens=500)
    assert bounds(endpoint) == [500, 1_000, 500]
    assert "not a JSON object" in endpoint.requests[2]["messages"][-1]["content"]


def test_a_larger_bound_that_is_refused_leaves_the_first_reply_and_the_name_of_the_bound(group, serve, chat):
    refusal = {"error": {"message": "invalid max_tokens: 1000 is more than 600"}}
    endpoint = serve(cut(chat(content="hm")), (400, refusal), chat(("submit_ranking", RANKING)))
    _, client = converse(group, endpoint, max_output_tokens=500)
    assert bounds(endpoint) == [500, 1_000, 500]
    assert client.cap_name == "max_tokens"
    assert "was cut off" in endpoint.requests[2]["messages"][-1]["content"]


def test_a_first_bound_that_is_spelt_otherwise_is_respelt(group, serve, chat):
    refusal = {"error": {"message": "max_tokens is not supported, use max_completion_tokens instead"}}
    endpoint = serve(
        cut(chat(content="hm")), (400, refusal), chat(("overview", {})), chat(("submit_ranking", RANKING))
    )
    converse(group, endpoint)
    assert bounds(endpoint) == [None, MIN_RAISED_TOKENS, MIN_RAISED_TOKENS, None]
    assert "max_completion_tokens" in endpoint.requests[2]


def test_a_bound_of_the_extra_body_is_left_alone(group, serve, chat):
    endpoint = serve(cut(chat(content="hm")), chat(("submit_ranking", RANKING)))
    converse(group, endpoint, extra_body={"max_tokens": 300})
    assert bounds(endpoint) == [300, 300]
    assert "was cut off" in endpoint.requests[1]["messages"][-1]["content"]


def test_a_model_that_is_always_cut_off_ends_its_group_and_keeps_the_protocol(group, serve, chat):
    """A model that thinks too long does heed its tools; four replies, each asked twice, are enough."""
    endpoint = serve(*[cut(chat(content=""))] * 20)
    client = EndpointClient(EndpointSettings("m", endpoint.base_url, max_attempts=1, max_output_tokens=500))
    talks = Talks(client, GroupLimits())
    workspace = Workspace(group, seed=0, repository=None)

    async def hold() -> None:
        try:
            await talks.hold(opening(workspace), Toolbox(workspace, None), Acceptance(workspace))
        finally:
            await client.close()

    with pytest.raises(VerdictError, match="unusable replies"):
        asyncio.run(hold())
    assert bounds(endpoint) == [500, 1_000] * 4
    assert (talks.usage.n_calls, client.protocol) == (8, "tools")


def test_a_budget_that_the_cut_reply_used_up_buys_no_second_one(group, serve, chat):
    endpoint = serve(half_a_call(chat), chat(("submit_ranking", RANKING)))
    with pytest.raises(LimitError, match="no ranking within 100 tokens"):
        converse(group, endpoint, GroupLimits(max_tokens=100), max_output_tokens=500)
    assert bounds(endpoint) == [500]


CALL = RequestedCall("1", "overview", {}, "{}")
BROKEN = RequestedCall("1", "overview", None, '{"sta')


def reply(*calls: RequestedCall, finish: str = "length", n_input: int = 1_000, n_output: int = 600) -> Reply:
    return Reply("", calls, finish, n_input, 0, n_output)


@pytest.mark.parametrize(
    ("given", "bound", "expected"),
    [
        (reply(BROKEN), 600, 1_200),
        (reply(), 600, 1_200),
        (reply(CALL), 600, None),
        (reply(CALL, BROKEN), 600, 1_200),
        (reply(BROKEN, finish="stop"), 600, 1_200),
        (reply(BROKEN, finish="stop"), 700, None),
        (reply(BROKEN, finish="stop"), None, None),
        (reply(BROKEN), None, MIN_RAISED_TOKENS),
        (reply(BROKEN, n_output=9_000), None, 18_000),
        (reply(BROKEN, n_input=99_000), 600, 1_000),
        (reply(BROKEN, n_input=99_500), 600, None),
    ],
    ids=[
        "broken call",
        "no call",
        "whole call",
        "the second is broken",
        "at the bound, said to be whole",
        "broken, but not at the bound",
        "broken without a bound",
        "no bound known",
        "no bound known, a long reply",
        "what the window holds",
        "the window holds no more",
    ],
)
def test_more_room_is_for_what_a_bound_has_cut(given, bound, expected):
    assert larger_bound(given, "tools", bound, max_context_tokens=100_000) == expected


def test_an_action_in_text_that_was_cut_gets_more_room():
    text = Reply('{"calls": [{"tool": "overview", "argu', (), "length", 10, 0, 5_000)
    assert larger_bound(text, "text", None, 100_000) == 10_000
