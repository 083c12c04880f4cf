import pytest
from hypothesis import given
from hypothesis import strategies as st

from gagar_cli.io import parquet_thrift as thrift
from gagar_cli.io.parquet_skip import skip
from gagar_cli.io.parquet_thrift import Field, ThriftError, ThriftList

INTEGERS = st.integers(-(2**63), 2**63 - 1)
VALUES: dict[int, st.SearchStrategy[thrift.Value]] = {
    thrift.TRUE: st.booleans(),
    thrift.BYTE: st.integers(0, 255),
    thrift.I32: INTEGERS,
    thrift.I64: INTEGERS,
    thrift.DOUBLE: st.floats(allow_nan=False),
    thrift.BINARY: st.binary(max_size=200),
}


@st.composite
def fields(draw: st.DrawFn, depth: int = 3) -> list[Field]:
    made = []
    last_id = 0
    for _ in range(draw(st.integers(0, 5))):
        last_id += draw(st.sampled_from([1, 1, 2, 14, 15, 16, 300]))
        kind = draw(st.sampled_from([*VALUES, *([thrift.LIST, thrift.STRUCT] if depth else [])]))
        made.append(Field(last_id, kind, draw(_value(kind, depth))))
    return made


def _value(kind: int, depth: int) -> st.SearchStrategy[thrift.Value]:
    if kind == thrift.STRUCT:
        return fields(depth - 1)
    if kind == thrift.LIST:
        kinds = st.sampled_from([*VALUES, thrift.STRUCT])
        return kinds.flatmap(
            lambda each: st.lists(fields(0) if each == thrift.STRUCT else VALUES[each], max_size=20).map(
                lambda values: ThriftList(each, list(values))
            )
        )
    return VALUES[kind]


def without_bool_kinds(made: list[Field]) -> list[Field]:
    """The type of a flag tells its value, and is not compared beside it."""
    return [
        Field(
            each.id,
            thrift.TRUE if each.kind == thrift.FALSE else each.kind,
            without_bool_kinds(each.value)
            if isinstance(each.value, list)
            else ThriftList(
                each.value.kind,
                [without_bool_kinds(one) if isinstance(one, list) else one for one in each.value.values],
            )
            if isinstance(each.value, ThriftList)
            else each.value,
        )
        for each in made
    ]


@given(fields())
def test_decoding_undoes_encoding(made: list[Field]) -> None:
    text = thrift.encode_struct(made)
    found, stop = thrift.decode_struct(b"xx" + text + b"more", 2)
    assert without_bool_kinds(found) == without_bool_kinds(made)
    assert stop == len(text) + 2
    assert thrift.encode_struct(found) == text


@given(fields())
def test_skipping_ends_where_decoding_ends(made: list[Field]) -> None:
    text = thrift.encode_struct(made) + b"\x15\x02"
    assert skip(text, 0, thrift.STRUCT) == thrift.decode_struct(text)[1]


@given(fields(), st.data())
def test_damaged_bytes_are_refused_or_read_and_nothing_else(made: list[Field], draws: st.DataObject) -> None:
    text = bytearray(thrift.encode_struct(made))
    for _ in range(draws.draw(st.integers(0, 3))):
        text[draws.draw(st.integers(0, len(text) - 1))] = draws.draw(st.integers(0, 255))
    text = text[: draws.draw(st.integers(0, len(text)))]
    for read in (thrift.decode_struct, lambda each: skip(each, 0, thrift.STRUCT)):
        try:
            read(bytes(text))
        except ThriftError:
            continue


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(b"", "ends too early", id="nothing"),
        pytest.param(b"\x18\x05abc", "ends too early", id="short text"),
        pytest.param(b"\x19\xfc\xff\xff\xff\xff\x0f", "too long", id="huge list"),
        pytest.param(b"\x16" + b"\xff" * 11, "too long", id="endless number"),
        pytest.param(b"\x1b\x01\x55\x00\x00\x00", "type 11", id="map"),
        pytest.param(b"\x1c" * 40, "too deep", id="deep"),
    ],
)
def test_what_is_no_struct_is_told(text: bytes, message: str) -> None:
    with pytest.raises(ThriftError, match=message):
        thrift.decode_struct(text)


def test_numbers_are_zigzag_varints() -> None:
    assert [thrift.integer(number) for number in (0, -1, 1, 64, -(2**63))] == [
        b"\0",
        b"\1",
        b"\2",
        b"\x80\x01",
        b"\xff" * 9 + b"\x01",
    ]


@pytest.mark.parametrize(
    "text", [b"\x15\x02\x05\x02\x02\x00", b"\x25\x02\x05\x02\x02\x00", b"\x05\x00\x02\x00"]
)
def test_fields_that_are_there_twice_or_out_of_order_are_refused(text: bytes) -> None:
    """Readers take the last one, and what is put in place of one would be another."""
    with pytest.raises(ThriftError, match="out of order"):
        thrift.decode_struct(text)
