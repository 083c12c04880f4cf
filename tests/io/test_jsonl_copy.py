"""Lines copied as bytes with members added, against the same members parsed."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from gagar_cli.io import jsonl_edges
from gagar_cli.io.jsonl_copy import CleanSpan, LineSplicer, blocks_of, read_spans
from tests.io.random_lines import COUNTED, Writer, members


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


@COUNTED
def test_spliced_lines_hold_the_same_members(monkeypatch: pytest.MonkeyPatch, n_objects: int) -> None:
    monkeypatch.setattr(jsonl_edges, "MIN_LINE_BYTES", 40)
    writer = Writer(9)
    records = [writer.record() for _ in range(n_objects)]
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


def test_a_clean_line_is_not_searched_where_the_usual_names_are_added() -> None:
    """A name in it, which cannot be, tells whether it was."""
    for name, expected in (("tier", b'{"tier":"T2", "tier": 1}\n'), ("other", b'{"other": 1}\n')):
        splicer = LineSplicer([name], {})
        line = b'{"%b":"T2"}' % name.encode()
        (pieces,) = splicer.splice(line, [CleanSpan((0, len(line)))], [{name: 1}])
        assert b"".join(pieces) == expected


def test_blocks_tell_clean_lines() -> None:
    with Path(__file__).open("rb") as stream:
        ((_, spans),) = read_spans(stream, [(10, 5), (40, 2), (100, 300)], [0, 40, 99])
    assert [isinstance(span, CleanSpan) for span in spans] == [False, True, False]
    assert spans == [(0, 5), (30, 32), (90, 390)]


def test_blocks_hold_the_lines_that_are_asked_for() -> None:
    with Path(__file__).open("rb") as stream:
        text = stream.read()
        asked = [(10, 5), (40, 0), (100, 300)]
        ((block, spans),) = read_spans(stream, asked)
        assert [bytes(block[start:stop]) for start, stop in spans] == [text[a : a + n] for a, n in asked]
        with pytest.raises(EOFError):
            list(read_spans(stream, [(len(text) - 3, 4)]))


def test_lines_that_are_only_copied_come_in_small_blocks(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"".join(b"%09d\n" % number for number in range(300_000)))
    places = [(10 * number, 9) for number in range(300_000)]
    clean = [10 * number for number in range(150_000)]
    sizes = []
    with path.open("rb") as stream:
        n_seen = 0
        for block, spans in read_spans(stream, places, clean):
            texts = [bytes(block[start:stop]) for start, stop in spans]
            assert texts == [b"%09d" % number for number in range(n_seen, n_seen + len(spans))]
            n_seen += len(spans)
            sizes.append(spans[-1][1])
    assert n_seen == 300_000
    assert len(sizes) == 3
    assert all(500_000 < size <= 512 * 1024 for size in sizes[:2])
    assert 1_500_000 < sizes[2] <= 2 * 1024**2


def test_lines_that_come_one_by_one_are_put_in_blocks() -> None:
    lines = [b'{"a": %d, "b": "%b"}' % (number, b"x" * 200_000) for number in range(7)]
    blocks = list(blocks_of(iter(lines)))
    assert [len(spans) for _, spans in blocks] == [3, 3, 1]
    assert [bytes(block[start:stop]) for block, spans in blocks for start, stop in spans] == lines
    assert list(blocks_of([])) == []
