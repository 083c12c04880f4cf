"""The schema in a file's metadata put together by hand, against what pyarrow makes of it and would have made."""

import base64
import random
from collections.abc import Mapping

import polars as pl
import pyarrow as pa
import pytest

from gagar_cli.io.arrow_schema import extended_schema
from gagar_cli.io.flatbuffer import Buffer, Scalar, Table, Vector, put_before
from gagar_cli.io.parquet_schema import FooterRefusedError

ADDED = pl.DataFrame(
    {"advantage": [0.5], "rank": [1], "capped": [True], "tier": ["T1"]},
    schema={"advantage": pl.Float64, "rank": pl.Int64, "capped": pl.Boolean, "tier": pl.String},
)
NEW_FIELDS = [
    pa.field("advantage", pa.float64()),
    pa.field("rank", pa.int64()),
    pa.field("capped", pa.bool_()),
    pa.field("tier", pa.large_string()),
]
FIELDS = [
    pa.field("group_id", pa.string(), nullable=False),
    pa.field("reward", pa.float32(), metadata={"unit": "points"}),
    pa.field("label", pa.dictionary(pa.int8(), pa.string(), ordered=True)),
    pa.field("messages", pa.list_(pa.struct({"role": pa.string(), "content": pa.large_string()}))),
    pa.field("at", pa.timestamp("us", "Europe/Berlin")),
    pa.field("price", pa.decimal128(12, 3)),
    pa.field("vector", pa.list_(pa.float32(), 4)),
    pa.field("bytes", pa.binary(16)),
    pa.field("map", pa.map_(pa.string(), pa.int64())),
    pa.field("nothing", pa.null()),
    pa.field("Zeit", pa.duration("ns")),
    pa.field("ключ", pa.string_view()),
    pa.field("", pa.int64()),
]


def encode(schema: pa.Schema) -> bytes:
    return base64.b64encode(schema.serialize().to_pybytes())


def decode(encoded: bytes) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(encoded)))


def every(schema: pa.Schema, names: Mapping[str, str | None]) -> dict[str, str | None]:
    return {name: names.get(name, name) for name in schema.names}


def expected(schema: pa.Schema, names: Mapping[str, str | None]) -> pa.Schema:
    kept = [
        field.with_name(new) for field in schema if (new := names.get(field.name, field.name)) is not None
    ]
    return pa.schema([*kept, *NEW_FIELDS], metadata=schema.metadata)


@pytest.mark.parametrize(
    "metadata", [None, {b"pandas": b'{"index": []}', b"\xff": b"\0"}], ids=["bare", "metadata"]
)
@pytest.mark.parametrize(
    "names",
    [
        {},
        {"reward": "reward_input"},
        {"group_id": None, "messages": None},
        {"label": "ярлык", "": "x", "map": "m"},
    ],
    ids=["kept", "renamed", "left out", "several"],
)
def test_fields_and_metadata_stay_and_new_columns_follow(
    metadata: dict[bytes, bytes] | None, names: Mapping[str, str | None]
) -> None:
    schema = pa.schema(FIELDS, metadata=metadata)
    made = decode(extended_schema(encode(schema), ADDED, every(schema, names)))
    assert made.equals(expected(schema, names), check_metadata=True)


def test_a_schema_without_fields_gets_some() -> None:
    assert decode(extended_schema(encode(pa.schema([])), ADDED, {})).names == ADDED.columns


def test_random_choices_of_fields_again_and_again() -> None:
    draw = random.Random(5)
    for _ in range(200):
        schema = pa.schema(draw.sample(FIELDS, draw.randrange(1, len(FIELDS))))
        encoded = encode(schema)
        for _ in range(3):
            names = {
                name: draw.choice((None, f"{name}_{'x' * draw.randrange(9)}"))
                for name in schema.names
                if draw.random() < 0.3 or name in ADDED.columns
            }
            encoded = extended_schema(encoded, ADDED, every(schema, names))
            schema = expected(schema, names)
            assert decode(encoded).equals(schema, check_metadata=True)


def test_a_message_of_old_writers_has_no_mark_before_its_length() -> None:
    schema = pa.schema(FIELDS)
    old = base64.b64encode(schema.serialize().to_pybytes()[4:])
    assert decode(extended_schema(old, ADDED, every(schema, {}))).equals(expected(schema, {}))


@pytest.mark.parametrize(
    "encoded",
    [b"", b"AAAA", b"not base64!", base64.b64encode(b"\xff" * 64), encode(pa.schema(FIELDS))[:400]],
    ids=["empty", "no length", "no base64", "out of range", "cut"],
)
def test_what_is_no_schema_is_refused(encoded: bytes) -> None:
    with pytest.raises(FooterRefusedError, match="Arrow schema cannot be read"):
        extended_schema(encoded, ADDED, {"a": "b"})


