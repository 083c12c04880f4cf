"""A file that changes under an open dump is an error that names it, whatever was read of it: never other records."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from gagar_cli.errors import InputError
from gagar_cli.io.dump import Dump, ReadOptions, open_dump

N_RECORDS = 200


def records(mark: str, n_records: int = N_RECORDS) -> list[dict[str, Any]]:
    """Records that take the same bytes for every mark."""
    return [
        {
            "group_id": "g",
            "trajectory_id": f"t{row:03}",
            "reward": row % 2,
            "model_patch": mark,
            "messages": "[]",
        }
        for row in range(n_records)
    ]


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    if path.suffix == ".parquet":
        pl.DataFrame(rows).write_parquet(path, row_group_size=20, compression="uncompressed")
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def grown(path: Path) -> None:
    write(path, records("a", N_RECORDS + 1))


def shrunk(path: Path) -> None:
    with path.open("r+b") as stream:
        stream.truncate(path.stat().st_size // 2)


def replaced(path: Path) -> None:
    other = path.with_name(f"other{path.suffix}")
    write(other, records("b"))
    stat = path.stat()
    os.utime(other, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    other.replace(path)


def rewritten(path: Path) -> None:
    """In place, the same size."""
    n_bytes = path.stat().st_size
    write(path, records("b"))
    assert path.stat().st_size == n_bytes


def removed(path: Path) -> None:
    path.unlink()


CHANGES = (grown, shrunk, replaced, rewritten, removed)
READINGS: dict[str, Callable[[Dump], object]] = {
    "a row": lambda dump: dump.read_trajectories([N_RECORDS // 4]),
    "all records": lambda dump: list(dump.iter_records()),
    "lines": lambda dump: list(dump.iter_texts()),
    "blocks": lambda dump: [bytes(block) for block, _ in dump.iter_blocks()],
}
CASES = [
    (suffix, reading)
    for suffix in ("jsonl", "parquet")
    for reading in READINGS
    if suffix == "jsonl" or reading in ("a row", "all records")
]


@pytest.mark.parametrize("max_ids_in_memory", [10**6, 0], ids=["ids in memory", "ids apart"])
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize(("suffix", "reading"), CASES)
def test_a_change_before_reading(
    tmp_path: Path, suffix: str, reading: str, change: Callable[[Path], None], max_ids_in_memory: int
) -> None:
    path = tmp_path / f"dump.{suffix}"
    write(path, records("a"))
    os.utime(path, ns=(0, 10**18))
    with open_dump([str(path)], ReadOptions(max_ids_in_memory=max_ids_in_memory)) as dump:
        READINGS[reading](dump)
        change(path)
        if suffix == "parquet" and reading == "a row":
            # Its row group was decoded and kept when it was first asked for.
            assert dump.read_trajectories([50])[0][1].model_patch == "a"
            with pytest.raises(InputError, match=rf"dump\.{suffix}\b"):
                dump.read_trajectories([N_RECORDS - 1])
            return
        with pytest.raises(InputError, match=rf"dump\.{suffix}\b"):
            READINGS[reading](dump)


@pytest.mark.parametrize("change", [grown, shrunk, rewritten])
@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_a_change_while_records_are_read(tmp_path: Path, suffix: str, change: Callable[[Path], None]) -> None:
    path = tmp_path / f"dump.{suffix}"
    write(path, records("a"))
    os.utime(path, ns=(0, 10**18))
    with open_dump([str(path)], ReadOptions()) as dump:
        found = dump.iter_records()
        assert next(found)["model_patch"] == "a"
        change(path)
        with pytest.raises(InputError, match=rf"dump\.{suffix}\b"):
            list(found)


@pytest.mark.parametrize("change", [grown, rewritten])
@pytest.mark.parametrize("is_index_only", [True, False])
def test_a_change_while_the_index_is_made(
    tmp_path: Path, change: Callable[[Path], None], *, is_index_only: bool
) -> None:
    path = tmp_path / "dump.jsonl"
    write(path, records("a"))
    os.utime(path, ns=(0, 10**18))
    with open_dump([str(path)], ReadOptions(is_index_only=is_index_only)) as dump:
        (source,) = dump._sources
        pieces: Iterator[object] = source.scan(dump._fields)
        next(pieces)
        change(path)
        with pytest.raises(InputError, match=r"dump\.jsonl: .*changed while it was read"):
            list(pieces)
