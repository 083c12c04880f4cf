import asyncio
import json

import pytest

from gagar_cli.core.ranking import FLAGS
from gagar_cli.core.rubric import DIMENSIONS
from gagar_cli.errors import EndpointError, LimitError, VerdictError
from gagar_cli.grader.acceptance import Acceptance
from gagar_cli.grader.client import EndpointClient, EndpointSettings
from gagar_cli.grader.loop import Conversation, GroupLimits
from gagar_cli.grader.prompts import opening
from gagar_cli.grader.protocols import Rendering, action_format, manual
from gagar_cli.grader.tool_schemas import READING_SCHEMAS, SUBMIT_SCHEMA
from gagar_cli.grader.tools import Toolbox
from gagar_cli.grader.workspace import Workspace

SCHEMAS = [*READING_SCHEMAS, SUBMIT_SCHEMA]


def praise(candidate: str) -> dict:
    return {
        "id": candidate,
        "scores": dict.fromkeys(DIMENSIONS, 5),
        "flags": dict.fromkeys(FLAGS, False),
        "findings": [],
        "rationale": "fine",
    }


RANKING = {"candidates": [praise("c01"), praise("c02")]}


def action(*calls: tuple[str, dict]) -> str:
    return json.dumps({"calls": [{"tool": name, "arguments": arguments} for name, arguments in calls]})


class Run:
    """One conversation over a scripted endpoint, to its end."""

    def __init__(self, group, endpoint, *, limits: GroupLimits | None = None, **settings) -> None:
        workspace = Workspace(group, seed=0, repository=None)

        async def converse() -> None:
            values = {"max_attempts": 1, "call_seconds": 5, **settings}
            self.client = EndpointClient(EndpointSettings("m", endpoint.base_url, **values))
            self.conversation = Conversation(
                opening(workspace),
                Toolbox(workspace, None),
                Acceptance(workspace),
                self.client,
                limits or GroupLimits(),
            )
            try:
                self.ranking = await self.conversation.run()
            finally:
                await self.client.close()

        asyncio.run(converse())


@pytest.mark.parametrize("protocol", ["json-schema", "text"])
def test_actions_in_text_are_carried_out_and_answered(group, serve, chat, protocol):
    endpoint = serve(
        chat(content=action(("overview", {}), ("view_patch", {"candidate": "c01"}))),
        chat(content=f"So:\n```json\n{action(('submit_ranking', RANKING))}\n```"),
    )
    run = Run(group, endpoint, protocol=protocol)
    assert len(run.ranking) == 2
    first, second = endpoint.requests
    assert "tools" not in first
    assert ("response_format" in first) == (protocol == "json-schema")
    assert first["messages"][0]["content"].endswith(manual(SCHEMAS))
    assert [message["role"] for message in second["messages"]] == ["system", "user", "assistant", "user"]
    results = second["messages"][-1]["content"]
    assert results.startswith("[result 1 overview {}]\n")
    assert '\n[result 2 view_patch {"candidate": "c01"}]\n' in results


def test_the_log_is_the_same_in_every_protocol(group, serve, chat):
    logs = {}
    for protocol in ("tools", "text"):
        replies = [("overview", {})], [("submit_ranking", RANKING)]
        said = [chat(*calls) if protocol == "tools" else chat(content=action(*calls)) for calls in replies]
        run = Run(group, serve(*said), protocol=protocol)
        logs[protocol] = [
            (message["role"], [call["function"] for call in message.get("tool_calls", ())])
            for message in run.conversation.messages
        ]
    assert logs["tools"] == logs["text"]


REFUSALS = [
    (400, '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'),
    (400, "registry.ollama.ai/library/gemma3:4b does not support tools"),
    (500, "tools param requires --jinja flag"),
    (404, 'No endpoints found that support tool use. Try disabling "view_patch".'),
    (400, "litellm.UnsupportedParamsError: acme does not support parameters: ['tools'], for model=m"),
    (422, "body.tools: Extra inputs are not permitted"),
]


