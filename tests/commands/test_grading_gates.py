"""What a run must have graded, by note and exit code."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from gagar_cli import cli

PATCH = "--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-a = 0\n+a = {}\n"
OFFLINE = ("--model", "offline", "--sandbox", "inspect-only")

REWARDS_HINT = (
    "hint: failures keep what their `reward` gives them: where it is near that of a pass, a `--limit` nearer to 1 moves "
    "less; where it is at odds with `resolved`, no cap mends that"
)


def write(path: Path, records: Sequence[object]) -> str:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return str(path)


def groups(n: int, **more: object) -> list[dict[str, object]]:
    return [
        {"group_id": f"g{group}", "trajectory_id": f"{group}{place}", "resolved": place < 2}
        | {"model_patch": PATCH.format(place)}
        | more
        for group in range(n)
        for place in range(4)
    ]


def ranking(group: int, *, status: str = "graded", **more: object) -> dict[str, object]:
    places = [{"trajectory_id": f"{group}{place}", "tier": "T1", "rank": place + 1} for place in range(2)]
    return {
        "group_id": f"g{group}",
        "status": status,
        "candidates": places if status == "graded" else [],
        **more,
    }


def redistribute(folder: Path, dump: Sequence[object], lines: Sequence[object], *flags: str) -> int:
    paths = write(folder / "dump.jsonl", dump), write(folder / "rankings.jsonl", lines)
    return cli.run(
        [
            "redistribute",
            paths[0],
            "--rankings",
            paths[1],
            "-o",
            str(folder / "o.jsonl"),
            "--overwrite",
            *flags,
        ]
    )


@pytest.mark.parametrize(
    ("flags", "exit_code", "error"),
    [
        ((), 0, ""),
        (("--check",), 0, ""),
        (("--min-graded", "1"), 0, ""),
        (("--min-graded", "2"), 4, "error: 1 group is graded, fewer than --min-graded 2\n"),
        (("--max-ungraded", "0.9"), 0, ""),
        (
            ("--max-ungraded", "0.8"),
            4,
            "error: 90.0% of the groups are ungraded, more than --max-ungraded 80.0%\n",
        ),
    ],
    ids=str,
)
def test_groups_that_fall_back_are_told_and_can_be_a_gate(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: tuple[str, ...], exit_code: int, error: str
) -> None:
    assert redistribute(tmp_path, groups(10), [ranking(0)], *flags) == exit_code
    note = "note: 9 of 10 groups that can be ranked keep their base advantages: no_ranking 9\n"
    assert capsys.readouterr().err == note + error
    assert (tmp_path / "o.jsonl").exists()


def test_fewer_than_half_are_not_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert redistribute(tmp_path, groups(4), [ranking(0), ranking(1)]) == 0
    assert capsys.readouterr().err == ""


def test_lines_that_skip_what_can_be_ranked_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [ranking(0), *(ranking(group, status="skipped", reason="lone_pass") for group in (1, 2))]
    assert redistribute(tmp_path, groups(3), lines) == 0
    told = "note: 2 of 3 groups that can be ranked keep their base advantages: lone_pass 2\n"
    assert capsys.readouterr().err == told


def test_a_dump_in_which_nothing_can_be_ranked_is_told_and_fails_the_gate(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dump, lines = groups(3, infra_failure=True), [ranking(0, status="skipped", reason="no_valid")]
    assert redistribute(tmp_path, dump, lines, "--check", "--max-ungraded", "0") == 0
    told = "note: no group can be ranked, so rankings move nothing (no_valid 3): it takes two passes and a failure\n"
    assert capsys.readouterr().err == told
    assert redistribute(tmp_path, dump, lines, "--min-graded", "1") == 4
    assert capsys.readouterr().err == f"{told}error: 0 groups are graded, fewer than --min-graded 1\n"


@pytest.mark.parametrize("flag", [("--min-graded", "1"), ("--max-ungraded", "0.1")], ids=lambda flag: flag[0])
def test_gates_on_grading_are_refused_where_there_is_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flag: tuple[str, str]
) -> None:
    dump, output = write(tmp_path / "dump.jsonl", groups(1)), str(tmp_path / "o.jsonl")
    assert cli.run(["redistribute", dump, "--method", "dr-grpo", "-o", output, *flag]) == 2
    assert (
        f"error: {flag[0]} counts groups that rankings move, and there are no --rankings"
        in capsys.readouterr().err
    )
    assert redistribute(tmp_path, groups(1), [ranking(0)], "--method", "grpo", *flag) == 2
    assert "--method grpo reads no rankings" in capsys.readouterr().err
    assert not (tmp_path / "o.jsonl").exists()


def test_methods_without_rankings_tell_no_figures_of_grading(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dump = write(tmp_path / "dump.jsonl", groups(3))
    assert cli.run(["redistribute", dump, "--method", "grpo", "-o", str(tmp_path / "o.jsonl")]) == 0
    told = capsys.readouterr().out
    assert "3 (this method grades none)" in told
    assert not {"graded,", "skipped", "not_asked", "why"} & set(told.split())


@pytest.mark.parametrize(("least", "exit_code"), [("2", 0), ("3", 4)])
def test_grade_has_the_same_gate(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], least: str, exit_code: int
) -> None:
    dump, output = write(tmp_path / "dump.jsonl", groups(2)), str(tmp_path / "r.jsonl")
    assert cli.run(["grade", dump, "-o", output, "-q", *OFFLINE, "--min-graded", least]) == exit_code
    error = "error: 2 groups are graded, fewer than --min-graded 3\n"
    assert capsys.readouterr().err == (error if exit_code else "")


def test_grade_tells_where_nothing_can_be_ranked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dump = write(tmp_path / "dump.jsonl", groups(2, infra_failure=True))
    output = str(tmp_path / "r.jsonl")
    assert cli.run(["grade", dump, "-o", output, *OFFLINE]) == 0
    told = "note: no group can be ranked (no_valid 2): it takes two passes and a failure\n"
    assert capsys.readouterr().err.endswith(told)
    assert cli.run(["grade", dump, "-o", output, *OFFLINE, "-q", "--min-graded", "1"]) == 4


def test_a_failure_that_is_paid_more_than_a_pass_is_a_breach_with_its_own_hint(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dump = [{**row, "reward": float(place % 2)} for place, row in enumerate(groups(1))]
    assert redistribute(tmp_path, dump, [ranking(0)], "--check") == 4
    told = capsys.readouterr().err.splitlines()
    assert told[0].startswith("note: 2 rewards contradict resolved, by which an attempt passed or failed: ")
    assert told[1:] == [
        "error: --check: an invariant is broken in 1 of 1 group",
        'group "g0": a failing attempt gets 1 more than a passing one',
        REWARDS_HINT,
    ]
    path = str(tmp_path / "dump.jsonl")
    base = ["redistribute", path, "--method", "dr-grpo", "--check", "-o", str(tmp_path / "base.jsonl")]
    assert cli.run(base) == 4
    assert capsys.readouterr().err.splitlines()[-1] == REWARDS_HINT


def test_a_pass_that_is_moved_below_a_failure_is_a_breach_that_a_lower_limit_mends(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rewards that contradict nothing: the failure of 0.9 is above the mean too, and keeps its 0.32."""
    rewards = {"a": 1.0, "b": 1.0, "f": 0.9, "g": 0.0, "h": 0.0}
    dump: list[dict[str, object]] = [
        {"group_id": "g", "trajectory_id": name, "reward": reward, "resolved": name in "ab"}
        for name, reward in rewards.items()
    ]
    tiers = {"a": "T1", "b": "T3"}
    line: dict[str, object] = {
        "group_id": "g",
        "candidates": [{"trajectory_id": name, "tier": tier, "rank": 1} for name, tier in tiers.items()],
    }
    assert redistribute(tmp_path, dump, [line], "--check") == 4
    # Passes have 0.42 each: times 1.5 for a, and what is left of 0.84, 0.21, for b.
    assert capsys.readouterr().err.splitlines() == [
        "error: --check: an invariant is broken in 1 of 1 group",
        'group "g": a failing attempt gets 0.11 more than a passing one',
        REWARDS_HINT,
    ]
    assert redistribute(tmp_path, dump, [line], "--check", "--limit", "1.1") == 0


@pytest.mark.parametrize("name", ["rk.parquett", "rk.txt", "rk", "rk.jsonl.gz"])
def test_grade_refuses_a_name_that_says_another_kind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    dump = write(tmp_path / "dump.jsonl", groups(1))
    assert cli.run(["grade", dump, "-o", str(tmp_path / name), *OFFLINE]) == 2
    assert f"{name}, expected .jsonl, .parquet, .pq or -" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["dump.jsonl"]


def test_where_nothing_shows_what_was_done_trying_again_is_no_way_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bare = [{name: value for name, value in row.items() if name != "model_patch"} for row in groups(2)]
    dump, output = write(tmp_path / "dump.jsonl", bare), str(tmp_path / "r.jsonl")
    assert cli.run(["grade", dump, "-o", output, "-q", *OFFLINE]) == 1
    told = capsys.readouterr().err
    assert "error: no group was graded, 2 ungraded, most often: no_evidence (2)\n" in told
    assert "hint: nothing shows a grader what these attempts did: join predictions with `--join FILE`" in told
    assert "tries again" not in told
