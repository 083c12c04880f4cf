import json
import random
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gagar_cli.core.schema import Message, Task, ToolCall, Trajectory
from gagar_cli.errors import InputError
from gagar_cli.io.dump import Dump, ReadOptions, open_dump

MESSAGES = [
    {"role": "user", "content": "do", "tool_calls": None},
    {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "bash", "arguments": "{}"}}]},
]
READ_MESSAGES = (Message("user", "do"), Message("assistant", "", (ToolCall("bash", "{}"),)))


def attempts(n: int) -> list[dict[str, object]]:
    return [
        {"group_id": f"g{row // 4}", "trajectory_id": f"t{row}", "reward": float(row % 2), "model_patch": f"p{row}",
         "messages": MESSAGES, "repo": "a/b", "step": None if row % 3 else row // 12}
        for row in range(n)
    ]  # fmt: skip


def write_parquet(path: Path, records: Sequence[object], **options: object) -> str:
    pq.write_table(pa.Table.from_pylist(records), path, **options)
    return str(path)


def content_of(dump: Dump) -> tuple[list[dict[str, object]], list[tuple[Task, Trajectory]]]:
    rows = dump.index.drop("offset", "length").to_dicts()
    read = dump.read_trajectories(range(dump.index.height))
    return rows, [(task, trajectory) for task, trajectory in read]


@pytest.mark.parametrize("row_group_size", [3, 16, 1000])
def test_parquet_reads_as_the_same_records_in_json_lines(
    tmp_path: Path, write_dump: Callable[..., str], row_group_size: int
) -> None:
    records = attempts(50)
    (tmp_path / "a").mkdir()
    columns = write_parquet(tmp_path / "a" / "dump.jsonl", records, row_group_size=row_group_size)
    with (
        open_dump([write_dump(records)], ReadOptions()) as lines,
        open_dump([columns], ReadOptions()) as table,
    ):
        line_rows, line_read = content_of(lines)
        table_rows, table_read = content_of(table)
        assert table_rows == line_rows
        assert [(task, trajectory.messages, trajectory.model_patch) for task, trajectory in table_read] == [
            (task, trajectory.messages, trajectory.model_patch) for task, trajectory in line_read
        ]
        assert list(table.iter_records()) == records


def test_rows_come_in_any_order_and_again(tmp_path: Path) -> None:
    order = list(range(100)) * 2
    random.Random(3).shuffle(order)
    path = write_parquet(tmp_path / "dump.parquet", attempts(100), row_group_size=40)
    with open_dump([path], ReadOptions()) as dump:
        for row in order:
            ((_, trajectory),) = dump.read_trajectories([row])
            assert (trajectory.model_patch, trajectory.messages) == (f"p{row}", READ_MESSAGES)


def test_a_row_group_is_decoded_once_however_often_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded: list[object] = []

    class Counting(pq.ParquetFile):
        def iter_batches(self, *arguments: object, **options: object) -> object:
            decoded.append(options["row_groups"])
            return super().iter_batches(*arguments, **options)

    path = write_parquet(tmp_path / "dump.parquet", attempts(64), row_group_size=32)
    monkeypatch.setattr(pq, "ParquetFile", Counting)
    with open_dump([path], ReadOptions()) as dump:
        decoded.clear()
        for first in (0, 40, 8, 60, 0, 28):
            dump.read_trajectories(range(first, first + 4))
    assert decoded == [[0], [1]]


def test_rows_are_read_from_several_threads(tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "dump.parquet", attempts(200), row_group_size=30)
    with open_dump([path], ReadOptions()) as dump, ThreadPoolExecutor(8) as pool:
        read = pool.map(lambda row: dump.read_trajectories([row])[0][1].model_patch, range(200))
        assert list(read) == [f"p{row}" for row in range(200)]


def test_a_table_that_is_replaced_under_an_open_dump_is_told(tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "dump.parquet", attempts(8))
    with open_dump([path], ReadOptions()) as dump:
        write_parquet(tmp_path / "dump.parquet", attempts(9))
        with pytest.raises(InputError, match="the file changed while it was read"):
            dump.read_trajectories([1])


@pytest.mark.parametrize("as_text", [True, False])
def test_messages_are_structs_or_json_text(tmp_path: Path, as_text: bool) -> None:
    record = {**attempts(1)[0], "messages": json.dumps(MESSAGES) if as_text else MESSAGES}
    with open_dump([write_parquet(tmp_path / "dump.parquet", [record])], ReadOptions()) as dump:
        assert dump.read_trajectories([0])[0][1].messages == READ_MESSAGES


def test_a_mapped_path_reaches_into_structs_and_json_text(tmp_path: Path) -> None:
    record = {"id": "g", "out": {"score": 1.0}, "raw": json.dumps({"patch": "p", "turns": 4})}
    fields = {"group_id": "id", "reward": "out.score", "model_patch": "raw.patch", "n_turns": "raw.turns"}
    with open_dump([write_parquet(tmp_path / "dump.parquet", [record])], ReadOptions(fields=fields)) as dump:
        assert dump.index["n_turns"].to_list() == [4]
        assert dump.read_trajectories([0])[0][1].model_patch == "p"


@pytest.mark.parametrize("as_text", [True, False])
def test_a_list_of_attempts_is_exploded(tmp_path: Path, as_text: bool) -> None:
    runs = [{"reward": 1.0, "model_patch": "p"}, {"reward": 0.0, "model_patch": "q"}]
    record = {"instance_id": "i", "repo": "r", "runs": json.dumps(runs) if as_text else runs}
    path = write_parquet(tmp_path / "dump.parquet", [record] * 20)
    with open_dump([path], ReadOptions(explode="runs")) as dump:
        assert dump.index.height == 40
        ((task, trajectory),) = dump.read_trajectories([39])
        assert (task.repo, trajectory.model_patch, trajectory.where) == ("r", "q", f"{path}:20[1]")


def test_dictionary_and_large_and_view_columns_are_read(tmp_path: Path) -> None:
    table = pa.table(
        {
            "group_id": pa.array(["g", "g"]).dictionary_encode(),
            "reward": pa.array([1, 0], pa.int32()),
            "trajectory_id": pa.array(["a", "b"], pa.large_string()),
            "model_patch": pa.array(["p", "q"]).dictionary_encode(),
        }
    )
    pq.write_table(table, tmp_path / "dump.parquet")
    with open_dump([str(tmp_path / "dump.parquet")], ReadOptions()) as dump:
        assert [trajectory.model_patch for _, trajectory in dump.read_trajectories([1, 0])] == ["q", "p"]


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("reward", pa.array(["high"]), r'dump\.parquet:1: reward is "high", expected a number'),
        ("reward", pa.array([float("inf")]), r"dump\.parquet:1: reward is inf, expected a finite number"),
        ("reward", pa.array([2e100]), r"dump\.parquet:1: reward is 2e\+100, expected a number from"),
        ("reward", pa.array([[1.0]]), r"dump\.parquet:1: reward is \[1\.0\], expected a number"),
        ("step", pa.array([1.5]), r"dump\.parquet:1: step is 1\.5, expected an integer"),
        ("resolved", pa.array([2]), r"dump\.parquet:1: resolved is 2, expected true, false or null"),
        ("trajectory_id", pa.array([""]), r"dump\.parquet:1: trajectory_id is"),
        ("group_id", pa.array([None], pa.string()), r"dump\.parquet:1: no group_id and no instance_id"),
        ("trajectory_id", pa.array([b"\xff"]), r"dump\.parquet:1: trajectory_id is"),
        ("segment", pa.array([2**40]), r"dump\.parquet:1: segment is 1099511627776, number out of range"),
    ],
)
def test_a_wrong_column_is_told_with_row_and_value(
    tmp_path: Path, column: str, values: pa.Array, message: str
) -> None:
    table = pa.table({"group_id": ["g"], "reward": [1.0], column: values})
    pq.write_table(table, tmp_path / "dump.parquet")
    with pytest.raises(InputError, match=message):
        open_dump([str(tmp_path / "dump.parquet")], ReadOptions())


