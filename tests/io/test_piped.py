"""Standard input that is followed: what has come counts, and its end is the end of the dump."""

import gzip
import io
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gagar_cli.core.schema import GroupKey
from gagar_cli.errors import InputError
from gagar_cli.io import piped
from gagar_cli.io.dump import ReadOptions
from gagar_cli.io.following import FollowedDump


def record(name: str) -> bytes:
    return json.dumps({"group_id": "g", "trajectory_id": name, "resolved": True}).encode() + b"\n"


@pytest.fixture
def pipe(monkeypatch) -> Iterator[Callable[[bytes | None], None]]:
    """Writes into standard input; None closes it."""
    source, sink = os.pipe()
    ends = {"sink": sink}

    def write(data: bytes | None) -> None:
        if data is None:
            os.close(ends.pop("sink"))
        else:
            os.write(sink, data)

    with os.fdopen(source, "rb") as stream:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(stream))
        yield write
        if "sink" in ends:
            os.close(sink)


@pytest.fixture
def follow(request) -> Callable[[], FollowedDump]:
    def start(*paths: str, **options: object) -> FollowedDump:
        dump = FollowedDump(paths or ["-"], ReadOptions(**options))
        request.addfinalizer(dump.close)
        return dump

    return start


def found(dump: FollowedDump) -> list[str]:
    return [event.row.trajectory_id for event in dump.look()]


def test_lines_come_through_a_pipe_and_its_end_ends_the_dump(pipe, follow):
    dump = follow()
    assert found(dump) == []
    pipe(record("a") + record("b")[:9])
    assert found(dump) == ["a"]
    pipe(record("b")[9:])
    assert found(dump) == ["b"]
    assert not dump.is_ended
    pipe(record("c").rstrip(b"\n"))
    assert found(dump) == []
    pipe(None)
    assert found(dump) == ["c"]
    assert dump.is_ended
    key = GroupKey(None, "g")
    members = dump.members(key)
    assert [each.trajectory_id for each in dump.read_group(key, members).trajectories] == ["a", "b", "c"]
    assert members[2].rows[0].where == "-:3"


def test_native_lines_come_through_a_pipe(pipe, follow):
    dump = follow()
    row = {"input": "user\na\nassistant\n", "output": "x", "score": 1.0, "step": 1, "uid": "u_0_0"}
    pipe(json.dumps(row).encode() + b"\n")
    assert found(dump) == ["u_0"]
    pipe(json.dumps(row | {"uid": "u_1_0"}).encode() + b"\n")
    assert found(dump) == ["u_1"]


def test_a_pipe_and_a_file_are_one_dump(pipe, follow, tmp_path):
    path = tmp_path / "more.jsonl"
    dump = follow("-", str(path))
    pipe(record("a"))
    path.write_bytes(record("b"))
    assert found(dump) == ["a", "b"]
    pipe(None)
    found(dump)
    assert not dump.is_ended


def test_what_is_compressed_is_refused_with_the_way_round(pipe, follow):
    pipe(gzip.compress(record("a")))
    with pytest.raises(InputError, match="only JSON lines are followed through a pipe") as refused:
        follow().look()
    assert "zcat" in refused.value.hint


def test_the_space_is_given_back(pipe, follow):
    pipe(record("a"))
    n_before = len(list(Path("/proc/self/fd").iterdir()))
    dump = follow()
    found(dump)
    dump.close()
    assert len(list(Path("/proc/self/fd").iterdir())) == n_before


def test_what_one_look_does_not_take_is_looked_for_at_once(pipe, follow, monkeypatch):
    monkeypatch.setattr(piped, "_BYTES_A_LOOK", 1)
    dump = follow()
    pipe(record("a"))
    assert found(dump) == ["a"]
    assert dump.has_more
    assert found(dump) == []
    assert not dump.has_more


def test_standard_input_that_is_closed_is_said_to_be(follow, monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(InputError, match="-: standard input is closed"):
        follow()
