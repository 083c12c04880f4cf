"""Every kind of real file, read by its adapter: figures that are literal or counted here with nothing but `json`."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from gagar_cli.errors import InputError
from gagar_cli.io.dump import Dump, ReadOptions, open_dump

RAW = Path(__file__).resolve().parents[3].parent / "shared" / "data" / "raw"

pytestmark = [
    pytest.mark.shared,
    pytest.mark.skipif(not RAW.is_dir(), reason="the reference data is not here"),
]
NEMO = "nemo-gym"
TERMINAL_BENCH = "terminal-bench/results/terminal-bench-core@0.1.1/20250902_orchestrator_claude-4-sonnet"
MINI_RUNS = [f"full_i0_run{number}" for number in range(1, 6)]


def opened(*paths: str, joins: Sequence[str] = ()) -> Dump:
    return open_dump(
        [str(RAW / path) for path in paths], ReadOptions(joins=tuple(str(RAW / each) for each in joins))
    )


def figures(dump: Dump) -> tuple[int, int, int, int]:
    index = dump.index
    return (
        index["group"].n_unique(),
        index["primary_row"].n_unique(),
        int(index["passed"].sum()),
        int(index["invalid"].sum()),
    )


def document(path: str) -> Any:
    return json.loads((RAW / path).read_bytes())


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        # groups, trajectories, passed, invalid
        ("mini-swe-agent-v1/trajs", (5, 5, 0, 5)),
        ("mini-swe-agent-v1/trajs/preds.json", (500, 500, 0, 500)),
        ("mini-swe-agent-v2-preds", (102, 502, 0, 502)),
        ("swe-agent-v0", (3, 9, 0, 9)),
        ("swe-agent-v0/cost_2_1/all_preds.jsonl", (271, 271, 0, 271)),
        ("swe-agent-v1", (3, 3, 0, 3)),
        ("swe-smith/trajectories", (2, 2, 0, 2)),
        ("multi-swe-java", (2, 8, 0, 8)),
        ("multi-swe-java/20240825_SWE-agent_gpt-4o-2024-05-13/all_preds.jsonl", (85, 85, 0, 85)),
        ("openhands/multi_swe_bench_output.jsonl", (3, 3, 0, 3)),
        ("openhands/resolver_mock_output.jsonl", (2, 2, 0, 2)),
        ("openhands/sdk_v1_events.jsonl", (1, 1, 0, 1)),
        ("openhands/example_model_output.json", (30, 30, 0, 30)),
        (f"{NEMO}/example_rollouts_hermes.jsonl", (5, 5, 4, 0)),
        (f"{NEMO}/anyswe/example_rollouts_claude_code.jsonl", (1, 5, 1, 0)),
        (f"{NEMO}/anyswe/example_rollouts_hermes.jsonl", (1, 5, 2, 0)),
        (f"{NEMO}/anyswe/example_rollouts_opencode.jsonl", (1, 5, 4, 0)),
        (f"{NEMO}/mini_swe_agent_2/example_rollouts.jsonl", (5, 5, 1, 0)),
        # jq: the evaluation did not complete
        (f"{NEMO}/swebench/example_rollouts.jsonl", (5, 5, 1, 1)),
        (f"{NEMO}/swebench/swerl_gen_example_rollouts.jsonl", (5, 5, 1, 0)),
        ("harbor", (1, 1, 1, 0)),
        ("harbor-atif", (7, 7, 0, 7)),
        # 144 resolved, 29 null: 11 test_timeout, 10 unknown_agent_error, 8 parse_error
        ("terminal-bench", (80, 400, 144, 29)),
        (f"{TERMINAL_BENCH}/oom/oom.1-of-5/results.json", (1, 1, 0, 0)),
        ("hf-rows/swe-smith.sample_raw.json", (5, 5, 5, 0)),
        ("swe-smith/ft_xml_example.jsonl", (3, 3, 0, 3)),
        ("hf-rows/swe-gym_openhands_sampled_trajectories.sample_raw.json", (5, 5, 5, 0)),
        ("hf-rows/nebius_SWE-agent-trajectories.sample_raw.json", (5, 5, 5, 0)),
    ],
)
def test_a_native_dump_is_read_whole(path: str, expected: tuple[int, int, int, int]) -> None:
    with opened(path) as dump:
        assert figures(dump) == expected
        assert dump.report.n_bad_records == 0


def test_mini_swe_agent_v1_gets_the_verdicts_of_its_reports() -> None:
    instances = sorted(each.name for each in (RAW / "mini-swe-agent-v1/logs").iterdir())
    reports = {each: document(f"mini-swe-agent-v1/logs/{each}/report.json")["resolved"] for each in instances}
    assert reports == dict.fromkeys(instances, True) | {"django__django-11400": False}
    with opened("mini-swe-agent-v1/trajs", joins=["mini-swe-agent-v1/logs"]) as dump:
        assert figures(dump) == (5, 5, 4, 0)
        assert dict(dump.index.select("group_id", "passed").iter_rows()) == reports


def test_a_summary_of_the_run_says_the_same_as_its_reports() -> None:
    with opened("mini-swe-agent-v1/trajs", joins=["mini-swe-agent-v1/results_summary.json"]) as dump:
        assert figures(dump) == (5, 5, 4, 0)
        assert any("495 entries are about no record" in note for note in dump.report.notes)


def test_all_predictions_of_mini_swe_agent_v1_get_the_verdict_of_the_summary() -> None:
    summary = document("mini-swe-agent-v1/results_summary.json")
    assert (summary["total"], summary["passed"]) == (500, 371)
    with opened(
        "mini-swe-agent-v1/trajs/preds.json", joins=["mini-swe-agent-v1/results_summary.json"]
    ) as dump:
        assert figures(dump) == (500, 500, 371, 0)


def test_five_runs_of_mini_swe_agent_v2_get_each_its_own_verdicts() -> None:
    verdicts = document("mini-swe-agent-v2-preds/per_run_results.json")
    expected = {
        (run, instance): verdicts[run.removeprefix("full_")].get(instance)
        for run in MINI_RUNS
        for instance in document(f"mini-swe-agent-v2-preds/{run}/preds.json")
    }
    with opened(
        *(f"mini-swe-agent-v2-preds/{run}" for run in MINI_RUNS),
        joins=["mini-swe-agent-v2-preds/per_run_results.json"],
    ) as dump:
        assert figures(dump) == (100, 500, 379, 4)
        rows = dump.index.select("trajectory_id", "passed", "invalid").iter_rows()
        found = {tuple(name.split("/")): None if invalid else int(passed) for name, passed, invalid in rows}
    assert found == expected
    assert [sum(value is None for value in expected.values()), sum(map(bool, expected.values()))] == [4, 379]


def test_three_runs_of_swe_agent_are_three_groups_of_three() -> None:
    runs = [f"cost_2_{number}" for number in (1, 2, 3)]
    resolved = {run: set(document(f"swe-agent-v0/{run}/final_report.json")["resolved"]) for run in runs}
    with opened("swe-agent-v0", joins=[f"swe-agent-v0/{run}/final_report.json" for run in runs]) as dump:
        assert figures(dump) == (3, 9, 7, 0)
        for name, instance, passed in dump.index.select("trajectory_id", "group_id", "passed").iter_rows():
            run = name.split("/")[0]
            assert passed == (instance in resolved[run])
        groups = dump.index.group_by("group_id").len().sort("group_id").rows()
    assert groups == [("django__django-11001", 3), ("pytest-dev__pytest-5227", 3), ("sympy__sympy-24152", 3)]


def test_a_report_of_one_run_says_nothing_about_another_run() -> None:
    with opened("swe-agent-v0", joins=["swe-agent-v0/cost_2_2/final_report.json"]) as dump:
        assert figures(dump) == (3, 9, 3, 6)


def test_swe_smith_trusts_resolved_though_the_patch_is_said_not_to_apply() -> None:
    with opened("swe-smith/trajectories", joins=["swe-smith/run_evaluation"]) as dump:
        assert figures(dump) == (2, 2, 1, 0)
        outputs = [trajectory.test_output or "" for _, trajectory in dump.read_trajectories([0, 1])]
    assert all("PASSED" in output or "passed" in output for output in outputs)


def test_four_java_runs_get_the_verdicts_of_their_results() -> None:
    runs = sorted(each.name for each in (RAW / "multi-swe-java").iterdir() if each.is_dir())
    for run in runs:
        results = document(f"multi-swe-java/{run}/results/results.json")
        lines = (RAW / f"multi-swe-java/{run}/all_preds.jsonl").read_bytes().splitlines()
        rows = [json.loads(line) for line in lines]
        known = {*results["resolved"], *results["unresolved_ids"], *results["empty_patch_ids"]}
        n_unknown = sum(row["instance_id"] not in known for row in rows)
        n_passed = sum(row["instance_id"] in results["resolved"] for row in rows)
        joins = [f"multi-swe-java/{run}/results/results.json"]
        with opened(f"multi-swe-java/{run}/all_preds.jsonl", joins=joins) as dump:
            assert figures(dump) == (len(rows), len(rows), n_passed, n_unknown)
    with opened(
        "multi-swe-java", joins=[f"multi-swe-java/{run}/results/results.json" for run in runs]
    ) as dump:
        assert figures(dump)[:3] == (2, 8, 1)


def test_java_runs_get_the_same_verdicts_from_their_logs() -> None:
    """`grep 'Result for'` over the eight logs: one says True."""
    run = "20240825_SWE-agent_deepseek-chat-v2"
    runs = sorted(each.name for each in (RAW / "multi-swe-java").iterdir() if each.is_dir())
    with opened("multi-swe-java", joins=[f"multi-swe-java/{each}/logs" for each in runs]) as dump:
        assert figures(dump) == (2, 8, 1, 0)
        passed = dump.index.filter("passed")["trajectory_id"].to_list()
    assert passed == [f"{run}/fasterxml__jackson-databind-4048"]


def test_rows_for_fine_tuning_get_the_verdicts_of_the_evaluation() -> None:
    with opened("swe-smith/ft_xml_example.jsonl", joins=["swe-smith/run_evaluation"]) as dump:
        assert figures(dump) == (3, 3, 3, 0)
        lengths = [len(one.messages) for _, one in dump.read_trajectories([0, 1, 2])]
    assert lengths == [75, 89, 45]


def test_the_validation_of_a_task_is_refused_with_the_reason() -> None:
    with pytest.raises(InputError, match="nothing about an attempt"):
        opened("swe-smith/run_validation/report.json")


def test_logs_come_with_their_attempts() -> None:
    with opened(
        "swe-agent-v0/cost_2_1", joins=["swe-agent-v0/cost_2_1/final_report.json", "swebench-harness/v1_logs"]
    ) as dump:
        (_, trajectory) = dump.read_trajectories([0])[0]
        assert len(trajectory.messages) == 19
        assert trajectory.test_output is not None
        assert ">>>>> All Tests Passed" in trajectory.test_output


@pytest.mark.parametrize(
    ("path", "n_messages"),
    [
        ("mini-swe-agent-v1/trajs/sympy__sympy-22456/sympy__sympy-22456.traj.json", 148),
        ("swe-agent-v1/marshmallow-1867_function_calling.traj", 28),
        ("harbor-atif/sympy__sympy-24443.trajectory.json", 106),
        ("hf-rows/swe-smith.sample_raw.json", 31),
        ("hf-rows/nebius_SWE-agent-trajectories.sample_raw.json", 13),
    ],
)
def test_the_whole_log_is_there(path: str, n_messages: int) -> None:
    with opened(path) as dump:
        assert len(dump.read_trajectories([0])[0][1].messages) == n_messages


def test_two_forms_of_one_log_hold_the_same_replies() -> None:
    """Harbor's converter made the ATIF files from the trajectories of mini-swe-agent."""
    with (
        opened("mini-swe-agent-v1/trajs/sympy__sympy-24443/sympy__sympy-24443.traj.json") as native,
        opened("harbor-atif/sympy__sympy-24443.trajectory.json") as converted,
    ):
        replies = [
            [
                message.content
                for message in dump.read_trajectories([0])[0][1].messages
                if message.role == "assistant"
            ]
            for dump in (native, converted)
        ]
    assert replies[0] == replies[1]
    assert len(replies[0]) == 52
