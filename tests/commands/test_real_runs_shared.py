"""Real runs, joined with their reports, through the commands without another flag than `--join`."""

import json
from pathlib import Path
from typing import Any

import pytest

from gagar_cli.cli import run

RAW = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "raw"

pytestmark = [
    pytest.mark.shared,
    pytest.mark.skipif(not RAW.is_dir(), reason="the reference data is not here"),
]


def records_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize(
    ("dump", "join", "n_rows", "n_eligible"),
    [
        ("mini-swe-agent-v2-preds", ["mini-swe-agent-v2-preds/per_run_results.json"], 502, 11),
        ("mini-swe-agent-v1/trajs", ["mini-swe-agent-v1/logs"], 5, 0),
        ("swe-agent-v0", [f"swe-agent-v0/cost_2_{number}/final_report.json" for number in (1, 2, 3)], 9, 0),
    ],
)
def test_joined_runs_are_graded_and_redistributed(
    tmp_path: Path, dump: str, join: list[str], n_rows: int, n_eligible: int
) -> None:
    rankings, advantages = tmp_path / "r.jsonl", tmp_path / "a.jsonl"
    joins = [part for each in join for part in ("--join", str(RAW / each))]
    arguments = [str(RAW / dump), *joins]
    assert run(["grade", *arguments, "-o", str(rankings), "--model", "offline", "-q"]) == 0
    assert sum(each.get("status") == "graded" for each in records_of(rankings)) == n_eligible
    assert run(["redistribute", *arguments, "--rankings", str(rankings), "-o", str(advantages), "-q"]) == 0
    rows = records_of(advantages)
    assert len(rows) == n_rows
    totals: dict[str, float] = {}
    for row in rows:
        totals[row["group_id"]] = totals.get(row["group_id"], 0.0) + (row["advantage"] or 0.0)
    assert max(map(abs, totals.values())) < 1e-9


@pytest.mark.parametrize(
    ("dump", "n_records"),
    [
        ("mini-swe-agent-v1/trajs", 5),
        ("swe-agent-v0", 9),
        ("swe-agent-v1", 3),
        ("openhands", 36),
        ("nemo-gym", 35),
        ("harbor", 1),
        ("harbor-atif", 7),
        ("hf-rows", 15),
    ],
)
def test_native_to_jsonl_to_parquet_to_jsonl_gives_equal_records(
    tmp_path: Path, dump: str, n_records: int
) -> None:
    first, table, second = (str(tmp_path / name) for name in ("1.jsonl", "2.parquet", "3.jsonl"))
    assert run(["convert", str(RAW / dump), "-o", first, "-q"]) == 0
    assert run(["convert", first, "-o", table, "-q"]) == 0
    assert run(["convert", table, "-o", second, "-q"]) == 0
    records = records_of(Path(first))
    assert records == records_of(Path(second))
    assert len(records) == n_records
