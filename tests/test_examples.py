import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from gagar_cli.core.patch import apply_file, parse_patch, refuse_patch

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"
DUMP = ROOT / "gagar_cli" / "demo_data" / "demo-rollouts.jsonl"
RECORDS: list[dict[str, Any]] = [json.loads(line) for line in DUMP.read_text(encoding="utf-8").splitlines()]
JUDGED = [record for record in RECORDS if record["resolved"] is not None]


@pytest.fixture(scope="module")
def builder() -> ModuleType:
    sys.path.insert(0, str(EXAMPLES))
    try:
        import build_demo_dump
    finally:
        sys.path.remove(str(EXAMPLES))
    return build_demo_dump


def test_building_the_dump_again_gives_the_same_bytes(tmp_path: Path) -> None:
    again = tmp_path / "again.jsonl"
    subprocess.run(
        [sys.executable, EXAMPLES / "build_demo_dump.py", again],
        check=True,
        capture_output=True,
        cwd=tmp_path,
    )
    assert again.read_bytes() == DUMP.read_bytes()


@pytest.mark.parametrize("record", JUDGED, ids=[record["trajectory_id"] for record in JUDGED])
def test_each_patch_applies_and_the_hidden_tests_agree(
    record: dict[str, Any], builder: ModuleType, tmp_path: Path
) -> None:
    tree = tmp_path / "repo"
    shutil.copytree(builder.BASE_TREE, tree)
    patch = parse_patch(record["model_patch"])
    assert (patch.problems, refuse_patch(patch)) == ((), ())
    for file in patch.files:
        target = tree / file.path
        text = apply_file(file, target.read_text(encoding="utf-8") if target.exists() else None)
        target.write_text(text, encoding="utf-8")
    [task] = [task for task in builder.TASKS if task.instance_id == record["instance_id"]]
    builder.add_hidden_tests(tree, task)
    outcome = builder.run_tests(tree)
    assert (outcome.exit_code == 0) == record["resolved"]
    assert outcome.output == record["test_output"]


def test_the_tests_of_the_demo_repository_pass_and_the_hidden_ones_fail_at_its_base(
    builder: ModuleType, tmp_path: Path
) -> None:
    for task in builder.TASKS:
        tree = tmp_path / task.instance_id
        shutil.copytree(builder.BASE_TREE, tree)
        assert builder.run_tests(tree).exit_code == 0
        builder.add_hidden_tests(tree, task)
        assert builder.run_tests(tree).exit_code == 1


def test_the_readme_names_every_attempt_with_its_outcome() -> None:
    rows = re.findall(
        r"(?m)^\| `(\S+)` \| (pass|fail|invalid) \|", (EXAMPLES / "README.md").read_text(encoding="utf-8")
    )
    words = {True: "pass", False: "fail", None: "invalid"}
    assert rows == [(record["trajectory_id"], words[record["resolved"]]) for record in RECORDS]


def test_three_groups_are_mixed_and_one_passes_whole() -> None:
    outcomes = Counter((record["group_id"][-2:], record["resolved"]) for record in RECORDS)
    assert outcomes == {
        ("31", True): 5, ("31", False): 2, ("31", None): 1,
        ("38", True): 6, ("38", False): 2,
        ("44", True): 6, ("44", False): 2,
        ("52", True): 4,
    }  # fmt: skip
    assert [record["trajectory_id"][-5:] for record in RECORDS if record["is_truncated"]] == ["38-02"]


def test_two_pairs_of_patches_are_byte_identical() -> None:
    counts = Counter(record["model_patch"] for record in JUDGED)
    assert sorted(counts.values())[-3:] == [1, 2, 2]


def test_the_copied_fix_stood_in_the_history_that_was_read() -> None:
    [record] = [record for record in RECORDS if record["trajectory_id"].endswith("44-01")]
    [shown] = [message["content"] for message in record["messages"] if "commit a91f3e7" in message["content"]]
    added = [line for line in record["model_patch"].splitlines() if line.startswith("+") and line[1:].strip()]
    assert added[1:] == [line for line in shown.splitlines() if line.startswith("+") and line[1:].strip()][1:]


def test_every_tool_call_is_answered() -> None:
    for record in RECORDS:
        calls = [call["id"] for message in record["messages"] for call in message.get("tool_calls", ())]
        answers = [message["tool_call_id"] for message in record["messages"] if message["role"] == "tool"]
        assert calls == answers
        assert record["n_turns"] == sum(message["role"] == "assistant" for message in record["messages"])


def test_the_pipe_runs_in_the_folder_that_the_demo_leaves(tmp_path: Path) -> None:
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    runs = (
        ["gagar", "demo", "-q", "--sandbox", "inspect-only"],
        ["sh", str(EXAMPLES / "grade_and_redistribute.sh")],
    )
    for command in runs:
        done = subprocess.run(
            command, cwd=tmp_path, env={"PATH": programs}, capture_output=True, text=True, check=True
        )
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(rows) == 28
    assert sum(row["advantage"] != row["advantage_base"] for row in rows) == 16


def test_the_dump_is_small_and_names_no_machine() -> None:
    text = DUMP.read_text(encoding="utf-8")
    assert len(text.encode()) < 400_000
    assert not re.search(r"/(?:tmp|home|root|work|usr)/", text)
