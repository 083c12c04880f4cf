"""Columns added to a Parquet file without decoding it: old bytes as they are, new chunks after them, a new footer.

The other columns keep their bytes, offsets, encodings, statistics, page indexes and bloom filters, and the cost is
that of copying a file. A column that is replaced only leaves the footer; its bytes stay, dead. What is not plainly
right is `FooterRefusedError` before the copy is relied on: the caller writes the file another way. The new columns are
read back by another implementation before the file takes its name.
"""

import os
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import polars as pl

from gagar_cli.errors import InputError
from gagar_cli.io.arrow_schema import METADATA_KEY, extended_schema
from gagar_cli.io.parquet_footer import MAGIC, Added, Footer, read_footer
from gagar_cli.io.parquet_pages import ChunkWriter, EncodedColumn, encode_columns, row_ranges, schema_element
from gagar_cli.io.parquet_schema import FooterRefusedError
from gagar_cli.io.read_progress import Report
from gagar_cli.io.streams import file_identity, show_path

_COPY_BYTES = 256 * 1024**2
"""At once: few calls, and each soon done."""
_MEGABYTE = 10**6
_VERIFIED_VALUES = 2_000_000


def splice_columns(
    stream: BinaryIO,
    path: str,
    added: pl.DataFrame,
    new_name: Callable[[str, Collection[str]], str | None],
    *,
    report: Report | None = None,
) -> list[str]:
    """Write the file at `path` to an empty stream with a file's name, with the columns of `added` at its end.

    `new_name` is asked for each column, with all that the file has; None leaves a column out. The columns that the file
    has come back. `report` is told how many megabytes are copied.

    Raises:
        FooterRefusedError: it cannot be done this way; the stream has to be emptied.
        InputError: the file changed meanwhile.
    """
    columns = encode_columns(added.get_columns())
    if columns is None:
        raise FooterRefusedError("a new column has a type that is not handled")
    with Path(path).open("rb") as source:
        identity = file_identity(source)
        text, footer_start = read_footer(source)
        footer = Footer(text)
        if footer.n_rows != added.height:
            raise FooterRefusedError("the rows of the file are not those of the index")
        present = list(footer.columns)
        names = {name: new_name(name, present) for name in present}
        metadata = footer.metadata
        changed = {}
        if METADATA_KEY in metadata:
            changed[METADATA_KEY] = extended_schema(metadata[METADATA_KEY], added, names)
        copy_bytes(source, stream, footer_start, report)
        if file_identity(source) != identity:
            raise InputError(f"{show_path(path)}: the file changed while it was read")
    written = _write_chunks(stream, footer, columns, footer_start)
    made = footer.extended(
        [schema_element(column) for column in columns],
        written,
        names={name: new for name, new in names.items() if new != name},
        metadata=changed,
    )
    stream.write(made + len(made).to_bytes(4, "little") + MAGIC)
    stream.flush()
    _verify(stream.name, [*(new for new in names.values() if new is not None), *added.columns], added)
    return present


def copy_bytes(source: BinaryIO, target: BinaryIO, n_bytes: int, report: Report | None = None) -> None:
    """Copy the first bytes of a file to an empty one; the kernel does it, or shares the blocks where it can.

    Raises:
        OSError: the disk does not take it.
    """
    n_done = 0
    with suppress(OSError):  # across file systems, or where the file system has no such call
        while n_done < n_bytes:
            n_copied = os.copy_file_range(
                source.fileno(), target.fileno(), min(n_bytes - n_done, _COPY_BYTES), n_done, n_done
            )
            if not n_copied:
                break
            n_done += n_copied
            _tell(n_done, n_bytes, report)
    target.seek(n_done)
    source.seek(n_done)
    while n_done < n_bytes:
        piece = source.read(min(n_bytes - n_done, 1024**2))
        if not piece:
            raise FooterRefusedError("the file changed while it was read")
        target.write(piece)
        n_done += len(piece)
        _tell(n_done, n_bytes, report)


def _tell(n_done: int, n_bytes: int, report: Report | None) -> None:
    if report is not None:
        report(n_done // _MEGABYTE, n_bytes // _MEGABYTE, "MB copied")


def _write_chunks(
    stream: BinaryIO, footer: Footer, columns: Sequence[EncodedColumn], offset: int
) -> list[Added]:
    """Write the chunks of every row group from `offset` on."""
    writers = [ChunkWriter(column) for column in columns]
    written = []
    for start, stop in row_ranges([group.n_rows for group in footer.row_groups]):
        entries = []
        n_plain_bytes = n_bytes = 0
        for writer in writers:
            chunk = writer.cut(start, stop, offset)
            stream.writelines(chunk.pages)
            offset += chunk.n_bytes
            entries.append(chunk.entry)
            n_plain_bytes += chunk.n_plain_bytes
            n_bytes += chunk.n_bytes
        written.append(Added(entries, n_plain_bytes, n_bytes))
    return written


def _verify(path: str, expected: Sequence[str], added: pl.DataFrame) -> None:
    """Read the new file with another implementation.

    Raises:
        FooterRefusedError: its columns are not those that are expected, or the new ones have other values.
    """
    try:
        names = list(pl.read_parquet_schema(path))
        is_right = names == expected
        # Each reading takes the footer apart again; all columns of a long file at once would take its memory again.
        n_at_once = max(_VERIFIED_VALUES // max(added.height, 1), 1)
        for start in range(0, added.width if is_right else 0, n_at_once):
            part = added[:, start : start + n_at_once]
            found = pl.read_parquet(path, columns=part.columns, use_pyarrow=False)
            is_right = is_right and found.schema == part.schema and found.equals(part, null_equal=True)
    # A footer that is damaged in what was kept as it is may make the reader panic.
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        raise FooterRefusedError(f"the new file cannot be read: {error}") from error
    if not is_right:
        raise FooterRefusedError("the new file does not hold what was written")
