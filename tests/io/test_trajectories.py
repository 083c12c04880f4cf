import json

import pytest

from gagar_cli.core.schema import Message, ToolCall, Trajectory
from gagar_cli.errors import InputError
from gagar_cli.io.records import Fields
from gagar_cli.io.trajectories import join_segments, read_messages, read_task, read_trajectory

CALL = {"id": "1", "type": "function", "function": {"name": "bash", "arguments": '{"command": "ls"}'}}


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        pytest.param({"role": "user", "content": "a"}, Message("user", "a"), id="text"),
        pytest.param({"role": "user", "content": None}, Message("user", ""), id="null"),
        pytest.param(
            {"role": "user", "content": [{"type": "text", "text": "a"}, "b", {"type": "image_url"}]},
            Message("user", "a\nb\n[image_url]"),
            id="parts",
        ),
        pytest.param({"role": "user", "content": {"k": 1}}, Message("user", '{"k": 1}'), id="object"),
        pytest.param({"from": "gpt", "value": "a"}, Message("assistant", "a"), id="from and value"),
        pytest.param(
            {"role": "ai", "text": "a", "content": None}, Message("assistant", "a"), id="ai and text"
        ),
        pytest.param({"role": "human", "content": "a"}, Message("user", "a"), id="human"),
        pytest.param(
            {"role": "assistant", "reasoning_content": "why"}, Message("assistant", "why"), id="reasoning"
        ),
        pytest.param(
            {"role": "tool", "content": "a", "name": "bash"}, Message("tool", "a", name="bash"), id="name"
        ),
        pytest.param({"content": "a"}, Message("unknown", "a"), id="no role"),
    ],
)
def test_messages_are_read_as_agents_write_them(entry: dict[str, object], message: Message) -> None:
    assert read_messages([entry]) == (message,)


@pytest.mark.parametrize(
    ("entry", "call"),
    [
        pytest.param({"tool_calls": [CALL]}, ToolCall("bash", '{"command": "ls"}'), id="function"),
        pytest.param(
            {"tool_calls": json.dumps([CALL])}, ToolCall("bash", '{"command": "ls"}'), id="all as text"
        ),
        pytest.param(
            {"tool_calls": [json.dumps(CALL)]}, ToolCall("bash", '{"command": "ls"}'), id="each as text"
        ),
        pytest.param(
            {"tool_calls": [{"name": "f", "arguments": {"b": 1, "a": 2}}]},
            ToolCall("f", '{"a": 2, "b": 1}'),
            id="flat",
        ),
        pytest.param({"function_call": {"name": "f", "arguments": "x"}}, ToolCall("f", "x"), id="older form"),
        pytest.param(
            {"content": [{"type": "tool_use", "name": "f", "input": {}}]}, ToolCall("f", "{}"), id="part"
        ),
        pytest.param({"tool_calls": [5]}, ToolCall("unknown", "5"), id="nonsense is kept as text"),
        pytest.param({"tool_calls": "not json"}, ToolCall("unknown", "not json"), id="text that is no JSON"),
    ],
)
def test_tool_calls_are_read_in_every_form(entry: dict[str, object], call: ToolCall) -> None:
    assert read_messages([{"role": "assistant", **entry}])[0].tool_calls == (call,)


def test_a_log_may_be_json_text() -> None:
    assert read_messages('[{"role": "user", "content": "a"}]') == (Message("user", "a"),)


@pytest.mark.parametrize("nothing", [None, [], "", "[]"])
def test_no_log_is_no_messages(nothing: object) -> None:
    assert read_messages(nothing) == ()


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("hello", 'messages is "hello"'),
        (5, "messages is 5"),
        ([1], r"messages\[0\] is 1, expected an object"),
    ],
)
def test_what_is_no_log_is_refused(value: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_messages(value)


@pytest.mark.parametrize("name", ["model_patch", "test_output"])
def test_a_heavy_field_must_be_text(name: str) -> None:
    with pytest.raises(InputError, match=f"{name} is 5, expected text or null"):
        read_trajectory({name: 5}, Fields({}), trajectory_id="t", reward=1.0, passed=True, where="d:1")


def test_an_empty_patch_is_not_an_unknown_one() -> None:
    patches = [
        read_trajectory(
            record, Fields({}), trajectory_id="t", reward=1.0, passed=True, where="d:1"
        ).model_patch
        for record in ({"model_patch": ""}, {"model_patch": None}, {})
    ]
    assert patches == ["", None, None]


def test_a_task_takes_mapped_fields() -> None:
    task = read_task({"meta": {"repo": "a/b"}, "instance_id": 7}, Fields({"repo": "meta.repo"}))
    assert (task.repo, task.instance_id, task.base_commit) == ("a/b", "7", None)


def test_segments_follow_each_other_and_the_last_known_patch_stands() -> None:
    first = Trajectory("t", 1.0, passed=True, messages=(Message("user", "a"),), model_patch="old")
    second = Trajectory("t", 1.0, passed=True, messages=(Message("user", "b"),), model_patch="new")
    third = Trajectory("t", 1.0, passed=True)
    joined = join_segments(first, [first, second, third])
    assert [message.content for message in joined.messages] == ["a", "b"]
    assert joined.model_patch == "new"
