"""Arrays as columns."""

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

MAX_SHORT = 8192
_TYPES: dict[np.dtype[Any], type[pl.DataType]] = {
    np.dtype(np.bool_): pl.Boolean,
    np.dtype(np.int8): pl.Int8,
    np.dtype(np.int32): pl.Int32,
    np.dtype(np.int64): pl.Int64,
    np.dtype(np.uint8): pl.UInt8,
    np.dtype(np.uint32): pl.UInt32,
    np.dtype(np.uint64): pl.UInt64,
    np.dtype(np.float64): pl.Float64,
}


def to_series(values: NDArray[Any], name: str = "") -> pl.Series:
    """The column `pl.Series(name, values)`, in another way where the array is short.

    To read an array polars wants numpy's masked arrays, whose import takes longer than a step's worth of values does
    one by one.
    """
    dtype = _TYPES.get(values.dtype) if values.ndim == 1 and len(values) <= MAX_SHORT else None
    return pl.Series(name, values) if dtype is None else pl.Series(name, values.tolist(), dtype=dtype)
