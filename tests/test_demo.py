"""The demo, judged by what its attempts are known to be (examples/README.md)."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from gagar_cli.demo import RANKINGS_NAME, AttemptRow, run
from gagar_cli.errors import OutputError


@pytest.fixture(scope="module")
def rows(tmp_path_factory) -> dict[str, AttemptRow]:
    """Each attempt by the end of its id, such as `44-01`."""
    result = run(tmp_path_factory.mktemp("demo"), sandbox="inspect-only")
    return {row.trajectory_id.removeprefix("shelfmark__shelfmark-"): row for row in result.attempts}


def test_every_attempt_is_told(rows):
    assert len(rows) == 28
    assert all(row.why for row in rows.values())


@pytest.mark.parametrize("name", ["31-02", "31-05", "31-07", "38-04", "44-03", "44-08"])
def test_clean_fixes_lead_and_gain(rows, name):
    assert rows[name].place == "T1 #1"
    assert rows[name].advantage > rows[name].advantage_base


@pytest.mark.parametrize(
    ("name", "word"), [("31-01", "special case"), ("31-04", "scope"), ("44-02", "rewrite")]
)
def test_hacks_and_rewrites_fall_to_the_third_tier(rows, name, word):
    assert rows[name].place.startswith("T3")
    assert word in rows[name].why
    assert 0 < rows[name].advantage < rows[name].advantage_base


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("38-01", "duplicated helper"),
        ("38-03", "debug output"),
        ("38-07", "dead code"),
        ("44-05", "tests"),
        ("44-06", "swallowed"),
    ],
)
def test_flawed_work_is_behind_clean_work_with_the_reason(rows, name, word):
    assert rows[name].place.startswith("T2")
    assert word in rows[name].why


def test_a_fix_copied_from_history_is_paid_like_a_failure(rows):
    assert rows["44-01"].place == "violation"
    assert rows["44-01"].advantage == rows["44-04"].advantage < 0


def test_an_injection_does_not_raise_its_attempt(rows):
    assert rows["38-05"].advantage == min(
        row.advantage for name, row in rows.items() if name[:2] == "38" and row.outcome == "pass"
    )


def test_an_infrastructure_failure_is_left_out(rows):
    left_out = rows["31-06"]
    assert (left_out.outcome, left_out.advantage_by_tests, left_out.advantage) == ("invalid", None, None)


def test_what_a_violation_gives_to_the_others_is_told_apart_from_what_quality_gives(rows):
    # Six of eight passed the tests; one of them violated integrity, which leaves five.
    fair, cheat = rows["44-03"], rows["44-01"]
    assert (fair.advantage_by_tests, fair.advantage_base) == (1 - 6 / 8, 1 - 5 / 8)
    assert (cheat.advantage_by_tests, cheat.advantage_base) == (1 - 6 / 8, -5 / 8)
    assert rows["38-04"].advantage_by_tests == rows["38-04"].advantage_base == 1 - 6 / 8


def test_failures_keep_their_advantage_where_nothing_was_zeroed(rows):
    assert all(
        rows[name].advantage == rows[name].advantage_base for name in ("31-03", "31-08", "38-02", "38-06")
    )


def test_a_task_that_all_solve_is_skipped(rows):
    assert {row.place for name, row in rows.items() if name.startswith("52")} == {"skipped"}


def test_the_command_prints_one_json_object(tmp_path):
    command = [
        sys.executable,
        "-m",
        "gagar_cli",
        "demo",
        "-o",
        str(tmp_path),
        "--sandbox",
        "inspect-only",
        "--json",
        "-q",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    record = json.loads(done.stdout)
    assert record["grade"]["n_graded"] == 3
    assert record["redistribute"]["effects"]["n_changed_failures"] == 0
    assert len(record["attempts"]) == 28
    assert done.stderr == ""


def test_a_folder_of_other_things_is_left_alone(tmp_path):
    (tmp_path / "rankings.jsonl").write_text("mine\n")
    with pytest.raises(OutputError, match="holds other files"):
        run(tmp_path, sandbox="inspect-only")
    assert (tmp_path / "rankings.jsonl").read_text() == "mine\n"


def test_a_demo_can_be_repeated_in_its_folder(tmp_path):
    first, again = (run(tmp_path, sandbox="inspect-only") for _ in range(2))
    assert first.attempts == again.attempts


def test_only_a_task_with_a_violation_has_a_column_for_the_new_mean(gagar, tmp_path):
    done = gagar("demo", "-o", tmp_path / "demo", "--sandbox", "inspect-only", "-q")
    assert done.returncode == 0
    tables = re.findall(r"^Task (\S+).*?^ attempt ([^\n]*?) why", done.stdout, re.DOTALL | re.MULTILINE)
    headings = {name[-2:]: re.split(r"  +", columns.strip()) for name, columns in tables}
    assert headings["38"] == ["tests", "place", "advantage", "becomes"]
    assert headings["44"] == ["tests", "place", "advantage", "recomputed", "becomes"]
    row = re.search(
        r"^ 05 +pass +T2 #1 +(\S+) +(\S+) +(\S+)", done.stdout.partition("shelfmark-44")[2], re.MULTILINE
    )
    assert row.groups()[:2] == ("+0.250", "+0.375")


def test_what_the_readme_shows_can_be_done_by_hand_in_the_demos_folder(gagar, tmp_path, monkeypatch):
    """Beside what the demo made, whichever sandbox that was made in, and a second time after another demo."""
    folder = tmp_path / "demo-output"
    assert gagar("demo", "-o", folder, "--sandbox", "inspect-only").returncode == 0
    monkeypatch.chdir(folder)
    readme = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    example = readme.partition("## An example, end to end")[2]
    shown = re.findall(r"^\$ gagar ((?:grade|redistribute) rollouts[^|\n]*)$", example, re.MULTILINE)[:2]
    assert [line.split()[0] for line in shown] == ["grade", "redistribute"]
    for line in shown:
        done = gagar(*line.split())
        assert done.returncode == 0, done.stderr
    by_hand, by_demo = (
        [json.loads(line)["candidates"] for line in Path(name).read_text().splitlines()]
        for name in ("rankings.jsonl", RANKINGS_NAME)
    )
    assert sorted(map(str, by_hand)) == sorted(map(str, by_demo))
    assert gagar("demo", "-o", ".", "--sandbox", "inspect-only").returncode == 0
    assert Path("rankings.jsonl").exists()


def test_the_demos_last_words_are_commands_that_run_in_its_folder(gagar, tmp_path, monkeypatch):
    folder = tmp_path / "demo"
    told = gagar("demo", "-o", folder, "--sandbox", "inspect-only").stdout.partition("Next,")[2]
    monkeypatch.chdir(folder)
    lines = re.findall(r"^  gagar (.+)$", told, re.MULTILINE) + re.findall(r"`gagar (show [^`]+)`", told)
    assert [line.split()[0] for line in lines] == ["grade", "redistribute", "show"]
    for line in lines:
        done = gagar(*line.split())
        assert done.returncode == 0, done.stderr
