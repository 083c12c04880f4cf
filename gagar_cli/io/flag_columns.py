"""Whole columns of flags, which many writers of tables have as 1 and 0: the rule of `Fields.find`, for all rows at once."""

import polars as pl


def as_flags(column: pl.Series, name: str) -> pl.Series | None:
    """A column of flags, which may be numbers that are all 1 or 0; None where it is anything else."""
    found = column.dtype
    is_bits = (found.is_integer() or found.is_float()) and bool(((column == 0) | (column == 1)).all())
    return column.cast(pl.Boolean).alias(name) if is_bits or found in (pl.Boolean, pl.Null) else None
