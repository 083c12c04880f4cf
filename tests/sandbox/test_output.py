import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gagar_cli.sandbox.output import MAX_READ_BYTES, CappedOutput, FileOutput, is_flood


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


class Full(io.BytesIO):
    """A file on a full disk."""

    def write(self, _: object) -> int:
        raise OSError(28, "No space left on device")


def test_a_file_has_the_whole_stream():
    file = io.BytesIO()
    output = FileOutput(file, 8)
    for chunk in (b"abcd", b"efgh"):
        output.add(chunk)
    assert (file.getvalue(), output.n_bytes, output.is_truncated) == (b"abcdefgh", 8, False)
    assert output.text == ""
    assert not is_flood(output, CappedOutput(4))


@pytest.mark.parametrize(("file", "kept"), [(io.BytesIO(), b"abcd"), (Full(), b"")], ids=["cap", "full disk"])
def test_what_does_not_go_into_a_file_is_told_and_nothing_follows(file, kept):
    output = FileOutput(file, 4)
    for chunk in (b"abcd", b"efgh", b"i"):
        output.add(chunk)
    assert output.is_truncated
    assert file.getvalue() == kept


def test_more_than_any_stream_may_write_is_a_flood():
    stderr = CappedOutput(4)
    stderr.n_bytes = MAX_READ_BYTES
    assert not is_flood(CappedOutput(4), stderr)
    stderr.n_bytes += 1
    assert is_flood(CappedOutput(4), stderr)
    output = FileOutput(Full(), 2 * MAX_READ_BYTES)
    output.add(b"x")
    assert is_flood(output, CappedOutput(4))
