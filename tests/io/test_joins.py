"""Joining to dumps that have rewards: what nobody joins a verdict to passes by its reward, as without a join."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from gagar_cli.errors import InputError
from gagar_cli.io.dump import Dump, ReadOptions, open_dump
from gagar_cli.io.following import FollowedDump

PATCH = "diff --git a/a.py b/a.py\n"
CHATML = "<|im_start|>user\nfix it<|im_end|>\n<|im_start|>assistant\n"
Opened = Callable[..., Dump]

REWARDED: list[dict[str, Any]] = [
    {"group_id": "g", "instance_id": "i", "trajectory_id": f"t{number}", "reward": reward}
    for number, reward in enumerate([1.0, 0.0, 1.0, 0.0])
]
VERL = [
    {"input": CHATML, "output": f"o{n}", "gts": {}, "score": score, "step": 3, "uid": f"u-1_{n}_0"}
    for n, score in enumerate([1.0, 0.0, 1.0, 0.0])
]
AREAL = [
    {
        "task_id": 7,
        "sample_idx": number,
        "seqlen": 9,
        "prompt_len": 4,
        "head_version": 2,
        "tail_version": 3,
        "reward": reward,
        "prompt": CHATML,
        "completion": "x<|im_end|>",
    }
    for number, reward in enumerate([1.0, 0.0, 1.0, 0.0])
]


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def opened(tmp_path, request) -> Opened:
    def read(rows: list[dict[str, Any]], joined: list[dict[str, Any]], **options: Any) -> Dump:
        joins = (str(write(tmp_path / "joined.jsonl", joined)),) if joined else ()
        dump = open_dump([str(write(tmp_path / "3.jsonl", rows))], ReadOptions(joins=joins, **options))
        request.addfinalizer(dump.close)
        return dump

    return read


def outcome(dump: Dump) -> list[tuple[bool, str | None]]:
    return dump.index.select("passed", "invalid_reason").rows()


def patches(dump: Dump) -> list[str | None]:
    return [each.model_patch for _, each in dump.read_trajectories(range(dump.n_rows))]


@pytest.mark.parametrize(
    ("rows", "group", "names"),
    [
        pytest.param(REWARDED, "i", ["t0", "t1", "t2", "t3"], id="canonical"),
        pytest.param(VERL, "u-1", ["u-1_0", "u-1_1", "u-1_2", "u-1_3"], id="verl"),
        pytest.param(AREAL, "7", ["7-0", "7-1", "7-2", "7-3"], id="areal"),
    ],
)
@pytest.mark.parametrize("key", ["instance_id", "trajectory_id", "nothing"])
def test_patches_leave_the_verdicts_of_rewards(
    opened: Opened, rows: list[dict[str, Any]], group: str, names: list[str], key: str
) -> None:
    about = {"instance_id": {"instance_id": group}, "trajectory_id": {}, "nothing": {"instance_id": "other"}}
    joined = [about[key] | {"trajectory_id": name, "model_patch": PATCH + name} for name in names]
    dump = opened(rows, joined)
    assert outcome(dump) == [(True, None), (False, None)] * 2
    assert patches(dump) == ([None] * 4 if key == "nothing" else [PATCH + name for name in names])
    assert all("resolved" not in record for record in dump.iter_records())
    assert not any("resolved is null" in note for note in dump.report.notes)


@pytest.mark.parametrize("threshold", [1.0, 0.5])
def test_records_without_a_joined_verdict_pass_by_their_own_reward(opened: Opened, threshold: float) -> None:
    rows = [row | {"reward": reward} for row, reward in zip(REWARDED, [0.0, 1.0, 0.5, 0.0], strict=True)]
    joined = [{"instance_id": "i", "trajectory_id": name, "resolved": name == "t0"} for name in ("t0", "t1")]
    dump = opened(rows, joined, pass_threshold=threshold)
    assert outcome(dump) == [(True, None), (False, None), (threshold == 0.5, None), (False, None)]
    assert any(note.startswith("--join: 2 records have no verdict") for note in dump.report.notes)
    assert [record["resolved"] for record in dump.iter_records()] == [True, False, threshold == 0.5, False]


def test_what_has_neither_reward_nor_verdict_stays_not_evaluated(opened: Opened) -> None:
    rows = [{**REWARDED[0]}, {**REWARDED[1], "reward": None}, {**REWARDED[2], "resolved": None}, REWARDED[3]]
    dump = opened(rows, [{"instance_id": "i", "trajectory_id": "t3", "resolved": True}])
    unknown = (False, "not_evaluated")
    assert outcome(dump) == [(True, None), unknown, unknown, (True, None)]


@pytest.mark.parametrize("joined", [{"model_patch": PATCH}, {"resolved": True}])
@pytest.mark.parametrize("flag", ["infra_failure", "mask_sample"])
def test_attempts_that_broke_do_not_undo_the_rewards_of_the_others(
    opened: Opened, joined: dict[str, Any], flag: str
) -> None:
    broken = {"group_id": "g", "instance_id": "i", "trajectory_id": "broken", flag: True}
    dump = opened([broken, *REWARDED], [{"trajectory_id": "t0", **joined}])
    assert outcome(dump) == [(False, flag), *[(True, None), (False, None)] * 2]


def test_records_without_reward_are_not_evaluated_by_patches(opened: Opened) -> None:
    rows = [{name: value for name, value in row.items() if name != "reward"} for row in REWARDED]
    dump = opened(rows, [{"trajectory_id": "t0", "model_patch": PATCH}])
    assert outcome(dump) == [(False, "not_evaluated")] * 4
    assert any("resolved is null in every record" in note for note in dump.report.notes)


def test_joined_rewards_are_judged_and_what_has_none_is_not_evaluated(opened: Opened) -> None:
    rows = [{name: value for name, value in row.items() if name != "reward"} for row in REWARDED]
    dump = opened(rows, [{"trajectory_id": f"t{n}", "reward": 1.0 - n} for n in (0, 1)])
    assert outcome(dump) == [(True, None), (False, None)] + [(False, "not_evaluated")] * 2


def test_passed_is_a_verdict_that_stands(opened: Opened) -> None:
    rows = [{**row, "passed": row["trajectory_id"] == "t3"} for row in REWARDED]
    dump = opened(rows, [{"trajectory_id": "t0", "model_patch": PATCH}])
    assert [passed for passed, _ in outcome(dump)] == [False, False, False, True]


def test_a_parquet_dump_keeps_its_rewards(opened: Opened, tmp_path: Path) -> None:
    pl.DataFrame(REWARDED).write_parquet(tmp_path / "d.parquet")
    joined = write(tmp_path / "p.jsonl", [{"trajectory_id": "t1", "model_patch": PATCH}])
    with open_dump([str(tmp_path / "d.parquet")], ReadOptions(joins=(str(joined),))) as dump:
        assert outcome(dump) == [(True, None), (False, None)] * 2
        assert patches(dump) == [None, PATCH, None, None]


STEPS = [{**REWARDED[0], "step": step, "group_id": group} for step in (1, 2) for group in ("g", "h")]


def test_group_and_step_tell_equal_trajectory_ids_apart(opened: Opened) -> None:
    joined = [
        {"trajectory_id": "t0", "group_id": row["group_id"], "step": row["step"], "model_patch": f"p{number}"}
        for number, row in enumerate(STEPS)
    ]
    assert patches(opened(STEPS, joined)) == ["p0", "p1", "p2", "p3"]


@pytest.mark.parametrize("more", [{}, {"group_id": "h"}, {"step": 2}])
def test_a_trajectory_id_of_several_attempts_is_refused(opened: Opened, more: Mapping[str, Any]) -> None:
    with pytest.raises(InputError, match="says one thing about this attempt and the one at") as caught:
        opened(STEPS, [{"trajectory_id": "t0", "model_patch": PATCH, **more}])
    assert "`group_id` and `step`" in str(caught.value.hint)


def test_a_trajectory_id_that_no_record_has_is_shown(opened: Opened) -> None:
    notes = opened(REWARDED, [{"trajectory_id": "t9", "model_patch": PATCH}]).report.notes
    assert any("1 entry is about no record of the dump" in note and "(t9)" in note for note in notes)
    assert any(note.startswith("--join: 4 records found nothing to join") for note in notes)


def test_a_row_of_an_instance_reaches_the_step_and_group_that_it_names(opened: Opened) -> None:
    rows = [{**REWARDED[0], "step": step} for step in (1, 2)]
    joined = [{"instance_id": "i", "trajectory_id": "t0", "step": "2", "resolved": False}]
    assert outcome(opened(rows, joined)) == [(True, None), (False, None)]
    with pytest.raises(InputError, match="says one thing about this attempt and the one at"):
        opened(rows, [{"instance_id": "i", "trajectory_id": "t0", "resolved": False}])


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({"reward": "1.0"}, 'reward is "1.0", expected a number'),
        ({"resolved": "yes"}, 'resolved is "yes", expected true, false or null'),
        ({"infra_failure": "OOM", "resolved": True}, 'infra_failure is "OOM", expected true, false or null'),
        ({"model_patch": ["p"]}, "model_patch is .*, expected text or null"),
        ({"attempt": "first", "resolved": True}, 'attempt is "first", expected an integer'),
    ],
)
def test_a_joined_value_that_cannot_be_read_is_refused(
    opened: Opened, told: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=rf"joined\.jsonl:2: {message}"):
        opened(REWARDED, [{"trajectory_id": "t0", "resolved": True}, {"trajectory_id": "t1", **told}])


def test_joined_rewards_and_verdicts_may_be_flags_or_numbers(opened: Opened) -> None:
    rows = [{name: value for name, value in row.items() if name != "reward"} for row in REWARDED]
    told = [{"reward": True}, {"reward": [0.0]}, {"resolved": 1}, {"resolved": 0}]
    dump = opened(rows, [{"trajectory_id": f"t{n}", **each} for n, each in enumerate(told)])
    assert [passed for passed, _ in outcome(dump)[:2]] == [True, False]
    assert [record.get("resolved") for record in dump.iter_records()] == [True, False, True, False]


def test_segments_share_what_their_trajectory_id_names(opened: Opened) -> None:
    rows = [REWARDED[0] | {"segment": number} for number in (0, 1)]
    dump = opened(rows, [{"trajectory_id": "t0", "resolved": True, "model_patch": PATCH}])
    assert outcome(dump) == [(True, None)] * 2


def test_what_joins_nothing_is_told_what_would(opened: Opened) -> None:
    with pytest.raises(InputError, match="nothing to join in it") as caught:
        opened(REWARDED, [{"trajectory_id": "t0", "patch": PATCH}])
    for name in ("instance_id", "trajectory_id", "resolved", "reward", "model_patch", "test_output"):
        assert name in str(caught.value.hint)


def test_a_followed_dump_ends_with_the_counts_of_a_whole_one(opened: Opened, tmp_path: Path) -> None:
    joined = [{"trajectory_id": name, "resolved": name == "t1"} for name in ("t0", "t1")]
    whole = opened(REWARDED, joined)
    paths = [str(tmp_path / "3.jsonl")]
    followed = FollowedDump(paths, ReadOptions(joins=(str(tmp_path / "joined.jsonl"),)))
    try:
        events = [*followed.look(), *followed.look(is_last=True)]
        key = next(event.key for event in events)
        found = [(each.trajectory_id, each.passed, each.invalid) for each in followed.members(key)]
    finally:
        followed.close()
    assert found == whole.index.select("trajectory_id", "passed", "invalid").rows()
    assert [passed for _, passed, _ in found] == [False, True, True, False]
