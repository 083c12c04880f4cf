"""Footers that are not taken apart, and those that come back as they were."""

import base64
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gagar_cli.io.parquet_footer import Footer, read_footer
from gagar_cli.io.parquet_schema import FooterRefusedError

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
