"""A trajectory that arrives after its group was graded: counted, and in force again only once it was graded with."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from gagar_cli import grade, grade_following, redistribute
from gagar_cli.core.spending import Budget
from gagar_cli.grade import GradeSettings
from gagar_cli.grade_following import FollowOptions
from gagar_cli.grader.client import EndpointSettings
from gagar_cli.grading_estimate import estimate
from gagar_cli.grading_summary import GradeResult
from gagar_cli.io.rankings import read_rankings

PATCH = "--- a/a.py\n+++ b/a.py\n@@ -1,2 +1,2 @@\n def limit():\n-    return 1\n+    return {n}\n"
LATE = "late: 1 trajectory arrived after it was graded"


def attempt(n: int, *, passed: bool) -> dict:
    return {
        "group_id": "g",
        "trajectory_id": f"t{n}",
        "reward": float(passed),
        "model_patch": PATCH.format(n=n) if passed else "",
    }


@pytest.fixture
def dump(tmp_path) -> Path:
    path = tmp_path / "dump.jsonl"
    records = [attempt(n, passed=n < 2) for n in range(3)]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


@pytest.fixture
def settings(dump, tmp_path) -> GradeSettings:
    output = str(tmp_path / "rankings.jsonl")
    return GradeSettings((str(dump),), output, EndpointSettings("offline"), sandbox="inspect-only")


def grade_then_let_arrive(settings: GradeSettings, dump: Path, *, passed: bool, n: int = 3) -> None:
    grade.run(settings)
    with dump.open("a") as stream:
        stream.write(json.dumps(attempt(n, passed=passed)) + "\n")


def follow(settings: GradeSettings, *, regrade_late: bool) -> GradeResult:
    return grade_following.run(settings, FollowOptions(idle_seconds=0.1, regrade_late=regrade_late))


def last_reason(settings: GradeSettings) -> str | None:
    return list(read_rankings(settings.output))[-1].reason


def graded_by_redistribute(settings: GradeSettings, tmp_path: Path) -> int:
    output = str(tmp_path / "advantages.jsonl")
    moved = redistribute.run(
        redistribute.RedistributeSettings(settings.dumps, settings.output, output, overwrite=True)
    )
    return moved.n_groups["graded"]


either = pytest.mark.parametrize("passed", [True, False], ids=["passing", "failing"])


@either
def test_followed_it_takes_the_ranking_out_of_force(settings, dump, tmp_path, passed):
    grade_then_let_arrive(settings, dump, passed=passed)
    result = follow(settings, regrade_late=False)
    assert (result.n_late, result.n_graded, last_reason(settings)) == (1, 0, LATE)
    assert graded_by_redistribute(settings, tmp_path) == 0


@either
def test_followed_it_is_graded_with_on_request(settings, dump, tmp_path, passed):
    grade_then_let_arrive(settings, dump, passed=passed)
    result = follow(settings, regrade_late=True)
    assert (result.n_late, result.n_graded) == (1, 1)
    assert graded_by_redistribute(settings, tmp_path) == 1


@either
def test_the_same_command_again_grades_with_it_and_counts_it(settings, dump, tmp_path, passed):
    grade_then_let_arrive(settings, dump, passed=passed)
    result = grade.run(settings)
    assert (result.n_late, result.n_graded, result.n_resumed) == (1, 1, 0)
    assert graded_by_redistribute(settings, tmp_path) == 1
    again = grade.run(settings)
    assert (again.n_late, again.n_graded, again.n_resumed) == (0, 1, 1)


@either
def test_where_the_budget_leaves_no_room_the_ranking_is_out_of_force_until_a_larger_one(
    settings, dump, tmp_path, passed
):
    grade_then_let_arrive(settings, dump, passed=passed)
    spent = replace(settings, budget=Budget(max_tokens=1))
    result = grade.run(spent)
    assert (result.n_late, result.n_graded, result.ungraded) == (1, 0, {"late": 1})
    assert last_reason(settings) == LATE
    assert graded_by_redistribute(settings, tmp_path) == 0
    assert follow(spent, regrade_late=True).ungraded == {"late": 1}
    assert len(list(read_rankings(settings.output))) == 2
    regraded = grade.run(settings)
    assert (regraded.n_late, regraded.n_graded) == (1, 1)


def test_a_dry_run_knows_that_a_late_group_is_graded_again(settings, dump):
    grade_then_let_arrive(settings, dump, passed=False)
    follow(settings, regrade_late=False)
    found = estimate(settings)
    assert (found.n_settled, found.n_to_grade) == (0, 1)


def test_each_late_one_is_counted_once(settings, dump):
    grade_then_let_arrive(settings, dump, passed=False)
    assert follow(settings, regrade_late=False).n_late == 1
    with dump.open("a") as stream:
        stream.write(json.dumps(attempt(4, passed=True)) + "\n")
    assert follow(settings, regrade_late=False).n_late == 2
    assert last_reason(settings) == "late: 2 trajectories arrived after it was graded"
    assert grade.run(settings).n_late == 2
    assert grade.run(settings).n_late == 0


def test_an_attempt_that_changed_is_not_late_and_is_graded_again(settings, dump):
    grade.run(settings)
    changed = [attempt(n, passed=n < 2) | {"problem_statement": "limit() is wrong"} for n in range(3)]
    dump.write_text("".join(json.dumps(record) + "\n" for record in changed))
    result = grade.run(settings)
    assert (result.n_late, result.n_graded, result.n_resumed) == (0, 1, 0)


@pytest.mark.parametrize(
    ("flags", "hint"),
    [
        (["--max-tokens-total", "1"], "the same command with a larger budget goes on"),
        (["--follow", "--idle-seconds", "0.1"], "`--regrade-late`, or the same command without `--follow`"),
    ],
    ids=["budget", "followed"],
)
def test_a_late_group_that_is_all_there_is_says_how_it_is_graded_again(settings, dump, gagar, flags, hint):
    command = ["grade", dump, "-o", settings.output, "--model", "offline", "--sandbox", "inspect-only"]
    assert gagar(*command).returncode == 0
    with dump.open("a") as stream:
        stream.write(json.dumps(attempt(3, passed=False)) + "\n")
    done = gagar(*command, *flags)
    assert done.returncode == 1
    assert hint in done.stderr
    assert gagar(*command).returncode == 0


def test_a_resumed_run_comes_to_what_the_uninterrupted_one_came_to(settings, dump):
    with dump.open("a") as stream:
        for n in range(5):
            stream.write(json.dumps({**attempt(n, passed=n < 3), "group_id": "h"}) + "\n")
        stream.write(json.dumps({**attempt(0, passed=True), "group_id": "alone"}) + "\n")
    whole = grade.run(settings)
    last = Path(settings.output).read_bytes()
    Path(settings.output).write_bytes(last + b'{"torn')
    again = grade.run(settings)
    assert (again.n_resumed, again.n_graded, again.skipped) == (2, 2, {"singleton": 1})
    assert replace(again, n_resumed=0, notes=[]) == replace(whole, notes=[])
    assert Path(settings.output).read_bytes() == last
