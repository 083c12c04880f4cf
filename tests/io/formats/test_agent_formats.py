"""Agents' files in the forms that their sources write, and what lies beside them."""

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from gagar_cli.errors import InputError, UsageError

PATCH = "diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-x\n+y\n"


def mini(status: str = "Submitted", submission: str | None = PATCH) -> dict[str, Any]:
    return {
        "info": {
            "exit_status": status,
            "submission": submission,
            "model_stats": {"api_calls": 2, "instance_cost": 0.1},
        },
        "messages": [
            {"role": "user", "content": "u"},
            {"role": "assistant", "content": "a", "extra": {"cost": 1}},
        ],
        "trajectory_format": "mini-swe-agent-1.1",
        "instance_id": "a__b-1",
    }


def swe_agent(status: str = "submitted", submission: str | None = PATCH) -> dict[str, Any]:
    return {
        "environment": "main",
        "trajectory": [
            {"action": "ls", "observation": "a.py", "thought": "look", "response": "look ls", "state": "{}"}
        ],
        "history": [
            {"role": "system", "content": "s", "agent": "main"},
            {"role": "assistant", "content": "a", "agent": "main"},
        ],
        "info": {"exit_status": status, "submission": submission},
    }


@pytest.mark.parametrize(
    ("status", "submission", "expected"),
    [
        ("Submitted", PATCH, ("completed", False, False)),
        ("LimitsExceeded", "", ("truncated_cost", True, False)),
        ("TimeExceeded", None, ("truncated_time", True, False)),
        ("RetryError", "", ("aborted", False, True)),
        ("DockerException", PATCH, ("aborted", False, None)),
    ],
)
def test_the_end_of_a_mini_run_says_whether_it_counts(
    native: Any, status: str, submission: str | None, expected: tuple[Any, ...]
) -> None:
    dump = native({"a__b-1.traj.json": mini(status, submission)})
    record = next(dump.iter_records())
    assert (record["termination"], record["is_truncated"], record.get("infra_failure")) == expected
    assert record["exit_status"] == status


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ("submitted", ("completed", False, False)),
        ("submitted (exit_context)", ("truncated_context", True, False)),
        ("exit_cost", ("truncated_cost", True, False)),
        ("submitted (exit_api)", ("aborted", False, True)),
        ("exit_environment_error", ("aborted", False, True)),
        ("exit_format", ("format_error", False, False)),
    ],
)
def test_the_end_of_a_swe_agent_run_says_whether_it_counts(
    native: Any, status: str, expected: tuple[Any, ...]
) -> None:
    record = next(native({"a__b-1.traj": swe_agent(status)}).iter_records())
    assert (record["termination"], record["is_truncated"], record["infra_failure"]) == expected


def test_runs_are_told_apart_by_the_shortest_part_of_their_path(native: Any) -> None:
    files = {f"{run}/trajs/a__b-1/a__b-1.traj.json": mini() for run in ("x/run", "y/run")}
    dump = native(files, "x", "y")
    assert dump.index["trajectory_id"].to_list() == ["x/run/a__b-1", "y/run/a__b-1"]
    assert dump.index["group"].n_unique() == 1


def test_predictions_beside_trajectories_give_the_missing_patch(native: Any) -> None:
    preds = {
        "a__b-1": {"instance_id": "a__b-1", "model_name_or_path": "m", "model_patch": PATCH},
        "a__b-2": {"instance_id": "a__b-2", "model_name_or_path": "m", "model_patch": PATCH},
    }
    dump = native({"run/a__b-1/a__b-1.traj.json": mini(submission=None), "run/preds.json": preds}, "run")
    assert dump.index.height == 1
    assert dump.read_trajectories([0])[0][1].model_patch == PATCH
    assert any("predictions beside trajectories" in note for note in dump.report.notes)


@pytest.mark.parametrize("form", ["dict", "lines", "array", "pro"])
def test_predictions_are_read_in_every_container(native: Any, form: str) -> None:
    rows = [
        {"instance_id": "a__b-1", "model_name_or_path": "m", "model_patch": PATCH},
        {"instance_id": "a__b-2", "model_name_or_path": "m", "model_patch": None},
    ]
    content: Any = {
        "dict": {row["instance_id"]: row for row in rows},
        "lines": rows,
        "array": str(rows).replace("'", '"').replace("None", "null").replace("\n", "\\n").encode(),
        "pro": str([{"instance_id": r["instance_id"], "prefix": "m", "patch": r["model_patch"]} for r in rows])
        .replace("'", '"').replace("None", "null").replace("\n", "\\n").encode(),
    }[form]  # fmt: skip
    dump = native({"preds.json": content})
    assert dump.index["group_id"].to_list() == ["a__b-1", "a__b-2"]
    assert [each.model_patch for _, each in dump.read_trajectories([0, 1])] == [PATCH, None]


