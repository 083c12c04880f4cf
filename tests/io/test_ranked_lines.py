"""Plain JSON lines of rankings as columns, against the same lines one by one."""

import json
import random
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from gagar_cli.io.ranked_columns import read_plain_rankings
from gagar_cli.io.ranked_lines import read_plain_lines

LINE: dict[str, Any] = {
    "group_id": "g",
    "candidates": [
        {"trajectory_id": "a", "tier": "T1", "rank": 1},
        {"trajectory_id": "b", "tier": "T3", "rank": 2},
    ],
}


def write(path: Path, lines: list[Any]) -> str:
    text = "\n".join(
        line if isinstance(line, str) else json.dumps(line, ensure_ascii=False) for line in lines
    )
    path.write_text(text + "\n")
    return str(path)


@pytest.mark.parametrize("has_step", [False, True])
@pytest.mark.parametrize("has_score", [False, True])
def test_lines_and_table_of_the_same_candidates_agree(
    tmp_path: Path, has_step: bool, has_score: bool
) -> None:
    draw = random.Random(5)
    lines, rows = [], []
    for group in range(300):
        shared: dict[str, Any] = {"group_id": f"g{group // 2 if has_step else group} é}}, {{"}
        if has_step:
            shared |= {"step": group % 2 - 1, "status": "graded"}
        candidates = []
        for number in range(draw.randrange(1, 6)):
            one = {
                "rank": draw.randrange(9),
                "trajectory_id": f"t{number}]",
                "tier": f"T{draw.randrange(1, 4)}",
            }
            if has_score:
                one["weighted_score"] = draw.choice([None, 1.0, 4.25, 5])
            candidates.append(one)
            rows.append(shared | one)
        lines.append(shared | {"candidates": candidates})
    pl.DataFrame(rows).write_parquet(tmp_path / "r.parquet")
    table = read_plain_rankings(str(tmp_path / "r.parquet"))
    found = read_plain_rankings(write(tmp_path / "r.jsonl", lines))
    assert found is not None
    assert table is not None
    assert found.cast(table.schema).equals(table)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "line",
    [
        {"group_id": "h", "candidates": []},
        {"group_id": "h", "candidates": LINE["candidates"], "reason": "x"},
        {"group_id": "h", "candidates": LINE["candidates"], "status": "skipped"},
        {"group_id": "h\n", "candidates": LINE["candidates"]},
        {"group_id": "", "candidates": LINE["candidates"]},
        {"group_id": 7, "candidates": LINE["candidates"]},
        {"group_id": "h", "candidates": [{"trajectory_id": "a", "tier": "T4", "rank": 1}]},
        {"group_id": "h", "candidates": [{"trajectory_id": "a", "tier": "T1", "rank": -1}]},
        {"group_id": "h", "candidates": [{"trajectory_id": "a", "tier": "T1", "rank": 1.0}]},
        {"group_id": "h", "candidates": [{"trajectory_id": "a", "rank": 1, "tier": "T1"}]},
        {"group_id": "h", "candidates": LINE["candidates"], "checksum": "0"},
        LINE,
        "",
        "{",
        '{"group_id": "h", "candidates": [{"trajectory_id": "a", "tier": "T1", "rank": 1}]} x',
    ],
    ids=str,
)
def test_a_line_that_is_not_plain_makes_the_file_go_the_slow_way(tmp_path: Path, line: object) -> None:
    assert read_plain_lines(write(tmp_path / "r.jsonl", [LINE, line])) is None


@pytest.mark.parametrize("score", ["5.5", "0.5", "6", "1e0", "true", '"3"'], ids=str)
def test_scores_out_of_range_go_the_slow_way(tmp_path: Path, score: str) -> None:
    line = '{"group_id": "g", "candidates": [{"trajectory_id": "a", "tier": "T1", "rank": 1, "weighted_score": 3}]}'
    other = line.replace('"g"', '"h"').replace(": 3}", f": {score}}}")
    assert read_plain_lines(write(tmp_path / "r.jsonl", [line])) is not None
    assert read_plain_lines(write(tmp_path / "r.jsonl", [line, other])) is None


@pytest.mark.parametrize("step", [None, 2])
def test_steps_are_in_all_lines_or_in_none(tmp_path: Path, step: int | None) -> None:
    lines = [{"step": step, **LINE}, {"step": 3, **LINE}]
    assert (read_plain_lines(write(tmp_path / "r.jsonl", lines)) is None) == (step is None)


def test_what_is_no_plain_file_is_not_read(tmp_path: Path) -> None:
    assert read_plain_lines("-") is None
    assert read_plain_lines(str(tmp_path)) is None
    assert read_plain_lines(str(tmp_path / "missing.jsonl")) is None
    (tmp_path / "bytes.jsonl").write_bytes(b'\x1f\x8b\xff{"group_id"}\n')
    assert read_plain_lines(str(tmp_path / "bytes.jsonl")) is None


def test_lines_over_several_blocks_are_all_there(tmp_path: Path) -> None:
    lines = [
        {"group_id": f"g{number}" + "x" * 900, "candidates": LINE["candidates"]} for number in range(12_000)
    ]
    found = read_plain_lines(write(tmp_path / "r.jsonl", lines))
    assert found is not None
    assert found.height == 24_000
    assert found["group"].n_unique() == 12_000
