"""The exit codes and messages of grading's budgets, shards, dry runs and following."""

import json
import subprocess
import sys
from importlib.resources import files

import pytest

from gagar_cli.cli import run

DUMP = str(files("gagar_cli").joinpath("demo_data/demo-rollouts.jsonl"))


def grade(*arguments: str, cwd) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "gagar_cli",
        "grade",
        DUMP,
        "--sandbox",
        "inspect-only",
        "--model",
        "offline",
    ]
    return subprocess.run([*command, *arguments], capture_output=True, text=True, cwd=cwd, timeout=120)


def test_a_budget_that_leaves_groups_over_is_exit_1_with_the_summary(tmp_path):
    done = grade("-o", "r.jsonl", "--max-tokens-total", "1", "--concurrency", "1", "--json", cwd=tmp_path)
    assert done.returncode == 1
    assert json.loads(done.stdout)["n_not_reached"] == 2
    assert "--max-tokens-total 1 is used up" in done.stderr
    assert "2 groups are left" in done.stderr


def test_a_dry_run_is_one_table_or_one_object_and_leaves_nothing(tmp_path):
    done = grade("-o", "r.jsonl", "--dry-run", "--json", "--price-in", "1", "--price-out", "1", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["dry_run"] is True
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--group-size", "4"], "--group-size is for --follow"),
        (["--follow", "--dry-run"], "--dry-run looks at a whole dump"),
        (["--max-cost", "1"], "--max-cost needs prices"),
        (["--price-in", "1"], "--price-in and --price-out go together"),
        (["--shard", "3/2"], "expected I from 1 to N"),
    ],
)
def test_flags_that_do_not_fit_are_usage_errors(tmp_path, capsys, arguments, message):
    output = str(tmp_path / "r.jsonl")
    code = run(["grade", DUMP, "--model", "offline", "--sandbox", "inspect-only", "-o", output, *arguments])
    told = capsys.readouterr().err
    assert (code, message in told) == (2, True), told
    assert list(tmp_path.iterdir()) == []
