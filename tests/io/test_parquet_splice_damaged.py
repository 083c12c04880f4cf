"""Damaged files that are to be spliced: refused, or what is left of them is right."""

import random
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq
import pytest

from gagar_cli.io.parquet_schema import FooterRefusedError
from tests.io.test_parquet_splice import new_columns, old_table, prefix_of, refused, splice


def test_a_reader_that_panics_over_the_new_file_refuses_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def panic(path: str) -> dict[str, pl.DataType]:
        raise pl.exceptions.PanicException("index out of bounds")

    monkeypatch.setattr(pl, "read_parquet_schema", panic)
    pq.write_table(old_table(), tmp_path / "old.parquet")
    assert "index out of bounds" in refused(tmp_path, new_columns())


def test_damaged_files_are_spliced_with_the_values_that_are_left_or_refused(tmp_path: Path) -> None:
    old, new, added = tmp_path / "old.parquet", tmp_path / "new.parquet", new_columns(60)
    pq.write_table(old_table(60), old, row_group_size=25)
    content = old.read_bytes()
    footer_start = len(prefix_of(old))
    draw = random.Random(12)
    n_spliced = 0
    for _ in range(400):
        damaged = bytearray(content)
        for _ in range(draw.choice((1, 1, 2, 4))):
            damaged[draw.randrange(footer_start, len(content) - 8)] = draw.randrange(256)
        old.write_bytes(damaged)
        try:
            splice(
                old,
                new,
                added,
                lambda name, _: {"reward": "reward_input", "label": None}.get(name, name),
            )
        except FooterRefusedError:
            continue
        n_spliced += 1
        assert pl.read_parquet(new, columns=added.columns).equals(added)
        assert new.read_bytes()[:footer_start] == content[:footer_start]
    assert n_spliced > 20
