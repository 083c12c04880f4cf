import json
import math
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gagar_cli.errors import InputError
from gagar_cli.io.columns import clean_scalars
from gagar_cli.io.dump import ReadOptions, open_dump
from gagar_cli.io.jsonl_flat import MIN_FILE_BYTES
from gagar_cli.io.records import Fields, Scalars, read_scalars

PLAIN = pl.DataFrame(
    {
        "group_id": ["g", "g"],
        "trajectory_id": ["a", "b"],
        "reward": [1.0, math.nan],
        "step": [1, None],
        "n_turns": [3, 0],
    }
)
INTEGERS = st.integers(-1, 3) | st.sampled_from([2**31 - 1, 2**31, 2**63 - 1])
FLOATS = st.sampled_from([0.0, 1.0, 0.5, math.nan, math.inf])
BOOLEANS = st.booleans()
TEXTS = st.sampled_from(["g", "h", "", "a\0", "ü"])
NAMES = (
    "group_id", "trajectory_id", "step", "segment", "reward", "resolved", "passed", "infra_failure", "mask_sample",
    "n_turns", "advantage", "instance_id",
)  # fmt: skip


@st.composite
def tables(draw: st.DrawFn) -> pl.DataFrame:
    height = draw(st.integers(1, 3))
    columns = {}
    for name in draw(st.sets(st.sampled_from(NAMES))):
        values = draw(st.sampled_from([INTEGERS, FLOATS, BOOLEANS, TEXTS, st.none()]))
        columns[name] = draw(st.lists(values | st.none(), min_size=height, max_size=height))
    return pl.DataFrame({"row": [0] * height, **columns}, strict=False)


def as_rows(clean: pl.DataFrame) -> list[Scalars]:
    renamed = clean.rename({"group_id": "group"})
    return [Scalars(**row) for row in renamed.iter_rows(named=True)]


def comparable(rows: list[Scalars]) -> list[str]:
    return [repr(row) for row in rows]


@example(pl.DataFrame({"row": [0], "group_id": [0], "trajectory_id": [0], "reward": [0]}), "group_id")
@given(tables(), st.sampled_from(["group_id", "instance_id", "row"]))
def test_what_passes_the_columns_is_what_the_records_say(table: pl.DataFrame, group_field: str) -> None:
    clean = clean_scalars(table, Fields({}), group_field)
    if clean is not None:
        records = [read_scalars(record, Fields({}), group_field) for record in table.iter_rows(named=True)]
        assert comparable(as_rows(clean)) == comparable(records)


@given(tables())
def test_a_doubtful_table_goes_the_slow_way(table: pl.DataFrame) -> None:
    is_fine = "trajectory_id" in table.columns and not table["trajectory_id"].has_nulls()
    with suppress(InputError):
        for record in table.iter_rows(named=True):
            read_scalars(record, Fields({}), "group_id")
        assert (clean_scalars(table, Fields({}), "group_id") is not None) == is_fine


def test_mapped_columns_are_taken_and_paths_into_them_are_not() -> None:
    table = PLAIN.rename({"reward": "score"})
    clean = clean_scalars(table, Fields({"reward": "score"}), "group_id")
    assert clean is not None
    assert clean["reward"][0] == 1.0
    nested = table.with_columns(pl.lit('{"score": 1}').alias("raw"))
    assert clean_scalars(nested, Fields({"reward": "raw.score"}), "group_id") is None


