"""Ids in memory and ids in a file give the same texts and hashes."""

import resource
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gagar_cli.errors import OutputError
from gagar_cli.io.row_ids import Hashes, RowIds, hash_texts

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
    assert RowIds(0).take_hashes().key.tolist() == []


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


@pytest.mark.parametrize("max_in_memory", [None, 0])
def test_a_few_ids_come_in_the_order_asked_for(max_in_memory: int | None) -> None:
    ids = RowIds(max_in_memory)
    names = pl.int_range(200_000, eager=True).cast(pl.String)
    for start in range(0, 200_000, 50_000):
        ids.append(names[start : start + 50_000])
    chosen = [199_999, 0, 8192, 8191, 65_536, 199_999, *range(0, 200_000, 9000)]
    assert ids.texts_of(chosen) == [str(row) for row in chosen]
    assert ids.texts_of([]) == []
    ids.close()


def test_ids_are_read_from_several_threads() -> None:
    ids = RowIds(0)
    ids.append(pl.int_range(400_000, eager=True).cast(pl.String))
    rows = [row * 7919 % 400_000 for row in range(2000)]
    with closing(ids), ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda row: ids.texts_of([row]), rows)) == [[str(row)] for row in rows]


@given(
    batches=st.lists(
        st.lists(st.tuples(st.integers(0, 3), st.sampled_from("abcdef")), min_size=1), min_size=1
    ),
    is_sought=st.booleans(),
    n_keys=st.sampled_from([1, 3, 2**32]),
)
def test_repeats_within_a_group_are_told_whatever_the_hashes(
    batches: list[list[tuple[int, str]]], n_keys: int, *, is_sought: bool
) -> None:
    def hash_(texts: pl.Series) -> Hashes:
        key, check = hash_texts(texts)
        return Hashes(key % np.uint64(n_keys), check)

    rows = [row for batch in batches for row in batch]
    with closing(RowIds(0, hash_=hash_, is_sought=is_sought)) as ids:
        for batch in batches:
            ids.append(pl.Series([text for _, text in batch]))
        group = np.array([code for code, _ in rows], dtype=np.uint32)
        assert ids.are_distinct(group) == (len(set(rows)) == len(rows))
        expected = hash_(pl.Series([text for _, text in rows]))
        found = ids.take_hashes()
        assert (found.key.tolist(), found.check.tolist()) == (expected.key.tolist(), expected.check.tolist())


def test_one_repeat_among_millions_is_found() -> None:
    names = pl.int_range(2_200_000, eager=True).cast(pl.String)
    group = np.arange(2_200_000, dtype=np.uint32) // 8
    for last, expected in (("2199992", False), ("2199991", True)):
        # The first of the same group, or of the one before.
        with closing(RowIds(0, is_sought=False)) as ids:
            ids.append(names[:-1])
            ids.append(pl.Series([last]))
            assert ids.are_distinct(group) == expected


def test_very_many_doubts_are_a_no() -> None:
    ids = RowIds(
        0, hash_=lambda texts: Hashes(*(np.zeros(len(texts), dtype=kind) for kind in (np.uint64, np.uint32)))
    )
    ids.append(pl.int_range(10_000, eager=True).cast(pl.String))
    assert not ids.are_distinct(np.arange(10_000, dtype=np.uint32) // 2)
    ids.close()
