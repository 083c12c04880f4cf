import json
import subprocess
import sys

import pytest


@pytest.fixture
def audit(folder, gagar, monkeypatch):
    """Run `gagar audit` in the folder."""
    monkeypatch.chdir(folder)
    return lambda *arguments: gagar("audit", *arguments)


def fix(number: int, extra: str = "") -> str:
    head = (
        f"diff --git a/src/p{number}.py b/src/p{number}.py\n--- a/src/p{number}.py\n+++ b/src/p{number}.py\n"
    )
    return f"{head}@@ -1,1 +1,{2 if extra else 1} @@\n-x = {number}\n+x = {number} + 1\n{extra}"


@pytest.fixture
def folder(tmp_path):
    for name, extra in (("old", ""), ("new", '+print("DEBUG", x)\n')):
        with (tmp_path / f"{name}.jsonl").open("w") as stream:
            for task in range(6):
                for attempt in range(2):
                    record = {
                        "group_id": f"t{task}",
                        "trajectory_id": f"{task}.{attempt}",
                        "resolved": attempt == 0,
                        "model_patch": fix(task, extra),
                    }
                    stream.write(json.dumps(record) + "\n")
    return tmp_path


def test_two_dumps_are_compared_and_the_answer_comes_first(folder, audit):
    done = audit("old.jsonl", "new.jsonl", "-o", "audit", "--judge-model", "offline")
    assert done.returncode == 0, done.stderr
    assert (
        "new wins 0.0% [0.0%, 39.0%] of pairs against old: worse (the interval excludes 50%)" in done.stdout
    )
    names = {path.name for path in (folder / "audit").iterdir()}
    assert {"judgments.jsonl", "key.json", "summary.json", "report.html"} <= names


def test_a_gate_that_is_not_met_exits_4_and_unblind_asks_nobody(audit):
    done = audit(
        "a=old.jsonl",
        "b=new.jsonl",
        "-o",
        "audit",
        "--judge-model",
        "offline",
        "--gate",
        "win_rate.value>0.5",
    )
    assert done.returncode == 4
    assert "gate not met: win_rate.value>0.5: win_rate.value is 0" in done.stderr
    again = audit("-o", "audit", "--unblind", "--gate", "win_rate.value<0.5", "--json")
    assert again.returncode == 0
    record = json.loads(again.stdout)
    assert record["win_rate"]["value"] == 0.0
    assert record["second"] == "b"


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["-o", "audit"], 2, "a dump is missing"),
        (["old.jsonl", "new.jsonl", "-o", "audit"], 2, "--judge-model is missing"),
        (
            ["old.jsonl", "-o", "audit", "--judge-model", "offline"],
            2,
            "one policy is not compared with anything",
        ),
        (["old.jsonl", "new.jsonl", "-o", "audit", "--unblind"], 2, "--unblind reads no dump"),
        (
            ["x=old.jsonl", "x=new.jsonl", "-o", "audit", "--judge-model", "offline"],
            2,
            "two inputs are called 'x'",
        ),
        (["old.jsonl", "--policy-a", "x", "-o", "audit", "--judge-model", "offline"], 2, "go together"),
        (["old.jsonl", "new.jsonl", "-o", "audit", "--judge-model", "m"], 2, "--judge-model m needs"),
        (["old.jsonl", "new.jsonl", "-o", "old.jsonl", "--judge-model", "offline"], 1, "is a file"),
        (["-o", "nowhere", "--unblind"], 3, "nowhere/key.json: no such file"),
        (
            ["old.jsonl", "new.jsonl", "-o", "audit", "--judge-model", "offline", "--gate", "win>1"],
            2,
            "the summary has no win",
        ),
    ],
)
def test_what_cannot_be_done_is_told_with_its_exit_code(audit, arguments, code, message):
    done = audit(*arguments)
    assert (done.returncode, message in done.stderr) == (code, True), done.stderr
    assert "Traceback" not in done.stderr


def test_a_process_of_its_own_gives_the_same(folder, audit):
    arguments = ["old.jsonl", "new.jsonl", "-o", "audit", "--judge-model", "offline", "--json"]
    audit(*arguments)
    command = [sys.executable, "-m", "gagar_cli", "audit", "-o", "audit", "--unblind", "--json"]
    told = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)
    assert (told.returncode, told.stdout) == (0, audit("-o", "audit", "--unblind", "--json").stdout)
