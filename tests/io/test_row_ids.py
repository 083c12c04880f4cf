"""Ids in memory and ids in a file give the same texts and hashes."""

import resource
import tempfile
from contextlib import closing
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gagar_cli.errors import OutputError
from gagar_cli.io.row_ids import RowIds, hash_texts, join_hashes

TEXTS = st.lists(st.text(min_size=1, max_size=20), min_size=1, max_size=12)


@given(batches=st.lists(TEXTS, min_size=1, max_size=6), max_in_memory=st.integers(0, 20), data=st.data())
def test_any_part_of_the_ids_comes_back(
    batches: list[list[str]], max_in_memory: int, data: st.DataObject
) -> None:
    expected = [text for batch in batches for text in batch]
    start = data.draw(st.integers(0, len(expected)))
    stop = data.draw(st.integers(start, len(expected) + 3))
    with closing(RowIds(max_in_memory)) as ids:
        for batch in batches:
            ids.append(pl.Series(batch))
        assert ids.is_in_file == (len(expected) > max_in_memory)
        assert ids.texts(start, stop).to_list() == expected[start:stop]
        assert ids.texts().to_list() == expected


@pytest.mark.parametrize("max_in_memory", [None, 0, 3])
def test_hashes_are_those_of_the_texts_and_can_be_taken_again(max_in_memory: int | None) -> None:
    ids = RowIds(max_in_memory)
    texts = [pl.Series(["a", "b"]), pl.Series(["c", "d", "a"])]
    for each in texts:
        ids.append(each)
    expected = hash_texts(pl.concat(texts))
    for _ in range(2):
        found = ids.take_hashes()
        assert found.key.tolist() == expected.key.tolist()
        assert found.check.tolist() == expected.check.tolist()
    ids.close()


def test_blocks_in_a_file_are_read_in_any_order() -> None:
    ids = RowIds(0)
    names = pl.int_range(300_000, eager=True).cast(pl.String)
    for start in range(0, 300_000, 70_000):
        ids.append(names[start : start + 70_000])
    for row in (299_999, 0, 140_000, 139_999):
        assert ids.texts(row, row + 1).to_list() == [str(row)]
    assert ids.texts(130_000, 290_000).to_list() == [str(row) for row in range(130_000, 290_000)]
    ids.close()


def test_hashes_tell_texts_apart_and_do_not_follow_each_other() -> None:
    hashes = hash_texts(pl.int_range(20_000, eager=True).cast(pl.String))
    assert len(np.unique(hashes.key)) == 20_000
    low = (hashes.key & np.uint64(2**32 - 1)).astype(np.uint32)
    assert (low == hashes.check).mean() < 0.01
    assert join_hashes([]).key.tolist() == []


def test_a_temporary_directory_that_cannot_be_written_is_told() -> None:
    ids = RowIds(0)
    ids.append(pl.Series(["a"]))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        with pytest.raises(OutputError, match="temporary directory: file too large"):
            ids.texts()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        ids.close()


def test_a_temporary_directory_that_is_not_there_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    with pytest.raises(OutputError, match="temporary directory: no such file or directory"):
        RowIds(0).append(pl.Series(["a"]))
