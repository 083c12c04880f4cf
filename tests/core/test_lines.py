from hypothesis import given
from hypothesis import strategies as st

from gagar_cli.core.lines import slice_lines
from gagar_cli.core.text import split_lines


@given(st.text(alphabet="ab\n\r", max_size=12), st.integers(0, 8), st.integers(0, 8))
def test_a_slice_of_lines_is_that_of_all_of_them(text, start, stop):
    assert slice_lines(text, start, stop) == split_lines(text)[start:stop]
