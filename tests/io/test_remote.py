import builtins
import gzip
import http.server
import json
import threading
from functools import partial

import fsspec
import polars as pl
import pytest
import zstandard

from gagar_cli.errors import InputError, UsageError
from gagar_cli.io.dump import ReadOptions, open_dump
from gagar_cli.io.streams import list_shards

RECORDS = [
    {"group_id": "g", "trajectory_id": name, "resolved": name != "c", "model_patch": f"patch of {name}"}
    for name in ("a", "b", "c")
]
LINES = "".join(json.dumps(record) + "\n" for record in RECORDS).encode()


@pytest.fixture
def memory():
    """A store of fsspec that lives in this process."""
    store = fsspec.filesystem("memory")
    store.store.clear()
    yield store
    store.store.clear()


def read(*paths: str) -> list[tuple[str, str | None]]:
    with open_dump(paths, ReadOptions()) as dump:
        rows = range(dump.index.height)
        return [(one.trajectory_id, one.model_patch) for _, one in dump.read_trajectories(rows)]


EXPECTED = [(record["trajectory_id"], record["model_patch"]) for record in RECORDS]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("d.jsonl", LINES),
        ("d.jsonl.gz", gzip.compress(LINES)),
        ("d.jsonl.zst", zstandard.ZstdCompressor().compress(LINES)),
    ],
    ids=["plain", "gzip", "zstd"],
)
def test_a_remote_file_is_read_like_a_local_one(memory, name, content):
    memory.pipe(f"/runs/{name}", content)
    assert read(f"memory://runs/{name}") == EXPECTED


def test_remote_parquet_is_read(memory, tmp_path):
    pl.DataFrame(RECORDS).write_parquet(tmp_path / "d.parquet")
    memory.pipe("/runs/d.parquet", (tmp_path / "d.parquet").read_bytes())
    assert read("memory://runs/d.parquet") == EXPECTED


def test_a_remote_folder_stands_for_its_shards_in_order(memory):
    lines = LINES.splitlines(keepends=True)
    memory.pipe("/runs/part-2.jsonl", lines[2])
    memory.pipe("/runs/part-1.jsonl", lines[0] + lines[1])
    memory.pipe("/runs/.hidden.jsonl", b"garbage")
    memory.pipe("/runs/notes.txt", b"garbage")
    assert list_shards("memory://runs") == ["memory:///runs/part-1.jsonl", "memory:///runs/part-2.jsonl"]
    assert read("memory://runs") == EXPECTED


def test_a_remote_folder_is_read_to_its_depth_and_a_file_without_attempts_is_told(memory):
    row = {"input": "fix it", "output": "done", "gts": None, "score": 1.0, "step": 7}
    for step in (7, 8):
        line = json.dumps(row | {"step": step}).encode() + b"\n"
        memory.pipe(f"/runs/a/step-{step}/{step}.jsonl", line)
    memory.pipe("/runs/a/.cache/9.jsonl", b"garbage")
    memory.pipe("/runs/a/metrics.jsonl", b'{"loss": 0.5}\n')
    with open_dump(["memory://runs"], ReadOptions()) as dump:
        assert dump.index["step"].to_list() == [7, 8]
        assert any(
            "native format and not read: memory:///runs/a/metrics.jsonl" in note for note in dump.report.notes
        )


def test_a_server_on_loopback_is_read(tmp_path):
    (tmp_path / "d.jsonl").write_bytes(LINES)

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *arguments: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        address = f"http://127.0.0.1:{server.server_port}"
        assert read(f"{address}/d.jsonl") == EXPECTED
        with pytest.raises(InputError, match="no such file or folder"):
            read(f"{address}/missing.jsonl")
    finally:
        server.shutdown()
        server.server_close()


def test_messages_tell_the_address_and_the_line(memory):
    memory.pipe("/runs/d.jsonl", LINES + b'{"group_id": 3}\n')
    with pytest.raises(InputError, match=r"memory://runs/d\.jsonl:4"):
        read("memory://runs/d.jsonl")


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("memory://nowhere/d.jsonl", "no such file or folder"),
        ("file:///etc/passwd", "is no address of a remote store"),
        ("local:///etc/passwd", "is no address of a remote store"),
        ("simplecache::memory://runs/d.jsonl", "no such file or directory"),
        ("memory://runs/x.zip::file:///etc/passwd", "is no address of a remote store"),
        ("nosuchprotocol://x/y", "cannot be read: ValueError"),
    ],
)
def test_what_cannot_be_reached_is_told(memory, path, message):
    with pytest.raises(InputError, match=message):
        read(path)


def test_an_empty_remote_folder_is_told(memory):
    memory.pipe("/runs/notes.txt", b"")
    with pytest.raises(InputError, match="no shards in this folder"):
        read("memory://runs")


def test_a_store_that_needs_another_package_is_told(memory, monkeypatch):
    real = builtins.__import__

    def refusing(name, *arguments, **more):
        if name.startswith("fsspec"):
            raise ImportError(name)
        return real(name, *arguments, **more)

    monkeypatch.setattr(builtins, "__import__", refusing)
    with pytest.raises(UsageError, match="addresses need fsspec") as caught:
        list_shards("s3://bucket/x.jsonl")
    assert "pip install fsspec" in caught.value.hint


VERL = b'{"input": "user\\nfix it", "output": "done", "gts": null, "score": 1.0, "step": 3}\n'


def test_native_files_of_a_remote_folder_are_recognised(memory, tmp_path):
    memory.pipe("/verl/3.jsonl", VERL + VERL.replace(b"1.0", b"0.0"))
    with open_dump(["memory://verl"], ReadOptions()) as dump:
        assert [name for name, _ in dump.forms] == ["verl"]
        assert dump.index["passed"].to_list() == [True, False]
    rows = [{"step": 1, "prompt": "p", "completion": "c", "reward": 0.5, "advantage": 0.1}]
    pl.DataFrame(rows).write_parquet(tmp_path / "t.parquet")
    memory.pipe("/trl/t.parquet", (tmp_path / "t.parquet").read_bytes())
    with open_dump(["memory://trl/t.parquet"], ReadOptions()) as dump:
        assert [name for name, _ in dump.forms] == ["trl"]
        assert dump.index["reward"].to_list() == [0.5]


@pytest.mark.parametrize("name", ["d.jsonl", "missing.jsonl"])
def test_logins_and_signatures_are_shown_nowhere(memory, name):
    memory.pipe("/me:secret@runs/d.jsonl", LINES + b'{"group_id": 3}\n')
    with pytest.raises(InputError) as caught:
        read(f"memory://me:secret@runs/{name}?sig=secret")
    assert "secret" not in caught.value.message
    assert "memory://…@runs/" in caught.value.message


def test_the_name_and_place_of_a_remote_source_show_no_login(memory):
    memory.pipe("/me:secret@runs/d.jsonl", LINES)
    with open_dump(["memory://me:secret@runs/d.jsonl"], ReadOptions()) as dump:
        assert dump.sources == ("memory://…@runs/d.jsonl",)
        assert dump.where(0) == "memory://…@runs/d.jsonl:1"
