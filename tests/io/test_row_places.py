"""Places of rows against a list of them."""

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gagar_cli.io.row_places import RowPlaces, distinct_places
from gagar_cli.io.sources import Place

Row = tuple[int, int | None, int | None, int | None]


def places_of(rows: list[Row], start: int = 0) -> RowPlaces:
    frame = pl.DataFrame(
        rows, schema=dict.fromkeys(("line", "offset", "length", "item"), pl.Int64), orient="row"
    )
    return RowPlaces(lambda first, stop: frame[first:stop], start, len(rows))


@given(st.lists(st.integers(1, 3), max_size=20))
def test_attempts_of_one_record_share_a_place(n_items: list[int]) -> None:
    rows: list[Row] = [
        (line, line * 10, 9, item) for line, n_of in enumerate(n_items, 1) for item in range(n_of)
    ]
    expected = [(Place(line, line * 10, 9), list(range(n_of))) for line, n_of in enumerate(n_items, 1)]
    places = places_of(rows)
    assert list(places.told()) == expected
    assert list(places) == [place for place, _ in expected]
    assert len(places) == len(expected)
    assert distinct_places(rows) == ([place for place, _ in expected], [items for _, items in expected])


def test_a_record_may_go_over_the_border_of_two_parts() -> None:
    rows: list[Row] = [(row // 3 + 1, None, None, row % 3) for row in range(65_536 * 2)]
    told = list(places_of(rows).told())
    assert len(told) == -(-len(rows) // 3)
    assert all(items == [0, 1, 2] for _, items in told[:-1])
    assert [place.line for place, _ in told] == list(range(1, len(told) + 1))


def test_branches_on_one_line_have_places_of_their_own() -> None:
    rows: list[Row] = [(1, 0, 5, None), (1, 5, 5, None), (2, 10, 5, None)]
    assert list(places_of(rows)) == [Place(1, 0, 5), Place(1, 5, 5), Place(2, 10, 5)]
    assert places_of(rows)[1] == Place(1, 5, 5)
    assert places_of(rows)[1:] == [Place(1, 5, 5), Place(2, 10, 5)]
    assert list(places_of(rows, 2)) == [Place(2, 10, 5)]
    with pytest.raises(IndexError):
        places_of(rows)[3]
