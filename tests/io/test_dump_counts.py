"""Counts of a dump's rows, whether its ids are in memory or not."""

import json
from pathlib import Path
from typing import Any

import pytest

from gagar_cli.io.dump import ReadOptions, open_dump
from gagar_cli.io.dump_counts import DumpCounts, count_group_sizes, count_rows

RECORDS: list[dict[str, Any]] = [
    {"group_id": "a", "trajectory_id": "1", "resolved": True},
    {"group_id": "a", "trajectory_id": "2", "resolved": False},
    {"group_id": "a", "trajectory_id": "3", "resolved": None},
    {"group_id": "b", "trajectory_id": "1", "resolved": True, "infra_failure": True},
    {"group_id": "b", "trajectory_id": "2", "resolved": True, "mask_sample": True},
    {"group_id": "c", "trajectory_id": "1", "resolved": None},
    {"group_id": "d", "trajectory_id": "1", "resolved": True},
]


def write(path: Path, records: list[dict[str, Any]]) -> str:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return str(path)


@pytest.mark.parametrize("max_ids_in_memory", [100, 0])
def test_rows_groups_passes_and_reasons(tmp_path: Path, max_ids_in_memory: int) -> None:
    path = write(tmp_path / "dump.jsonl", RECORDS)
    with open_dump([path], ReadOptions(max_ids_in_memory=max_ids_in_memory)) as dump:
        counts, sizes = count_rows(dump), count_group_sizes(dump)
    reasons = dict(counts.invalid_reasons)
    assert counts._replace(invalid_reasons=()) == DumpCounts(7, 4, 2, 4, ())
    assert reasons == {"not_evaluated": 2, "infra_failure": 1, "mask_sample": 1}
    assert counts.invalid_reasons[0] == ("not_evaluated", 2)
    assert sizes == ((1, 2), (2, 1), (3, 1))


def test_nothing_invalid_is_no_reason(tmp_path: Path) -> None:
    path = write(tmp_path / "dump.jsonl", RECORDS[:2])
    with open_dump([path], ReadOptions()) as dump:
        assert count_rows(dump) == DumpCounts(2, 1, 1, 0, ())


def test_segments_are_one_trajectory(tmp_path: Path) -> None:
    parts = [{**RECORDS[0], "segment": number} for number in range(3)]
    path = write(tmp_path / "dump.jsonl", [*parts, RECORDS[1], RECORDS[6]])
    with open_dump([path], ReadOptions(max_ids_in_memory=0)) as dump:
        assert count_group_sizes(dump) == ((1, 1), (2, 1))
        assert count_rows(dump) == DumpCounts(5, 2, 4, 0, ())
