"""Rankings files: one JSON line a group, or one Parquet row a candidate.

They come from the grader, a person or another tool. The last line of a group wins, which is left to
`latest_rankings`: a reader that follows a ledger wants them all. A line with a checksum must fit it.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import TYPE_CHECKING, BinaryIO

from gagar_cli.core.ranking import GroupRanking
from gagar_cli.core.schema import GroupKey
from gagar_cli.errors import InputError
from gagar_cli.io.foreign import open_dump_file
from gagar_cli.io.jsonl import Line, parse_line, read_lines
from gagar_cli.io.ledger_lines import read_checked, read_sealed
from gagar_cli.io.ranking_records import ranking_from_record, ranking_to_record
from gagar_cli.io.records import placed
from gagar_cli.io.streams import show_path

if TYPE_CHECKING:
    from gagar_cli.io.read_progress import Report

__all__ = [
    "latest_rankings",
    "ranking_from_record",
    "ranking_to_record",
    "read_rankings",
    "write_rankings_parquet",
]

_MEGABYTE = 10**6


def read_rankings(path: str, *, progress: "Report | None" = None) -> Iterator[GroupRanking]:
    """The rankings of a file (JSON lines, `.gz`, `.zst`, `.parquet`) or of `-`, in order.

    `progress` is told how much of the lines was read.

    Raises:
        InputError: the file cannot be read, or a line or row is no valid ranking; with its place.
    """
    opened = open_dump_file(path)
    with closing(opened.stream) as stream:
        if opened.kind == "parquet":
            # With the file its library would cost 40 MB of memory, which JSON lines have no use for.
            from gagar_cli.io.rankings_table import read_ranking_table

            yield from read_ranking_table(path)
            return
        name = show_path(path)
        lines = read_lines(stream)
        for line in lines if progress is None else _counted(lines, stream, progress):
            record = read_sealed(line) or parse_line(line, name)
            if "checksum" in record:
                record = read_checked(line, path)
            try:
                ranking = ranking_from_record(record)
            except InputError as error:
                raise placed(error, f"{name}:{line.number}") from error
            yield ranking


def _counted(lines: Iterator[Line], stream: BinaryIO, progress: "Report") -> Iterator[Line]:
    n_all = os.fstat(stream.fileno()).st_size // _MEGABYTE
    n_told = -1
    for line in lines:
        n_done = line.offset // _MEGABYTE
        if n_all and n_done != n_told:
            n_told = n_done
            progress(n_done, n_all, "MB of the rankings read")
        yield line


def write_rankings_parquet(path: str, rankings: Iterable[GroupRanking]) -> None:
    """Rankings as a flat table, whole or not at all.

    Raises:
        OutputError: it cannot be written.
    """
    from gagar_cli.io import rankings_table

    rankings_table.write_rankings_parquet(path, rankings)


def latest_rankings(rankings: Iterable[GroupRanking]) -> dict[GroupKey, GroupRanking]:
    """The last ranking of each group, in the order in which groups first appear."""
    latest: dict[GroupKey, GroupRanking] = {}
    for ranking in rankings:
        latest[ranking.key] = ranking
    return latest
