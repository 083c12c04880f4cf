import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gagar_cli.errors import InputError
from gagar_cli.io.jsonl import dump_line, parse_line, parse_object, read_lines, show_value

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda children: st.lists(children, max_size=4) | st.dictionaries(st.text(), children, max_size=4),
    max_leaves=12,
)


def lines_of(text: bytes, **limits: int) -> list[tuple[int, int, bytes]]:
    return [(line.number, line.offset, line.text) for line in read_lines(io.BytesIO(text), **limits)]


@given(st.dictionaries(st.text(), JSON, max_size=5))
def test_a_written_record_reads_back_as_it_was(record: dict[str, object]) -> None:
    assert parse_object(dump_line(record), "x:1") == record


@given(st.lists(st.sampled_from([b'{"a":1}', b"", b"  ", b'{"b": "x"}\r']), max_size=8), st.booleans())
def test_every_line_lies_at_its_offset(lines: list[bytes], is_ended: bool) -> None:
    text = b"\n".join(lines) + (b"\n" if is_ended else b"")
    for line in read_lines(io.BytesIO(text)):
        assert text[line.offset : line.offset + len(line.text)] == line.text
        assert text.count(b"\n", 0, line.offset) == line.number - 1


def test_a_byte_order_mark_is_not_part_of_the_line() -> None:
    assert lines_of(b'\xef\xbb\xbf{"a":1}\r\n\n{}') == [(1, 3, b'{"a":1}'), (3, 13, b"{}")]


