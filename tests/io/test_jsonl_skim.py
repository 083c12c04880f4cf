"""Lines read by their ends, against the whole parse."""

import errno
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest

from gagar_cli.errors import InputError
from gagar_cli.io import jsonl_edges, jsonl_skim
from gagar_cli.io.jsonl import Line, parse_line, read_lines
from gagar_cli.io.jsonl_skim import CleanLines, skim_lines
from tests.io.random_lines import COUNTED, NAMES, Writer, long_line, members


@pytest.fixture
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short lines and windows, so that every border is met often."""
    monkeypatch.setattr(jsonl_edges, "MIN_LINE_BYTES", 40)
    monkeypatch.setattr(jsonl_skim, "_BLOCK_BYTES", 5000)


@pytest.fixture
def new_threads() -> Callable[[], list[threading.Thread]]:
    """The threads that were not there when the test began."""
    before = set(threading.enumerate())
    return lambda: [thread for thread in threading.enumerate() if thread not in before]


def whole(line: Line) -> dict[str, object] | InputError:
    try:
        return parse_line(line, "dump.jsonl")
    except InputError as error:
        return error


def skim(path: Path, n_whole: list[Line] | None = None, **more: Any) -> Iterator[tuple[Any, Any]]:
    def parse(line: Line) -> dict[str, object] | InputError:
        if n_whole is not None:
            n_whole.append(line)
        return whole(line)

    with path.open("rb") as stream:
        yield from skim_lines(stream, NAMES, parse, **{"max_record_bytes": 10**6, **more})


@COUNTED
@pytest.mark.parametrize("window", [32, 100, 2048])
def test_names_are_what_the_whole_parse_finds(
    tmp_path: Path, small_windows: None, monkeypatch: pytest.MonkeyPatch, window: int, n_objects: int
) -> None:
    monkeypatch.setattr(jsonl_edges, "_WINDOW_BYTES", window)
    monkeypatch.setattr(jsonl_edges, "_FIRST_WINDOW_BYTES", window // 2)
    writer = Writer(window)
    dump = tmp_path / "dump.jsonl"
    n_objects //= 3  # for each window
    dump.write_bytes(b"".join(writer.line(writer.record()) + b"\n" for _ in range(n_objects)))
    n_whole: list[Line] = []
    skimmed = list(skim(dump, n_whole))
    with dump.open("rb") as stream:
        lines = list(read_lines(stream))
    assert [tuple(place) for place, _ in skimmed] == [
        (line.number, line.offset, len(line.text)) for line in lines
    ]
    for line, (_, found) in zip(lines, skimmed, strict=True):
        expected = whole(line)
        if isinstance(expected, InputError):
            assert str(found) == str(expected)
        else:
            assert not isinstance(found, InputError)
            for name in NAMES:
                assert (name in found) == (name in expected)
                assert repr(found.get(name)) == repr(expected.get(name))
    assert window < 2048 or len(n_whole) < 0.95 * n_objects


def parsed_whole(tmp_path: Path, *lines: bytes) -> list[int]:
    """The numbers of the lines that the whole parse was asked for."""
    dump = tmp_path / "dump.jsonl"
    dump.write_bytes(b"\n".join(lines) + b"\n")
    n_whole: list[Line] = []
    list(skim(dump, n_whole))
    return [line.number for line in n_whole]


def test_long_lines_of_a_known_layout_are_not_parsed_whole(tmp_path: Path) -> None:
    assert parsed_whole(tmp_path, *[long_line()] * 5) == [1]


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(long_line(step=1), id="another layout"),
        pytest.param(
            long_line().replace(b'"messages"', b'"step": [1], "messages"'), id="a name in the middle"
        ),
        pytest.param(long_line().replace(b'"user"', b'{"reward": 2}'), id="a name further in"),
        pytest.param(
            long_line().replace(b'"messages"', b'"st\\u0065p": [1], "messages"'), id="a name in escapes"
        ),
        pytest.param(
            long_line().replace(b'"messages"', b'"a": [1], "end_of_group": true, "messages"'),
            id="a mark in the middle",
        ),
        pytest.param(long_line().replace(b"xxxx", b"\xff", 1), id="no UTF-8"),
        pytest.param(long_line()[:-1], id="no brace"),
        pytest.param(b'{"reward": 1.0}', id="short"),
    ],
)
def test_what_is_not_certain_is_parsed_whole(tmp_path: Path, line: bytes) -> None:
    assert parsed_whole(tmp_path, long_line(), line, long_line()) == [1, 2]


def test_ends_that_are_no_json_do_not_keep_their_neighbours_from_being_read(tmp_path: Path) -> None:
    bad = [
        long_line().replace(b"1.0}", number + b"}")
        for number in (b"1.0.0", b"01", b"1e999", b'"\\x"', b'"\xff"')
    ]
    lines = [long_line(), *bad, long_line(), *bad, long_line()]
    assert parsed_whole(tmp_path, *lines) == [1, *range(2, 7), *range(8, 13)]
    found = [parsed for _, parsed in skim(tmp_path / "dump.jsonl")]
    assert [isinstance(each, InputError) for each in found] == [False, *[True] * 5, False, *[True] * 5, False]


def test_a_last_line_without_a_newline_is_parsed_whole(tmp_path: Path) -> None:
    dump = tmp_path / "dump.jsonl"
    torn = long_line()[:5000] + b'", "reward": 1.0}'
    dump.write_bytes(long_line() + b"\n" + torn)
    (_, first), (place, second) = skim(dump)
    assert first["reward"] == 1.0
    assert (place.number, place.length) == (2, len(torn))
    assert str(second).startswith("dump.jsonl:2: truncated line")


def test_names_in_texts_are_no_names(tmp_path: Path) -> None:
    text = 'print("reward", {"step": 1}, "\\u0072eward") ' * 300
    line = long_line(messages=[text])
    assert parsed_whole(tmp_path, line, line, line) == [1]


def test_blank_lines_and_long_lines_are_told_as_by_the_whole_parse(tmp_path: Path) -> None:
    dump = tmp_path / "dump.jsonl"
    dump.write_bytes(
        b"\xef\xbb\xbf" + long_line() + b"\r\n\n   \n" + b"9" * 30_000 + b"\n" + long_line() + b"\r\n" + b"{"
    )
    with dump.open("rb") as stream:
        lines = list(read_lines(stream, max_record_bytes=20_000))
    found = list(skim(dump, max_record_bytes=20_000))
    assert [tuple(place) for place, _ in found] == [
        (each.number, each.offset, len(each.text)) for each in lines
    ]
    assert [isinstance(parsed, InputError) for _, parsed in found] == [False, True, False, True]


@pytest.mark.parametrize("limit", [100, 4990, 5000, 5010, 12_000])
def test_lines_longer_than_a_block_are_read_or_skipped(
    tmp_path: Path, small_windows: None, limit: int
) -> None:
    dump = tmp_path / "dump.jsonl"
    sizes = (10, 4990, 4999, 5000, 5001, 5010, 9999, 11_990, 12_001, 30_000, 10)
    dump.write_bytes(b"".join(b'{"a":"' + b"x" * (size - 8) + b'"}\n' for size in sizes) + b"z" * 20_000)
    with dump.open("rb") as stream:
        lines = list(read_lines(stream, max_record_bytes=limit))
    found = list(skim(dump, max_record_bytes=limit))
    assert [tuple(place) for place, _ in found] == [
        (each.number, each.offset, len(each.text)) for each in lines
    ]


def test_a_line_is_clean_whose_middle_cannot_have_the_other_names(tmp_path: Path) -> None:
    lines = [
        long_line(),  # parsed whole
        long_line(),
        long_line().replace(b'"messages"', b'"tier": [1], "messages"'),
        long_line().replace(b'"messages"', b'"t\\u0069er": [1], "messages"'),
        long_line().replace(b'"user"', b'{"tier": 2}'),
        long_line().replace(b'"xxxx', b'"say \\"tier\\": \\\\u0069'),
        b'{"tier": 1,' + long_line()[1:],
        b'{"tier": 2,' + long_line()[1:],
    ]
    dump = tmp_path / "dump.jsonl"
    dump.write_bytes(b"\n".join(lines) + b"\n")
    clean = CleanLines(["tier"])
    n_whole: list[Line] = []
    places = [place for place, _ in skim(dump, n_whole, clean=clean)]
    assert [line.number for line in n_whole] == [1, 4, 7]
    assert list(clean.offsets) == [places[1].offset, places[5].offset]


@COUNTED
def test_clean_lines_have_none_of_the_other_names(
    tmp_path: Path, small_windows: None, monkeypatch: pytest.MonkeyPatch, n_objects: int
) -> None:
    monkeypatch.setattr(jsonl_edges, "_WINDOW_BYTES", 100)
    monkeypatch.setattr(jsonl_edges, "_FIRST_WINDOW_BYTES", 50)
    writer = Writer(4)
    records = [writer.record() for _ in range(n_objects)]
    for record in records:
        for name in ("tier", "rank", "step_2"):
            if writer.draw.random() < 0.05:
                record[name] = writer.value(1)
    dump = tmp_path / "dump.jsonl"
    lines = [
        writer.line(record).replace(b'"tier"', writer.draw.choice((b'"tier"', b'"t\\u0069er"')))
        for record in records
    ]
    dump.write_bytes(b"\n".join(lines) + b"\n")
    clean = CleanLines(["tier", "rank"])
    list(skim(dump, clean=clean))
    starts = accumulate((len(line) + 1 for line in lines[:-1]), initial=0)
    by_offset = dict(zip(starts, lines, strict=True))
    found = set(clean.offsets)
    assert list(clean.offsets) == sorted(found)
    assert found <= by_offset.keys()
    for offset in found:
        assert {"tier", "rank"}.isdisjoint(name for name, _ in members(by_offset[offset]))
    assert len(found) > n_objects / 50


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda dump: os.truncate(dump, 30_000), id="truncated"),
        pytest.param(lambda dump: os.truncate(dump, 0), id="emptied"),
        pytest.param(lambda dump: dump.write_bytes(long_line(step=1) * 100), id="written again"),
    ],
)
def test_a_file_that_changes_meanwhile_is_an_error(
    tmp_path: Path,
    small_windows: None,
    new_threads: Callable[[], list[threading.Thread]],
    change: Callable[[Path], object],
) -> None:
    dump = tmp_path / "dump.jsonl"
    dump.write_bytes((long_line() + b"\n") * 20)
    lines = skim(dump)
    next(lines)
    change(dump)
    with pytest.raises(OSError, match="changed while it was read"):
        list(lines)
    assert new_threads() == []


def test_errors_of_the_reading_thread_arrive_and_no_thread_stays(
    tmp_path: Path,
    small_windows: None,
    new_threads: Callable[[], list[threading.Thread]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    dump = tmp_path / "dump.jsonl"
    dump.write_bytes((long_line() + b"\n") * 20)

    def fail(descriptor: int, buffers: list[memoryview], offset: int) -> int:
        if offset > 90_000:
            raise OSError(errno.EIO, "input/output error")
        return preadv(descriptor, buffers, offset)

    preadv = os.preadv
    monkeypatch.setattr(os, "preadv", fail)
    with pytest.raises(OSError, match="input/output error"):
        list(skim(dump))
    assert new_threads() == []


def test_a_scan_that_is_left_leaves_no_thread(
    tmp_path: Path, small_windows: None, new_threads: Callable[[], list[threading.Thread]]
) -> None:
    dump = tmp_path / "dump.jsonl"
    dump.write_bytes((long_line() + b"\n") * 20)
    lines = skim(dump)
    next(lines)
    lines.close()  # type: ignore[attr-defined]
    assert new_threads() == []


def test_reads_that_give_less_than_they_were_asked_for_tear_no_line(
    tmp_path: Path, small_windows: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    dump = tmp_path / "dump.jsonl"
    dump.write_bytes((long_line() + b"\n") * 7)
    expected = list(skim(dump))
    preadv = os.preadv
    monkeypatch.setattr(os, "preadv", lambda fd, buffers, at: preadv(fd, [buffers[0][:777]], at))
    assert list(skim(dump)) == expected
    assert len(expected) == 7


def test_ctrl_c_does_not_wait_for_a_line_without_end(tmp_path: Path) -> None:
    dump = tmp_path / "dump.jsonl"
    with dump.open("wb") as stream:
        stream.truncate(200 * 1024**3)
    script = (
        "import signal, threading, os\n"
        "from gagar_cli.io.jsonl_skim import skim_lines\n"
        f"stream = open({str(dump)!r}, 'rb')\n"
        "threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()\n"
        "try:\n"
        "    list(skim_lines(stream, ['reward'], lambda line: {}, max_record_bytes=10**6))\n"
        "except KeyboardInterrupt:\n"
        "    print('interrupted')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=10, check=True
    )
    assert done.stdout == "interrupted\n"