@pytest.mark.parametrize(("status", "words"), REFUSALS, ids=range(len(REFUSALS)))
def test_an_endpoint_without_tools_is_asked_with_a_schema(group, serve, chat, status, words):
    refusal = (status, {"error": {"message": words}})
    endpoint = serve(refusal, chat(content=action(("submit_ranking", RANKING))))
    run = Run(group, endpoint)
    assert run.client.protocol == "json-schema"
    assert "tools" in endpoint.requests[0]
    assert endpoint.requests[1]["response_format"]["type"] == "json_schema"
    assert run.client.notes[0].startswith("protocol json-schema: the endpoint does not take tools (status ")


def test_an_endpoint_without_schemas_either_is_asked_in_text(group, serve, chat):
    endpoint = serve(
        (400, {"error": {"message": "tools are not supported"}}),
        (400, {"error": {"message": "response_format json_schema is not supported"}}),
        chat(content=action(("submit_ranking", RANKING))),
    )
    run = Run(group, endpoint)
    assert run.client.protocol == "text"
    assert "response_format" not in endpoint.requests[2]


def test_a_protocol_that_was_asked_for_is_not_left(group, serve):
    with pytest.raises(EndpointError, match="does not take the protocol tools") as caught:
        Run(group, serve((400, {"error": {"message": "tools are not supported"}})), protocol="tools")
    assert caught.value.is_fatal


def test_tools_that_are_ignored_three_times_are_given_up(group, serve, chat):
    endpoint = serve(
        *[chat(content="Let me think about it.")] * 3, chat(content=action(("submit_ranking", RANKING)))
    )
    run = Run(group, endpoint)
    assert run.client.protocol == "json-schema"
    assert "3 replies made no use of it" in run.client.notes[0]
    assert endpoint.requests[3]["messages"][2]["content"] == "Let me think about it."


def test_a_model_that_never_acts_is_tried_in_every_protocol_and_then_given_up(group, serve, chat):
    endpoint = serve(*[chat(content="They are all great.")] * 20)
    with pytest.raises(VerdictError, match="unusable replies"):
        Run(group, endpoint)
    assert len(endpoint.requests) == 3 + 3 + 4


def test_prose_after_a_call_is_no_reason_to_leave_a_protocol(group, serve, chat):
    prose = [chat(content="They are all great.")] * 3
    endpoint = serve(chat(("overview", {})), *prose, chat(("submit_ranking", RANKING)))
    assert Run(group, endpoint).client.protocol == "tools"


def test_a_conversation_that_changes_protocol_keeps_what_was_done(group, serve, chat):
    endpoint = serve(
        chat(("overview", {}), content="First the overview."),
        (400, {"error": {"message": "tools are not supported"}}),
        chat(content=action(("submit_ranking", RANKING))),
    )
    Run(group, endpoint)
    _, _, reply, results = endpoint.requests[2]["messages"]
    assert reply == {
        "role": "assistant",
        "content": 'First the overview.\n{"calls": [{"tool": "overview", "arguments": {}}]}',
    }
    assert results["content"].startswith("[result 1 overview {}]\n")


def test_broken_actions_are_told_and_given_up_after_three(group, serve, chat):
    endpoint = serve(*[chat(content='{"calls": [{"tool": "overview", ')] * 9)
    with pytest.raises(VerdictError, match="JSON of the reply is not valid"):
        Run(group, endpoint, protocol="text")
    assert len(endpoint.requests) == 4
    assert "not valid" in endpoint.requests[1]["messages"][-1]["content"]


def test_a_reply_that_was_cut_is_told_so(group, serve, chat):
    cut = chat(content="")
    cut["choices"][0]["finish_reason"] = "length"
    endpoint = serve(cut, cut, chat(("submit_ranking", RANKING)))
    Run(group, endpoint)
    assert endpoint.requests[1]["messages"] == endpoint.requests[0]["messages"]
    assert "was cut off" in endpoint.requests[2]["messages"][-1]["content"]


