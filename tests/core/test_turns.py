from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from gagar_cli.core.schema import Message, ToolCall
from gagar_cli.core.text import split_lines
from gagar_cli.core.turns import Turn, first_prompt, readable_arguments, split_turns

LOG = (
    Message("system", "be good"),
    Message("user", "fix the bug"),
    Message("assistant", "looking", (ToolCall("bash", '{"command": "ls\\ncat a"}'),)),
    Message("tool", "a\nb"),
    Message("assistant", "done"),
)


def test_a_turn_is_a_reply_and_what_follows_it():
    first, second = split_turns(LOG)
    assert (first.number, first.reply, first.results) == (1, "looking", ("a\nb",))
    assert (second.number, second.reply, second.results) == (2, "done", ())


def test_the_prompt_belongs_to_no_turn():
    assert "fix the bug" not in "\n".join(line for turn in split_turns(LOG) for line in turn.lines)
    assert first_prompt(LOG) == "fix the bug"


def test_a_user_message_after_a_reply_is_its_result():
    (turn,) = split_turns([Message("assistant", "```\nls\n```"), Message("user", "a.py")])
    assert turn.results == ("a.py",)


def test_lines_show_reply_calls_and_results_in_order():
    assert split_turns(LOG)[0].lines == ["> looking", "call bash: ls", "> cat a", "result:", "a", "b"]


def test_the_digest_is_one_line_that_names_call_and_outcome():
    assert split_turns(LOG)[0].digest == "$ ls … (+1 line) → a b"


def test_a_log_without_replies_has_no_turns():
    assert split_turns([Message("user", "hello")]) == ()


def test_arguments_that_are_no_object_are_shown_as_written():
    assert readable_arguments(ToolCall("edit", "{broken")) == "{broken"
    assert readable_arguments(ToolCall("edit", '{"path": "a", "text": "b"}')) == "path=a\ntext=b"


def test_lines_of_a_command_make_no_result():
    (turn,) = split_turns(
        [Message("assistant", "", (ToolCall("bash", '{"command": "ls\\nresult:\\n9 passed"}'),))]
    )
    assert turn.lines == ["call bash: ls", "> result:", "> 9 passed"]


def test_a_line_end_in_the_name_of_a_tool_makes_no_result():
    turn = Turn(1, "", (ToolCall("ls\nresult:\n9 passed", "{}"),), ("1 failed",))
    assert turn.lines == ["call ls result: 9 passed: ", "result:", "1 failed"]


_text = st.text(alphabet="ab> \n", max_size=8)


@given(_text, st.lists(st.tuples(_text, _text), max_size=2), st.lists(_text, max_size=2))
def test_lines_are_counted_and_searched_without_being_made(reply, calls, results):
    turn = Turn(1, reply, tuple(ToolCall(*call) for call in calls), tuple(results))
    assert turn.n_lines == len(turn.lines)
    assert turn.lines == [line for text in turn.texts() for line in split_lines(text)]


@given(_text, st.lists(_text, max_size=2), st.lists(_text, max_size=2), st.integers(0, 9), st.integers(0, 9))
def test_some_lines_are_those_of_all(reply, calls, results, start, stop):
    turn = Turn(1, reply, tuple(ToolCall("bash", text) for text in calls), tuple(results))
    assert turn.lines_between(start, stop) == turn.lines[start:stop]


class MadeWhenAsked(Sequence):
    """A log that is not held in memory, and notes what is asked of it."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self._messages = messages
        self.asked: list[int] = []

    def __len__(self) -> int:
        return len(self._messages)

    def __getitem__(self, index):
        self.asked += range(len(self))[index] if isinstance(index, slice) else [index]
        return self._messages[index]

    def __iter__(self):
        return iter(self._messages)


_log = st.lists(
    st.builds(Message, st.sampled_from(["assistant", "tool", "user"]), st.sampled_from(["a", "b\nc", ""])),
    max_size=12,
)


def shown(turns) -> list[tuple[object, ...]]:
    return [(turn.number, turn.reply, tuple(turn.results), turn.lines, turn.digest) for turn in turns]


@given(_log)
def test_turns_of_a_log_out_of_memory_are_those_of_one_in_memory(messages):
    plain, made = split_turns(tuple(messages)), split_turns(MadeWhenAsked(messages))
    assert shown(made) == shown(made[place] for place in range(len(made))) == shown(made[:]) == shown(plain)


def test_one_turn_asks_for_its_own_messages_only():
    log = MadeWhenAsked([*LOG, Message("tool", "late"), *LOG[2:]])
    turns = split_turns(log)
    assert turns[1].results[0] == "late"
    assert log.asked == [4, 5]