def test_a_line_over_the_limit_is_told_and_the_next_one_read() -> None:
    long, short = read_lines(io.BytesIO(b"x" * 50 + b'\n{"a":1}\n'), max_record_bytes=10)
    assert (long.is_too_long, long.text, short.number, short.offset) == (True, b"", 2, 51)
    with pytest.raises(InputError, match=r"^d:1: line longer than 10 bytes"):
        parse_line(long, "d", max_record_bytes=10)


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b""])
def test_a_line_of_exactly_the_limit_is_read(end: bytes) -> None:
    assert lines_of(b"x" * 10 + end, max_record_bytes=10) == [(1, 0, b"x" * 10)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(b'{"a": tru}', r"^d:1:7: invalid JSON: ", id="garbage has a column"),
        pytest.param(b"[1, 2]", "expected an object, found an array", id="array"),
        pytest.param(b'"x"', 'expected an object, found "x"', id="string"),
        pytest.param(b'{"reward": 0, "reward": 1}', 'duplicate key "reward"', id="duplicate key"),
        pytest.param(b'{"a": {"b": 1, "b": 1}}', 'duplicate key "b"', id="nested duplicate key"),
        pytest.param(b'{"a": [1, NaN]}', r"a\[1\] is NaN, expected a finite number", id="NaN"),
        pytest.param(b'{"a": {"b": -Infinity}}', "a.b is -Infinity, expected", id="infinity"),
        pytest.param(b'{"a": 1e400}', "number out of range: 1e400", id="overflow"),
        pytest.param(b'{"a": ' + b"9" * 5000 + b"}", "number out of range", id="5,000 digits"),
        pytest.param(b"\xff\xfe{\0}\0", r"not UTF-8 \(looks like UTF-16\)", id="UTF-16"),
        pytest.param(
            b'{\0"\0a\0"\0:\0\xe9\0', r"not UTF-8 \(looks like UTF-16\)", id="UTF-16 without a mark"
        ),
        pytest.param(b'{"a": "\xe9"}', "not UTF-8: byte 0xe9 at offset 7", id="latin-1"),
        pytest.param(b"\x1f\x8b\x08\x00", "looks like gzip", id="gzip"),
        pytest.param(b'{"a":' + b"[" * 100 + b"]" * 100 + b"}", "nested deeper than 100", id="101 levels"),
        pytest.param(b'{"a":' + b"[" * 200_000, "nested deeper than 100", id="200,000 levels"),
        pytest.param(b'{"a": "\x01"}', "invalid control character", id="control character"),
    ],
)
def test_what_parsers_disagree_about_is_refused(text: bytes, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        parse_object(text, "d:1")
    assert caught.value.message.startswith("d:1:")


@pytest.mark.parametrize(
    ("member", "message"),
    [
        pytest.param(b'"a": 1, "a": 1', 'duplicate key "a"', id="duplicate key"),
        pytest.param(b'"a": [NaN]', r"a\[0\] is NaN, expected a finite number", id="NaN"),
        pytest.param(b'"a": -Infinity', "a is -Infinity, expected", id="infinity"),
        pytest.param(b'"a": 1e400', "number out of range: 1e400", id="overflow"),
        pytest.param(b'"a":' + b"[" * 100 + b"]" * 100, "nested deeper than 100", id="101 levels"),
        pytest.param(
            b'"a":' + b'{"b":' * 100 + b"1" + b"}" * 100, "nested deeper than 100", id="101 objects"
        ),
    ],
)
def test_a_long_record_is_read_as_strictly(member: bytes, message: str) -> None:
    long = b'{"log": "' + b"a line\\n" * 20_000 + b'", '
    with pytest.raises(InputError, match=message):
        parse_object(long + member + b"}", "d:1")


def test_a_long_record_is_read_as_a_short_one_is() -> None:
    member = b'"a": "NaN [{ \\ud800", "b": [[[{"c": -0, "d": 123456789012345678901234567890}]]], "r": NaN'
    short = parse_object(b"{" + member + b"}", "d:1", may_be_nan="r".__eq__)
    long = b'{"log": "' + b"[{" * 50_000 + b'", ' + member + b"}"
    read = parse_object(long, "d:1", may_be_nan="r".__eq__)
    assert repr({key: value for key, value in read.items() if key != "log"}) == repr(short)
    deep = b'"e":' + b"[" * 99 + b"]" * 99 + b"}"
    assert parse_object(b'{"log": "' + b"[" * 90_000 + b'", ' + deep, "d:1")["e"]


def test_a_hundred_levels_are_read() -> None:
    assert parse_object(b'{"a":' + b"[" * 99 + b"]" * 99 + b"}", "d:1")


def test_nan_is_read_only_where_it_may_be() -> None:
    assert parse_object(b'{"reward": NaN}', "d:1", may_be_nan="reward".__eq__)["reward"] != 0
    with pytest.raises(InputError, match="x is NaN"):
        parse_object(b'{"reward": NaN, "x": NaN}', "d:1", may_be_nan="reward".__eq__)


def test_nan_as_text_is_text() -> None:
    assert parse_object(b'{"a": "NaN Infinity"}', "d:1") == {"a": "NaN Infinity"}


def test_a_cut_last_line_is_told_apart_from_garbage() -> None:
    cut, whole = next(read_lines(io.BytesIO(b'{"a": "b'))), next(read_lines(io.BytesIO(b'{"a": 1}')))
    with pytest.raises(InputError, match=r"^d:1: truncated line \(no newline\)"):
        parse_line(cut, "d")
    assert parse_line(whole, "d") == {"a": 1}


def test_a_line_cut_anywhere_is_told_as_truncated() -> None:
    whole = dump_line({"a": [True, None, -1.5e3, "\\é\n\ud800"], "b": {"c": False}})
    for length in range(1, len(whole) - 1):
        (line,) = read_lines(io.BytesIO(whole[:length]))
        with pytest.raises(InputError, match="truncated line"):
            parse_line(line, "d")


def test_a_json_array_names_the_command_that_turns_it_into_lines() -> None:
    with pytest.raises(InputError) as caught:
        parse_object(b'[{"a": 1},', "d:1")
    assert "jq -c '.[]'" in str(caught.value.hint)


def test_a_lone_surrogate_survives_writing() -> None:
    record = parse_object(b'{"a": "\\ud800"}', "d:1")
    assert json.loads(dump_line(record)) == record


def test_numbers_that_json_lacks_are_written_as_null() -> None:
    assert dump_line({"a": float("nan"), "b": [float("inf"), 1]}) == b'{"a": null, "b": [null, 1]}\n'


def test_a_shown_value_is_short_and_harmless() -> None:
    assert show_value("a\x1b[31m\n") == '"a\\u001b[31m\\n"'
    assert len(show_value("x" * 1000)) == 80


@pytest.mark.parametrize(
    "text",
    [b"\xef\xbb\xbf" + b"x" * 30 + b"\n", b"x" * 10 + b"\r\r\r\n"],
    ids=["mark before it", "returns behind it"],
)
def test_a_long_line_that_looks_short_where_reading_stops_is_one_line(text: bytes) -> None:
    lines = list(read_lines(io.BytesIO(text + b"{}\n"), max_record_bytes=10))
    assert [(line.number, line.is_too_long) for line in lines] == [(1, True), (2, False)]


@pytest.mark.parametrize(
    ("text", "place", "hint"),
    [
        ('{"a": 1}{"a": 2}', "x:1:9", "lines of their own by `jq -c . FILE`"),
        ('{"a": 1} {"a": 2}', "x:1:10", "lines of their own by `jq -c . FILE`"),
        ("group_id,trajectory_id,reward", "x:1:1", "polars.read_csv"),
        ('"group_id";"reward of it"', "x:1:11", "polars.read_csv"),
        ("step\tgroup_id", "x:1:1", "polars.read_csv"),
        ("hello", "x:1:1", None),
        ('{"a": 1}, "b"', "x:1:9", None),
        ("true, false", "x:1:5", None),
    ],
)
def test_a_line_of_another_layout_is_told_what_makes_lines_of_it(
    text: str, place: str, hint: str | None
) -> None:
    with pytest.raises(InputError) as caught:
        parse_object(text.encode(), "x:1")
    assert caught.value.message.startswith(place)
    assert (caught.value.hint is None) if hint is None else (hint in (caught.value.hint or ""))
