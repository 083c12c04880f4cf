import gzip
import io
import os
import socket
import sys
from pathlib import Path

import pytest
import zstandard

from gagar_cli.errors import InputError
from gagar_cli.io import streams
from gagar_cli.io.streams import list_shards, open_input

TEXT = b'{"a": 1}\n' * 1000


class Stdin:
    def __init__(self, text: bytes) -> None:
        self.buffer = io.BufferedReader(io.BytesIO(text))  # type: ignore[arg-type]


def content_of(path: str | Path) -> bytes:
    with open_input(str(path)).stream as stream:
        return stream.read()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        pytest.param("a.jsonl", TEXT, id="plain"),
        pytest.param("a.jsonl.gz", gzip.compress(TEXT), id="gzip"),
        pytest.param(
            "a.jsonl.gz", gzip.compress(TEXT[:90]) + gzip.compress(TEXT[90:]), id="two gzip members"
        ),
        pytest.param("a.jsonl.zst", zstandard.compress(TEXT), id="zstd"),
        pytest.param(
            "a.zst", zstandard.compress(TEXT[:90]) + zstandard.compress(TEXT[90:]), id="two zstd frames"
        ),
        pytest.param(
            "a.zst", b"\x50\x2a\x4d\x18\x05\0\0\0hello" + zstandard.compress(TEXT), id="skippable frame"
        ),
        pytest.param("a.jsonl", gzip.compress(TEXT), id="gzip without its suffix"),
    ],
)
def test_content_is_the_same_however_it_is_packed(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    assert content_of(tmp_path / name) == TEXT


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstandard.compress])
def test_stdin_is_read_packed_or_plain(monkeypatch: pytest.MonkeyPatch, pack: object) -> None:
    monkeypatch.setattr(sys, "stdin", Stdin(pack(TEXT)))  # type: ignore[operator]
    assert content_of("-") == TEXT


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        pytest.param("a.gz", gzip.compress(TEXT)[:-9], "truncated gzip", id="cut gzip"),
        pytest.param("a.zst", zstandard.compress(TEXT)[:-3], "truncated zstd", id="cut zstd"),
        pytest.param("a.gz", b"hello", "damaged gzip", id="no gzip"),
        pytest.param("a.zst", b"hello", "damaged zstd", id="no zstd"),
        pytest.param(
            "a.gz", gzip.compress(TEXT)[:20] + b"\xff" * 9 + gzip.compress(TEXT)[29:], "gzip", id="hurt gzip"
        ),
    ],
)
def test_a_damaged_archive_is_told(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=message):
        open_input(str(tmp_path / name))


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress])
def test_a_bomb_stops_at_the_cap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pack: object) -> None:
    monkeypatch.setattr(streams, "EXPANSION_FLOOR_BYTES", 1024**2)
    (tmp_path / "a.bin").write_bytes(pack(bytes(64 * 1024**2)))  # type: ignore[operator]
    with pytest.raises(InputError, match="expands beyond"):
        open_input(str(tmp_path / "a.bin"))


def test_stdin_stops_at_the_cap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "MAX_SPOOL_BYTES", 1000)
    monkeypatch.setattr(sys, "stdin", Stdin(TEXT))
    with pytest.raises(InputError, match="expands beyond"):
        open_input("-")


def test_a_named_pipe_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="not a regular file"):
        open_input(str(tmp_path / "pipe"))


def test_devices_and_sockets_are_refused(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
        for path in ("/dev/zero", "/dev/null", str(tmp_path / "socket")):
            with pytest.raises(InputError, match="not a regular file"):
                open_input(path)


@pytest.mark.parametrize("path", ["absent.jsonl", "a\0b", "x" * 5000])
def test_what_cannot_be_opened_says_so(path: str) -> None:
    with pytest.raises(InputError):
        open_input(path)


def test_a_hostile_file_name_is_shown_escaped() -> None:
    with pytest.raises(InputError) as caught:
        open_input("a\x1b[31m\n.jsonl")
    assert caught.value.message == "a\\u{1b}[31m\\n.jsonl: no such file or directory"


def test_a_folder_stands_for_its_sorted_shards(tmp_path: Path) -> None:
    for name in ("b.jsonl", "a.jsonl.gz", "c.parquet", "d.jsonl.zst", "notes.txt", ".hidden.jsonl"):
        (tmp_path / name).touch()
    names = [Path(shard).name for shard in list_shards(str(tmp_path))]
    assert names == ["a.jsonl.gz", "b.jsonl", "c.parquet", "d.jsonl.zst"]


def test_a_folder_without_shards_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    with pytest.raises(InputError, match="no shards in this folder"):
        list_shards(str(tmp_path))
