"""Codes of groups against a dict that numbers keys as they appear."""

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from gagar_cli.io.group_codes import TextCodes, combine_steps

STEPS = st.none() | st.integers(-(2**63), 2**63 - 1) | st.integers(0, 2)
ROWS = st.lists(st.tuples(STEPS, st.sampled_from(["a", "b", "cc", "d" * 30, "é"])), min_size=1, max_size=15)


def coded(chunks: list[list[tuple[int | None, str]]]) -> tuple[list[int], list[tuple[int | None, str]]]:
    texts = TextCodes()
    codes = [texts.code(pl.Series([text for _, text in chunk])) for chunk in chunks]
    steps = [pl.Series([step for step, _ in chunk], dtype=pl.Int64) for chunk in chunks]
    told = [None if step.null_count() == len(step) else step for step in steps]
    found, groups = combine_steps(texts.texts(), codes, told)
    return [code for chunk in found for code in chunk.tolist()], groups.select("step", "group_id").rows()


@given(st.lists(ROWS, min_size=1, max_size=5))
def test_groups_are_numbered_as_they_appear(chunks: list[list[tuple[int | None, str]]]) -> None:
    numbers: dict[tuple[int | None, str], int] = {}
    expected = [numbers.setdefault(row, len(numbers)) for chunk in chunks for row in chunk]
    codes, groups = coded(chunks)
    assert codes == expected
    assert groups == list(numbers)


def test_categories_of_others_leave_the_codes_dense() -> None:
    others = pl.Series(["x", "y", "a", "z"]).cast(pl.Categorical)
    codes = TextCodes()
    assert codes.code(pl.Series(["b", "a", "b"])).tolist() == [0, 1, 0]
    more = pl.Series(["q", "r"]).cast(pl.Categorical)
    assert codes.code(pl.Series(["a", "r", "c"])).tolist() == [1, 2, 3]
    assert codes.texts().to_list() == ["b", "a", "r", "c"]
    assert len(others) + len(more) == 6
