"""The fast way to read a sealed line takes nothing that the strict one would refuse."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gagar_cli.errors import InputError
from gagar_cli.io.jsonl import Line
from gagar_cli.io.ledger_lines import checksum, read_checked, read_sealed


def sealed(record: dict[str, object]) -> bytes:
    return json.dumps({**record, "checksum": checksum(record)}, ensure_ascii=False).encode()


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=9,
)


@given(
    st.dictionaries(st.text(max_size=5), JSON_VALUES, max_size=4).filter(lambda made: "checksum" not in made)
)
def test_a_sealed_line_is_read_as_the_strict_parser_reads_it(record: dict[str, object]) -> None:
    text = json.dumps({**record, "checksum": checksum(record)}).encode()
    line = Line(1, 0, text, is_cut=False)
    found = read_sealed(line)
    assert found is None or repr(found) == repr(read_checked(line, "x"))
    assert found is not None or b"\\u0022" in text


NOT_SEALED = {
    "no checksum": b'{"group_id": "g"}',
    "wrong checksum": b'{"group_id": "g", "checksum": "0000000000000000"}',
    "checksum of another kind": b'{"group_id": "g", "checksum": 5}',
    "a key that comes twice": sealed({"a": 1}).replace(b'"a": 1', b'"a": 2, "a": 1'),
    "a key that comes twice further in": sealed({"a": {"b": [1]}}).replace(b'"b": [1]', b'"b": 0, "b": [1]'),
    "a key twice, quotes made up for": sealed({"a": '""'}).replace(
        b'"\\"\\""', b'"\\u0022\\u0022", "a": "\\u0022\\u0022"'
    ),
    "a checksum that comes twice": sealed({"a": 1}).replace(b'"a": 1', b'"a": 1, "checksum": ""'),
    "not a number": sealed({"a": 5}).replace(b"5", b"NaN", 1),
    "out of range": sealed({"a": 5}).replace(b"5", b"1e999", 1),
    "not an object": b'["checksum"]',
    "not JSON": b'{"checksum": "',
    "not UTF-8": b'{"a": "\xff", "checksum": "0"}',
    "too many digits": b'{"a": ' + b"1" * 5000 + b', "checksum": "0"}',
    "too deep": sealed({"a": json.loads("[" * 100 + "]" * 100)}),
    "much too deep": b"[" * 100_000,
}


@pytest.mark.parametrize("text", NOT_SEALED.values(), ids=NOT_SEALED.keys())
def test_what_is_in_doubt_is_left_to_the_strict_parser(text: bytes) -> None:
    assert read_sealed(Line(1, 0, text, is_cut=False)) is None
    with pytest.raises(InputError):
        read_checked(Line(1, 0, text, is_cut=False), "x")


def test_a_line_that_is_cut_is_left_to_the_strict_parser() -> None:
    assert read_sealed(Line(1, 0, sealed({"a": 1}), is_cut=True)) is None
    assert read_sealed(Line(1, 0, sealed({"a": 1}), is_cut=False)) == {"a": 1}
