"""The Arrow schema that writers keep in a Parquet file's metadata, with columns added, renamed or left out.

A reader that finds it at odds with the columns ignores all of it, and every type that Parquet cannot tell is lost.
"""

import base64
import binascii
from collections.abc import Mapping

import polars as pl

from gagar_cli.io.parquet_schema import FooterRefusedError

METADATA_KEY = b"ARROW:schema"


def extended_schema(encoded: bytes, added: pl.DataFrame, names: Mapping[str, str | None]) -> bytes:
    """The encoded schema with the columns of `added` at its end.

    Raises:
        FooterRefusedError: it is no schema.
    """
    import pyarrow as pa

    try:
        schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(encoded)))
    except (pa.ArrowException, binascii.Error, OSError) as error:
        raise FooterRefusedError(f"the Arrow schema cannot be read: {error}") from error
    kept = []
    for field in schema:
        name = names.get(field.name, field.name)
        if name is not None:
            kept.append(field.with_name(name))
    new = added.head(0).to_arrow(compat_level=pl.CompatLevel.oldest()).schema
    made = pa.schema([*kept, *new], metadata=schema.metadata)
    return base64.b64encode(made.serialize().to_pybytes())
