import copy
import gc
import os
import pickle
import tempfile
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gagar_cli.core.schema import Message, ToolCall, Trajectory
from gagar_cli.io.kept_texts import KeptText
from gagar_cli.io.packed_logs import (
    BLOCK_MESSAGES,
    MAX_LEFT_CHARS,
    MIN_LOG_CHARS,
    MIN_TEXT_CHARS,
    LogStore,
    PackedLog,
    PackedTrajectory,
    join_logs,
)

LONG = "a line of a log\n" * 20_000


def attempt(messages: tuple[Message, ...], output: str | None = None) -> Trajectory:
    return Trajectory("t", 1.0, True, messages, "patch", output, "done", False, "d:1")


def log(n_turns: int = 4, text: str = LONG) -> tuple[Message, ...]:
    messages = [Message("user", "solve it")]
    for turn in range(n_turns):
        messages.append(Message("assistant", f"turn {turn}", (ToolCall("bash", f'{{"c": {turn}}}'),)))
        messages.append(Message("tool", f"{turn}\n{text}", name="bash"))
    return tuple(messages)


def packed(messages: tuple[Message, ...]) -> PackedLog:
    made = LogStore().packed(attempt(messages, "x" * MIN_LOG_CHARS)).messages
    assert isinstance(made, PackedLog)
    return made


def n_open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.fixture
def without_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def test_a_short_log_stays_as_it_is() -> None:
    short = attempt(log(2), "x")
    assert LogStore().packed(short) is short


def test_a_long_log_says_what_it_said() -> None:
    plain = attempt(log(), "output\n" + LONG)
    made = LogStore().packed(plain)
    assert isinstance(made, PackedTrajectory)
    assert isinstance(made.messages, PackedLog)
    assert tuple(made.messages) == plain.messages
    assert made == plain
    assert made.test_output == plain.test_output
    assert made != replace(plain, test_output="output\n")
    assert made != replace(plain, messages=plain.messages[:-1])
    assert replace(made, model_patch="other") == replace(plain, model_patch="other")


def test_a_short_test_output_or_none_is_left() -> None:
    for output in (None, "", "1 passed"):
        assert LogStore().packed(attempt(log(), output)).test_output == output


_texts = st.text(alphabet=st.characters(), max_size=5)
_long_texts = st.builds(lambda text, n: text * n, _texts, st.sampled_from([1, 1, 1, MIN_TEXT_CHARS]))
_messages = st.builds(
    Message,
    st.sampled_from(["assistant", "tool", "\ud800"]),
    _long_texts,
    st.lists(st.builds(ToolCall, _texts, _long_texts), max_size=2).map(tuple),
    st.none() | _texts,
)


@settings(max_examples=40)
@given(st.lists(_messages, max_size=12).map(tuple), st.slices(12))
def test_any_message_comes_back_by_place_by_slice_and_in_order(messages, part) -> None:
    made = packed(messages)
    assert len(made) == len(messages)
    assert tuple(made) == messages
    assert made[part] == messages[part]
    assert [made[place] for place in range(-len(messages), len(messages))] == [*messages, *messages]
    with pytest.raises(IndexError):
        made[len(messages)]


def test_halves_of_a_surrogate_pair_stay_apart() -> None:
    """As JSON they would come back as one character."""
    text = "\ud83d" + "\ude00"
    assert [
        one.content for one in packed((Message("tool", text), Message("tool", text * MIN_TEXT_CHARS)))
    ] == [
        text,
        text * MIN_TEXT_CHARS,
    ]


def test_who_reads_the_replies_decodes_no_result() -> None:
    results = [one for one in packed(log()) if one.role == "tool"]
    assert len(results) == 4
    assert all(isinstance(one._content, KeptText) for one in results)  # type: ignore[attr-defined]


def test_a_log_of_many_short_messages_is_held_in_blocks() -> None:
    messages = tuple(Message("tool", str(number)) for number in range(20_000))
    made = packed(messages)
    assert len(made.blocks) == 20_000 // BLOCK_MESSAGES
    assert made[12_345] == Message("tool", "12345")
    assert made[499:1_502] == messages[499:1_502]


