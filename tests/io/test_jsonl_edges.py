"""Lines read by their ends, and copied as bytes, against the whole parse. `GAGAR_FUZZ_OBJECTS` sets how many."""

import json
import os
import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from gagar_cli.errors import InputError
from gagar_cli.io import jsonl_edges, jsonl_skim
from gagar_cli.io.jsonl import Line, parse_line, read_lines
from gagar_cli.io.jsonl_copy import LineSplicer, read_spans
from gagar_cli.io.jsonl_edges import NameFinder, find_edges
from gagar_cli.io.jsonl_skim import skim_lines

NAMES = ("group_id", "trajectory_id", "reward", "resolved", "step")
N_OBJECTS = int(os.environ.get("GAGAR_FUZZ_OBJECTS", "3000"))
BITS = (
    "plain text ", '"', "\\", "{", "}", "[", "]", ",", ": ", ', "reward": 0}', '"reward"', "\\u0072eward", "é", "\u2028",
    "\n", "\t", "\x1b", "\ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16"), "</s>", '{"step": 3}',
)  # fmt: skip


class Writer:
    """Writes random objects in random ways."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)

    def text(self) -> str:
        return "".join(
            self.draw.choice(BITS) for _ in range(self.draw.randrange(self.draw.choice((3, 3, 60))))
        )

    def value(self, depth: int = 2) -> Any:
        draw = self.draw
        scalars = [self.text(), draw.randrange(10**6), draw.random(), -0.0, 1e300, True, False, None, 10**25]
        if depth == 0 or draw.random() < 0.5:
            return draw.choice(scalars)
        if draw.random() < 0.5:
            return [self.value(depth - 1) for _ in range(draw.randrange(4))]
        keys = draw.sample((*NAMES, "role", "content", "arguments"), draw.randrange(4))
        return {key: self.value(depth - 1) for key in keys}

    def record(self) -> dict[str, Any]:
        draw = self.draw
        record: dict[str, Any] = {name: self.value(0) for name in NAMES if draw.random() < 0.8}
        record |= {"messages": [self.value() for _ in range(draw.randrange(6))], "patch": self.text()}
        for name in ("a", "b.c", 'q"', "ключ", "reward_2"):
            if draw.random() < 0.3:
                record[name] = self.value()
        return record

    def line(self, record: Mapping[str, Any]) -> bytes:
        draw = self.draw
        keys = list(record)
        order = draw.random()
        if order < 0.4:
            draw.shuffle(keys)
        separators = draw.choice(((",", ":"), (", ", ": "), (" , ", " :\t")))
        text = json.dumps(
            {key: record[key] for key in keys}, ensure_ascii=draw.random() < 0.5, separators=separators
        )
        if draw.random() < 0.05:
            text = text.replace('"reward"', '"rew\\u0061rd"')
        if draw.random() < 0.03:
            text = text[:-1] + ', "reward": 7}'
        return draw.choice((b"", b" ")) + text.encode() + draw.choice((b"", b"", b" ", b"\r"))


@pytest.fixture
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short lines and windows, so that every border is met often."""
    monkeypatch.setattr(jsonl_edges, "MIN_LINE_BYTES", 40)
    monkeypatch.setattr(jsonl_skim, "_BLOCK_BYTES", 5000)


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


@pytest.mark.parametrize("window", [32, 100, 2048])
def test_names_are_what_the_whole_parse_finds(
    tmp_path: Path, small_windows: None, monkeypatch: pytest.MonkeyPatch, window: int
) -> None:
    monkeypatch.setattr(jsonl_edges, "_WINDOW_BYTES", window)
    monkeypatch.setattr(jsonl_edges, "_FIRST_WINDOW_BYTES", window // 2)
    writer = Writer(window)
    dump = tmp_path / "dump.jsonl"
    n_objects = N_OBJECTS // 3
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


def long_line(**more: Any) -> bytes:
    record = {"group_id": "g", "messages": [{"role": "user", "content": "x" * 9000}], "reward": 1.0, **more}
    return json.dumps(record).encode()


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
        pytest.param(long_line().replace(b"xxxx", b"\xff", 1), id="no UTF-8"),
        pytest.param(long_line()[:-1], id="no brace"),
        pytest.param(b'{"reward": 1.0}', id="short"),
    ],
)
def test_what_is_not_certain_is_parsed_whole(tmp_path: Path, line: bytes) -> None:
    assert parsed_whole(tmp_path, long_line(), line, long_line()) == [1, 2]


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


def test_other_names_than_plain_ones_are_not_looked_for() -> None:
    assert NameFinder(["reward", "meta.task_type"]).is_able
    assert not NameFinder(["a/b"]).is_able
    assert not NameFinder(["é"]).is_able


