"""What is told while a dump is redistributed: how far reading and copying are, not only which of them it is."""

import json
from itertools import groupby
from pathlib import Path

import polars as pl
import pytest

from gagar_cli import redistribution_output
from gagar_cli.redistribute import RedistributeSettings, run


@pytest.fixture
def told(tmp_path: Path):
    rows = [
        {"group_id": f"g{n // 4}", "trajectory_id": f"t{n}", "reward": float(n % 2), "text": str(n) * 5000}
        for n in range(400)
    ]
    pl.DataFrame(rows).write_parquet(tmp_path / "dump.parquet", compression="uncompressed")
    (tmp_path / "dump.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    lines = []
    for n in range(100):
        candidates = [
            {"trajectory_id": f"t{n * 4 + k}", "tier": "T1", "rank": k, "rationale": "x" * 9000}
            for k in (1, 3)
        ]
        lines.append({"group_id": f"g{n}", "candidates": candidates, "input_digest": "d"})
    (tmp_path / "rankings.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))

    def tell(dump: str, output: str, *, full_copy: bool = False) -> dict[str, list[tuple[int, int]]]:
        reports: list[tuple[int, int, str]] = []
        settings = RedistributeSettings(
            dumps=(str(tmp_path / dump),),
            rankings=str(tmp_path / "rankings.jsonl"),
            output=str(tmp_path / output),
            full_copy=full_copy,
        )
        run(settings, lambda *report: reports.append(report))
        by_note = groupby(reports, key=lambda report: report[2])
        return {note: [(done, total) for done, total, _ in group] for note, group in by_note}

    return tell


def test_a_full_copy_of_lines_tells_what_is_read_and_copied(told):
    reports = told("dump.jsonl", "out.jsonl", full_copy=True)
    assert list(reports) == [
        "reading the dump",
        "MB of the dump read",
        "reading the rankings",
        "MB of the rankings read",
        "redistributing",
        "writing",
        "records copied",
        "done",
    ]
    for note in ("MB of the dump read", "MB of the rankings read", "records copied"):
        done = [n_done for n_done, _ in reports[note]]
        assert done[0] == 0
        assert done == sorted(set(done))
        assert {total for _, total in reports[note]} == {max(total for _, total in reports[note])}
    assert reports["MB of the dump read"][-1] == (5, 5)
    assert reports["records copied"] == [(0, 400), (256, 400)]


def test_a_full_copy_of_parquet_tells_the_bytes(told):
    reports = told("dump.parquet", "out.parquet", full_copy=True)
    assert reports["MB of the dump read"][-1] == (5, 5)
    assert reports["MB copied"] == [(5, 5)]


def test_a_sidecar_tells_its_rows(told, monkeypatch):
    monkeypatch.setattr(redistribution_output, "_PART_ROWS", 150)
    reports = told("dump.parquet", "out.parquet")
    assert reports["rows written"] == [(150, 400), (300, 400), (400, 400)]
