"""The exit codes and messages of grading's budgets, shards, dry runs and following."""

import json
from importlib.resources import files

import pytest

from gagar_cli.cli import run

DUMP = str(files("gagar_cli").joinpath("demo_data/demo-rollouts.jsonl"))


COMMAND = ["grade", DUMP, "--sandbox", "inspect-only", "--model", "offline"]


def test_a_budget_that_leaves_groups_over_is_exit_1_with_the_summary(tmp_path, capsys):
    output = str(tmp_path / "r.jsonl")
    code = run([*COMMAND, "-o", output, "--max-tokens-total", "1", "--concurrency", "1", "--json"])
    done = capsys.readouterr()
    assert code == 1
    assert json.loads(done.out)["n_not_reached"] == 2
    assert "--max-tokens-total 1 is used up" in done.err
    assert ": 2 groups left" in done.err


def test_a_dry_run_is_one_table_or_one_object_and_leaves_nothing(tmp_path, capsys):
    output = str(tmp_path / "r.jsonl")
    code = run([*COMMAND, "-o", output, "--dry-run", "--json", "--price-in", "1", "--price-out", "1"])
    assert code == 0
    assert json.loads(capsys.readouterr().out)["dry_run"] is True
    assert run([*COMMAND, "-o", output, "--dry-run", "--mode", "pointwise-static", "--repeats", "2"]) == 0
    assert "pointwise-static, 2 times" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "model", "unknown"),
    [
        ([], None, ["context_length", "price"]),
        (["--model", "m"], "m", ["context_length", "price"]),
        (["--model", "m", "--price-in", "1", "--price-out", "1"], "m", ["context_length"]),
        (["--price-in", "1", "--price-out", "1"], None, ["context_length"]),
        (["--prices", "nobody-reads-this.toml"], None, ["context_length", "price"]),
        (["--model", "m", "--base-url", "https://elsewhere.invalid/v1"], "m", ["context_length", "price"]),
        (["--model", "offline"], "offline", []),
    ],
)
def test_a_dry_run_needs_no_model_and_says_what_only_one_could_tell(
    tmp_path, capsys, monkeypatch, arguments, model, unknown
):
    for variable in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(variable, raising=False)
    command = ["grade", DUMP, "-o", str(tmp_path / "r.jsonl"), "--dry-run", *arguments]
    assert run([*command, "--json"]) == 0
    told = capsys.readouterr()
    found = json.loads(told.out)
    assert (found["model"], found["unknown"], found["n_to_grade"]) == (model, unknown, 3)
    assert (found["spending"]["cost"] is None) is ("--price-in" not in arguments)
    assert told.err.count("is not known: --") == len(unknown)
    assert run(command) == 0
    assert (model or "no model named") in capsys.readouterr().out


def test_a_dry_run_without_a_model_reads_the_ledger_of_any(tmp_path, capsys):
    output = str(tmp_path / "r.jsonl")
    assert run([*COMMAND, "-o", output, "--limit", "1"]) == 0
    capsys.readouterr()
    assert run(["grade", DUMP, "-o", output, "--dry-run", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["n_settled"], found["n_to_grade"], found["basis"]) == (1, 2, "measured")


def test_a_run_needs_a_model(tmp_path, capsys):
    assert run(["grade", DUMP, "-o", str(tmp_path / "r.jsonl")]) == 2
    assert "--model is missing" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--group-size", "4"], "--group-size is for --follow"),
        (["--follow", "--dry-run"], "--dry-run looks at a whole dump"),
        (["--max-cost", "1"], "--max-cost needs prices"),
        (["--price-in", "1"], "--price-in and --price-out go together"),
        (["--price-in", "inf", "--price-out", "1"], "--price-in is inf, expected a number"),
        (
            ["--price-in", "1", "--price-out", "1", "--max-cost", "inf"],
            "--max-cost is inf, expected a number",
        ),
        (["--shard", "3/2"], "expected I from 1 to N"),
    ],
)
def test_flags_that_do_not_fit_are_usage_errors(tmp_path, capsys, arguments, message):
    output = str(tmp_path / "r.jsonl")
    code = run([*COMMAND, "-o", output, *arguments])
    told = capsys.readouterr().err
    assert (code, message in told) == (2, True), told
    assert list(tmp_path.iterdir()) == []
