"""`gagar stats` from file to numbers and tables."""

import json
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from click.testing import Result
from typer.testing import CliRunner

from gagar_cli import cli
from gagar_cli.core.dump_statistics import OF_RANKINGS
from gagar_cli.core.spending import Spending
from gagar_cli.errors import InputError, UsageError
from gagar_cli.stats import StatsSettings, run

DUMP = [
    {"step": 1, "group_id": "g", "trajectory_id": "a", "resolved": True, "n_turns": 3, "repo": "x/y", "is_truncated": False},
    {"step": 1, "group_id": "g", "trajectory_id": "b", "resolved": True, "n_turns": 5, "repo": "x/y", "is_truncated": True},
    {"step": 1, "group_id": "g", "trajectory_id": "c", "resolved": False, "n_turns": 9, "repo": "x/y"},
    {"step": 10, "group_id": "h", "trajectory_id": "a", "resolved": True, "n_turns": 1, "repo": None},
    {"step": 2, "group_id": "h", "trajectory_id": "a", "resolved": None, "n_turns": None, "repo": "z"},
]  # fmt: skip


def finding(kind: str) -> dict[str, Any]:
    return {"kind": kind, "at": "c01:a.py:1", "anchor": "x" * 8, "claim": "c", "supports": ["precision"]}


def scored(name: str, tier: str | None, value: int, *, findings: int = 0, **flags: bool) -> dict[str, Any]:
    dimensions = ("approach", "precision", "minimality", "side_effects", "consistency")
    return {
        "trajectory_id": name, "tier": tier, "rank": 1 if tier else None,
        "scores": dict.fromkeys(dimensions, value), "weighted_score": float(value),
        "findings": [finding("patch")] * findings, "flags": flags, "unproven": ["minimality"],
    }  # fmt: skip


GRADER = {
    "model": "m",
    "calls": 4,
    "checks": 2,
    "tokens": {"in": 100, "cached": 10, "out": 5},
    "seconds": 1.5,
}
RANKINGS = [
    {"step": 1, "group_id": "g", "status": "ungraded", "reason": "budget", "candidates": [], "grader": GRADER},
    {"step": 1, "group_id": "g", "status": "graded", "grader": GRADER,
     "candidates": [scored("a", "T1", 5), scored("b", "T2", 3, findings=2, out_of_scope=False, regression=True)]},
]  # fmt: skip


def write(path: Path, records: list[Any]) -> str:
    if path.suffix == ".parquet":
        pl.DataFrame(records, infer_schema_length=None).write_parquet(path)
    else:
        path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return str(path)


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_numbers_of_a_dump_and_its_rankings(tmp_path: Path, suffix: str) -> None:
    dump = write(tmp_path / f"d.{suffix}", DUMP)
    result = run(StatsSettings(dump, write(tmp_path / "r.jsonl", RANKINGS)))
    record = result.to_record()
    json.dumps(record, allow_nan=False)
    whole, grading = result.whole, result.grading
    assert grading is not None
    assert whole.n_by_outcome == {"passed": 3, "failed": 1, "invalid": 1}
    assert whole.truncated == {"passed": 0.5, "failed": None, "invalid": None}
    assert whole.n_with_truncated == {"passed": 2, "failed": 0, "invalid": 0}
    assert record["n_with_truncated"] == whole.n_with_truncated
    assert whole.turns["passed"].mean == 3.0
    assert whole.tiers == {"T1": 1, "T2": 1, "T3": 0}
    assert (whole.findings["patch"], whole.n_unproven) == (2, 2)
    assert grading.n_groups == {"graded": 1, "skipped": 2, "ungraded": 0}
    assert grading.scores["precision"] == {"1": 0, "2": 0, "3": 1, "4": 0, "5": 1}
    assert {name for name, count in grading.flags.items() if count} == {"regression"}
    # The first line was replaced, and its tokens were paid for.
    assert (grading.n_lines, grading.spending) == (2, Spending(8, 4, 200, 20, 10, 3.0))