def splice(lines: Sequence[bytes], added: Sequence[Mapping[str, object]]) -> tuple[list[bytes], set[str]]:
    splicer = LineSplicer(added[0], {"advantage": "advantage_input"})
    block = b"\n".join(lines) + b"\n"
    spans = []
    start = 0
    for line in lines:
        spans.append((start, start + len(line)))
        start += len(line) + 1
    made = [b"".join(bytes(piece) for piece in pieces) for pieces in splicer.splice(block, spans, added)]
    return made, splicer.replaced


def members(text: bytes) -> list[tuple[str, Any]]:
    """The members of an object with every number as it is written."""
    return json.loads(text.decode(), parse_int=str, parse_float=str, object_pairs_hook=list)


def test_spliced_lines_hold_the_same_members(small_windows: None) -> None:
    writer = Writer(9)
    records = [writer.record() for _ in range(N_OBJECTS // 3)]
    for record in records:
        for name in ("advantage", "advantage_input", "tier"):
            if writer.draw.random() < 0.2:
                record[name] = writer.value(1)
    lines = [line for record in records if len(line := writer.line(record)) > 2]
    added = [{"advantage": 0.5, "tier": None, "rank": n} for n in range(len(lines))]
    made, _ = splice(lines, added)
    for line, new, values in zip(lines, made, added, strict=True):
        before = members(line)
        names = [name for name, _ in before]
        is_kept = "advantage_input" not in names
        expected = [
            ("advantage_input" if name == "advantage" else name, value)
            for name, value in before
            if (name == "advantage" and is_kept) or name not in values
        ]
        end = [("advantage", "0.5"), ("tier", None), ("rank", str(values["rank"]))]
        assert members(new) == [*expected, *end]


NASTY = {
    "arguments as object and text": b'{"messages":[{"arguments":{"a":1}},{"arguments":"{}"}],"reward":1}',
    "content as text and list": b'{"messages":[{"content":"a"},{"content":[{"type":"text"}]}],"reward":1.0}',
    "numbers as written": b'{"a":1.50,"b":1e5,"c":-0.0,"d":123456789012345678901234567890,"e":18446744073709551615}',
    "not a number": b'{"reward":NaN,"b":Infinity}',
    "lone surrogate": b'{"text":"\\ud800 \\udc00"}',
    "nul": b'{"text":"a\\u0000b"}',
    "line separators": '{"text":"a\u2028b\u2029c"}'.encode(),
    "duplicate keys": b'{"a":1,"a":2}',
    "deep": b'{"a":' + b"[" * 500 + b"]" * 500 + b"}",
    "very deep": b'{"a":' + b"[" * 20_000 + b"]" * 20_000 + b"}",
    "names further in": b'{"messages":[{"reward":1}],"reward":0}',
    "large": b'{"text":"' + b"x" * 2_000_000 + b'","reward":1}',
    "control characters": b'{"text":"\\u001b[0m\\b\\f\\/"}',
    "empty keys": b'{"":1,"messages":{"":null}}',
}


@pytest.mark.parametrize("line", NASTY.values(), ids=NASTY.keys())
def test_nothing_of_nasty_lines_changes(line: bytes) -> None:
    (made,), replaced = splice([line], [{"advantage": 0.5}])
    assert made == line[:-1] + b', "advantage": 0.5}\n'
    assert not replaced


@pytest.mark.parametrize("pad", [0, 9000], ids=["short", "long"])
def test_members_at_the_ends_are_replaced_and_kept_under_another_name(pad: int) -> None:
    middle = b'"messages":["' + b"x" * pad + b'"]'
    line = b'{"tier":"T2","id":1.50,' + middle + b',"advantage":2e0 , "n":1}'
    (made,), replaced = splice([line], [{"advantage": 0.5, "tier": "T1"}])
    assert json.loads(made)["messages"] == ["x" * pad]
    assert members(made)[2:] == [("advantage_input", "2e0"), ("n", "1"), ("advantage", "0.5"), ("tier", "T1")]
    assert b'"id": 1.50' in made
    assert replaced == {"tier"}
    again, lost = splice([made[:-1]], [{"advantage": 0.25, "tier": "T1"}])
    assert members(again[0])[2:] == [
        ("advantage_input", "2e0"),
        ("n", "1"),
        ("advantage", "0.25"),
        ("tier", "T1"),
    ]
    assert lost == {"tier", "advantage"}


def test_blocks_hold_the_lines_that_are_asked_for() -> None:
    with Path(__file__).open("rb") as stream:
        text = stream.read()
        asked = [(10, 5), (40, 0), (100, 300)]
        ((block, spans),) = read_spans(stream, asked)
        assert [bytes(block[start:stop]) for start, stop in spans] == [text[a : a + n] for a, n in asked]
        with pytest.raises(EOFError):
            list(read_spans(stream, [(len(text) - 3, 4)]))


def test_edges_need_a_scalar_before_the_brace() -> None:
    line = b'{"a": 1, "messages": ["' + b"x" * 9000 + b'"]}'
    assert find_edges(line, 0, len(line)) is None