def test_a_reward_too_large_to_be_squared_is_found_behind_a_nan(tmp_path: Path) -> None:
    pq.write_table(
        pa.table(
            {"group_id": ["g"] * 3, "trajectory_id": ["a", "b", "c"], "reward": [1.0, float("nan"), -2e100]}
        ),
        tmp_path / "dump.parquet",
    )
    with pytest.raises(InputError, match=r"dump\.parquet:3: reward is -2e\+100, expected"):
        open_dump([str(tmp_path / "dump.parquet")], ReadOptions())


def test_records_of_chosen_columns_lack_the_others(tmp_path: Path) -> None:
    rows = [
        {
            "group_id": "g",
            "trajectory_id": name,
            "reward": 1.0,
            "mask": [0, 1],
            "meta": {"kind": name},
            "messages": "m",
        }
        for name in "ab"
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "dump.parquet")
    with open_dump([str(tmp_path / "dump.parquet")], ReadOptions()) as dump:
        chosen = list(dump.iter_records(["mask", "meta.kind", "nowhere"]))
        assert chosen == [{"mask": [0, 1], "meta": {"kind": name}} for name in "ab"]
        assert list(dump.iter_records()) == rows


def test_nan_and_null_rewards_are_invalid(tmp_path: Path) -> None:
    table = pa.table({"group_id": ["g"] * 3, "reward": pa.array([1.0, float("nan"), None])})
    pq.write_table(table, tmp_path / "dump.parquet")
    with open_dump([str(tmp_path / "dump.parquet")], ReadOptions()) as dump:
        assert dump.index["invalid_reason"].to_list() == [None, "no_reward", "no_reward"]


def test_a_table_without_a_reward_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="neither reward nor resolved"):
        open_dump([write_parquet(tmp_path / "dump.parquet", [{"group_id": "g"}])], ReadOptions())