def test_reasons_of_ungraded_groups(tmp_path: Path) -> None:
    result = run(StatsSettings(write(tmp_path / "d.jsonl", DUMP), write(tmp_path / "r.jsonl", RANKINGS[:1])))
    assert result.grading is not None
    assert result.grading.n_by_reason == {
        "skipped": {"singleton": 1, "no_valid": 1},
        "ungraded": {"budget": 1},
    }


def test_violation_is_a_failure(tmp_path: Path) -> None:
    cheat = scored("a", None, 3, integrity_violation=True)
    ranking = {"step": 1, "group_id": "g", "candidates": [cheat, scored("b", "T1", 5)]}
    result = run(StatsSettings(write(tmp_path / "d.jsonl", DUMP), write(tmp_path / "r.jsonl", [ranking])))
    assert result.whole.n_by_outcome == {"passed": 2, "failed": 2, "invalid": 1}
    assert result.whole.n_groups_by_kind["lone_pass"] == 1


@pytest.mark.parametrize(("by", "names"), [("step", ["1", "2", "10"]), ("repo", ["(none)", "x/y", "z"])])
def test_parts_stand_in_their_order(tmp_path: Path, by: Any, names: list[str]) -> None:
    result = run(StatsSettings(write(tmp_path / "d.jsonl", DUMP), by=by))
    assert list(result.parts) == names
    assert sum(part.n_trajectories for part in result.parts.values()) == len(DUMP)
    assert result.grading is None


def test_what_only_rankings_tell_is_left_out_without_them(tmp_path: Path, gagar: Any) -> None:
    dump = write(tmp_path / "d.jsonl", DUMP)
    rankings = write(
        tmp_path / "r.jsonl",
        [{"step": 1, "group_id": "g", "candidates": [scored("a", "T1", 5), scored("b", "T2", 3)]}],
    )
    plain = gagar("stats", dump, "--by", "step").stdout
    assert "rankable" in plain
    assert "T1" not in plain
    assert re.search(r"tokens +T1 +T2 +T3", gagar("stats", dump, rankings, "--by", "step").stdout)
    record = json.loads(gagar("stats", dump, "--by", "step", "--json").stdout)
    for part in (record, *record["parts"].values()):
        assert [part[name] for name in OF_RANKINGS] == [None] * 4
    ranked = json.loads(gagar("stats", dump, rankings, "--by", "step", "--json").stdout)
    assert ranked["parts"]["1"]["n_candidates_by_tier"] == {"T1": 1, "T2": 1, "T3": 0}


def test_a_figure_that_some_attempts_tell_says_how_many(tmp_path: Path, gagar: Any) -> None:
    rows = [
        {"resolved": True, "is_truncated": False, "n_turns": 4},
        {"resolved": True, "is_truncated": False, "n_turns": 4},
        {"resolved": False, "is_truncated": True},
        {"resolved": False, "n_turns": 7, "n_output_tokens": 1500},
        {"resolved": False, "n_output_tokens": 500},
    ]
    records = [
        {"step": 1, "group_id": "g", "trajectory_id": str(i), "repo": "x/y", **row}
        for i, row in enumerate(rows)
    ]
    told = gagar("stats", write(tmp_path / "d.jsonl", records), "--by", "step").stdout
    assert re.search(r"passed \(2\) +4\.0 +4\.0 +4\.0 +4\.0 +- +- +- +- +0\.0% *\n", told)
    cells = r" +7\.0 of 1 +7\.0 +7\.0 +7\.0 +1,000\.0 of 2 +1,000\.0 +1,400\.0 +1,500\.0 +100\.0% of 1 *\n"
    assert re.search(r"failed \(3\)" + cells, told)
    # One of the three that tell was cut; two thirds told nothing of turns or tokens.
    assert re.search(r"33\.3% of 3 +5\.0 of 3 +1,000\.0 of 2 *\n", told)


