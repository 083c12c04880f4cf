"""A column that grows against a plain list."""

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from gagar_cli.io.growing import Growing

INTEGERS = st.none() | st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3)
NUMBERS = st.none() | st.floats(allow_nan=False)
FLAGS = st.none() | st.booleans()


def steps(values: st.SearchStrategy[object]) -> st.SearchStrategy[list[list[object] | int]]:
    return st.lists(st.lists(values, max_size=6) | st.integers(0, 4), max_size=6)


def grown(
    pieces: list[list[object] | int], dtype: type[pl.DataType], *, is_null: bool
) -> tuple[Growing, list[object]]:
    column, expected = Growing("x"), []
    for piece in pieces:
        if isinstance(piece, int):
            column.skip(piece, is_null=is_null)
            expected += [None if is_null else 0] * piece
        else:
            column.extend(pl.Series(piece, dtype=dtype))
            expected += piece
    return column, expected


@given(
    st.sampled_from([(INTEGERS, pl.Int64), (NUMBERS, pl.Float64), (FLAGS, pl.Boolean)]).flatmap(
        lambda kind: st.tuples(steps(kind[0]), st.just(kind[1]))
    ),
    st.booleans(),
    st.data(),
)
def test_a_column_holds_what_was_appended(
    given_: tuple[list[list[object] | int], type[pl.DataType]], is_null: bool, data: st.DataObject
) -> None:
    column, expected = grown(*given_, is_null=is_null)
    start = data.draw(st.integers(0, len(expected)))
    stop = data.draw(st.integers(start, len(expected)))
    assert len(column) == len(expected)
    assert column.series().to_list() == expected
    assert column.series(start, stop).to_list() == expected[start:stop]


def test_integers_are_as_narrow_as_the_widest() -> None:
    column = Growing("x")
    types = []
    for value in (1, 300, 2**20, None, 2**40, 5):
        column.extend(pl.Series([value], dtype=pl.Int64))
        types.append(column.series().dtype)
    assert types == [pl.Int8, pl.Int16, pl.Int32, pl.Int32, pl.Int64, pl.Int64]
    assert column.series().to_list() == [1, 300, 2**20, None, 2**40, 5]


def test_values_are_put_in_the_place_of_others() -> None:
    column = Growing("x")
    column.extend(pl.Series([1.0, None, 3.0, 4.0]))
    column.assign(1, pl.Series([2.0, None]))
    assert column.series().to_list() == [1.0, 2.0, None, 4.0]
