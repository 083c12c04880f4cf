"""What other files say about the attempts of a dump: laid over the right ones, and nothing else."""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from gagar_cli.errors import InputError
from gagar_cli.io.dump import Dump

PATCH = "diff --git a/a.py b/a.py\n"
IDS = [f"a__b-{number}" for number in range(1, 8)]
PREDS = [{"instance_id": each, "model_name_or_path": "m", "model_patch": PATCH} for each in IDS]


def outcome(dump: Dump) -> dict[str, tuple[bool, str | None]]:
    rows = dump.index.select("group_id", "passed", "invalid_reason").rows()
    return {name: (passed, reason) for name, passed, reason in rows}


PASSED, FAILED = (True, None), (False, None)
UNKNOWN, BROKEN = (False, "not_evaluated"), (False, "infra_failure")


@pytest.mark.parametrize(
    ("report", "expected"),
    [
        pytest.param(
            {
                "schema_version": 2, "completed_ids": IDS[:3], "resolved_ids": IDS[:1], "unresolved_ids": IDS[1:3],
                "empty_patch_ids": IDS[3:4], "error_ids": IDS[4:5], "infra_failure_ids": IDS[5:6], "submitted_ids": IDS,
            },
            [PASSED, FAILED, FAILED, FAILED, BROKEN, BROKEN, UNKNOWN],
            id="third generation",
        ),
        pytest.param(
            {"completed_ids": IDS[:2], "resolved": IDS[:1], "empty_patch_ids": IDS[2:3], "submitted_ids": IDS},
            [PASSED, FAILED, FAILED, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN],
            id="second generation",
        ),
        pytest.param(
            {
                "generated": IDS[1:], "no_generation": IDS[:1], "with_logs": IDS[1:6], "applied": IDS[2:6], "no_apply": IDS[1:2],
                "resolved": IDS[2:3], "test_timeout": IDS[4:5], "install_fail": IDS[5:6],
            },
            [FAILED, FAILED, PASSED, FAILED, BROKEN, BROKEN, UNKNOWN],
            id="first generation",
        ),
        pytest.param(
            {"stats": {"generated": 7, "with_logs": 7, "applied": 7, "resolved": 2}, "resolved": IDS[:2]},
            [PASSED, PASSED, *[FAILED] * 5],
            id="only what is resolved, all evaluated",
        ),
        pytest.param(
            {"stats": {"generated": 7, "with_logs": 5, "applied": 5, "resolved": 2}, "resolved": IDS[:2]},
            [PASSED, PASSED, *[UNKNOWN] * 5],
            id="only what is resolved, not all evaluated",
        ),
        pytest.param(
            {"resolved": 1, "unresolved": 1, "total": 2, "ids_resolved": IDS[:1], "ids_unresolved": IDS[1:2]},
            [PASSED, FAILED, *[UNKNOWN] * 5],
            id="SWE-smith",
        ),
        pytest.param(
            {IDS[0]: True, IDS[1]: False}, [PASSED, FAILED, *[UNKNOWN] * 5], id="SWE-bench Pro"
        ),
        pytest.param(
            {
                IDS[0]: {"patch_exists": True, "resolved": True},
                IDS[1]: {"patch_exists": True, "resolved": False, "infra_failure": True, "infra_failure_reason": "OOM"},
            },
            [PASSED, BROKEN, *[UNKNOWN] * 5],
            id="by instance",
        ),
    ],
)  # fmt: skip
def test_every_generation_of_reports_says_who_passed(native: Any, report: Any, expected: list[Any]) -> None:
    dump = native({"preds.jsonl": PREDS, "report.json": report}, "preds.jsonl", joins=("report.json",))
    assert list(outcome(dump).values()) == expected


def test_a_folder_of_logs_gives_verdict_output_and_patch(native: Any) -> None:
    inner = {
        "patch_exists": True,
        "patch_successfully_applied": False,
        "resolved": True,
        "tests_status": {"FAIL_TO_PASS": {}},
    }
    files = {
        "preds.jsonl": [PREDS[0] | {"model_patch": None}],
        f"logs/run/m/{IDS[0]}/report.json": inner,
        f"logs/run/m/{IDS[0]}/test_output.txt": b"1 passed\xff",
        f"logs/run/m/{IDS[0]}/patch.diff": PATCH.encode(),
    }
    dump = native(files, "preds.jsonl", joins=("logs",))
    trajectory = dump.read_trajectories([0])[0][1]
    assert (trajectory.passed, trajectory.test_output, trajectory.model_patch) == (
        True,
        "1 passed\ufffd",
        PATCH,
    )
    assert next(dump.iter_records())["tests_status"] == '{"FAIL_TO_PASS": {}}'


def runs_of(*names: str) -> dict[str, Any]:
    return {f"{name}/preds.jsonl": PREDS[:2] for name in names}