def test_column_that_splits_must_be_there(tmp_path: Path) -> None:
    dump = write(
        tmp_path / "d.jsonl",
        [{key: value for key, value in row.items() if key != "step"} for row in DUMP[:3]],
    )
    with pytest.raises(UsageError, match="--by policy: no record has model_name_or_path"):
        run(StatsSettings(dump, by="policy"))
    with pytest.raises(UsageError, match="--by step: no record has step"):
        run(StatsSettings(dump, by="step"))


def test_segments_of_a_trajectory_are_added_up(tmp_path: Path) -> None:
    part = {"group_id": "g", "trajectory_id": "a", "resolved": True, "n_turns": 2, "n_output_tokens": 10}
    dump = [{**part, "segment": 0, "is_truncated": False}, {**part, "segment": 1, "is_truncated": True}]
    whole = run(StatsSettings(write(tmp_path / "d.jsonl", dump))).whole
    assert (whole.n_trajectories, whole.turns["passed"].mean, whole.tokens["passed"].mean) == (1, 4.0, 20.0)
    assert whole.truncated["passed"] == 1.0


def test_flag_that_is_no_flag_is_placed(tmp_path: Path) -> None:
    dump = write(tmp_path / "d.jsonl", [{**DUMP[0], "is_truncated": True}, {**DUMP[1], "is_truncated": 3}])
    with pytest.raises(InputError, match=r"d.jsonl:2: is_truncated is 3, expected true or false"):
        run(StatsSettings(dump))


def test_command_prints_tables_or_one_object(tmp_path: Path) -> None:
    def gagar(*arguments: str) -> Result:
        return CliRunner().invoke(
            cli.app, ["stats", *(str(tmp_path / each) if each.endswith("l") else each for each in arguments)]
        )

    write(tmp_path / "d.jsonl", DUMP)
    write(tmp_path / "r.jsonl", RANKINGS)
    done = gagar("d.jsonl", "r.jsonl", "--by", "step")
    assert (done.exit_code, done.stderr) == (0, "")
    for title in (
        "Dump",
        "Groups by the share that passed",
        "Lengths by outcome",
        "Rankings",
        "Scores",
        "By step",
    ):
        assert title in done.stdout
    summary = json.loads(gagar("d.jsonl", "--json").stdout)
    assert (summary["n_trajectories"], summary["grading"]) == (5, None)


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_what_the_attempts_cost_is_summed_where_it_is_told(tmp_path: Path, suffix: str) -> None:
    costs = (1.5, 1000.25, None, 2.0, None)
    dump = [{**row, "cost_usd": cost} for row, cost in zip(DUMP, costs, strict=True)]
    path = write(tmp_path / f"d.{suffix}", dump)
    result = run(StatsSettings(path, by="repo"))
    assert (result.whole.cost_usd, result.whole.n_with_cost) == (1003.75, 3)
    assert {name: part.cost_usd for name, part in result.parts.items()} == {
        "(none)": 2.0,
        "x/y": 1001.75,
        "z": None,
    }
    shown = CliRunner().invoke(cli.app, ["stats", path]).stdout
    assert "$1,003.75, told of 3" in shown
    untold = CliRunner().invoke(cli.app, ["stats", write(tmp_path / "untold.jsonl", DUMP)]).stdout
    assert "cost of the attempts" not in untold


@pytest.mark.parametrize(
    ("cost", "message"),
    [("$1", "cost_usd holds no numbers"), (-1e300, r"cost_usd is -1e\+300, expected at most")],
)
def test_cost_that_is_none_is_refused(tmp_path: Path, cost: Any, message: str) -> None:
    dump = write(tmp_path / "d.jsonl", [{**DUMP[0], "cost_usd": cost}])
    with pytest.raises(UsageError, match=message):
        run(StatsSettings(dump))
