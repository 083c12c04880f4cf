from pathlib import Path

import polars as pl
import pyarrow.parquet as pq
import pytest
from polars.testing import assert_frame_equal

from gagar_cli.io.parquet_texts import as_texts
from gagar_cli.io.writers import write_frames

KIND = pl.Enum(["c", "a", "b"])
PARTS = [
    pl.DataFrame({"number": [1, 2, 3], "kind": ["b", None, "c"], "name": ["x", "é", "x"]}),
    pl.DataFrame({"number": [4, 5], "kind": ["a", "c"], "name": [None, ""]}),
]
CODED = [part.with_columns(pl.col("kind").cast(KIND), pl.col("name").cast(pl.Categorical)) for part in PARTS]


@pytest.fixture(params=[1, 2], ids=["whole", "parts"])
def files(tmp_path: Path, request: pytest.FixtureRequest) -> tuple[Path, Path]:
    """One of categories, one of texts."""
    coded, plain = tmp_path / "coded.parquet", tmp_path / "plain.parquet"
    write_frames(str(coded), CODED[: request.param])
    write_frames(str(plain), PARTS[: request.param])
    return coded, plain


def test_categories_are_read_as_the_texts_that_they_are(files: tuple[Path, Path]) -> None:
    coded, plain = map(pl.read_parquet, files)
    assert coded.schema == {"number": pl.Int64, "kind": pl.String, "name": pl.String}
    assert_frame_equal(coded, plain)


def test_other_readers_find_the_schema_of_texts(files: tuple[Path, Path]) -> None:
    coded, plain = map(pq.read_metadata, files)
    assert coded.metadata == plain.metadata
    assert coded.schema.equals(plain.schema)
    assert pq.read_table(files[0]).equals(pq.read_table(files[1]))


def test_the_least_and_the_largest_are_those_of_texts(files: tuple[Path, Path]) -> None:
    """Readers skip row groups by them, and an enumeration has another order."""
    coded, plain = map(pq.read_metadata, files)
    for group in range(plain.num_row_groups):
        for column in range(plain.num_columns):
            told, expected = (each.row_group(group).column(column).statistics for each in (coded, plain))
            assert (told.min, told.max, told.null_count) == (
                expected.min,
                expected.max,
                expected.null_count,
            )


def test_a_frame_without_categories_stays_as_it_is() -> None:
    assert_frame_equal(as_texts(PARTS[0]), PARTS[0])
    assert_frame_equal(as_texts(CODED[0]), PARTS[0])


def test_lines_hold_the_texts(tmp_path: Path) -> None:
    write_frames(str(tmp_path / "o.jsonl"), CODED[1:])
    assert (tmp_path / "o.jsonl").read_text() == (
        '{"number": 4, "kind": "a", "name": null}\n{"number": 5, "kind": "c", "name": ""}\n'
    )