@pytest.mark.parametrize("group_by", [None, "task"])
def test_a_long_table_reads_as_its_rows_would(
    tmp_path_factory: pytest.TempPathFactory, group_by: str | None
) -> None:
    n = 40_000
    path = str(tmp_path_factory.mktemp("long") / "dump.parquet")
    names = [f"task{row // 8 % 3000}" for row in range(n)]
    table = pl.DataFrame(
        {"task" if group_by else "group_id": names, "reward": [row % 3 / 2 for row in range(n)]}
    )
    table = table.with_columns(trajectory_id=pl.int_range(n).cast(pl.String), step=pl.int_range(n) // 24_000)
    table.write_parquet(path)
    with open_dump([path], ReadOptions(group_by=group_by)) as dump:
        assert dump.index["group_id"].to_list() == names
        assert dump.index["line"].to_list() == list(range(1, n + 1))
        assert dump.index["passed"].sum() == n // 3
        keys = list(zip(table["step"], names, strict=True))
        codes = {key: code for code, key in enumerate(dict.fromkeys(keys))}
        assert dump.index["group"].to_list() == [codes[key] for key in keys]


def test_a_bad_row_deep_in_a_long_table_is_found(tmp_path_factory: pytest.TempPathFactory) -> None:
    path = str(tmp_path_factory.mktemp("long") / "dump.parquet")
    table = pl.DataFrame({"group_id": [str(row // 8) for row in range(40_000)]})
    ids = (
        pl.when(pl.int_range(40_000) == 35_000)
        .then(pl.lit(""))
        .otherwise(pl.int_range(40_000).cast(pl.String))
    )
    table.with_columns(trajectory_id=ids, reward=1.0).write_parquet(path)
    with pytest.raises(InputError, match=r"dump\.parquet:35001: trajectory_id is"):
        open_dump([path], ReadOptions())


def test_a_column_of_boolean_rewards_is_what_the_records_say() -> None:
    table = PLAIN.with_columns(pl.Series("reward", [True, None]))
    clean = clean_scalars(table, Fields({}), "group_id")
    assert clean is not None
    assert clean["reward"].to_list() == [1.0, None]
    records = [read_scalars(record, Fields({}), "group_id") for record in table.iter_rows(named=True)]
    assert comparable(as_rows(clean)) == comparable(records)
    assert clean_scalars(table.with_columns(advantage=pl.lit(value=True)), Fields({}), "group_id") is None


def test_long_lines_of_boolean_rewards_and_parquet_have_the_same_index(tmp_path: Path) -> None:
    rows = [{"group_id": "g", "trajectory_id": str(n), "reward": n % 3 == 0} for n in range(6_000)]
    lines, table = tmp_path / "a.jsonl", tmp_path / "a.parquet"
    lines.write_text("".join(json.dumps(row) + "\n" for row in rows))
    pl.DataFrame(rows).write_parquet(table)
    assert lines.stat().st_size > MIN_FILE_BYTES
    for path in (lines, table):
        with open_dump([str(path)], ReadOptions(max_group_size=6_000)) as dump:
            found = dump.index.select("reward", "passed").rows()
        assert found == [(float(n % 3 == 0), n % 3 == 0) for n in range(6_000)]


@pytest.mark.parametrize("kind", [bool, int, float])
@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_flags_that_are_numbers_read_as_flags(
    tmp_path: Path, kind: Callable[[bool], Any], suffix: str
) -> None:
    flags = [n % 3 == 0 for n in range(6_000)]
    rows = [
        {
            "group_id": "g",
            "trajectory_id": str(n),
            "is_truncated": kind(not flag),
            "mask_sample": kind(n == 7),
        }
        | {"resolved": None if n == 5 else kind(flag)}
        for n, flag in enumerate(flags)
    ]
    path = tmp_path / f"dump.{suffix}"
    if suffix == "parquet":
        pl.DataFrame(rows).write_parquet(path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        assert path.stat().st_size > MIN_FILE_BYTES
    extra = "is_truncated"
    with open_dump([str(path)], ReadOptions(max_group_size=6_000, extras=(extra,))) as dump:
        index = dump.index
        assert index["passed"].to_list() == flags
        assert index["invalid_reason"].drop_nulls().to_list() == ["not_evaluated", "mask_sample"]
        assert index[f"extra:{extra}"].to_list() == [not flag for flag in flags]


@pytest.mark.parametrize("values", [[2, 1], [1, 2], [1, None, 0.5]])
def test_flags_with_another_number_go_the_slow_way(values: list[float | None]) -> None:
    table = pl.DataFrame(
        {"group_id": "g", "trajectory_id": [str(n) for n in range(len(values))], "resolved": values},
        strict=False,
    )
    assert clean_scalars(table, Fields({}), "group_id") is None
