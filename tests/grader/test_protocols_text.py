import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gagar_cli.grader.protocols_text import BadActionError, read_action, read_tagged
from gagar_cli.grader.replies import without_thinking

OVERVIEW = '{"calls": [{"tool": "overview", "arguments": {}}]}'
PATCH = '{"calls": [{"tool": "view_patch", "arguments": {"candidate": "c01"}}]}'
VIEW_PATCH = [("view_patch", {"candidate": "c01"})]


def calls(text: str) -> list[tuple[str, object]]:
    return [(call.name, call.arguments) for call in read_action(text)]


@pytest.mark.parametrize(
    "text",
    [
        PATCH,
        f"```json\n{PATCH}\n```",
        f"```\n{PATCH}",
        f"Let me look at {{c01}} first.\n\n{PATCH}\n\nThat shows it.",
        f"<think>{OVERVIEW} or not {{</think>{PATCH}",
        f"<thinking>\n{OVERVIEW}\n</thinking>\n{PATCH}",
        f"{OVERVIEW} was my plan</think>\n{PATCH}",
        f"{OVERVIEW}\nNo, better:\n{PATCH}",
        f'The entry is {{"id": "c01", "scores": {{"minimality": 2}}}}.\n{PATCH}',
        f'{PATCH}\nThen I will write {{"id": "c01"}}.',
        '{"tool": "view_patch", "arguments": {"candidate": "c01"}}',
        '{"name": "view_patch", "parameters": {"candidate": "c01"}}',
        '<tool_call>\n{"name": "view_patch", "arguments": {"candidate": "c01"}}\n</tool_call>',
        '<tool_call>{"name": "view_patch", "arguments": {"candidate": "c01"}}',
        '{"thought": "first", "tool": "view_patch", "arguments": {"candidate": "c01"}}',
        '{"calls": [], "tool": 1} {"broken" ' + PATCH,
    ],
    ids=range(16),
)
def test_an_action_is_found_in_what_surrounds_it(text):
    assert calls(text) == VIEW_PATCH


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "holds no JSON object"),
        ("They are all great.", "holds no JSON object"),
        ('{"scores": {"minimality": 5}}', "holds no JSON object"),
        (f"<think>{PATCH}", "holds no JSON object"),
        (PATCH[:-1], "not valid"),
        (PATCH.replace("}}]}", "},}]}"), "not valid"),
        (f"{PATCH}\n" + PATCH.replace("c01", "c02")[:-3], "not valid"),
        ('{"calls": [{"tool": "overview", "arguments": {"start": NaN}}]}', "NaN is not JSON"),
        ('{"calls": []}', "empty"),
        ('{"calls": [{"arguments": {}}]}', "must name one `tool`"),
        ('{"calls": [{"tool": "a", "name": "b"}]}', "must name one `tool`"),
        ('{"calls": [{"tool": "a", "arguments": {}, "parameters": {}}]}', "`arguments` once"),
        ('{"calls": ["overview"]}', "must be an object"),
        ("<tool_call>{broken</tool_call>", "not valid"),
        ('{"calls": ' + "[" * 100_000, "nested too deeply"),
    ],
)
def test_what_is_no_action_is_named_and_never_guessed(text, why):
    with pytest.raises(BadActionError, match=why):
        read_action(text)


def test_what_stands_inside_a_broken_action_is_not_carried_out():
    inner = json.dumps({"tool": "submit_ranking", "arguments": {"candidates": []}})
    with pytest.raises(BadActionError, match="not valid"):
        read_action(f'{{"calls": [{{"tool": "search", "arguments": {inner}, ]}}')


def test_arguments_that_are_no_object_stay_with_their_call():
    (call,) = read_action('{"tool": "overview", "arguments": "all"}')
    assert (call.arguments, call.raw_arguments) == (None, '"all"')


def test_several_calls_are_numbered():
    found = read_action(
        '{"calls": [{"tool": "overview"}, {"tool": "list_files", "arguments": {"path": "src"}}]}'
    )
    assert [(call.call_id, call.name, call.arguments) for call in found] == [
        ("call_1", "overview", {}),
        ("call_2", "list_files", {"path": "src"}),
    ]


def test_only_a_reply_of_nothing_but_tags_makes_calls_where_tools_are_native():
    block = '<tool_call>{"name": "overview", "arguments": {}}</tool_call>'
    assert [call.name for call in read_tagged(f"<think>hm</think>\n{block}\n{block}")] == ["overview"] * 2
    assert read_tagged(f"the log says {block}") == ()
    assert read_tagged("<tool_call>{broken</tool_call>") == ()


@given(st.text(alphabet='{}[]":,\\ abc<>/think`1', max_size=200))
def test_any_text_is_read_or_refused(text):
    try:
        found = read_action(text)
    except BadActionError:
        return
    assert all(isinstance(call.name, str) for call in found)


@pytest.mark.parametrize(
    "text", ["{" * 300_000, '{"a":' * 60_000, '{"calls":[' * 30_000, "<think>" * 100_000]
)
def test_a_hostile_text_is_refused_in_a_bounded_time(text):
    started = time.process_time()
    with pytest.raises(BadActionError):
        read_action(text)
    assert time.process_time() - started < 3


def test_thinking_that_is_never_closed_reaches_to_the_end():
    assert without_thinking("before <think>still at it") == "before"
