"""Heavy rows of Parquet: few at a time where they are large, kept once where many share a row group."""

import random
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gagar_cli.errors import OutputError
from gagar_cli.io.parquet_batches import ParquetBatches
from gagar_cli.io.sources import Place
from gagar_cli.io.streams import file_identity

COLUMNS = ["name", "text"]


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, list[int]]]:
    """What was decoded: rows at once, and the row group."""
    decoded: list[tuple[int, list[int]]] = []

    class Counting(pq.ParquetFile):
        def iter_batches(self, n_rows: int, **options: object) -> object:
            decoded.append((n_rows, options["row_groups"]))  # type: ignore[arg-type]
            return super().iter_batches(n_rows, **options)

    monkeypatch.setattr(pq, "ParquetFile", Counting)
    return decoded


def opened(
    path: Path, n_rows: int, n_chars: int, row_group_size: int, **more: list[str]
) -> tuple[ParquetBatches, list[str]]:
    letters = random.Random(1)
    texts = [letters.randbytes(n_chars // 2).hex() for _ in range(n_rows)]
    columns = {"name": [f"r{row}" for row in range(n_rows)], "text": texts, **more}
    pq.write_table(pa.table(columns), path, row_group_size=row_group_size)
    with path.open("rb") as stream:
        identity = file_identity(stream)
    made = ParquetBatches(
        str(path), path.name, identity=identity, is_exploded=False, max_record_bytes=64 * 1024**2
    )
    return made, texts


def read(batches: ParquetBatches, rows: list[int]) -> list[dict[str, object]]:
    return list(batches.read([Place(row + 1) for row in rows], COLUMNS))


@pytest.mark.parametrize(
    ("n_chars", "row_group_size", "n_at_once"),
    [(1000, 100, 16), (3 * 1024**2, 100, 5), (9 * 1024**2, 100, 1), (9 * 1024**2, 1, 1)],
    ids=["small", "large", "very large", "row groups of one"],
)
def test_rows_are_decoded_few_at_a_time_where_they_are_large(
    tmp_path: Path,
    counted: list[tuple[int, list[int]]],
    n_chars: int,
    row_group_size: int,
    n_at_once: int,
) -> None:
    batches, texts = opened(tmp_path / "dump.parquet", 20 if n_chars == 1000 else 7, n_chars, row_group_size)
    rows = [6, 0, 5, 5, 1]
    assert read(batches, rows) == [{"name": f"r{row}", "text": texts[row]} for row in rows]
    assert {n_rows for n_rows, _ in counted} == {n_at_once}
    batches.close()


def test_what_nobody_asks_for_makes_batches_no_smaller(
    tmp_path: Path, counted: list[tuple[int, list[int]]]
) -> None:
    unwanted = [random.Random(row).randbytes(3 * 1024**2).hex() for row in range(4)]
    batches, texts = opened(tmp_path / "dump.parquet", 4, 100, 100, other=unwanted)
    assert [record["text"] for record in read(batches, [3, 0])] == [texts[3], texts[0]]
    assert counted == [(16, [0])]
    batches.close()


def test_a_large_row_group_of_one_batch_takes_no_temporary_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, counted: list[tuple[int, list[int]]]
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    batches, texts = opened(tmp_path / "dump.parquet", 4, 3 * 1024**2, 2)
    assert [record["text"] for record in read(batches, [0, 1, 2, 3, 0])] == [*texts, texts[0]]
    assert [group for _, group in counted] == [[0], [1], [0]]


def test_a_temporary_directory_that_is_not_there_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    batches, _ = opened(tmp_path / "dump.parquet", 40, 100, 40)
    with pytest.raises(
        OutputError, match=r"dump\.parquet: cannot be kept in the temporary directory: no such"
    ):
        read(batches, [0])
