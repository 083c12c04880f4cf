"""What a group's digest depends on, and that long logs out of memory have the same one."""

from dataclasses import asdict, replace

import pytest

from gagar_cli.core.schema import Group, GroupKey, Message, Task, ToolCall, Trajectory
from gagar_cli.grading_digest import digest, digest_group
from gagar_cli.io.packed_logs import LogStore, PackedLog


def test_a_digest_is_of_every_field_but_the_place():
    log = (Message("assistant", "look", (ToolCall("bash", "{}"),), "agent"), Message("tool", "output"))
    one = Trajectory("a", 1.0, True, log, "patch", "1 passed", "ok", False, where="dump.jsonl:1")
    group = Group(GroupKey(3, "g"), Task("i", "fix", "r", "c", "image", "/w", "pytest"), (one,))
    unplaced = replace(group, trajectories=(replace(one, where=""),))
    assert digest_group(group) == digest(asdict(unplaced))
    assert digest_group(group) != digest_group(replace(group, trajectories=(replace(one, messages=log[:1]),)))


def test_a_digest_is_the_same_where_the_log_is_long_and_out_of_memory():
    log = tuple(Message("tool", f'{number} "é"\n\ud800' * 30_000) for number in range(7))
    one = Trajectory("a", 1.0, True, log, '"messages":[', "x\n" * 9_000, '"messages":[', where="")
    group = Group(GroupKey(3, "g"), Task("i"), (one, replace(one, trajectory_id="b", messages=())))
    packed = replace(group, trajectories=tuple(map(LogStore().packed, group.trajectories)))
    assert isinstance(packed.trajectories[0].messages, PackedLog)
    assert digest_group(group) == digest_group(packed) == digest(asdict(group))


@pytest.mark.parametrize(
    "char", ["\0", "\t", "\n", "\x1b", "\x7f", '"', "\\", "/", "é", "\u2028", "\ud83d", "\U0001f600"]
)
def test_a_long_text_has_the_digest_of_its_canonical_json(char):
    texts = (f"{char}{'a line' * 700}", f"{char * 3_999}", f"{'x' * 4_000}\\n{char}{char}")
    log = tuple(Message("tool", text, (ToolCall("bash", text),), text[:9]) for text in texts)
    group = Group(GroupKey(3, "g"), Task("i"), (Trajectory("a", 1.0, True, log, where=""),))
    assert digest_group(group) == digest(asdict(group))
