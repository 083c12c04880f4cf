import json
from pathlib import Path

import pytest

from gagar_cli.io.dump import ReadOptions, open_dump
from gagar_cli.io.following import FollowedDump


def notes(folder: Path, *rows: tuple[bool | None, float], pass_threshold: float = 1.0) -> list[str]:
    path = folder / "dump.jsonl"
    records = [
        {"group_id": "g", "trajectory_id": str(place), "resolved": resolved, "reward": reward}
        for place, (resolved, reward) in enumerate(rows)
    ]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    options = ReadOptions(pass_threshold=pass_threshold)
    with open_dump((str(path),), options) as dump:
        told = list(dump.report.notes)
    followed = FollowedDump([str(path)], options)
    try:
        while followed.look() or followed.has_more:
            pass
        # A dump that arrives is told of in the same words.
        assert followed.notes == told
    finally:
        followed.close()
    return [note.replace(str(path), "dump.jsonl") for note in told]


PREFIX = "resolved, by which an attempt passed or failed: "


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (
            [(True, 1), (True, 0), (False, 1), (False, 0)],
            f"2 rewards contradict {PREFIX}dump.jsonl:2 passed with reward 0, dump.jsonl:3 failed with reward 1",
        ),
        (
            [(True, 0.9), (True, 0.8), (False, 0), (False, 1)],
            f"1 reward contradicts {PREFIX}dump.jsonl:4 failed with reward 1",
        ),
        (
            [(True, 1), (None, 5), *[(False, 2.5)] * 5],
            f"5 rewards contradict {PREFIX}"
            + ", ".join(f"dump.jsonl:{line} failed with reward 2.5" for line in (3, 4, 5))
            + " and 2 more",
        ),
    ],
    ids=["both-ways", "beside-shaped-passes", "many"],
)
def test_rewards_on_the_wrong_side_are_named(
    tmp_path: Path, rows: list[tuple[bool | None, float]], expected: str
) -> None:
    assert notes(tmp_path, *rows) == [expected]


@pytest.mark.parametrize(
    "rows",
    [
        [(True, 1), (False, 0)],
        [(True, 1), (False, -1)],
        [(True, 0.9), (True, 0.7), (False, 0.2), (False, -0.5)],
        [(True, 5), (False, 2)],
        [(True, 0.5), (None, 1)],
    ],
    ids=["binary", "minus-one", "below", "above", "no-failure"],
)
def test_shaped_rewards_contradict_nothing(tmp_path: Path, rows: list[tuple[bool | None, float]]) -> None:
    assert notes(tmp_path, *rows) == []


def test_rows_without_a_verdict_contradict_nothing(tmp_path: Path) -> None:
    path = tmp_path / "dump.jsonl"
    path.write_text('{"group_id": "g", "reward": 0.4}\n{"group_id": "g", "reward": 0.6}\n')
    with open_dump((str(path),), ReadOptions(pass_threshold=0.5)) as dump:
        assert not [note for note in dump.report.notes if "contradict" in note]


def test_rows_whose_ids_lie_in_a_file_are_named_too(tmp_path: Path) -> None:
    path = tmp_path / "dump.jsonl"
    lines = [
        json.dumps({"group_id": "g", "trajectory_id": str(row), "resolved": row < 2, "reward": row % 2})
        for row in range(4)
    ]
    path.write_text("\n".join(lines) + "\n")
    with open_dump((str(path),), ReadOptions(is_index_only=True, max_ids_in_memory=2)) as dump:
        assert dump.rows_apart is not None
        assert "dump.jsonl:1 passed with reward 0" in dump.report.notes[-1]
        assert "dump.jsonl:4 failed with reward 1" in dump.report.notes[-1]


@pytest.mark.parametrize("max_ids_in_memory", [2, 100], ids=["ids-apart", "ids-in-memory"])
@pytest.mark.parametrize(
    ("rows", "n_expected"),
    [
        ([(True, 0.95), (True, 0.8), (True, 0.7), (False, 0)], 0),
        ([(True, 0.9), (True, 0.8), (False, 0), (False, 1)], 1),
        ([(True, 1), (True, 0), (False, 1), (False, 0)], 2),
    ],
    ids=["shaped", "beside-shaped-passes", "both-ways"],
)
def test_as_many_are_counted_as_the_note_tells(
    tmp_path: Path, rows: list[tuple[bool, float]], n_expected: int, max_ids_in_memory: int
) -> None:
    path = tmp_path / "dump.jsonl"
    lines = [
        json.dumps({"group_id": "g", "trajectory_id": str(row), "resolved": resolved, "reward": reward})
        for row, (resolved, reward) in enumerate(rows)
    ]
    path.write_text("\n".join(lines) + "\n")
    options = ReadOptions(is_index_only=True, max_ids_in_memory=max_ids_in_memory)
    with open_dump((str(path),), options) as dump:
        assert (dump.rows_apart is not None) == (max_ids_in_memory == 2)
        assert dump.report.n_disagree == n_expected
        assert sum("contradict" in note for note in dump.report.notes) == (n_expected > 0)