def reasoned(body: dict, **fields: str) -> dict:
    body["choices"][0]["message"] |= fields
    return body


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
def test_reasoning_goes_back_in_its_own_field_and_stays_in_the_log(group, serve, chat, name):
    thought = action(("submit_ranking", RANKING))
    endpoint = serve(reasoned(chat(("overview", {})), **{name: thought}), chat(("submit_ranking", RANKING)))
    run = Run(group, endpoint)
    assert endpoint.requests[1]["messages"][2][name] == thought
    assert run.conversation.messages[2][name] == thought
    assert run.client.passes_reasoning


def test_reasoning_that_the_endpoint_refuses_is_left_out(group, serve, chat):
    endpoint = serve(
        reasoned(chat(("overview", {})), reasoning_content="hm"),
        (400, {"error": {"message": "messages[2].reasoning_content: Extra inputs are not permitted"}}),
        chat(("submit_ranking", RANKING)),
    )
    run = Run(group, endpoint)
    assert "reasoning_content" not in endpoint.requests[2]["messages"][2]
    assert run.conversation.messages[2]["reasoning_content"] == "hm"


def test_a_ranking_in_the_reasoning_is_no_submission(group, serve, chat):
    thought = action(("submit_ranking", RANKING))
    endpoint = serve(*[reasoned(chat(content=f"<think>{thought}</think>"), reasoning=thought)] * 4)
    with pytest.raises(VerdictError, match="holds no JSON object"):
        Run(group, endpoint, protocol="text")
    assert thought not in json.dumps(endpoint.requests[1])


def test_an_overflow_shortens_what_is_sent_and_goes_on(group, serve, chat):
    overflow = {
        "error": {
            "message": "This model's maximum context length is 8192 tokens. However, you requested 9000"
        }
    }
    readings = [chat(*[("view_test_output", {"candidate": "c01"})] * 5)] * 3
    long_group = type(group)(
        group.key,
        group.task,
        tuple(
            type(one)(
                **{**{n: getattr(one, n) for n in one.__slots__}, "test_output": "a line of the log\n" * 150}
            )
            for one in group.trajectories
        ),
    )
    endpoint = serve(*readings, (400, overflow), chat(("submit_ranking", RANKING)))
    run = Run(long_group, endpoint)
    before, after = (len(json.dumps(request["messages"])) for request in endpoint.requests[3:5])
    assert after < 0.6 * before
    assert endpoint.requests[4]["messages"][:2] == endpoint.requests[3]["messages"][:2]
    assert sum(len(str(message["content"])) for message in run.conversation.messages) > before * 0.8


def test_a_window_without_room_for_the_rules_ends_the_group(group, serve):
    overflow = (400, {"error": {"code": "context_length_exceeded", "message": "context length exceeded"}})
    with pytest.raises(LimitError, match="window is too small"):
        Run(group, serve(overflow))


def test_the_schema_is_small_and_bounded_by_names():
    schema = action_format(SCHEMAS)["json_schema"]["schema"]
    calls = schema["properties"]["calls"]
    assert [branch["properties"]["tool"]["enum"] for branch in calls["items"]["anyOf"]] == [
        [one["function"]["name"]] for one in SCHEMAS
    ]
    text = json.dumps(schema)
    assert not any(word in text for word in ("description", "minimum", "maximum", "pattern"))
    assert len(text) < 8_000


def test_a_message_is_encoded_once():
    rendering = Rendering(SCHEMAS)
    messages = [{"role": "system", "content": "rules"}, {"role": "user", "content": "go"}]
    before = rendering.request(messages, "tools").messages
    messages[0]["content"] = "changed in place"
    assert rendering.request(messages, "tools").messages == before
