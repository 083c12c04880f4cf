"""The spliced file against what was there: old bytes, old columns, and the new ones, by several readers."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gagar_cli.io import parquet_splice
from gagar_cli.io.parquet_footer import read_footer
from gagar_cli.io.parquet_schema import FooterRefusedError

N_ROWS = 1000
READERS: dict[str, Callable[[Path], pl.DataFrame]] = {}


def reader(function: Callable[[Path], pl.DataFrame]) -> Callable[[Path], pl.DataFrame]:
    READERS[function.__name__] = function
    return function


@reader
def pyarrow(path: Path) -> pl.DataFrame:
    table = pq.read_table(path)
    table.validate(full=True)
    return pl.DataFrame(pl.from_arrow(table))


@reader
def polars(path: Path) -> pl.DataFrame:
    return pl.read_parquet(path)


@reader
def polars_with_a_filter(path: Path) -> pl.DataFrame:
    return (
        pl.scan_parquet(path).filter(pl.col("advantage").is_null() | (pl.col("advantage") > -1e9)).collect()
    )


@reader
def duckdb(path: Path) -> pl.DataFrame:
    module = pytest.importorskip("duckdb")
    with module.connect() as connection:
        return pl.DataFrame(connection.sql(f"select * from '{path}'").pl())


@reader
def pandas(path: Path) -> pl.DataFrame:
    module = pytest.importorskip("pandas")
    return pl.from_pandas(module.read_parquet(path, dtype_backend="pyarrow"))


@reader
def datasets(path: Path) -> pl.DataFrame:
    module = pytest.importorskip("datasets")
    table = module.Dataset.from_parquet(str(path), cache_dir=str(path.parent / "cache")).data.table
    return pl.DataFrame(pl.from_arrow(table))


def old_table(n_rows: int = N_ROWS) -> pa.Table:
    rows = range(n_rows)
    return pa.table(
        {
            "trajectory_id": [f"t{row}" for row in rows],
            "reward": pa.array([row % 2 for row in rows], pa.float32()),
            "messages": [[{"role": "user", "content": f"text {row}"}] * (row % 3) for row in rows],
            "label": pa.array([("a", "b", None)[row % 3] for row in rows]).dictionary_encode(),
            "meta": [{"n": row, "note": None if row % 2 else "x"} for row in rows],
            "big": pa.array([str(row) for row in rows], pa.large_string()),
        }
    )


def new_columns(n_rows: int = N_ROWS) -> pl.DataFrame:
    draw = random.Random(1)
    rows = range(n_rows)
    return pl.DataFrame(
        {
            "advantage": [None if row % 7 == 0 else draw.gauss(0, 1) for row in rows],
            "base": [draw.gauss(0, 1) for _ in rows],
            "tier": [("T1", "T2", None)[row % 3] for row in rows],
            "rank": [None if row % 3 == 2 else row for row in rows],
            "capped": [None if row % 5 == 0 else row % 2 == 0 for row in rows],
            "nothing": pl.Series([None] * n_rows, dtype=pl.Float64),
            "no_text": pl.Series([None] * n_rows, dtype=pl.String),
        }
    )


def keep(name: str, names: Any) -> str:
    return name


def splice(
    source: Path, target: Path, added: pl.DataFrame, new_name: Callable[[str, Any], str | None] = keep
) -> None:
    with target.open("w+b") as stream:
        parquet_splice.splice_columns(stream, str(source), added, new_name)


def prefix_of(path: Path) -> bytes:
    with path.open("rb") as stream:
        _, start = read_footer(stream)
    return path.read_bytes()[:start]


@pytest.mark.parametrize("name", READERS)
def test_every_reader_finds_old_and_new_columns(tmp_path: Path, name: str) -> None:
    old, new, added = tmp_path / "old.parquet", tmp_path / "new.parquet", new_columns()
    pq.write_table(old_table().drop(["label"]), old, row_group_size=300)
    splice(old, new, added)
    found = READERS[name](new)
    assert found.select(added.columns).cast(added.schema).equals(added)  # type: ignore[arg-type]
    other = "polars" if name == "polars_with_a_filter" else name
    assert found.drop(added.columns).equals(READERS[other](old))


OPTIONS = {
    "none": {"compression": "none"},
    "snappy": {"compression": "snappy"},
    "gzip": {"compression": "gzip"},
    "brotli": {"compression": "brotli"},
    "zstd": {"compression": "zstd"},
    "lz4": {"compression": "lz4"},
    "pages v2": {"data_page_version": "2.0", "compression": "zstd"},
    "page index and checksums": {"write_page_index": True, "write_page_checksum": True},
    "format 1.0": {"version": "1.0", "store_schema": False},
    "no dictionary": {"use_dictionary": False, "data_page_size": 500},
    "sorted": {"sorting_columns": [pq.SortingColumn(0)]},
    "small row groups": {"row_group_size": 3},
    "uneven row groups": {"row_group_size": 999},
    "bloom filters": {"bloom_filter_options": {"trajectory_id": {"ndv": 1000}}},
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS.keys())
def test_bytes_and_columns_of_any_writer_stay(tmp_path: Path, options: dict[str, Any]) -> None:
    old, new, added = tmp_path / "old.parquet", tmp_path / "new.parquet", new_columns()
    try:
        pq.write_table(old_table(), old, **options)
    except TypeError:
        pytest.skip("this pyarrow does not write it")
    splice(old, new, added)
    assert new.read_bytes().startswith(prefix_of(old))
    found = pq.read_table(new, page_checksum_verification=True)
    found.validate(full=True)
    assert found.select(old_table().column_names).equals(pq.read_table(old))
    assert pl.DataFrame(pl.from_arrow(found)).select(added.columns).equals(added)
    assert pl.read_parquet(new).equals(pl.read_parquet(old).hstack(added))


def test_types_that_parquet_cannot_tell_stay(tmp_path: Path) -> None:
    old, new = tmp_path / "old.parquet", tmp_path / "new.parquet"
    table = old_table().replace_schema_metadata({"mine": "kept"})
    pq.write_table(table, old)
    splice(old, new, new_columns())
    schema = pq.read_schema(new)
    assert [schema.field(name).type for name in table.column_names] == table.schema.types
    assert schema.metadata[b"mine"] == b"kept"


def test_statistics_page_index_and_filters_still_work(tmp_path: Path) -> None:
    old, new = tmp_path / "old.parquet", tmp_path / "new.parquet"
    pq.write_table(old_table(), old, row_group_size=100, write_page_index=True)
    splice(old, new, new_columns())
    before, after = pq.read_metadata(old), pq.read_metadata(new)
    for group in range(before.num_row_groups):
        for column in range(before.num_columns):
            assert (
                before.row_group(group).column(column).to_dict()
                == after.row_group(group).column(column).to_dict()
            )
    assert pq.read_table(new, filters=[("trajectory_id", "=", "t345")])["rank"].to_pylist() == [345]


@pytest.mark.parametrize("writer", ["eager", "streaming"])
def test_files_of_polars_are_spliced(tmp_path: Path, writer: str) -> None:
    old, new, added = tmp_path / "old.parquet", tmp_path / "new.parquet", new_columns()
    frame = pl.DataFrame(pl.from_arrow(old_table()))
    if writer == "eager":
        frame.write_parquet(old, row_group_size=100)
    else:
        frame.lazy().sink_parquet(old, row_group_size=100)
    splice(old, new, added)
    assert pl.read_parquet(new).equals(frame.hstack(added))


def test_files_of_duckdb_and_pandas_are_spliced(tmp_path: Path) -> None:
    module, pandas_module = pytest.importorskip("duckdb"), pytest.importorskip("pandas")
    frame = pl.DataFrame(pl.from_arrow(old_table().drop(["label"])))
    by_duckdb, by_pandas, new = (tmp_path / name for name in ("d.parquet", "p.parquet", "new.parquet"))
    with module.connect() as connection:
        connection.register("frame", frame.to_arrow())
        connection.execute(f"copy frame to '{by_duckdb}' (format parquet, row_group_size 2048)")
    assert pandas_module.__version__
    frame.to_pandas().to_parquet(by_pandas)
    for old in (by_duckdb, by_pandas):
        splice(old, new, new_columns())
        assert new.read_bytes().startswith(prefix_of(old))
        assert pl.read_parquet(new).equals(pl.read_parquet(old).hstack(new_columns()))


def test_column_of_the_same_name_is_replaced_and_another_renamed(tmp_path: Path) -> None:
    old, new, again = (tmp_path / f"{name}.parquet" for name in ("old", "new", "again"))
    table = old_table().append_column("advantage", [[[0.5] * (row % 4) for row in range(N_ROWS)]])
    pq.write_table(table, old, row_group_size=90)
    splice(old, new, new_columns(), lambda name, _: "advantage_input" if name == "advantage" else name)
    found = pq.read_table(new)
    assert found["advantage_input"].equals(table["advantage"])
    splice(new, again, new_columns(), lambda name, _: None if name in new_columns().columns else name)
    twice = pq.read_table(again)
    assert twice.equals(found)
    sizes = [pq.read_metadata(path).row_group(0).total_byte_size for path in (new, again)]
    assert sizes[0] == sizes[1]


def test_ten_thousand_row_groups_are_spliced(tmp_path: Path) -> None:
    old, new = tmp_path / "old.parquet", tmp_path / "new.parquet"
    n_groups = 10_000
    pq.write_table(pa.table({"row": range(n_groups)}), old, row_group_size=1)
    added = pl.DataFrame({"advantage": [float(row) for row in range(n_groups)]})
    splice(old, new, added)
    assert pq.read_metadata(new).num_row_groups == n_groups
    assert pl.read_parquet(new)["advantage"].equals(added["advantage"])


def test_pages_and_levels_end_where_a_row_group_does(tmp_path: Path) -> None:
    old, new = tmp_path / "old.parquet", tmp_path / "new.parquet"
    n_rows = 300_001
    pq.write_table(pa.table({"row": range(n_rows)}), old, row_group_size=290_000)
    rows = pl.int_range(n_rows, eager=True)
    added = pl.DataFrame(
        {
            "sparse": pl.select(pl.when(rows % 1000 == 1).then(rows)).to_series(),
            "flag": pl.select(pl.when(rows % 3 > 0).then(rows % 2 == 0)).to_series(),
            "text": pl.select(pl.when(rows > 140_000).then(pl.format("t{}", rows % 256))).to_series(),
        }
    )
    splice(old, new, added)
    for read in (READERS["pyarrow"], READERS["polars"], READERS["duckdb"]):
        assert read(new).select(added.columns).equals(added)


def test_empty_file_and_empty_row_groups_are_spliced(tmp_path: Path) -> None:
    old, new = tmp_path / "old.parquet", tmp_path / "new.parquet"
    schema = pa.schema({"row": pa.int64()})
    with pq.ParquetWriter(old, schema) as writer:
        for size in (0, 3, 0):
            writer.write_table(pa.table({"row": pa.array(range(size), pa.int64())}))
    splice(old, new, new_columns(3))
    assert pq.read_table(new).num_rows == 3
    assert pl.read_parquet(new).drop("row").equals(new_columns(3))
    pq.write_table(schema.empty_table(), old)
    splice(old, new, new_columns(3).clear())
    assert pq.read_table(new).num_rows == 0


def refused(tmp_path: Path, added: pl.DataFrame, new_name: Any = keep) -> str:
    with pytest.raises(FooterRefusedError) as caught:
        splice(tmp_path / "old.parquet", tmp_path / "new.parquet", added, new_name)
    return str(caught.value)


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    old = tmp_path / "old.parquet"
    pq.write_table(old_table(), old, sorting_columns=[pq.SortingColumn(1)])
    assert refused(tmp_path, new_columns(3)) == "the rows of the file are not those of the index"
    texts = pl.DataFrame({"text": [str(row) for row in range(N_ROWS)]})
    assert refused(tmp_path, texts) == "a new column has a type that is not handled"
    without_big = refused(tmp_path, new_columns(), lambda name, _: None if name == "big" else name)
    assert without_big == "the file is sorted"
    old.write_bytes(old.read_bytes()[:-4] + b"PARE")
    assert refused(tmp_path, new_columns()) == "the file has no plain footer"


def test_copy_goes_on_where_the_kernel_stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> int:
        raise OSError(18, "cross-device link")

    monkeypatch.setattr(parquet_splice.os, "copy_file_range", refuse)
    old, new = tmp_path / "old.parquet", tmp_path / "new.parquet"
    pq.write_table(old_table(), old)
    splice(old, new, new_columns())
    assert new.read_bytes().startswith(prefix_of(old))


@pytest.mark.parametrize("n_values", [1, 2500, 10**6], ids=["one column", "two at once", "all at once"])
def test_other_values_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, n_values: int) -> None:
    monkeypatch.setattr(parquet_splice, "_VERIFIED_VALUES", n_values)
    added, path = new_columns(), tmp_path / "new.parquet"
    for wrong in [added.with_columns(added[name].shift(-1)) for name in added.columns[:5]]:
        wrong.write_parquet(path)
        with pytest.raises(FooterRefusedError, match="does not hold"):
            parquet_splice._verify(str(path), added.columns, added)
