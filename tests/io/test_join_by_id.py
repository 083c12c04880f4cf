"""Joined rows that name attempts by their ids: they need no run, in a dump of several ones."""

import json
from typing import Any

import pytest

from tests.io.formats.conftest import native as native

IDS = ("a__b-1", "a__b-2")
RUNS = ("full_i0_run1", "full_i0_run2")


def trees(where: str = "out") -> dict[str, Any]:
    log = {
        "trajectory_format": "mini-swe-agent-1",
        "info": {"exit_status": "Submitted", "submission": "diff --git a/a b/a\n"},
        "messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}],
    }
    return {
        f"{where}/{run}/{each}/{each}.traj.json": log | {"instance_id": each} for run in RUNS for each in IDS
    }


def by_id(*runs: str, **more: Any) -> list[dict[str, Any]]:
    """Only the second run passes."""
    return [
        {"trajectory_id": f"{run}/{each}", "resolved": run == RUNS[1], **more} for run in runs for each in IDS
    ]


def passed(dump: Any) -> dict[str, bool | None]:
    rows = dump.index.select("trajectory_id", "passed", "invalid").rows()
    return {name: None if is_invalid else is_passed for name, is_passed, is_invalid in rows}


ALL = {f"{run}/{each}": run == RUNS[1] for run in RUNS for each in IDS}


@pytest.mark.parametrize(
    "path",
    [
        "verdicts.jsonl",
        "out/verdicts.jsonl",
        f"out/{RUNS[0]}/verdicts.jsonl",
        f"out/{RUNS[1]}/verdicts.jsonl",
    ],
)
@pytest.mark.parametrize("has_instance", [False, True])
def test_rows_with_the_ids_of_a_dump_of_runs_find_their_attempts(
    native: Any, path: str, has_instance: bool
) -> None:
    rows = by_id(*RUNS)
    if has_instance:
        rows = [row | {"instance_id": row["trajectory_id"].split("/")[1]} for row in rows]
    dump = native(trees() | {path: rows}, "out", joins=(path,))
    assert passed(dump) == ALL
    assert not any("used for nothing" in note or "about no record" in note for note in dump.report.notes)


def test_rows_without_ids_in_the_same_file_are_used_for_nothing_and_it_is_said_what_to_do(
    native: Any,
) -> None:
    rows = [*by_id(RUNS[0]), {"instance_id": IDS[0], "resolved": True}]
    dump = native(trees() | {"verdicts.jsonl": rows}, "out", joins=("verdicts.jsonl",))
    assert passed(dump) == {name: False if name.startswith(RUNS[0]) else None for name in ALL}
    [note] = [note for note in dump.report.notes if "used for nothing" in note]
    for way in (
        "put it into the folder of its run",
        "name it after that",
        "`trajectory_id` that `gagar head` shows",
    ):
        assert way in note


def test_an_instance_in_the_folder_of_a_run_is_still_about_that_run(native: Any) -> None:
    path = f"out/{RUNS[1]}/verdicts.jsonl"
    rows = [{"instance_id": each, "resolved": True} for each in IDS]
    dump = native(trees() | {path: rows}, "out", joins=(path,))
    assert passed(dump) == {name: True if name.startswith(RUNS[1]) else None for name in ALL}


def test_an_id_that_several_runs_have_is_about_the_run_where_the_file_lies(native: Any) -> None:
    row = {"task_id": 5, "sample_idx": 0, "head_version": 1, "prompt": "p", "completion": "c", "reward": 0.0}
    files = {f"out/{run}/5.jsonl": [row | {"tail_version": step}] for step, run in enumerate(RUNS)}
    path = f"out/{RUNS[1]}/told.json"
    joined = {"instances": [{"trajectory_id": "5-0", "resolved": True}]}
    dump = native(files | {path: joined}, *files, joins=(path,))
    assert dump.index["passed"].to_list() == [False, True]


def test_an_id_that_no_attempt_has_is_told_with_where_ids_are_shown(native: Any) -> None:
    rows = [*by_id(*RUNS), {"trajectory_id": "full_i0_run9/a__b-1", "resolved": True}]
    dump = native(trees() | {"v.jsonl": rows}, "out", joins=("v.jsonl",))
    [note] = [note for note in dump.report.notes if "about no record" in note]
    assert "full_i0_run9/a__b-1" in note
    assert note.endswith("`gagar head` shows the ids")


def test_runs_of_one_name_are_told_apart_by_more_of_their_path(native: Any) -> None:
    files = {f"{top}/run/{each.split('/')[-1]}/{each.split('/')[-1]}.traj.json": document
             for top in ("a", "b") for each, document in ((name.rsplit(".traj")[0], log) for name, log in trees().items())}  # fmt: skip
    rows = [
        {"trajectory_id": f"{top}/run/{each}", "resolved": top == "b"} for top in ("a", "b") for each in IDS
    ]
    dump = native(files | {"a/run/v.jsonl": rows}, "a", "b", joins=("a/run/v.jsonl",))
    assert passed(dump) == {f"{top}/run/{each}": top == "b" for top in ("a", "b") for each in IDS}


def test_the_ids_of_verls_rows_are_joined_across_runs(native: Any) -> None:
    row = {"input": "user\nq\nassistant\n", "output": "a", "score": 0.0, "step": 1}
    files = {f"{run}/1.jsonl": [row, row | {"output": "b"}] for run in ("r1", "r2")}
    told = [
        {"trajectory_id": f"r{run}/1/{line}", "resolved": (run, line) == (2, 2)}
        for run in (1, 2)
        for line in (1, 2)
    ]
    dump = native(files | {"v.jsonl": told}, *files, joins=("v.jsonl",))
    assert passed(dump) == {each["trajectory_id"]: each["resolved"] for each in told}


def test_a_joined_file_of_ids_may_be_a_pipe_of_lines(native: Any, tmp_path: Any) -> None:
    (tmp_path / "v.jsonl").write_text("".join(json.dumps(row) + "\n" for row in by_id(*RUNS)))
    dump = native(trees(), "out", joins=("v.jsonl",))
    assert passed(dump) == ALL
