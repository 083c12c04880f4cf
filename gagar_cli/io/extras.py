"""Further scalar columns of a dump, beside those of the index: for methods, penalties and conditions that name them.

A column is text, numbers or flags; the first value that is not null settles which, and a record that says otherwise is
bad. Integers beyond 2**53 are rounded. In the index each has the name of `extra_column`.
"""

import math
from collections.abc import Mapping, Sequence

import polars as pl

from gagar_cli.errors import InputError
from gagar_cli.io.flag_columns import as_flags
from gagar_cli.io.jsonl import show_value
from gagar_cli.io.records import FLAG_FIELDS, MISSING, Fields, look_up

Value = str | float | bool | None
_CHUNK_ROWS = 8192
_KINDS: dict[str, type[pl.DataType]] = {
    "text": pl.String,
    "a number": pl.Float64,
    "true or false": pl.Boolean,
}


def extra_column(name: str) -> str:
    """The name that an extra column has in the index."""
    return f"extra:{name}"


class ExtraColumns:
    """Collects the extra columns of records, in reading order."""

    def __init__(self, names: Sequence[str], fields: Fields) -> None:
        self._names = tuple(dict.fromkeys(names))
        self._fields = fields
        self._kinds: dict[str, str] = {}
        self._unseen = set(self._names)
        self._rows: list[tuple[Value, ...]] = []
        self._chunks: list[pl.DataFrame] = []

    @property
    def missing(self) -> tuple[str, ...]:
        """Columns that no record had, not even as null."""
        return tuple(name for name in self._names if name in self._unseen)

    def read(self, record: Mapping[str, object]) -> tuple[Value, ...]:
        """The values of one record.

        Raises:
            InputError: a value is no scalar, or of another kind than those before.
        """
        return tuple(self._read(record, name) for name in self._names)

    def add(self, values: tuple[Value, ...]) -> None:
        """Append the values of one record."""
        self._rows.append(values)
        if len(self._rows) >= _CHUNK_ROWS:
            self._pack()

    def clean(self, table: pl.DataFrame) -> pl.DataFrame | None:
        """The columns of neighbouring records; None where any is in doubt and wants to be read one by one."""
        columns = []
        for name in self._names:
            path = self._fields.mapping.get(name, name)
            if path not in table.columns:
                if (
                    path.partition(".")[0] in table.columns
                    or self._fields.find(dict.fromkeys(table.columns), name) is None
                ):
                    return None
                columns.append(pl.repeat(None, table.height, dtype=pl.Null, eager=True).alias(name))
                continue
            found = table[path]
            if name in FLAG_FIELDS and found.dtype.is_numeric():
                flags = as_flags(found, name)
                if flags is None:
                    return None
                found = flags
            kind = _kind_of(found.dtype)
            if kind is None or self._kinds.get(name, kind) != kind:
                return None
            column = found.cast(_KINDS[kind]).alias(name)
            if kind == "a number" and column.is_infinite().any():
                return None
            columns.append(column)
            self._unseen.discard(name)
            if column.null_count() < len(column):
                self._kinds[name] = kind
        return pl.DataFrame(columns) if columns else pl.DataFrame(height=table.height)

    def add_table(self, clean: pl.DataFrame) -> None:
        """Append what `clean` gave."""
        self._pack()
        self._chunks.append(clean)

    def finish(self) -> pl.DataFrame:
        """All rows, by the names of `extra_column`."""
        self._pack()
        types = {name: _KINDS[self._kinds[name]] if name in self._kinds else pl.Null for name in self._names}
        chunks = [chunk.cast(types) for chunk in self._chunks]  # type: ignore[arg-type]
        self._chunks = []
        frame = pl.concat(chunks) if chunks else pl.DataFrame(schema=types)
        return frame.rename({name: extra_column(name) for name in self._names})

    def _read(self, record: Mapping[str, object], name: str) -> Value:
        value = self._fields.find(record, name)
        if value is MISSING:
            value = look_up(record, self._fields.mapping.get(name, name))
        if value is MISSING:
            return None
        self._unseen.discard(name)
        if value is None:
            return None
        kind = _kind(value)
        expected = self._kinds.setdefault(name, kind) if kind else "text, a number, true, false or null"
        if kind != expected:
            more = ", as in the records before" if kind else ""
            raise InputError(f"{name} is {show_value(value)}, expected {expected}{more}")
        return float(value) if kind == "a number" else value  # type: ignore[arg-type, return-value]

    def _pack(self) -> None:
        if not self._rows:
            return
        columns = zip(*self._rows, strict=True)
        series = []
        for name, values in zip(self._names, columns, strict=True):
            kind = self._kinds.get(name)
            series.append(pl.Series(name, values, dtype=_KINDS[kind] if kind else pl.Null))
        self._chunks.append(pl.DataFrame(series))
        self._rows = []


def _kind(value: object) -> str | None:
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, int | float):
        try:
            return None if math.isinf(value) else "a number"
        except OverflowError:
            return None
    # A lone surrogate cannot be stored as text.
    return "text" if isinstance(value, str) and value.encode(errors="ignore").decode() == value else None


def _kind_of(dtype: pl.DataType) -> str | None:
    if dtype == pl.Boolean:
        return "true or false"
    if dtype == pl.String or isinstance(dtype, pl.Categorical):
        return "text"
    return "a number" if dtype.is_integer() or dtype.is_float() else None
