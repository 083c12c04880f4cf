"""How much of a dump's files was read, for whoever waits for a long one.

Lines count as their bytes, rows of Parquet as their share of the file's bytes. Where a source has no size of its own
(native files, files with joined ones), all sources of the dump count one by one.
"""

from collections.abc import Callable, Iterator, Sequence

from gagar_cli.io.sources import Scanned, ScannedTable, Source

Report = Callable[[int, int, str], None]
"""Told how much is done, of how much, and what it is that is counted."""
_MEGABYTE = 10**6


class ReadProgress:
    """Reports the megabytes, or the sources, that were read; each number once, and nothing of less than a megabyte."""

    def __init__(self, sources: Sequence[Source], report: Report) -> None:
        self._sources = sources
        self._report = report
        sizes = [getattr(source, "n_bytes", None) for source in sources]
        self._sizes = [size for size in sizes if size is not None]
        self._are_sized = len(self._sizes) == len(sources)
        self._n_told = -1

    def follow(
        self, number: int, pieces: Iterator[Scanned | ScannedTable]
    ) -> Iterator[Scanned | ScannedTable]:
        """The pieces of a source, each reported when the next one is asked for."""
        n_before = sum(self._sizes[:number])
        n_rows: int | None = getattr(self._sources[number], "n_rows", None)
        self._tell(number, n_before)
        for piece in pieces:
            yield piece
            if self._are_sized:
                n_bytes = _bytes_of(piece, self._sizes[number], n_rows)
                self._tell(number, n_before + n_bytes)
        self._tell(number + 1, sum(self._sizes[: number + 1]))

    def _tell(self, n_sources: int, n_bytes: int) -> None:
        unit, n_done, n_all = "files", n_sources, len(self._sources)
        if self._are_sized:
            unit, n_done, n_all = "MB", n_bytes // _MEGABYTE, sum(self._sizes) // _MEGABYTE
        if n_all and n_done != self._n_told:
            self._n_told = n_done
            self._report(n_done, n_all, f"{unit} of the dump read")


def _bytes_of(piece: Scanned | ScannedTable, size: int, n_rows: int | None) -> int:
    """How much of its file is read with a piece."""
    if isinstance(piece, Scanned):
        line, offset, length = piece.place.line, piece.place.offset, piece.place.length
    else:
        line, offset, length = piece.first_line + piece.table.height - 1, None, None
        if piece.spans is not None and piece.spans.height:
            offset, length = piece.spans.row(-1)
    if offset is not None and length is not None:
        return min(offset + length, size)
    return size * min(line, n_rows) // n_rows if n_rows else 0
