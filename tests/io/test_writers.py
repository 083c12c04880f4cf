import gzip
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl
import pytest
import zstandard

from gagar_cli.errors import OutputError, UsageError
from gagar_cli.io.writers import (
    TABLE_SUFFIXES,
    refuse_existing,
    refuse_other_ending,
    write_atomically,
    write_frame,
    write_frames,
    write_records,
)

RECORDS = [{"a": 1, "b": [None]}, {"a": "ü"}]
LINES = '{"a": 1, "b": [null]}\n{"a": "ü"}\n'.encode()


def test_a_file_appears_only_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "out"
    with write_atomically(path) as stream:
        stream.write(b"new")
        assert not path.exists()
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


def test_a_failure_keeps_what_was_there_and_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_text("old")

    def broken() -> Iterator[dict[str, object]]:
        yield {}
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_records(str(path), broken())
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_mode_is_kept_and_a_link_followed(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.touch(mode=0o640)
    link.symlink_to(real)
    with write_atomically(link) as stream:
        stream.write(b"new")
    assert link.is_symlink()
    assert (real.read_bytes(), real.stat().st_mode & 0o777) == (b"new", 0o640)


def test_a_new_file_has_the_mode_of_any_new_file(tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    with write_atomically(tmp_path / "out"):
        pass
    assert (tmp_path / "out").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_missing_folder_is_an_output_error(tmp_path: Path) -> None:
    with (
        pytest.raises(OutputError, match="cannot be written: no such file"),
        write_atomically(tmp_path / "a" / "b"),
    ):
        pass


@pytest.mark.parametrize(
    ("suffix", "unpack"),
    [
        ("", bytes),
        (".gz", gzip.decompress),
        (".zst", lambda packed: zstandard.ZstdDecompressor().stream_reader(packed).read()),
    ],
)
def test_records_are_packed_as_the_name_says(
    tmp_path: Path, suffix: str, unpack: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / f"out.jsonl{suffix}"
    assert write_records(str(path), RECORDS) == 2
    assert unpack(path.read_bytes()) == LINES


@pytest.mark.parametrize("name", ["out.parquet", "out.jsonl"])
def test_a_table_keeps_its_values(tmp_path: Path, name: str) -> None:
    frame = pl.DataFrame(
        {"step": [None, 2], "id": ["a", "b"], "advantage": [0.1, -1e-300], "capped": [True, None]}
    )
    write_frame(str(tmp_path / name), frame)
    if name.endswith("parquet"):
        assert pl.read_parquet(tmp_path / name).equals(frame)
    else:
        assert [json.loads(line) for line in (tmp_path / name).read_text().splitlines()] == frame.to_dicts()


@pytest.mark.parametrize(
    ("name", "overwrite", "message"),
    [
        ("there", False, "exists already"),
        (".", True, "is a directory"),
        ("absent/out", True, "no such directory"),
    ],
)
def test_an_output_that_cannot_be_is_refused_before_any_work(
    tmp_path: Path, name: str, overwrite: bool, message: str
) -> None:
    (tmp_path / "there").touch()
    with pytest.raises(OutputError, match=message):
        refuse_existing(str(tmp_path / name), overwrite=overwrite)


@pytest.mark.parametrize(("name", "overwrite"), [("there", True), ("new", False)])
def test_an_output_that_can_be_passes(tmp_path: Path, name: str, overwrite: bool) -> None:
    (tmp_path / "there").touch()
    refuse_existing(str(tmp_path / name), overwrite=overwrite)
    refuse_existing("-", overwrite=False)


ENDLESS = """
import itertools
from gagar_cli.io.writers import write_records
print(write_records("-", ({"n": n} for n in itertools.count())) > 0)
"""


def test_a_reader_that_leaves_ends_the_writing_quietly() -> None:
    program = subprocess.Popen(
        [sys.executable, "-c", ENDLESS], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    with program:
        assert program.stdout is not None
        assert program.stderr is not None
        assert program.stdout.readline() == b'{"n": 0}\n'
        program.stdout.close()
        assert program.wait(timeout=20) == 0
        assert program.stderr.read() == b""


def test_a_full_stdout_is_an_output_error() -> None:
    code = "from gagar_cli.io.writers import write_records\nwrite_records('-', [{}] * 9)"
    with Path("/dev/full").open("w") as full:
        run = subprocess.run([sys.executable, "-c", code], stdout=full, stderr=subprocess.PIPE, text=True)
    assert "OutputError: stdout: cannot be written: no space left on device" in run.stderr


@pytest.mark.parametrize("name", ["o.parquet", "o.jsonl"])
@pytest.mark.parametrize("n_parts", [1, 2, 5])
def test_a_table_in_parts_is_the_whole_table(tmp_path: Path, name: str, n_parts: int) -> None:
    parts = [pl.DataFrame({"a": [part, None], "b": ["x", f"y{part}"]}) for part in range(n_parts)]
    write_frames(str(tmp_path / name), iter(parts))
    read = pl.read_parquet if name.endswith("parquet") else pl.read_ndjson
    assert read(tmp_path / name).equals(pl.concat(parts))


def test_a_failure_among_the_parts_leaves_no_file(tmp_path: Path) -> None:
    def parts() -> Iterator[pl.DataFrame]:
        for part in range(3):
            yield pl.DataFrame({"a": [part]})
        raise RuntimeError("no more")

    with pytest.raises(Exception, match="no more"):
        write_frames(str(tmp_path / "o.parquet"), parts())
    assert list(tmp_path.iterdir()) == []


def test_a_name_must_say_what_will_be_in_the_file() -> None:
    for path in ("-", "a.jsonl", "a.JSONL", "dir.txt/a.pq", "a.jsonl.zst"):
        refuse_other_ending(path, TABLE_SUFFIXES)
    for path in ("a.parquett", "a.txt", "a", "a.csv", "a.gz", "jsonl"):
        with pytest.raises(UsageError) as caught:
            refuse_other_ending(path, (".jsonl", ".pq"), "--to")
        assert caught.value.message == f"--to is {path}, expected .jsonl, .pq or -"
