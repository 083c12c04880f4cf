"""What is told while a dump is read: fractions that rise to the whole."""

import json
from pathlib import Path

import polars as pl
import pytest

from gagar_cli.io.dump import open_dump
from gagar_cli.io.rankings import read_rankings
from gagar_cli.io.read_options import ReadOptions

Told = list[tuple[int, int, str]]


def records(n: int, prefix: str = "") -> list[dict[str, object]]:
    return [
        {
            "group_id": f"{prefix}g{row // 4}",
            "trajectory_id": f"{prefix}t{row}",
            "reward": 1.0,
            "text": "x" * 9000,
        }
        for row in range(n)
    ]


def write(path: Path, rows: list[dict[str, object]]) -> str:
    if path.suffix == ".parquet":
        # Not compressed, or nine thousand equal letters are none.
        pl.DataFrame(rows).write_parquet(path, compression="uncompressed", use_pyarrow=False)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def told_of(paths: list[str], **options: object) -> Told:
    told: Told = []
    with open_dump(paths, ReadOptions(**options), progress=lambda *report: told.append(report)):  # type: ignore[arg-type]
        return told


@pytest.mark.parametrize("is_index_only", [True, False], ids=["skimmed", "parsed"])
def test_bytes_of_lines_rise_to_the_size_of_the_file(tmp_path: Path, is_index_only: bool) -> None:
    path = write(tmp_path / "dump.jsonl", records(1200))
    n_megabytes = Path(path).stat().st_size // 10**6
    told = told_of([path], is_index_only=is_index_only)
    assert told[0] == (0, n_megabytes, "MB of the dump read")
    assert told[-1] == (n_megabytes, n_megabytes, "MB of the dump read")
    assert [done for done, _, _ in told] == sorted({done for done, _, _ in told})
    assert len(told) > 3


def test_several_files_count_as_one(tmp_path: Path) -> None:
    paths = [write(tmp_path / f"{name}.jsonl", records(300, name)) for name in "ab"]
    n_megabytes = sum(Path(path).stat().st_size for path in paths) // 10**6
    told = told_of(paths, is_index_only=True)
    assert {(total, note) for _, total, note in told} == {(n_megabytes, "MB of the dump read")}
    assert (told[0][0], told[-1][0]) == (0, n_megabytes)


def test_rows_of_parquet_count_as_their_share_of_the_file(tmp_path: Path) -> None:
    rows = [{**row, "text": f"{number}" * 2000} for number, row in enumerate(records(1200))]
    path = write(tmp_path / "dump.parquet", rows)
    n_megabytes = Path(path).stat().st_size // 10**6
    told = told_of([path], explode=None)
    assert n_megabytes > 3
    assert (told[0][0], told[-1]) == (0, (n_megabytes, n_megabytes, "MB of the dump read"))


def test_sources_without_a_size_count_one_by_one(tmp_path: Path) -> None:
    paths = [write(tmp_path / f"{name}.jsonl", records(8, name)) for name in "ab"]
    verdicts = tmp_path / "verdicts.jsonl"
    verdicts.write_text(
        "".join(json.dumps({"trajectory_id": f"at{n}", "resolved": True}) + "\n" for n in range(8))
    )
    told = told_of(paths, joins=(str(verdicts),))
    assert told == [(n, 2, "files of the dump read") for n in range(3)]


def test_nothing_is_told_of_a_small_file(tmp_path: Path) -> None:
    assert told_of([write(tmp_path / "dump.jsonl", records(8))]) == []


def test_bytes_of_rankings_are_told(tmp_path: Path) -> None:
    path = tmp_path / "rankings.jsonl"
    candidate = {"trajectory_id": "t", "tier": "T1", "rank": 1, "rationale": "x" * 20_000}
    lines = [{"group_id": f"g{n}", "candidates": [candidate]} for n in range(120)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    told: Told = []
    assert len(list(read_rankings(str(path), progress=lambda *report: told.append(report)))) == 120
    assert told == [(n, 2, "MB of the rankings read") for n in range(3)]
