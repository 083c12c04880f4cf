"""Every form of message log as canonical messages."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gagar_cli.core.messages import before_reply, chat_messages
from gagar_cli.core.messages_agents import action_messages, atif_messages, openhands_messages
from gagar_cli.core.messages_responses import responses_messages
from gagar_cli.core.messages_templates import split_template


def test_calls_of_chat_completions_keep_their_arguments_as_written() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "ls", "arguments": '{"path":  "."}'}}
    entry = {"role": "assistant", "content": None, "tool_calls": [call], "refusal": None}
    assert chat_messages([entry, {"role": "tool", "tool_call_id": "c1", "content": "a.py"}]) == [
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": "c1", "name": "ls", "arguments": '{"path":  "."}'}],
        },
        {"role": "tool", "content": "a.py", "tool_call_id": "c1"},
    ]


def test_arguments_as_an_object_become_text_with_sorted_keys() -> None:
    call = {"function": {"name": "f", "arguments": {"b": 1, "a": 2}}}
    made = chat_messages([{"role": "assistant", "content": "x", "tool_calls": [call]}])
    assert made[0]["tool_calls"][0]["arguments"] == '{"a": 2, "b": 1}'


def test_results_among_the_blocks_of_a_user_message_become_messages_of_tools() -> None:
    blocks = [
        {"type": "tool_result", "tool_use_id": "u1", "content": [{"type": "text", "text": "out"}]},
        {"type": "text", "text": "go on"},
    ]
    assert chat_messages([{"role": "user", "content": blocks}])[0] == {
        "role": "tool",
        "content": "out",
        "tool_call_id": "u1",
    }
    assert chat_messages([{"role": "user", "content": blocks}])[1]["content"] == "go on"


def test_thinking_and_calls_among_the_blocks_are_kept_apart() -> None:
    blocks = [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "text", "text": "ok"},
        {"type": "tool_use", "id": "u1", "name": "bash", "input": {"command": "ls"}},
    ]
    (made,) = chat_messages([{"role": "assistant", "content": blocks}])
    assert (made["content"], made["reasoning_content"]) == ("ok", "hm")
    assert made["tool_calls"] == [{"id": "u1", "name": "bash", "arguments": '{"command": "ls"}'}]
    assert json.loads(made["extra"])["content"] == blocks


def test_a_part_without_text_is_named_and_kept() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    (made,) = chat_messages([{"role": "user", "content": [{"type": "text", "text": "see"}, image]}])
    assert made["content"] == "see\n[image_url]"
    assert json.loads(made["extra"])["content"][1] == image


@pytest.mark.parametrize(
    ("entry", "role", "content"),
    [
        ({"from": "human", "value": "hi"}, "user", "hi"),
        ({"from": "gpt", "value": "yes"}, "assistant", "yes"),
        ({"role": "ai", "text": "yes", "system_prompt": None}, "assistant", "yes"),
        ({"role": "system", "text": None, "system_prompt": "sys"}, "system", "sys"),
        ({"role": "developer", "content": "sys"}, "system", "sys"),
        ("bare", "unknown", "bare"),
        (7, "unknown", "7"),
    ],
)
def test_other_names_of_roles_and_texts_are_understood(entry: Any, role: str, content: str) -> None:
    (made,) = chat_messages([entry])
    assert (made["role"], made["content"]) == (role, content)


def test_a_canonical_log_stays_as_it_is() -> None:
    entry = {"role": "assistant", "content": [{"type": "text", "text": "a"}, {"type": "image"}], "cost": 1}
    once = chat_messages([entry])
    assert chat_messages(once) == once


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["role", "content", "type", "text", "tool_calls", "function", "name", "kind", "action", "args",
                             "observation", "results", "source", "message", "extra", "from", "value", "llm_message"])
            | st.text(max_size=4),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)  # fmt: skip


@settings(max_examples=60)
@given(st.lists(JSON, max_size=4))
def test_any_log_becomes_messages_that_are_stable(entries: list[Any]) -> None:
    for make in (chat_messages, responses_messages, action_messages, atif_messages, openhands_messages):
        made = make(entries)
        assert all(isinstance(each["role"], str) and isinstance(each["content"], str) for each in made)
    once = chat_messages(entries)
    assert chat_messages(once) == once


def test_responses_items_join_a_reply_with_its_calls_and_reasoning() -> None:
    items = [
        {"type": "message", "role": "user", "content": "u"},
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "ok", "annotations": []}],
        },
        {"type": "function_call", "name": "ls", "arguments": "{}", "call_id": "c"},
        {"type": "function_call_output", "call_id": "c", "output": "a.py"},
        {"type": "function_call", "name": "cat", "arguments": "{}", "call_id": "d"},
    ]
    made = responses_messages(items)
    assert [each["role"] for each in made] == ["user", "assistant", "tool", "assistant"]
    assert made[1]["reasoning_content"] == "hm"
    assert made[1]["tool_calls"] == [{"id": "c", "name": "ls", "arguments": "{}"}]
    assert made[2] == {"role": "tool", "content": "a.py", "tool_call_id": "c"}


CHATML = (
    "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nU<|im_end|>\n<|im_start|>assistant\nA<|im_end|>\n"
)
LLAMA_3 = (
    "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nS<|eot_id|><|start_header_id|>user<|end_header_id|>\n\n"
    "U<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\nA<|eot_id|>"
)
LLAMA_2 = "<s>[INST] <<SYS>>\nS\n<</SYS>>\n\nU [/INST] A </s>"
DEEPSEEK = "<｜begin▁of▁sentence｜><｜User｜>U<｜Assistant｜>A<｜end▁of▁sentence｜>"
GLM = "[gMASK]<sop><|system|>\nS<|user|>\nU<|assistant|>\nA"
THREE = [("system", "S"), ("user", "U"), ("assistant", "A")]


@pytest.mark.parametrize(
    ("text", "template", "expected"),
    [
        (CHATML, "chatml", THREE),
        (LLAMA_3, "llama-3", THREE),
        (LLAMA_2, "llama-2", THREE),
        (DEEPSEEK, "deepseek", THREE[1:]),
        (GLM, "glm", THREE),
        ("system\nS\nuser\nU\nassistant\nA", "bare", THREE),
        ("no template at all", "none", [("user", "no template at all")]),
        ("the user\nsaid", "none", [("user", "the user\nsaid")]),
        ("user\na\nuser\nb", "none", [("user", "user\na\nuser\nb")]),
    ],
)
def test_text_of_a_chat_template_is_split_into_its_messages(text: str, template: str, expected: Any) -> None:
    split = split_template(text)
    assert split.template == template
    assert [(each["role"], each["content"]) for each in split.messages] == expected


def test_thinking_and_tool_calls_of_qwen_are_lifted_from_a_reply() -> None:
    text = '<|im_start|>assistant\n<think>\nhm\n</think>\n\nok\n<tool_call>\n{"name": "ls", "arguments": {"path": "."}}\n</tool_call><|im_end|>'
    (made,) = split_template(text).messages
    assert (made["content"], made["reasoning_content"]) == ("ok", "hm")
    assert made["tool_calls"] == [{"id": None, "name": "ls", "arguments": '{"path": "."}'}]


TOKENS = ("<|im_start|>", "<|im_end|>", "user", "assistant", "\n", "[INST]", "[/INST]", "<|", "x", "</s>")
PIECES = st.lists(st.sampled_from(TOKENS) | st.characters(), max_size=30).map("".join)


@given(PIECES)
def test_any_text_splits_without_an_accident(text: str) -> None:
    for is_continuation in (False, True):
        split = split_template(text, is_continuation=is_continuation)
        assert all(each["role"] for each in split.messages)


def test_the_prompt_is_what_stands_before_the_first_reply() -> None:
    log = [{"role": "system"}, {"from": "human"}, {"from": "gpt"}, {"role": "user"}]
    assert before_reply(log) == log[:2]