def test_another_message_than_a_schema_is_refused() -> None:
    batch = pa.record_batch({"a": [1]}).serialize().to_pybytes()
    with pytest.raises(FooterRefusedError, match="another message"):
        extended_schema(base64.b64encode(batch), ADDED, {})


def test_a_new_column_of_another_type_is_refused() -> None:
    with pytest.raises(FooterRefusedError, match="Int8"):
        extended_schema(encode(pa.schema([])), pl.DataFrame({"a": pl.Series([1], dtype=pl.Int8)}), {})


def test_damaged_bytes_are_refused_or_change_no_more_than_the_fields_they_are_in() -> None:
    draw = random.Random(3)
    message = pa.schema(FIELDS).serialize().to_pybytes()
    names = every(pa.schema(FIELDS), {"reward": "r", "label": None})
    n_refused = 0
    for _ in range(3000):
        damaged = bytearray(message)
        for _ in range(draw.randrange(1, 5)):
            damaged[draw.randrange(8, len(damaged))] = draw.choice((0, 1, 127, 128, 255, draw.randrange(256)))
        try:
            made = extended_schema(base64.b64encode(damaged), ADDED, names)
        except FooterRefusedError:
            n_refused += 1
        else:
            assert bytes(damaged[8:]) in base64.b64decode(made)
    assert 0 < n_refused < 3000


@pytest.mark.parametrize("names", [{}, {"a": "a"}, {"b": "b", "a": "a"}, {"a": "a", "b": "b", "c": "c"}])
def test_a_schema_of_other_columns_is_refused(names: Mapping[str, str | None]) -> None:
    schema = pa.schema([pa.field("a", pa.int64()), pa.field("b", pa.int64())])
    with pytest.raises(FooterRefusedError, match="other columns than the file"):
        extended_schema(encode(schema), ADDED, names)


def random_type(draw: random.Random, depth: int) -> pa.DataType:
    plain = [pa.int8(), pa.uint64(), pa.float16(), pa.string(), pa.large_binary(), pa.date64(), pa.time64("ns"),
             pa.decimal256(40, 5), pa.month_day_nano_interval(), pa.timestamp("s"), pa.uuid(), pa.json_()]  # fmt: skip
    if depth == 0 or draw.random() < 0.4:
        return draw.choice(plain)
    inner = [
        pa.field(draw.choice(("a", "", "ё", "x" * draw.randrange(40))), random_type(draw, depth - 1), draw.random() < 0.5,
                 metadata=random_metadata(draw))
        for _ in range(draw.randrange(1, 4))
    ]  # fmt: skip
    return draw.choice(
        [
            pa.struct(inner),
            pa.list_(inner[0]),
            pa.large_list(inner[0]),
            pa.list_(inner[0], draw.randrange(1, 5)),
            pa.list_view(inner[0]),
            pa.map_(pa.string(), inner[0].type),
            pa.dictionary(pa.int16(), pa.large_string(), ordered=draw.random() < 0.5),
            pa.dense_union(inner),
            pa.run_end_encoded(pa.int32(), pa.string()),
        ]
    )


def random_metadata(draw: random.Random) -> dict[bytes, bytes] | None:
    if draw.random() < 0.5:
        return None
    return {draw.randbytes(draw.randrange(9)): draw.randbytes(draw.randrange(70)) for _ in range(3)}


def test_random_schemas_of_nested_fields_and_metadata_of_any_size() -> None:
    draw = random.Random(8)
    for _ in range(300):
        fields = [
            pa.field(
                f"c{number}{'x' * draw.randrange(9)}", random_type(draw, 3), metadata=random_metadata(draw)
            )
            for number in range(draw.randrange(6))
        ]
        schema = pa.schema(fields, metadata=random_metadata(draw))
        names = every(schema, {name: draw.choice((None, "new", name)) for name in schema.names[:1]})
        made = decode(extended_schema(encode(schema), ADDED, names))
        assert made.equals(expected(schema, names), check_metadata=True)


def test_a_schema_of_the_other_byte_order_stays_one() -> None:
    """The flag is a slot of the schema's table; pyarrow neither writes nor shows it."""
    content = put_before(
        Table({0: Scalar("h", 4), 1: Scalar("B", 1), 2: Table({0: Scalar("h", 1), 1: Vector([])})}), b""
    )
    message = b"\xff\xff\xff\xff" + len(content).to_bytes(4, "little") + content
    made = Buffer(base64.b64decode(extended_schema(base64.b64encode(message), ADDED, {}))[8:])
    schema = made.reference(made.root, 2)
    assert schema is not None
    assert made.scalar(schema, 0, "h", 0).value == 1
