"""Which rows of an index a condition holds for."""

from functools import reduce
from operator import and_, or_

import polars as pl

from gagar_cli.core.conditions import Comparison, Condition, Flag, Negation, columns_of
from gagar_cli.errors import UsageError
from gagar_cli.io.extras import extra_column

_KINDS = {pl.String: "text", pl.Float64: "numbers", pl.Boolean: "true and false"}


def rows_that_meet(condition: Condition, index: pl.DataFrame, flag: str) -> pl.Series:
    """(n_rows,) whether the condition holds; the index has its columns as extras, none of them missing.

    Raises:
        UsageError: a column is compared with a literal of another kind.
    """
    types = {name: index.schema[extra_column(name)] for name in columns_of(condition)}
    # with_columns, as a condition without a known value is one literal and select would make one row of it.
    return index.with_columns(_expression(condition, types, flag).alias("meets"))["meets"]


def _expression(condition: Condition, types: dict[str, pl.DataType], flag: str) -> pl.Expr:
    if isinstance(condition, Comparison):
        return _comparison(condition, types[condition.column], flag)
    if isinstance(condition, Flag):
        if types[condition.column] not in (pl.Boolean, pl.Null):
            raise _mismatch(condition.column, types[condition.column], "true or false", flag)
        return pl.col(extra_column(condition.column)).cast(pl.Boolean).fill_null(value=False)
    if isinstance(condition, Negation):
        return ~_expression(condition.condition, types, flag)
    parts = [_expression(part, types, flag) for part in condition.conditions]
    return reduce(and_ if condition.is_all else or_, parts)


def _comparison(comparison: Comparison, dtype: pl.DataType, flag: str) -> pl.Expr:
    for value in comparison.values:
        wanted = pl.DataFrame({"value": [value]}).schema["value"]
        if value is not None and dtype not in (wanted, pl.Null):
            raise _mismatch(comparison.column, dtype, repr(value), flag)
    column = pl.col(extra_column(comparison.column))
    if dtype == pl.Null:
        column = column.cast(pl.String if isinstance((comparison.values or (None,))[0], str) else pl.Float64)
    known = [value for value in comparison.values if value is not None]
    if comparison.operator in ("==", "in", "!=", "not in"):
        is_one = pl.lit(value=False)
        if known and dtype != pl.Null:
            is_one = column.is_in(known).fill_null(value=False)
        if None in comparison.values:
            is_one = is_one | column.is_null()
        return is_one if comparison.operator in ("==", "in") else ~is_one
    compare = {"<": column.lt, "<=": column.le, ">": column.gt, ">=": column.ge}[comparison.operator]
    return compare(pl.lit(known[0])).fill_null(value=False)


def _mismatch(column: str, dtype: pl.DataType, compared: str, flag: str) -> UsageError:
    return UsageError(f"{flag} compares {column}, which holds {_KINDS[type(dtype)]}, with {compared}")
