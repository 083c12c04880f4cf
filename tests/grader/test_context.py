"""Messages of all three protocols, built at random, fitted into budgets; and the exact stubs of small ones."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gagar_cli.grader.context import count_chars, fit_messages

SYSTEM = {"role": "system", "content": "rules " * 20}
TASK = {"role": "user", "content": "Rank the 2 passing attempts (c01 to c02)."}


def native_turn(number: int, *results: tuple[str, dict[str, Any], str]) -> list[dict[str, Any]]:
    calls = [
        {
            "id": f"call_{number}_{place}",
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(arguments)},
        }
        for place, (name, arguments, _) in enumerate(results)
    ]
    answers = [
        {"role": "tool", "tool_call_id": f"call_{number}_{place}", "content": text}
        for place, (_, _, text) in enumerate(results)
    ]
    return [{"role": "assistant", "content": None, "tool_calls": calls}, *answers]


def text_turn(number: int, *results: tuple[str, dict[str, Any], str]) -> list[dict[str, Any]]:
    """One user message that holds the results, as the text protocols have it."""
    calls = [{"tool": name, "arguments": arguments} for name, arguments, _ in results]
    parts = [f"[result {place} {name}]\n{text}" for place, (name, _, text) in enumerate(results, 1)]
    return [
        {"role": "assistant", "content": json.dumps(calls)},
        {"role": "user", "content": "\n".join(parts)},
    ]


PATCH = ("view_patch", {"candidate": "c01"}, "c01:a.py:12│+x\n" * 100)
SENT_BACK = (
    "submit_ranking",
    {"candidates": []},
    "error: not accepted, submit again:\n" + "c01: approach has no verified finding\n" * 40,
)

_result = st.tuples(
    st.sampled_from(["view_patch", "search", "run_check", "submit_ranking"]),
    st.fixed_dictionaries({"candidate": st.sampled_from(["c01", "c02"])}),
    st.integers(0, 3000).map(lambda n: ("c01:exec:2 exit 0, 1.0 s\n" + "c01:exec:2:1│line\n" * 200)[:n]),
)
_turns = st.lists(st.lists(_result, max_size=3), max_size=8)


@st.composite
def conversations(draw) -> list[dict[str, Any]]:
    build = draw(st.sampled_from([native_turn, text_turn]))
    turns = draw(_turns)
    messages = [SYSTEM, TASK]
    for number, results in enumerate(turns):
        if results:
            messages += build(number, *results)
        else:
            messages += [
                {"role": "assistant", "content": "I think."},
                {"role": "user", "content": "Call a tool."},
            ]
    return messages


def is_stub(content: str) -> bool:
    return "[left out to save room: " in content


@settings(max_examples=40)
@given(conversations(), st.integers(500, 12_000))
def test_every_message_stays_in_its_place_and_only_results_change(messages, max_chars):
    fitted = fit_messages(messages, max_chars)
    assert [one["role"] for one in fitted] == [one["role"] for one in messages]
    for before, after in zip(messages, fitted, strict=True):
        changed = before != after
        assert not changed or is_stub(after["content"])
        assert {**before, "content": None} == {**after, "content": None}
        assert not changed or before["role"] == "tool" or before["content"].startswith("[result 1 ")


@settings(max_examples=40)
@given(conversations(), st.integers(500, 12_000))
def test_fitting_again_changes_nothing(messages, max_chars):
    fitted = fit_messages(messages, max_chars)
    assert fit_messages(fitted, max_chars) == fitted


@settings(max_examples=40)
@given(conversations(), st.integers(500, 12_000))
def test_within_the_budget_or_nothing_is_left_to_replace(messages, max_chars):
    fitted = fit_messages(messages, max_chars)
    least = fit_messages(messages, 0)
    assert count_chars(fitted) <= max(max_chars, count_chars(least))


@settings(max_examples=40)
@given(conversations(), st.integers(500, 12_000))
def test_what_a_submission_was_told_is_never_replaced(messages, max_chars):
    def sent_back(some):
        ids = {
            call["id"]
            for one in some
            for call in one.get("tool_calls") or ()
            if call["function"]["name"] == "submit_ranking"
        }
        return [one["content"] for one in some if one.get("tool_call_id") in ids]

    assert sent_back(fit_messages(messages, max_chars)) == sent_back(messages)


@settings(max_examples=40)
@given(conversations(), st.integers(500, 12_000))
def test_what_was_once_replaced_stays_so_as_the_conversation_grows(messages, max_chars):
    """Both ways of use: the whole conversation each time, or what came back with the new messages behind it."""
    ends = [n for n, one in enumerate(messages) if one["role"] == "assistant"] + [len(messages)]
    carried: list[dict[str, Any]] = []
    previous: list[dict[str, Any]] = []
    for end in ends:
        fitted = fit_messages(messages[:end], max_chars)
        carried = fit_messages([*carried, *messages[len(carried) : end]], max_chars)
        assert carried == fitted
        for before, after in zip(previous, fitted, strict=False):
            assert before == after or not is_stub(before["content"] or "")
        previous = fitted


@settings(max_examples=40)
@given(conversations())
def test_a_roomy_budget_changes_nothing(messages):
    assert fit_messages(messages, count_chars(messages)) == messages


@pytest.mark.parametrize("build", [native_turn, text_turn])
def test_the_results_of_the_last_two_replies_are_kept_while_older_ones_can_go(build):
    messages = [SYSTEM, TASK, *(one for number in range(6) for one in build(number, PATCH))]
    fitted = fit_messages(messages, 6_000)
    stubbed = [is_stub(one["content"] or "") for one in fitted if one["role"] != "assistant"]
    assert stubbed == [False, False, True, True, True, True, False, False]


def test_batches_leave_room_so_that_prefixes_stay_the_same():
    """Twenty replies with a result of 1,500 characters each: few calls change what the call before had sent."""
    messages = [SYSTEM, TASK]
    previous: list[dict[str, Any]] = []
    n_broken = 0
    for number in range(20):
        messages += native_turn(number, PATCH)
        fitted = fit_messages(messages, 12_000)
        n_broken += fitted[: len(previous)] != previous
        assert count_chars(fitted) <= 12_000
        previous = fitted
    assert n_broken == 4


def test_a_stub_names_the_call_that_shows_the_result_again():
    call = ("view_patch", {"candidate": "c01", "start": 201}, PATCH[2])
    messages = [SYSTEM, TASK, *native_turn(1, call), *native_turn(2, PATCH), *native_turn(3, PATCH)]
    stub = fit_messages(messages, 3_500)[3]["content"]
    assert (
        stub
        == '[left out to save room: 1500 characters; to see them again: view_patch(candidate="c01", start=201)]'
    )


def test_a_stub_of_a_text_protocol_keeps_the_line_that_names_the_call():
    messages = [SYSTEM, TASK, *text_turn(1, PATCH, SENT_BACK), *text_turn(2, PATCH), *text_turn(3, PATCH)]
    content = fit_messages(messages, 5_500)[3]["content"]
    assert content == (
        "[result 1 view_patch]\n[left out to save room: 1499 characters; to see them again: the same call]\n"
        f"[result 2 submit_ranking]\n{SENT_BACK[2]}".rstrip("\n")
    )


def test_a_command_is_not_to_be_run_again_for_its_output():
    check = (
        "run_check",
        {"candidate": "c02", "command": "tests"},
        "c02:exec:3 exit 1, 2.0 s\n" + "c02:exec:3:1│FAILED\n" * 50,
    )
    messages = [SYSTEM, TASK, *native_turn(1, check), *native_turn(2, PATCH), *native_turn(3, PATCH)]
    assert fit_messages(messages, 3_500)[3]["content"] == (
        '[left out to save room: c02:exec:3 exit 1, 2.0 s; its output: view_output(candidate="c02", number=3)]'
    )


def test_a_reply_that_asked_for_more_than_fits_is_answered_in_part():
    messages = [SYSTEM, TASK, *native_turn(1, *[PATCH] * 8)]
    fitted = fit_messages(messages, 6_000)
    assert [is_stub(one["content"]) for one in fitted[3:]] == [False] * 3 + [True] * 5
    assert count_chars(fitted) <= 6_000


@pytest.mark.parametrize("build", [native_turn, text_turn])
def test_what_a_verification_says_stays_when_its_output_gives_way(build):
    head = [
        "c01:exec:2 exit 1, 1.0 s",
        "this run has the base commit's test runner; left out of the patch:",
        "  file│conftest.py",
        "the run with the whole patch, c01:exec:1: exit 0, 3 passed",
        "verification the two runs disagree",
    ]
    output = [f"c01:exec:2:{number}│verification found nothing" for number in range(1, 100)]
    result = ("run_check", {"candidate": "c01", "command": "verify"}, "\n".join([*head, *output]))
    turns = [message for number in range(5) for message in build(number, result)]
    fitted = fit_messages([SYSTEM, TASK, *turns], 9_000)
    stubbed = fitted[3]["content"].removeprefix("[result 1 run_check]\n")
    assert stubbed.split("\n") == [
        '[left out to save room: c01:exec:2 exit 1, 1.0 s; its output: view_output(candidate="c01", number=2)]',
        head[1],
        head[3],
        head[4],
    ]
    assert fit_messages(fitted, 9_000) == fitted


OVERVIEW = "\n".join(
    [
        "task│demo-1",
        "c01│3 files, +9 -2",
        "c02│1 file, +1 -1",
        "touched files:",
        *(f"c01:src/{number}.py│problem statement:" for number in range(200)),
        "problem statement:",
        *(f"task:{number}│the parser loses line {number}" for number in range(1, 200)),
    ]
)


@pytest.mark.parametrize("build", [native_turn, text_turn])
def test_of_the_first_overview_attempts_and_task_stay(build):
    again = ("overview", {}, OVERVIEW)
    turns = [build(1, again), build(2, again), *(build(number, PATCH) for number in range(3, 40))]
    messages = [SYSTEM, TASK, *(message for turn in turns for message in turn)]
    fitted = fit_messages(messages, 20_000)
    assert count_chars(fitted) <= 20_000
    first, second = (fitted[place]["content"].split("\n") for place in (3, 5))
    if build is text_turn:
        assert (first.pop(0), second.pop(0)) == ("[result 1 overview]", "[result 1 overview]")
    call = "overview()" if build is native_turn else "the same call"
    stub = f"[left out to save room: {len(OVERVIEW)} characters; to see them again: {call}]"
    assert second == [stub]
    assert first[:6] == [
        stub,
        *OVERVIEW.split("\n")[:3],
        "problem statement:",
        "task:1│the parser loses line 1",
    ]
    assert first[-1].endswith("…")
    assert 2_400 < sum(map(len, first)) < 2_600
    assert fit_messages(fitted, 20_000) == fitted
