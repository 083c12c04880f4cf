"""Where the records of neighbouring rows lie, told part by part: a place is an object, and rows may be millions."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import overload

import polars as pl

from gagar_cli.io.sources import Place

_PART_ROWS = 65_536
PLACE_COLUMNS = ("line", "offset", "length", "item")
RowPlace = tuple[int, int | None, int | None, int | None]
"""Line, offset, length and item of a row."""
Items = list[int | None]
"""Which attempts of one record are wanted; [None] where it is one attempt."""


class RowPlaces(Sequence[Place]):
    """The places of the rows from `start` to before `stop`, all of one source; rows of one record share a place.

    `read` gives `line`, `offset`, `length` and `item` of the rows from one to before another. To be iterated: anything
    else makes all places.
    """

    def __init__(self, read: Callable[[int, int], pl.DataFrame], start: int, stop: int) -> None:
        self._read = read
        self._parts = range(start, stop, _PART_ROWS)
        self._stop = stop

    def __iter__(self) -> Iterator[Place]:
        return (place for place, _ in self.told())

    def __len__(self) -> int:
        return sum(1 for _ in self)

    @overload
    def __getitem__(self, index: int) -> Place: ...
    @overload
    def __getitem__(self, index: slice) -> list[Place]: ...
    def __getitem__(self, index: int | slice) -> Place | list[Place]:
        return list(self)[index]

    def told(self) -> Iterator[tuple[Place, Items]]:
        """Each place with its items."""
        return _distinct(row for start in self._parts for row in self._rows(start))

    def _rows(self, start: int) -> Iterator[RowPlace]:
        part = self._read(start, min(start + _PART_ROWS, self._stop))
        return part.select(PLACE_COLUMNS).iter_rows()


def distinct_places(rows: Iterable[RowPlace]) -> tuple[list[Place], list[Items]]:
    """The places of some rows of one source in order, each once, and the items wanted of each."""
    told = list(_distinct(rows))
    return [place for place, _ in told], [items for _, items in told]


def _distinct(rows: Iterable[RowPlace]) -> Iterator[tuple[Place, Items]]:
    place: Place | None = None
    items: Items = []
    for line, offset, length, item in rows:
        # Native records may share a line (branches of one trace): their places differ.
        if place is None or (place.line, place.offset) != (line, offset):
            if place is not None:
                yield place, items
            place, items = Place(line, offset, length), []
        items.append(item)
    if place is not None:
        yield place, items