def test_a_table_without_any_known_column_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no group_id"):
        open_dump([write_parquet(tmp_path / "dump.parquet", [{"x": 1}] * 3)], ReadOptions())


def test_an_empty_table_holds_no_records(tmp_path: Path) -> None:
    pl.DataFrame(schema={"group_id": pl.String, "reward": pl.Float64}).write_parquet(
        tmp_path / "dump.parquet"
    )
    with pytest.raises(InputError, match="no records"):
        open_dump([str(tmp_path / "dump.parquet")], ReadOptions())


def test_twins_of_a_column_are_refused(tmp_path: Path) -> None:
    table = pa.Table.from_arrays(
        [pa.array(["g"]), pa.array([1.0]), pa.array([2.0])], ["group_id", "reward", "reward"]
    )
    pq.write_table(table, tmp_path / "dump.parquet")
    with pytest.raises(InputError, match='duplicate column "reward"'):
        open_dump([str(tmp_path / "dump.parquet")], ReadOptions())


def test_a_file_cut_anywhere_is_an_input_error(tmp_path: Path) -> None:
    path = tmp_path / "dump.parquet"
    whole = Path(write_parquet(path, attempts(5))).read_bytes()
    for length in range(0, len(whole), max(1, len(whole) // 40)):
        path.write_bytes(whole[:length])
        with pytest.raises(InputError):
            open_dump([str(path)], ReadOptions())


def test_damaged_pages_are_an_input_error_or_read(tmp_path: Path) -> None:
    path = tmp_path / "dump.parquet"
    whole = bytearray(Path(write_parquet(path, attempts(40))).read_bytes())
    chance = random.Random(5)
    for _ in range(60):
        damaged = bytearray(whole)
        for _ in range(4):
            damaged[chance.randrange(4, len(whole))] = chance.randrange(256)
        path.write_bytes(damaged)
        try:
            with open_dump([str(path)], ReadOptions(on_bad_record="skip")) as dump:
                dump.read_trajectories(range(dump.index.height))
        except InputError:
            continue


def test_rows_that_expand_beyond_the_limit_are_refused(tmp_path: Path) -> None:
    """A dictionary holds one long value once, and every row of it in memory."""
    records = [
        {**attempts(1)[0], "trajectory_id": str(row), "model_patch": "x" * 200_000} for row in range(64)
    ]
    path = write_parquet(tmp_path / "dump.parquet", records)
    assert Path(path).stat().st_size < 100_000
    with (
        open_dump([path], ReadOptions(max_record_bytes=100_000)) as dump,
        pytest.raises(InputError, match="16 rows hold more than"),
    ):
        dump.read_trajectories([0])


def test_a_text_that_is_no_utf8_is_told_with_its_row_deep_in_a_table(tmp_path: Path) -> None:
    """Polars refuses the whole file; pyarrow goes on where it stopped and finds the row."""
    n_rows = 300_000
    texts = [b"t%d" % row for row in range(n_rows)]
    texts[280_000] = b"t\xff"
    ids = pa.array(texts, pa.binary())
    table = pa.table(
        {
            "group_id": [f"g{row // 8}" for row in range(n_rows)],
            "trajectory_id": pa.StringArray.from_buffers(n_rows, ids.buffers()[1], ids.buffers()[2]),
            "reward": np.ones(n_rows),
        }
    )
    pq.write_table(table, tmp_path / "dump.parquet", row_group_size=100_000, use_dictionary=False)
    with pytest.raises(InputError, match=r"dump\.parquet: cannot be read as Parquet: 'utf-?8' codec"):
        open_dump([str(tmp_path / "dump.parquet")], ReadOptions())


def test_flat_columns_need_no_pyarrow(tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "dump.parquet", attempts(8))
    script = (
        "import sys; from gagar_cli.io.dump import *; "
        f"open_dump([{path!r}], ReadOptions(is_index_only=True)).close(); print('pyarrow.parquet' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout == "False\n"


def test_columns_without_a_value_are_null_in_the_index_of_all_files(tmp_path: Path) -> None:
    """The first file tells steps and segments, the second one neither; a failure of the infrastructure is in one only."""
    told = [
        {"group_id": "g", "trajectory_id": "a", "reward": 1.0, "step": 3, "segment": 0, "mask_sample": True}
    ]
    untold = [{"group_id": "g", "trajectory_id": f"b{row}", "reward": 0.0} for row in range(3)]
    paths = [write_parquet(tmp_path / f"{name}.parquet", rows) for name, rows in (("a", told), ("b", untold))]
    with open_dump(paths, ReadOptions()) as dump:
        assert dump.index["step"].to_list() == [3, None, None, None]
        assert dump.index["segment"].to_list() == [0, None, None, None]
        assert dump.index["invalid_reason"].to_list() == ["mask_sample", None, None, None]
        assert dump.index["group"].to_list() == [0, 1, 1, 1]
    with open_dump(paths[1:], ReadOptions()) as dump:
        assert dump.index["step"].to_list() == [None] * 3
        assert dump.index["invalid"].to_list() == [False] * 3
