"""Skimmed lines put together as tables, so that their scalars are checked by columns and not one by one.

A table holds neighbouring lines whose objects have the same keys and, under every name that is wanted, scalars of one
kind; all other lines stay what they are. What a value means is left to whoever reads the table.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import polars as pl

from gagar_cli.errors import InputError
from gagar_cli.io.jsonl_skim import LinePlace, Parsed
from gagar_cli.io.markers import is_marker

_MAX_ROWS = 8192
_MIN_ROWS = 64
"""Fewer lines are sooner read one by one."""
_KINDS: tuple[set[type], ...] = ({str}, {bool}, {int}, {float}, {int, float}, set())
"""Types that one column may hold, beside null; true among numbers is a mistake that a column would hide."""
Skimmed = tuple[LinePlace, Parsed]


class SkimmedTable(NamedTuple):
    """Neighbouring lines as a table."""

    table: pl.DataFrame
    spans: pl.DataFrame
    """`offset` and `length` of each line."""
    lines: list[Skimmed]


def tabled(lines: Iterable[Skimmed], names: Sequence[str]) -> Iterator[Skimmed | SkimmedTable]:
    """The same lines in the same order, as tables of the columns `names` where that can be."""
    waiting: list[Skimmed] = []
    expected: tuple[int, object] | None = None
    for place, parsed in lines:
        is_plain = not isinstance(parsed, InputError) and not is_marker(parsed)
        keys = parsed.keys() if isinstance(parsed, dict) else None
        if not is_plain or len(waiting) == _MAX_ROWS or (place.number, keys) != expected:
            yield from _settled(waiting, names)
            waiting = []
        if is_plain:
            waiting.append((place, parsed))
            expected = (place.number + 1, keys)
        else:
            yield place, parsed
    yield from _settled(waiting, names)


def _settled(lines: list[Skimmed], names: Sequence[str]) -> Iterator[Skimmed | SkimmedTable]:
    records = [parsed for _, parsed in lines if isinstance(parsed, dict)]
    table = _as_table(records, names) if len(records) >= _MIN_ROWS else None
    if table is None:
        yield from lines
        return
    places = [place for place, _ in lines]
    spans = {"offset": [place.offset for place in places], "length": [place.length for place in places]}
    yield SkimmedTable(table, pl.DataFrame(spans, schema=dict.fromkeys(spans, pl.Int64)), lines)


def _as_table(records: Sequence[Mapping[str, object]], names: Sequence[str]) -> pl.DataFrame | None:
    columns = []
    try:
        for name in names:
            if name in records[0]:
                values = [record[name] for record in records]
                kinds = set(map(type, values)) - {type(None)}
                if kinds not in _KINDS:
                    return None
                columns.append(pl.Series(name, values, dtype=pl.Float64 if len(kinds) > 1 else None))
        return pl.DataFrame(columns) if columns else None
    # An integer beyond 64 bits and half of a surrogate pair have no place in a column.
    except (pl.exceptions.PolarsError, OverflowError, ValueError, TypeError):
        return None
