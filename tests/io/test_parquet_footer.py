"""Footers that are not taken apart, and those that come back as they were."""

import base64
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gagar_cli.io import parquet_thrift as thrift
from gagar_cli.io.parquet_footer import Footer, read_footer
from gagar_cli.io.parquet_schema import FooterRefusedError
from gagar_cli.io.parquet_thrift import Field, ThriftList

TABLE = pa.table(
    {
        "trajectory_id": [f"t{row}" for row in range(20)],
        "reward": pa.array([row % 2 for row in range(20)], pa.float32()),
        "messages": [[{"role": "user", "content": f"text {row}"}] * (row % 3) for row in range(20)],
        "label": pa.array([("a", "b", None)[row % 3] for row in range(20)]).dictionary_encode(),
        "meta": [{"n": row, "note": None if row % 2 else "x"} for row in range(20)],
        "big": pa.array([str(row) for row in range(20)], pa.large_string()),
    }
)


def test_encrypted_columns_are_refused(tmp_path: Path) -> None:
    encryption = pytest.importorskip("pyarrow.parquet.encryption")

    class Keys(encryption.KmsClient):  # type: ignore[misc, name-defined]
        def wrap_key(self, key: bytes, name: str) -> bytes:
            return base64.b64encode(key)

        def unwrap_key(self, key: bytes, name: str) -> bytes:
            return base64.b64decode(key)

    factory = encryption.CryptoFactory(lambda _: Keys())
    settings = encryption.EncryptionConfiguration(
        footer_key="f", column_keys={"c": ["big"]}, plaintext_footer=True
    )
    properties = factory.file_encryption_properties(encryption.KmsConnectionConfig(), settings)
    with pq.ParquetWriter(tmp_path / "old.parquet", TABLE.schema, encryption_properties=properties) as writer:
        writer.write_table(TABLE)
    with (tmp_path / "old.parquet").open("rb") as stream:
        text, _ = read_footer(stream)
    with pytest.raises(FooterRefusedError, match="the footer has a field 8"):
        Footer(text)


def test_damaged_footers_are_refused_or_come_back_as_they_were(tmp_path: Path) -> None:
    old = tmp_path / "old.parquet"
    pq.write_table(TABLE, old, row_group_size=7)
    with old.open("rb") as stream:
        text, _ = read_footer(stream)
    draw = random.Random(5)
    n_refused = 0
    for _ in range(1500):
        damaged = bytearray(text)
        for _ in range(draw.choice((1, 1, 2, 5))):
            damaged[draw.randrange(len(damaged))] = draw.randrange(256)
        if draw.random() < 0.2:
            del damaged[draw.randrange(len(damaged)) :]
        try:
            footer = Footer(bytes(damaged))
        except FooterRefusedError:
            n_refused += 1
        else:
            assert footer.encode(None) == damaged
    assert n_refused > 300


def footer_fields(path: Path) -> list[Field]:
    with path.open("rb") as stream:
        text, _ = read_footer(stream)
    return thrift.decode_struct(text)[0]


def test_row_groups_of_negative_size_are_refused(tmp_path: Path) -> None:
    """With another one of too many rows they would add up to those of the file."""
    pq.write_table(TABLE, tmp_path / "old.parquet", row_group_size=10)
    fields = footer_fields(tmp_path / "old.parquet")
    groups = thrift.get(fields, 4, ThriftList)
    assert groups is not None
    for sizes, is_refused in (([10, 10], False), ([10**15, 20 - 10**15], True)):
        resized = [thrift.put(group, 3, size) for group, size in zip(groups.values, sizes, strict=True)]  # type: ignore[arg-type]
        text = thrift.encode_struct(thrift.put(fields, 4, ThriftList(groups.kind, list(resized))))
        if is_refused:
            with pytest.raises(FooterRefusedError, match="do not have the rows"):
                Footer(text)
        else:
            assert Footer(text).n_rows == 20


def test_a_key_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    pq.write_table(TABLE, tmp_path / "old.parquet")
    fields = footer_fields(tmp_path / "old.parquet")
    entries = thrift.get(fields, 5, ThriftList)
    assert entries is not None
    twice = ThriftList(entries.kind, entries.values * 2)
    with pytest.raises(FooterRefusedError, match="a key twice"):
        _ = Footer(thrift.encode_struct(thrift.put(fields, 5, twice))).metadata