def test_a_retry_agent_has_several_attempts_in_one_file(native: Any) -> None:
    one = swe_agent()
    dump = native({"run/a__b-1.traj": one | {"attempts": [swe_agent("exit_cost", None), swe_agent()]}})
    assert dump.index["trajectory_id"].to_list() == ["run/a__b-1/attempt-0", "run/a__b-1/attempt-1"]
    assert [each.model_patch for _, each in dump.read_trajectories([0, 1])] == [None, PATCH]


def test_openhands_v1_reads_events_by_kind_and_keeps_attempts_apart(native: Any) -> None:
    history = [
        {"kind": "SystemPromptEvent", "source": "agent", "system_prompt": {"type": "text", "text": "sys"}},
        {"kind": "MessageEvent", "source": "user", "llm_message": {"role": "user", "content": [{"type": "text", "text": "u"}]}},
        {"kind": "ActionEvent", "thought": [{"type": "text", "text": "t"}], "tool_name": "terminal", "tool_call_id": "c",
         "tool_call": {"name": "terminal", "arguments": '{"command": "ls"}'}, "reasoning_content": "r"},
        {"kind": "ObservationEvent", "tool_name": "terminal", "tool_call_id": "c",
         "observation": {"content": [{"type": "text", "text": "a.py"}]}},
        {"kind": "ConversationStateUpdateEvent", "key": "stats", "value": {}},
    ]  # fmt: skip
    row = {
        "instance_id": "a__b-1",
        "attempt": 1,
        "test_result": {"git_patch": PATCH},
        "history": history,
        "error": None,
    }
    failed = row | {
        "attempt": 2,
        "history": [],
        "test_result": {},
        "error": "Remote runtime could not be started",
    }
    dump = native({"output.jsonl": [row, failed]}, joins=())
    first = dump.read_trajectories([0])[0][1]
    assert [(message.role, message.content) for message in first.messages] == [
        ("system", "sys"), ("user", "u"), ("assistant", "t"), ("tool", "a.py"),
    ]  # fmt: skip
    assert first.messages[2].tool_calls == (("terminal", '{"command": "ls"}'),)
    assert dump.index["invalid_reason"].to_list() == ["not_evaluated", "infra_failure"]


@pytest.mark.parametrize(
    ("report", "error", "expected"),
    [
        ({"resolved": True}, None, (True, None)),
        ({"resolved": False}, None, (False, None)),
        ({"resolved": False, "error_eval": True}, None, (False, "infra_failure")),
        ({"resolved": False}, "RuntimeError: Agent reached maximum iteration", (False, None)),
        ({}, None, (False, "not_evaluated")),
    ],
)
def test_openhands_v0_takes_the_merged_report(native: Any, report: Any, error: Any, expected: Any) -> None:
    event = {"id": 0, "source": "user", "action": "message", "args": {"content": "u"}}
    row = {
        "instance_id": "a__b-1",
        "test_result": {"git_patch": PATCH},
        "report": report,
        "history": [event],
        "error": error,
    }
    dump = native({"output.jsonl": [row]})
    assert dump.index.select("passed", "invalid_reason").row(0) == expected


def test_old_pairs_of_action_and_observation_are_one_log(native: Any) -> None:
    pair = [
        {"action": "run", "args": {"command": "ls", "thought": "t"}, "source": "agent"},
        {"observation": "run", "content": "a.py"},
    ]
    dump = native({"output.jsonl": [{"instance_id": "i__i-1", "test_result": {}, "history": [pair]}]})
    messages = dump.read_trajectories([0])[0][1].messages
    assert [(message.role, message.content) for message in messages] == [("assistant", "t"), ("tool", "a.py")]


@pytest.mark.parametrize(
    ("exception", "rewards", "expected"),
    [
        (None, {"reward": 1.0}, (1.0, True, None)),
        ("AgentTimeoutError", {"reward": 0.0}, (0.0, False, None)),
        ("SomethingNewError", {"reward": 1.0}, (1.0, True, None)),
        ("VerifierTimeoutError", {"reward": 0.0}, (None, False, "infra_failure")),
        ("EnvironmentStartTimeoutError", None, (None, False, "infra_failure")),
        (None, None, (None, False, "not_evaluated")),
        (None, {"correct": 0.0}, (0.0, False, None)),
        (None, {"correct": 1.0, "style": 0.5}, (None, False, "not_evaluated")),
    ],
)
def test_harbor_keeps_a_reward_where_the_agent_failed_and_not_where_the_environment_did(
    native: Any, exception: str | None, rewards: Any, expected: tuple[Any, ...]
) -> None:
    trial = {
        "task_name": "t", "trial_name": "t__abc", "task_checksum": "0" * 64,
        "verifier_result": rewards and {"rewards": rewards},
        "exception_info": exception and {"exception_type": exception},
    }  # fmt: skip
    other = trial | {
        "trial_name": "t__def",
        "verifier_result": {"rewards": {"reward": 1.0}},
        "exception_info": None,
    }
    steps = [
        {"step_id": 1, "source": "agent", "message": "m", "is_copied_context": True},
        {"step_id": 2, "source": "agent", "message": "n"},
    ]
    files = {
        "job/t__abc/result.json": trial,
        "job/t__abc/agent/trajectory.json": {
            "schema_version": "ATIF-v1.7",
            "agent": {"name": "x"},
            "steps": steps,
        },
        "job/t__abc/verifier/test-stdout.txt": b"1 passed",
        "job/t__def/result.json": other,
    }
    dump = native(files, "job")
    assert dump.index.select("reward", "passed", "invalid_reason").row(0) == expected
    assert dump.index["group"].n_unique() == 1
    trajectory = dump.read_trajectories([0])[0][1]
    assert ([message.content for message in trajectory.messages], trajectory.test_output) == (
        ["n"],
        "1 passed",
    )


