"""Records with a list of numbers each, written as they come: JSON lines, or Parquet in row groups of bounded size."""

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from gagar_cli.io.writers import write_atomically, write_records

_MAX_GROUP_TOKENS = 2**20
_SCHEMA = pa.schema(
    [
        ("step", pa.int64()),
        ("group_id", pa.string()),
        ("trajectory_id", pa.string()),
        ("segment", pa.int32()),
        ("advantage", pa.float64()),
        ("token_advantages", pa.list_(pa.float64())),
    ]
)


def write_token_lists(path: str, records: Iterable[dict[str, object]]) -> None:
    """Records of the key, the advantage and `token_advantages`, to where `write_frame` would put them.

    Raises:
        OutputError: it cannot be written.
    """
    if Path(path).suffix.lower() not in (".parquet", ".pq"):
        write_records(path, records)
        return
    with write_atomically(path) as stream, pq.ParquetWriter(stream, _SCHEMA, compression="zstd") as writer:
        chunk: list[dict[str, object]] = []
        n_tokens = 0
        for record in records:
            chunk.append(record)
            tokens = record["token_advantages"]
            n_tokens += len(tokens) if isinstance(tokens, list) else 0
            if n_tokens > _MAX_GROUP_TOKENS:
                writer.write_table(pa.Table.from_pylist(chunk, schema=_SCHEMA))
                chunk, n_tokens = [], 0
        writer.write_table(pa.Table.from_pylist(chunk, schema=_SCHEMA))