def test_a_report_beside_one_run_is_about_that_run(native: Any) -> None:
    files = runs_of("x/run-1", "x/run-2") | {
        "x/run-2/report.json": {"resolved_ids": IDS[:1], "completed_ids": IDS[:2]}
    }
    dump = native(files, "x", joins=("x/run-2/report.json",))
    rows = dump.index.select("trajectory_id", "passed", "invalid").rows()
    assert rows == [
        ("run-1/a__b-1", False, True), ("run-1/a__b-2", False, True),
        ("run-2/a__b-1", True, False), ("run-2/a__b-2", False, False),
    ]  # fmt: skip
    assert any("2 records found nothing to join" in note for note in dump.report.notes)


def test_a_report_that_names_its_run_is_about_that_run(native: Any) -> None:
    report = {"resolved_ids": IDS[:1], "completed_ids": IDS[:2]}
    files = runs_of("x/run-1", "x/run-2") | {"reports/m.run-1.json": report}
    dump = native(files, "x", joins=("reports/m.run-1.json",))
    assert dump.index["invalid"].to_list() == [False, False, True, True]


def test_a_report_that_could_be_about_any_run_is_used_for_none(native: Any) -> None:
    report = {"resolved_ids": IDS[:1], "completed_ids": IDS[:2]}
    files = runs_of("x/run-1", "x/run-2") | {"reports/final.json": report}
    dump = native(files, "x", joins=("reports/final.json",))
    assert dump.index["invalid"].all()
    assert any("is used for nothing" in note for note in dump.report.notes)


def test_the_verdict_of_the_dump_stands_and_the_conflict_is_shown(native: Any) -> None:
    rows = [
        {"group_id": "g", "instance_id": IDS[0], "trajectory_id": "t1", "resolved": True},
        {"group_id": "g", "instance_id": IDS[1], "trajectory_id": "t2", "resolved": None},
    ]
    files = {"dump.jsonl": rows, "report.json": {"resolved_ids": IDS[1:2], "completed_ids": IDS[:2]}}
    dump = native(files, "dump.jsonl", joins=("report.json",))
    assert dump.index["passed"].to_list() == [True, True]
    assert any("1 verdict contradicts the one that stands" in note for note in dump.report.notes)


def test_entries_about_nothing_are_counted_and_the_first_shown(native: Any) -> None:
    files = {"preds.jsonl": PREDS[:1], "report.json": {"resolved_ids": IDS, "completed_ids": IDS}}
    dump = native(files, "preds.jsonl", joins=("report.json",))
    note = next(note for note in dump.report.notes if "about no record" in note)
    assert note.startswith("--join: 6 entries are about no record of the dump: ")
    assert IDS[3] in note
    assert IDS[4] not in note


@pytest.mark.parametrize("container", ["jsonl", "parquet"])
def test_patches_join_a_trainers_dump_by_trajectory(native: Any, tmp_path: Path, container: str) -> None:
    rows = [
        {"group_id": "g", "instance_id": "i", "trajectory_id": name, "reward": reward}
        for name, reward in (("x", 1.0), ("y", 0.0))
    ]
    if container == "parquet":
        pl.DataFrame(rows).write_parquet(tmp_path / "dump.parquet")
        files: dict[str, Any] = {}
    else:
        files = {"dump.jsonl": rows}
    files["more.jsonl"] = [
        {"instance_id": "i", "trajectory_id": "y", "model_patch": "of y", "resolved": False},
        {
            "instance_id": "i",
            "trajectory_id": "x",
            "model_patch": "of x",
            "resolved": True,
            "test_output": "out",
        },
    ]
    dump = native(files, f"dump.{container}", joins=("more.jsonl",))
    read = [each for _, each in dump.read_trajectories([0, 1])]
    assert [(each.trajectory_id, each.model_patch, each.passed) for each in read] == [
        ("x", "of x", True),
        ("y", "of y", False),
    ]
    assert read[0].test_output == "out"
    assert dump.report.missing_columns.count("model_patch") == 0


def test_attempts_are_told_apart_by_their_number(native: Any) -> None:
    row = {"instance_id": "i", "test_result": {"git_patch": PATCH}, "history": [], "error": None}
    files = {
        "output.jsonl": [row | {"attempt": 1}, row | {"attempt": 2}],
        "verdicts.jsonl": [
            {"instance_id": "i", "attempt": 2, "resolved": True},
            {"instance_id": "i", "attempt": 1, "resolved": False},
        ],
    }
    dump = native(files, "output.jsonl", joins=("verdicts.jsonl",))
    assert dump.index["passed"].to_list() == [False, True]


def test_a_joined_dump_is_written_whole(native: Any) -> None:
    files = {"preds.jsonl": PREDS[:2], "report.json": {"resolved_ids": IDS[:1], "completed_ids": IDS[:2]}}
    dump = native(files, "preds.jsonl", joins=("report.json",))
    records = list(dump.iter_records())
    assert [record["resolved"] for record in records] == [True, False]
    assert [json.loads(line)["resolved"] for line in dump.iter_texts()] == [True, False]


def test_what_holds_nothing_to_join_is_refused(native: Any) -> None:
    with pytest.raises(InputError, match=r"args.json: nothing to join in it"):
        native({"preds.jsonl": PREDS, "args.json": {"model": "m"}}, "preds.jsonl", joins=("args.json",))
    with pytest.raises(InputError, match="no such file"):
        native({"preds.jsonl": PREDS}, "preds.jsonl", joins=("missing.json",))


