import subprocess
import sys

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

from gagar_cli.io.arrays import MAX_SHORT, to_series

ARRAYS = [
    np.array([True, False]),
    np.array([-128, 127], dtype=np.int8),
    np.array([-(2**15), 2**15 - 1], dtype=np.int16),
    np.array([-(2**31), 2**31 - 1], dtype=np.int32),
    np.array([-(2**63), 2**63 - 1]),
    np.array([0, 2**8 - 1], dtype=np.uint8),
    np.array([0, 2**32 - 1], dtype=np.uint32),
    np.array([0, 2**64 - 1], dtype=np.uint64),
    np.array([0.1, -0.0, np.nan, np.inf, 5e-324]),
    np.array([0.1, np.nan], dtype=np.float32),
    np.array([], dtype=np.float64),
    np.arange(MAX_SHORT + 1),
    np.arange(12)[::3],
]


@pytest.mark.parametrize("values", ARRAYS, ids=[f"{values.dtype} {len(values)}" for values in ARRAYS])
def test_a_column_is_what_polars_makes_of_the_array(values: NDArray[np.generic]) -> None:
    made, expected = to_series(values, "x"), pl.Series("x", values)
    assert (made.name, made.dtype, made.null_count()) == ("x", expected.dtype, 0)
    assert made.to_numpy().tobytes() == expected.to_numpy().tobytes()


def test_a_short_array_needs_no_masked_ones() -> None:
    script = (
        "import sys, numpy as np; from gagar_cli.io.arrays import to_series; "
        "to_series(np.arange(9.0)); sys.exit('numpy.ma' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
