"""The reader on real attempts of real systems."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from gagar_cli.core.schema import Task, Trajectory
from gagar_cli.errors import InputError
from gagar_cli.io.dump import Dump, ReadOptions, open_dump

DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data"
GROUPS, FULL_LOGS = DATA / "swebench_groups.jsonl", DATA / "canonical_full_logs.jsonl"

pytestmark = [
    pytest.mark.shared,
    pytest.mark.skipif(not DATA.is_dir(), reason="the reference data is not here"),
]


@pytest.fixture(scope="module")
def full_logs() -> Iterator[Dump]:
    with open_dump([str(FULL_LOGS)], ReadOptions()) as dump:
        yield dump


def records_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def read_all(dump: Dump) -> list[tuple[Task, Trajectory]]:
    rows = dump.index.select("group").with_row_index().group_by("group", maintain_order=True).agg("index")
    return [each for group in rows["index"] for each in dump.read_trajectories(group.to_list())]


def without_place(read: list[tuple[Task, Trajectory]]) -> list[object]:
    return [
        (task, each.trajectory_id, each.reward, each.passed, each.messages, each.model_patch, each.test_output,
         each.exit_status, each.is_truncated)
        for task, each in read
    ]  # fmt: skip


def test_every_attempt_of_the_groups_is_a_row_and_none_is_guessed() -> None:
    attempts = [each for record in records_of(GROUPS) for each in record["attempts"]]
    with open_dump([str(GROUPS)], ReadOptions(explode="attempts")) as dump:
        assert dump.index.height == len(attempts)
        assert dump.index["passed"].to_list() == [each["resolved"] is True for each in attempts]
        assert dump.index["invalid"].to_list() == [each["resolved"] is None for each in attempts]
        assert dump.index["group"].n_unique() == 300
        read = [dump.read_trajectories([row])[0][1].model_patch for row in range(0, dump.index.height, 97)]
        assert read == [each["model_patch"] for each in attempts[::97]]


def test_three_attempts_with_the_id_of_another_are_found() -> None:
    options = {"explode": "attempts", "fields": {"trajectory_id": "attempt_id"}}
    with pytest.raises(
        InputError, match=r"jsonl:39\[5\]: trajectory .* occurs twice in its group: see .*:39\[4\]"
    ):
        open_dump([str(GROUPS)], ReadOptions(**options))  # type: ignore[arg-type]
    with open_dump([str(GROUPS)], ReadOptions(on_bad_record="skip", **options)) as dump:  # type: ignore[arg-type]
        assert dump.report.n_bad_records == 3


def test_full_logs_are_read_whole(full_logs: Dump) -> None:
    records = records_of(FULL_LOGS)
    read = full_logs.read_trajectories(range(full_logs.index.height))
    assert [len(trajectory.messages) for _, trajectory in read] == [
        len(record["messages"]) for record in records
    ]
    assert [trajectory.test_output for _, trajectory in read] == [record["test_output"] for record in records]
    assert list(full_logs.iter_records()) == records


@pytest.mark.parametrize("row_group_size", [5, 10_000])
def test_full_logs_as_parquet_are_the_same(
    tmp_path: Path, write_dump: Callable[..., str], full_logs: Dump, row_group_size: int
) -> None:
    records = records_of(FULL_LOGS)
    path = tmp_path / "logs.parquet"
    pl.DataFrame(records, infer_schema_length=None).write_parquet(path, row_group_size=row_group_size)
    with open_dump([str(path)], ReadOptions()) as dump:
        assert dump.index.drop("offset", "length").equals(full_logs.index.drop("offset", "length"))
        assert without_place(read_all(dump)) == without_place(read_all(full_logs))