def test_however_much_is_read_little_is_held() -> None:
    store = LogStore()
    trajectories = [store.packed(attempt(log(40), LONG)) for _ in range(3)]
    gc.collect()
    tracemalloc.start()
    for one in trajectories:
        for _ in range(2):
            assert sum(len(message.content) for message in one.messages) > 10_000_000
            assert one.test_output == LONG
    held, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 200_000
    assert peak < 4 * len(LONG)


def test_a_block_that_is_large_is_not_held() -> None:
    call = ToolCall("write", "y" * 2_000_000)
    made = packed((Message("assistant", "", (call,)), Message("tool", "written")))
    assert made[0].tool_calls == (call,)
    assert made.held.block is None
    assert made[1].content == "written"
    assert made.held.block == (made.blocks[1][1], (Message("tool", "written"),))


def test_joined_logs_and_their_last_output_stay_out_of_memory() -> None:
    store = LogStore()
    parts = [
        store.packed(attempt(log(), LONG)),
        attempt((Message("user", "go on"),)),
        store.packed(attempt(log(2, LONG * 2), LONG + "2")),
        attempt(()),
    ]
    made = join_logs(parts[1], parts)
    assert isinstance(made.messages, PackedLog)
    assert tuple(made.messages) == (*log(), Message("user", "go on"), *log(2, LONG * 2))
    assert made.messages[9] == Message("user", "go on")
    assert isinstance(made._test_output, KeptText)  # type: ignore[attr-defined]
    assert made.test_output == LONG + "2"


def test_joined_logs_in_memory_stay_there() -> None:
    parts = [attempt(log(1), "first"), attempt(log(2))]
    assert join_logs(parts[0], parts) == attempt((*log(1), *log(2)), "first")


def test_of_many_logs_that_are_not_long_few_stay_in_memory() -> None:
    store = LogStore()
    plain = [attempt(log(3)) for _ in range(8)]
    made = [store.packed(one) for one in plain]
    assert made == plain
    in_memory = [one for one in made if type(one) is Trajectory]
    n_chars = sum(len(message.content) for one in in_memory for message in one.messages)
    assert MAX_LEFT_CHARS - MIN_LOG_CHARS < n_chars <= MAX_LEFT_CHARS
    assert type(made[-1]) is PackedTrajectory


def test_very_short_logs_stay_in_memory_however_many() -> None:
    store = LogStore()
    for _ in range(10):
        store.packed(attempt(log(3)))
    short = attempt((Message("user", "fix it"),))
    assert store.packed(short) is short


def test_attempts_that_share_an_output_share_what_is_kept() -> None:
    store = LogStore()
    made = [store.packed(attempt(log(), output)) for output in (LONG, LONG, LONG + "x")]
    places = [one._test_output for one in made]  # type: ignore[attr-defined]
    assert places[0] == places[1] != places[2]
    assert [one.test_output for one in made] == [LONG, LONG, LONG + "x"]


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))]
)
def test_a_copy_says_the_same_when_the_file_is_closed(copied, without_collector, tmp_path) -> None:
    """Its descriptor may by then be another file's."""
    plain = attempt(log(), LONG)
    made = LogStore().packed(plain)
    other = copied(made.messages), copied(made.messages[2])
    whole = copied(made) if copied is not copy.copy else plain
    del made
    with (tmp_path / "other").open("w"):
        assert other == (plain.messages, plain.messages[2])
        assert whole == plain


def test_a_store_has_one_file_without_a_name_and_it_goes_with_the_logs(
    tmp_path, monkeypatch, without_collector
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    n_open = n_open_files()
    store = LogStore()
    made = [store.packed(attempt(log())) for _ in range(3)]
    del store
    assert n_open_files() == n_open + 1
    assert not list(tmp_path.iterdir())
    assert made[2].messages[2].content == f"0\n{LONG}"
    assert made[0].messages[1].content == "turn 0"
    made.clear()
    assert n_open_files() == n_open


def test_several_threads_may_read() -> None:
    made = packed(log(30, LONG[:20_000]))
    expected = log(30, LONG[:20_000])
    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(lambda place: made[place % 61] == expected[place % 61], range(600)))


def test_binary_garbage_is_kept_as_it_is() -> None:
    garbage = os.urandom(2 * MIN_LOG_CHARS).decode("utf-8", "surrogateescape")
    assert packed((Message("tool", garbage),))[0].content == garbage
