"""A whole dump written again with columns added: nothing that was there is typed anew.

JSON lines keep their text, only cut between members, native ones too; other native files are refused. One Parquet file keeps its bytes (`io/parquet_splice.py`); where
that cannot be, and for several, it is streamed in batches with its schema. A column that is added replaces one of the
same name, but for `advantage`: what the dump had stays as `advantage_input`. Memory is bounded by one record, or one
batch of Parquet.
"""

from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import polars as pl

from gagar_cli.errors import InputError, UsageError
from gagar_cli.io.dump import Dump
from gagar_cli.io.jsonl import dump_line
from gagar_cli.io.jsonl_copy import LineSplicer, Piece
from gagar_cli.io.parquet_schema import FooterRefusedError
from gagar_cli.io.parquet_splice import splice_columns
from gagar_cli.io.read_progress import Report
from gagar_cli.io.splice import NotAnObjectError
from gagar_cli.io.streams import list_shards, show_path
from gagar_cli.io.writers import write_atomically, write_pieces

KEPT_AS = {"advantage": "advantage_input"}
_CHUNK_ROWS = 4096
_LINES_A_REPORT = 256


def is_parquet(path: str) -> bool:
    """Whether a path names a Parquet file by its suffix."""
    return Path(path).suffix.lower() in (".parquet", ".pq")


def write_full_copy(
    path: str,
    dump: Dump,
    paths: Sequence[str],
    added: pl.DataFrame,
    *,
    report: Report | None = None,
) -> tuple[str, ...]:
    """The dump with the columns of `added`, one row of it for each row of the index, in reading order.

    `paths` are what the dump was opened with. JSON lines for `-` and for any suffix but Parquet's. The names of the
    dump's columns that `added` replaced come back; `advantage` is not one of them where it is kept.

    Raises:
        UsageError: Parquet is asked for, and the dump is not Parquet or is exploded; a native dump whose attempts are no
            lines, or are joined.
        InputError: Parquet files of different columns, a file that changed, or a line that cannot be taken apart.
        OutputError: it cannot be written.
    """
    if (name := dump.uncopied) is not None:
        raise UsageError(
            f"--full-copy cannot keep {name} as it stands: its attempts are converted or joined on reading",
            "leave out `--full-copy` for a sidecar, or copy what `gagar convert` makes of it",
        )
    if not is_parquet(path):
        replaced: set[str] = set()
        write_pieces(path, _counted(_lines(dump, added, replaced), added.height, report))
        return tuple(name for name in added.columns if name in replaced)
    index = dump.index
    if not (index["item"].null_count() == index["offset"].null_count() == index.height):
        raise UsageError(
            f"--full-copy to {show_path(path)} needs a Parquet dump with one row an attempt",
            "name the output `.jsonl`, or leave out `--full-copy` for a sidecar",
        )
    shards = [shard for each in paths for shard in list_shards(each)]
    with write_atomically(path) as stream:
        if len(shards) == 1:
            try:
                return _splice_parquet(stream, shards[0], added, report)
            except FooterRefusedError:
                stream.seek(0)
                stream.truncate()
        # Its library costs a tenth of a second, which a splice has no use for.
        from gagar_cli.io.parquet_rewrite import rewrite_parquet

        return rewrite_parquet(stream, shards, index, added, report=report)


def _lines(dump: Dump, added: pl.DataFrame, replaced: set[str]) -> Iterator[Sequence[Piece]]:
    """The records as JSON lines, in the order of the index; names that lose their value are added to `replaced`."""
    chunks = added.iter_slices(_CHUNK_ROWS)
    values = (row for chunk in chunks for row in chunk.iter_rows(named=True))
    if not dump.is_spliceable:
        for record, members in zip(dump.iter_records(), values, strict=True):
            replaced |= lost_names(record, members)
            yield (dump_line(_overlay(record, members)),)
        return
    splicer = LineSplicer(added.columns, KEPT_AS)
    n_done = 0
    for block, spans in dump.iter_blocks():
        try:
            for pieces in splicer.splice(block, spans, list(islice(values, len(spans)))):
                yield pieces
                n_done += 1
        # An index does not need the middle of a long line; a copy does that replaces something there.
        except NotAnObjectError as error:
            raise InputError(
                f"{dump.where(n_done)}: cannot be copied with other members: {error}",
                "leave out `--full-copy` for a sidecar",
            ) from error
    replaced |= splicer.replaced


def lost_names(names: Collection[str], added: Collection[str]) -> set[str]:
    """Columns that are replaced and not kept under another name."""
    return {name for name in added if name in names and (name not in KEPT_AS or KEPT_AS[name] in names)}


def _overlay(record: dict[str, object], members: dict[str, object]) -> dict[str, object]:
    kept = {KEPT_AS[key]: record[key] for key in KEPT_AS if key in record and KEPT_AS[key] not in record}
    return {key: value for key, value in record.items() if key not in members} | kept | members


def _counted(
    lines: Iterator[Sequence[Piece]], n_lines: int, report: Report | None
) -> Iterator[Sequence[Piece]]:
    for n_done, line in enumerate(lines):
        if report is not None and n_done % _LINES_A_REPORT == 0:
            report(n_done, n_lines, "records copied")
        yield line


def _splice_parquet(
    stream: BinaryIO, shard: str, added: pl.DataFrame, report: Report | None
) -> tuple[str, ...]:
    present = splice_columns(
        stream,
        shard,
        added,
        lambda name, names: new_name(name, names, added.columns),
        report=report,
    )
    lost = lost_names(present, added.columns)
    return tuple(name for name in added.columns if name in lost)


def new_name(name: str, present: Collection[str], added: Collection[str]) -> str | None:
    """What a column of the dump is called in the copy; None where it is replaced."""
    if name in KEPT_AS and KEPT_AS[name] not in present:
        return KEPT_AS[name]
    return None if name in added else name
