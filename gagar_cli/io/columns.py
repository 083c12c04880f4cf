"""Scalar columns of a table checked all at once, where they are clean; a shortcut of `read_scalars`, never another rule.

A table of millions of rows takes minutes record by record. Whatever is not plainly right here (a wrong type, an
empty id, an infinite reward) makes the whole batch go the slow way, which finds the row and words the error.
"""

import polars as pl

from gagar_cli.core.schema import MAX_REWARD
from gagar_cli.io.flag_columns import as_flags
from gagar_cli.io.records import ALIASES, MAX_KEY_CHARS, Fields, Scalars
from gagar_cli.io.row_table import TYPES

_NAMES = Scalars._fields[1:]
_COUNTS = ("n_turns", "n_output_tokens")
_FLAGS = ("infra_failure", "mask_sample")
"""Missing or null is false."""


def clean_scalars(table: pl.DataFrame, fields: Fields, group_field: str | None) -> pl.DataFrame | None:
    """The columns of `Scalars` for every row, `group_id` being the group key; None where any row is in doubt."""
    group = None if group_field is None else _group_key(table, fields, group_field)
    if group is None:
        return None
    columns = [group]
    for name in _NAMES:
        type_ = TYPES[name]
        column = _find(table, fields, name)
        made = _absent(name, type_, table.height) if column is None else _checked(column, name, type_)
        if made is None:
            return None
        columns.append(made)
    has_verdict = any(_find(table, fields, name) is not None for name in ("reward", "resolved"))
    return pl.DataFrame(columns) if has_verdict and not _is_nested(table, fields) else None


def _group_key(table: pl.DataFrame, fields: Fields, group_field: str) -> pl.Series | None:
    group_ids = _find(table, fields, "group_id")
    if group_field == "group_id":
        return None if group_ids is None else _identifiers(group_ids, "group_id")
    if group_ids is not None and group_ids.null_count() < table.height:
        return None
    is_canonical = group_field == "instance_id"
    column = (
        _find(table, fields, group_field) if is_canonical else table.get_column(group_field, default=None)
    )
    keys = None if column is None else _identifiers(column, "group_id")
    if keys is None or is_canonical:
        return keys
    return keys if (keys.str.len_chars() <= MAX_KEY_CHARS).all() else None


def _find(table: pl.DataFrame, fields: Fields, name: str) -> pl.Series | None:
    names = [fields.mapping[name]] if name in fields.mapping else [name, ALIASES.get(name, name)]
    return next((table[each] for each in names if each in table.columns), None)


def _is_nested(table: pl.DataFrame, fields: Fields) -> bool:
    """Whether a mapped path leads into a column of the table."""
    paths = (path for path in fields.mapping.values() if path not in table.columns)
    return any(path.partition(".")[0] in table.columns for path in paths)


def _absent(name: str, type_: type[pl.DataType], height: int) -> pl.Series | None:
    """A column that the table lacks; not for ids, which are made from the place."""
    if name == "trajectory_id":
        return None
    value = False if name in _FLAGS else None
    return pl.repeat(value, height, dtype=type_, eager=True).alias(name)


def _identifiers(column: pl.Series, name: str) -> pl.Series | None:
    if not (
        column.dtype == pl.String or isinstance(column.dtype, pl.Categorical) or column.dtype.is_integer()
    ):
        return None
    ids = column.cast(pl.String).alias(name)
    if ids.has_nulls() or (ids == "").any() or ids.str.contains("\0", literal=True).any():
        return None
    return ids


def _checked(column: pl.Series, name: str, type_: type[pl.DataType]) -> pl.Series | None:
    found = column.dtype
    if type_ == pl.String:
        return _identifiers(column, name)
    if type_ == pl.Boolean:
        flags = as_flags(column, name)
        return flags.fill_null(value=False) if flags is not None and name in _FLAGS else flags
    is_fit = found == pl.Null or (
        found.is_numeric() or (name == "reward" and found == pl.Boolean)
        if type_ == pl.Float64
        else found.is_integer()
    )
    if not is_fit or found.is_decimal():
        return None
    made = column.cast(type_, strict=False).alias(name)
    if made.null_count() != column.null_count() or (name in _COUNTS and (made < 0).any()):
        return None
    if type_ == pl.Float64 and (made.is_infinite().any() or (name == "advantage" and made.is_nan().any())):
        return None
    if name == "reward" and (made.abs().fill_nan(0) > MAX_REWARD).any():
        return None
    return made
