"""A column that grows at its end, in place: chunks that are put together at last take twice the memory."""

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gagar_cli.io.arrays import to_series


class Growing:
    """Numbers or flags, integers as narrow as the widest of them if not told otherwise; null where nothing was told."""

    def __init__(self, name: str, *, is_narrow: bool = True) -> None:
        self.name = name
        self._is_narrow = is_narrow
        self._values: NDArray[np.generic] | None = None
        self._is_null: NDArray[np.bool_] | None = None
        self._n_rows = 0

    def __len__(self) -> int:
        return self._n_rows

    def extend(self, column: pl.Series) -> None:
        """Append values of one kind."""
        values = self._filled(column)
        start = self._n_rows
        self._grow(values.dtype, len(values))
        self._held[start:] = values
        if column.has_nulls() or self._is_null is not None:
            self._nulls[start:] = column.is_null().to_numpy()

    def skip(self, n_rows: int, *, is_null: bool = True) -> None:
        """Append rows of which nothing is told: nulls, or zeroes."""
        start = self._n_rows
        self._grow(np.dtype(np.bool_) if self._values is None else self._values.dtype, n_rows)
        if n_rows and (is_null or self._is_null is not None):
            self._nulls[start:] = is_null

    def assign(self, start: int, column: pl.Series) -> None:
        """Put other values of the same kind in the place of those from `start` on."""
        stop = start + len(column)
        self._held[start:stop] = self._filled(column)
        if column.has_nulls() or self._is_null is not None:
            self._nulls[start:stop] = column.is_null().to_numpy()

    def values(self) -> NDArray[np.generic]:
        """All values; anything where they are null. Not to be held while the column grows."""
        return self._held

    def series(self, start: int = 0, stop: int | None = None) -> pl.Series:
        """The rows from `start` to before `stop`."""
        made = to_series(self._held[start:stop], self.name)
        if self._is_null is None or not self._is_null[start:stop].any():
            return made
        return made.set(to_series(self._is_null[start:stop]), None)

    def _filled(self, column: pl.Series) -> NDArray[np.generic]:
        """The values of a column, zeroes for nulls, integers in the narrowest type that holds them."""
        if column.has_nulls():
            column = column.fill_null(value=False) if column.dtype == pl.Boolean else column.fill_null(0)
        is_narrowed = self._is_narrow and column.dtype.is_integer()
        values: NDArray[np.generic] = (column.shrink_dtype() if is_narrowed else column).to_numpy()
        return values

    @property
    def _held(self) -> NDArray[np.generic]:
        return np.empty(0, dtype=np.bool_) if self._values is None else self._values

    @property
    def _nulls(self) -> NDArray[np.bool_]:
        if self._is_null is None:
            self._is_null = np.zeros(self._n_rows, dtype=bool)
        return self._is_null

    def _grow(self, dtype: np.dtype[np.generic], n_rows: int) -> None:
        self._n_rows += n_rows
        if self._values is None:
            self._values = np.zeros(self._n_rows, dtype=dtype)
        else:
            widest = np.promote_types(self._values.dtype, dtype)
            if widest != self._values.dtype:
                self._values = self._values.astype(widest)
            # Where memory is mapped, as it is for all that is large, this moves pages and copies nothing.
            self._values.resize(self._n_rows, refcheck=False)
        if self._is_null is not None:
            self._is_null.resize(self._n_rows, refcheck=False)