def test_a_terminal_bench_run_is_not_read_twice(native: Any) -> None:
    def trial(number: int, *, resolved: bool | None) -> dict[str, Any]:
        return {
            "trial_name": f"t.{number}-of-2",
            "task_id": "t",
            "is_resolved": resolved,
            "failure_mode": "unset",
        }

    trials = [trial(1, resolved=True), trial(2, resolved=None)]
    files = {
        "run/results.json": {"results": trials},
        "run/t/t.1-of-2/results.json": trials[0],
        "run/t/t.1-of-2/sessions/tests.log": b"PASSED",
    }
    dump = native(files, "run")
    assert dump.index.select("trajectory_id", "passed", "invalid").rows() == [
        ("run/t.1-of-2", True, False),
        ("run/t.2-of-2", False, True),
    ]
    assert dump.read_trajectories([0])[0][1].test_output == "PASSED"


def test_the_rebench_table_has_its_verdict_as_a_number(native: Any, tmp_path: Path) -> None:
    log = [
        {"role": "user", "content": "u", "tool_calls": None},
        {"role": "assistant", "content": "a", "tool_calls": None},
    ]
    pl.DataFrame(
        {
            "trajectory_id": ["x", "y", "z"], "instance_id": ["a__b-1"] * 3, "repo": ["a/b"] * 3, "trajectory": [log] * 3,
            "tools": [[]] * 3, "model_patch": [PATCH, "", None], "exit_status": ["submit"] * 3, "resolved": [1, 0, None],
        }
    ).write_parquet(tmp_path / "train.parquet")  # fmt: skip
    dump = native({}, "train.parquet")
    assert dump.index.select("passed", "invalid_reason").rows() == [
        (True, None),
        (False, None),
        (False, "not_evaluated"),
    ]
    assert len(dump.read_trajectories([0])[0][1].messages) == 2


def test_a_format_can_be_forced_and_an_unknown_one_is_refused(native: Any) -> None:
    rows = [{"instance_id": "a__b-1", "model_name_or_path": "m", "model_patch": PATCH}]
    with pytest.raises(InputError, match="neither reward nor resolved"):
        native({"preds.jsonl": rows}, format="canonical")
    with pytest.raises(UsageError, match="--format is 'nope', expected canonical"):
        native({"preds.jsonl": rows}, format="nope")
    for name, near in (("verll", "verl"), ("skyrl", "skyrl-eval"), ("Canonicl", "canonical")):
        with pytest.raises(UsageError, match=f"^--format is '{name}', the nearest is {near}$"):
            native({"preds.jsonl": rows}, format=name)


def test_a_broken_file_of_a_tree_is_named_with_its_place(native: Any) -> None:
    files = {
        "run/a__b-1/a__b-1.traj.json": mini(),
        "run/x__y-1/x__y-1.traj.json": mini() | {"messages": "gone"},
    }
    with pytest.raises(InputError, match=r"x__y-1.traj.json:1: no list of messages"):
        native(files, "run")
    assert native(files, "run", on_bad_record="skip").report.n_bad_records == 1


def test_a_verdict_file_alone_is_no_dump(native: Any) -> None:
    with pytest.raises(InputError, match="verdicts without attempts"):
        native({"report.json": {"resolved_ids": ["a"], "completed_ids": ["a"]}})


@pytest.mark.parametrize(
    ("group_by", "groups", "source"),
    [
        ("prompt", 1, "equal_prompt"),
        ("directory", 2, "directory"),
        ("model_patch", 1, "field:model_patch"),
    ],
)
def test_native_records_can_be_grouped_otherwise(
    native: Any, group_by: str, groups: int, source: str
) -> None:
    files = {"run/p/one.traj": swe_agent(), "run/q/two.traj": swe_agent()}
    dump = native(files, "run", group_by=group_by)
    assert (dump.index["group"].n_unique(), dump.report.group_id_source) == (groups, source)
    assert not any("is not used" in note for note in dump.report.notes)
