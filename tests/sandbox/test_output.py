from hypothesis import given
from hypothesis import strategies as st

from gagar_cli.sandbox.output import CappedOutput


def collect(max_bytes: int, *chunks: bytes) -> CappedOutput:
    output = CappedOutput(max_bytes)
    for chunk in chunks:
        output.add(chunk)
    return output


def test_what_fits_is_kept_whole():
    output = collect(8, b"abcd", b"efgh")
    assert output.text == "abcdefgh"
    assert not output.is_truncated


def test_the_middle_is_dropped_and_counted():
    output = collect(4, b"abc", b"def", b"gh")
    assert output.text == "ab\n[4 bytes dropped]\ngh"
    assert output.n_bytes == 8


def test_bytes_that_are_no_text_are_replaced():
    assert collect(8, b"a\xffb").text == "a�b"


@given(st.lists(st.binary(max_size=40), max_size=20), st.integers(1, 30))
def test_head_and_tail_are_those_of_the_stream(chunks, half):
    whole = b"".join(chunks)
    output = collect(2 * half, *chunks)
    assert output.content.startswith(whole[:half])
    assert output.content.endswith(whole[-half:])
    assert output.n_dropped == max(0, len(whole) - 2 * half)
