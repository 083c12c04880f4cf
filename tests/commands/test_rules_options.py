"""The flags for mode, rubric, repeats and integrity, as a user gives them."""

import json
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

import pytest

from gagar_cli.cli import run

DUMP = str(files("gagar_cli").joinpath("demo_data/demo-rollouts.jsonl"))
RUBRIC = Path(__file__).parents[2] / "examples" / "library_rubric.toml"


class Done(NamedTuple):
    """How a command ended."""

    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def gagar(capsys):
    """Run a command line within this process."""

    def call(*arguments: str) -> Done:
        code = run(list(arguments))
        return Done(code, *capsys.readouterr())

    return call


@pytest.fixture
def grade(gagar):
    """Grade the demo with the offline model."""

    def call(output: Path, *flags: str) -> Done:
        return gagar(
            "grade", DUMP, "-o", str(output), "--model", "offline", "--sandbox", "inspect-only", *flags
        )

    return call


def test_every_flag_reaches_the_rankings(tmp_path, grade):
    flags = ["--mode", "groupwise-static", "--repeats", "2", "--rubric", str(RUBRIC)]
    done = grade(tmp_path / "r.jsonl", *flags, "--integrity", "all", "--integrity-votes", "1")
    assert done.returncode == 0
    assert "repeats agree" in done.stdout
    records = [json.loads(line) for line in (tmp_path / "r.jsonl").read_text().splitlines()]
    grader = next(record["grader"] for record in records if record["status"] == "graded")
    assert (grader["mode"], grader["rubric"]["name"], len(grader["repeats"])) == (
        "groupwise-static",
        "library",
        2,
    )
    assert (grader["integrity"]["scope"], grader["integrity"]["votes"]) == ("all", 1)


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--mode", "psychic"], "psychic"),
        (["--repeats", "0"], "--repeats"),
        (["--integrity", "some"], "some"),
        (["--rubric", "none.toml"], "--rubric is none.toml: not a readable file"),
    ],
)
def test_a_value_that_is_none_of_a_flags_is_a_usage_error(tmp_path, grade, flags, told):
    done = grade(tmp_path / "r.jsonl", *flags)
    assert done.returncode == 2
    assert told in done.stderr
    assert "Traceback" not in done.stderr


def test_a_bad_rubric_is_told_with_file_and_line_before_anything_is_written(tmp_path, grade):
    rubric = tmp_path / "rubric.toml"
    rubric.write_text(RUBRIC.read_text().replace("weight = 0.35", "wait = 0.35"))
    done = grade(tmp_path / "r.jsonl", "--rubric", str(rubric))
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: {rubric}:10: unknown key wait, the nearest is weight\nhint: ")
    assert not (tmp_path / "r.jsonl").exists()


def test_the_consequence_of_a_violation_is_chosen_without_grading_again(tmp_path, gagar, grade):
    rankings = tmp_path / "r.jsonl"
    grade(rankings, "-q")
    rewards = {}
    for action in ("zero", "t3", "report"):
        output = tmp_path / f"{action}.jsonl"
        flags = ["--rankings", str(rankings), "-o", str(output), "--integrity-action", action, "--json"]
        summary = json.loads(gagar("redistribute", DUMP, *flags).stdout)
        assert (summary["n_integrity_violations"], summary["integrity_action"]) == (1, action)
        rows = map(json.loads, output.read_text().splitlines())
        row = next(row for row in rows if row["trajectory_id"] == "shelfmark__shelfmark-44-01")
        rewards[action] = (row["reward_effective"], row["tier"])
    assert rewards == {"zero": (0.0, None), "t3": (1.0, "T3"), "report": (1.0, "T1")}


def test_the_documented_rubric_is_the_example():
    documented = (RUBRIC.parents[1] / "docs" / "rubrics.md").read_text().split("```toml\n")[1].split("```")[0]
    example = "".join(line for line in RUBRIC.read_text().splitlines(keepends=True) if line[:1] != "#")
    assert documented == example


def test_a_share_of_no_repeats_is_refused(gagar, tmp_path):
    output = str(tmp_path / "rankings.jsonl")
    done = gagar("grade", DUMP, "-o", output, "--model", "offline", "--repeat-share", "0.5")
    assert done.returncode == 2
    assert done.stderr.startswith("error: --repeat-share is for --repeats\n")
    assert list(tmp_path.iterdir()) == []
