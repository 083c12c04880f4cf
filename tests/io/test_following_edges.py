"""What a followed dump meets beside tidy lines: rows that hang together, marks in odd places, files that are none."""

import json
import os
import sys
from collections.abc import Callable
from typing import Any

import pytest

from gagar_cli.core.schema import GroupKey
from gagar_cli.errors import InputError
from gagar_cli.io.dump import ReadOptions
from gagar_cli.io.following import FollowedDump
from tests.io.test_following_native import check_like_whole, look, skyrl, verl


@pytest.fixture
def follow(request: pytest.FixtureRequest) -> Callable[..., FollowedDump]:
    def start(paths: list[str], **options: Any) -> FollowedDump:
        dump = FollowedDump(paths, ReadOptions(**options))
        request.addfinalizer(dump.close)
        return dump

    return start


def test_steps_of_skyrl_that_come_one_by_one_are_one_attempt(tmp_path, follow):
    """Whether a line is an attempt is told by the next one: the file is read once its writer has left it."""
    asked = "<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\n"
    more = f"{asked}one<|im_end|>\n<|im_start|>user\nseen<|im_end|>\n<|im_start|>assistant\n"
    rows = [skyrl("i", 0, 0.0) | {"input_prompt": asked}, skyrl("i", 1, 1.0) | {"input_prompt": more}]
    path = tmp_path / "global_step_5_evals" / "data.jsonl"
    path.parent.mkdir()
    dump, keys = follow([str(tmp_path)]), set()
    for row in rows:
        with path.open("a") as stream:
            stream.write(json.dumps(row) + "\n")
        look(dump, keys)
    look(dump, keys, 2)
    check_like_whole(dump, keys, [str(tmp_path)])
    assert dump.n_records == 1


def test_an_event_log_is_one_attempt_however_often_it_is_looked_at(tmp_path, follow):
    event = {"id": "1", "timestamp": "t", "source": "user", "kind": "MessageEvent"}
    path = tmp_path / "log.jsonl"
    path.write_text(json.dumps(event) + "\n")
    dump, keys = follow([str(path)]), set()
    look(dump, keys, 3)
    with path.open("a") as stream:
        stream.write(json.dumps(event | {"id": "2", "source": "agent"}) + "\n")
    look(dump, keys, 3)
    check_like_whole(dump, keys, [str(path)])
    assert dump.n_records == 1


def test_a_document_on_one_line_is_read_whole_wherever_it_comes_from(tmp_path, follow, monkeypatch):
    trial = {
        "task_name": "t",
        "trial_name": "t__x",
        "task_checksum": "0",
        "verifier_result": {"rewards": {"r": 1.0}},
    }
    path = tmp_path / "result.json"
    path.write_text(json.dumps(trial) + "\n")
    dump, keys = follow([str(path)]), set()
    look(dump, keys, 3)
    check_like_whole(dump, keys, [str(path)])
    with path.open() as stream:
        monkeypatch.setattr(sys, "stdin", stream)
        dump = follow(["-"])
        assert [event.row.trajectory_id for _ in range(2) for event in dump.look()] == ["t__x"]


def test_the_end_of_a_native_folder_may_be_a_file_of_its_own(tmp_path, follow):
    (tmp_path / "1.jsonl").write_text(json.dumps(verl(1, "a", 0)) + "\n")
    dump, keys = follow([str(tmp_path)]), set()
    look(dump, keys)
    (tmp_path / "2.jsonl").write_text(json.dumps({"end_of_dump": True}) + "\n")
    look(dump, keys)
    assert dump.is_ended
    assert dump.n_records == 1


def test_a_mark_before_the_first_record_hides_no_format(tmp_path, follow):
    mark = {"end_of_group": True, "group_id": "g", "step": 1}
    path = tmp_path / "1.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in (mark, verl(1, "a", 0))))
    dump, keys = follow([str(path)]), set()
    look(dump, keys)
    check_like_whole(dump, {key for key in keys if dump.members(key)}, [str(path)])
    assert dump.n_records == 1


def test_each_file_says_itself_whether_its_rewards_are_given(tmp_path, follow):
    """A file of verdicts only beside one of rewards: what it lacks is 1.0 or 0.0, in the whole dump too."""
    (tmp_path / "1.jsonl").write_text(
        json.dumps({"group_id": "g", "trajectory_id": "a", "reward": 0.5}) + "\n"
    )
    (tmp_path / "2.jsonl").write_text(
        json.dumps({"group_id": "g", "trajectory_id": "b", "resolved": True}) + "\n"
    )
    dump, keys = follow([str(tmp_path)]), set()
    look(dump, keys)
    assert {each.trajectory_id: each.reward for each in dump.members(GroupKey(None, "g"))} == {
        "a": 0.5,
        "b": 1.0,
    }
    check_like_whole(dump, keys, [str(tmp_path)])


def test_a_named_pipe_is_refused_and_one_in_a_folder_does_not_stop_the_others(tmp_path, follow):
    os.mkfifo(tmp_path / "1.jsonl")
    with pytest.raises(InputError, match="not a regular file") as refused:
        follow([str(tmp_path / "1.jsonl")]).look()
    assert "`-`" in refused.value.hint
    (tmp_path / "2.jsonl").write_text(json.dumps(verl(1, "a", 0)) + "\n")
    assert len(follow([str(tmp_path)]).look()) == 1
