import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gagar_cli.io.splice import NotAnObjectError, splice_members

KEPT_AS = {"a": "a_input"}
NAMES = st.sampled_from(["a", "a_input", "b", "c", 'q"', "é", "\\"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(NAMES, VALUES), st.sampled_from([None, 1]), st.booleans())
def test_splicing_text_is_updating_the_object(
    record: dict[str, object], indent: int | None, ascii_only: bool
) -> None:
    added = {"a": 0.5, "b": None}
    expected = {key: value for key, value in record.items() if key not in added}
    if "a" in record and "a_input" not in record:
        expected["a_input"] = record["a"]
    text = json.dumps(record, indent=indent, ensure_ascii=ascii_only)
    assert json.loads(splice_members(text, added, KEPT_AS).text) == {**expected, **added}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{}", '{"a": 1}'),
        ("{ }", '{"a": 1}'),
        ('{"x":1.50}', '{"x":1.50, "a": 1}'),
        ('{"x":1e5 }  ', '{"x":1e5, "a": 1}'),
        ('{"x": {"a": [1.0]}}', '{"x": {"a": [1.0]}, "a": 1}'),
        ('{"\\u0061": 2.00}', '{"a_input": 2.00, "a": 1}'),
        (
            '{"x": 123456789012345678901234567890, "a": 2}',
            '{"x": 123456789012345678901234567890, "a_input": 2, "a": 1}',
        ),
        ('{"a": 2, "a_input": 3.0}', '{"a_input": 3.0, "a": 1}'),
    ],
)
def test_text_of_other_values_is_kept(text: str, expected: str) -> None:
    assert splice_members(text, {"a": 1}, KEPT_AS).text == expected


def test_lost_values_are_told() -> None:
    assert splice_members('{"a": 1, "b": 2}', {"a": 0, "b": 0}, KEPT_AS).replaced == {"b"}
    assert splice_members('{"a": 1, "a_input": 2}', {"a": 0}, KEPT_AS).replaced == {"a"}


def test_number_of_many_digits_is_no_problem() -> None:
    digits = "9" * 5000
    assert splice_members(f'{{"a": {digits}}}', {"a": 0}, KEPT_AS).text == f'{{"a_input": {digits}, "a": 0}}'


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1}{"b": 2}',
        '{"a": 1} x}',
        '{"a": 1, "b"; 2}',
        '{"a": 1 "b": 2}',
        '{"a": 1, 2: 3}',
        '{"a": 1,}',
        '{"a": 1',
        '{"a": nul}',
        '[{"a": 1}]',
        '{"a": ' + "[" * 100_000 + "]" * 100_000 + "}",
    ],
)
def test_what_is_not_one_object_is_refused_before_a_byte_is_lost(text: str) -> None:
    with pytest.raises(NotAnObjectError):
        splice_members(text, {"a": 0}, KEPT_AS)