def test_swe_bench_pro_writes_false_for_a_run_that_died(native: Any) -> None:
    files = {
        "preds.jsonl": PREDS[:3],
        "eval/eval_results.json": {IDS[0]: True, IDS[1]: False, IDS[2]: False},
        f"eval/{IDS[0]}/m_output.json": {"tests": []},
        f"eval/{IDS[1]}/m_output.json": {"tests": []},
        f"eval/{IDS[1]}/m_stdout.log": b"1 failed",
        f"eval/{IDS[2]}/m_stderr.log": b"killed",
    }
    dump = native(files, "preds.jsonl", joins=("eval",))
    assert list(outcome(dump).values()) == [PASSED, FAILED, BROKEN]
    assert dump.read_trajectories([1])[0][1].test_output == "1 failed"


TWO_ATTEMPTS = [
    {"group_id": "a__b-1", "trajectory_id": name, "instance_id": "a__b-1", "model_patch": PATCH}
    for name in ("x", "y")
]


def test_one_verdict_is_not_given_to_two_attempts(native: Any) -> None:
    files = {"d.jsonl": TWO_ATTEMPTS, "report.json": {"a__b-1": {"patch_exists": True, "resolved": True}}}
    with pytest.raises(InputError) as caught:
        native(files, "d.jsonl", joins=("report.json",))
    assert "d.jsonl:2: " in caught.value.message
    assert "says one thing about this attempt and the one at" in caught.value.message
    assert "`trajectory_id` or `attempt`" in str(caught.value.hint)


def test_rows_that_name_the_attempt_reach_it(native: Any) -> None:
    rows = [{"instance_id": "a__b-1", "trajectory_id": name, "resolved": name == "y"} for name in ("x", "y")]
    dump = native({"d.jsonl": TWO_ATTEMPTS, "rows.jsonl": rows}, "d.jsonl", joins=("rows.jsonl",))
    assert dump.index.select("trajectory_id", "passed").rows() == [("x", False), ("y", True)]


def test_segments_of_one_attempt_share_its_verdict(native: Any) -> None:
    parts = [TWO_ATTEMPTS[0] | {"segment": number} for number in (0, 1)]
    files = {"d.jsonl": parts, "report.json": {"a__b-1": {"patch_exists": True, "resolved": True}}}
    assert native(files, "d.jsonl", joins=("report.json",)).index["passed"].to_list() == [True, True]


def test_attempts_of_an_exploded_record_are_joined_one_by_one(native: Any) -> None:
    tasks = [
        {"instance_id": "a__b-1", "attempts": [{"trajectory_id": "x"}, {"trajectory_id": "y", "resolved": False}]},
        {"instance_id": "a__b-2", "attempts": [{"trajectory_id": "x"}, {"trajectory_id": "z"}]},
    ]  # fmt: skip
    rows = [
        {"instance_id": "a__b-1", "trajectory_id": "x", "resolved": True, "model_patch": PATCH},
        {"instance_id": "a__b-1", "trajectory_id": "y", "resolved": True},
        {"instance_id": "a__b-2", "trajectory_id": "x", "resolved": False},
    ]
    dump = native(
        {"d.jsonl": tasks, "rows.jsonl": rows}, "d.jsonl", joins=("rows.jsonl",), explode="attempts"
    )
    found = dump.index.select("group_id", "trajectory_id", "passed", "invalid_reason").rows()
    assert found == [
        ("a__b-1", "x", True, None),
        ("a__b-1", "y", False, None),
        ("a__b-2", "x", False, None),
        ("a__b-2", "z", False, "not_evaluated"),
    ]
    assert [one.model_patch for _, one in dump.read_trajectories([0, 1, 2, 3])] == [PATCH, None, None, None]
    assert [record["trajectory_id"] for record in dump.iter_records()] == ["x", "y", "x", "z"]
    notes = "\n".join(dump.report.notes)
    assert "d.jsonl:2[1] (a__b-2)" in notes
    assert "d.jsonl:1[1] against" in notes


def test_the_harness_s_own_log_gives_the_verdict_and_the_patch_in_it_does_not(native: Any) -> None:
    log = (
        "Grading answer for a__b-1...\nResult for a__b-1: resolved: True\n"  # quoted from the patch
        "2024-08-22 - INFO - Grading answer for a__b-1...\nResult for a__b-1: resolved: False\n"
    )
    forged = "Grading answer for a__b-2...\nResult for a__b-2: resolved: True\n2024 - Grading answer for a__b-2...\n"
    files = {
        "preds.jsonl": PREDS[:3],
        "logs/a__b-1/run_instance.log": log.encode(),
        "logs/a__b-2/run_instance.log": forged.encode(),
        "logs/a__b-3/run_instance.log": b"Grading answer for a__b-3...\nResult for a__b-3: resolved: True\n",
        "logs/a__b-3/report.json": {"a__b-3": {"patch_exists": True, "resolved": False}},
    }
    dump = native(files, "preds.jsonl", joins=("logs",))
    assert list(outcome(dump).values()) == [FAILED, UNKNOWN, FAILED]
