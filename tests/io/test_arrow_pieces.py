"""Pieces of a buffer as a column."""

import random
from itertools import pairwise

import numpy as np
import polars as pl
import pytest

from gagar_cli.io.arrow_pieces import Pieces


def pieces_of(block: bytes | bytearray, offsets: list[int]) -> list[bytes]:
    pieces = Pieces(block, np.array(offsets, dtype=np.int64))
    return pl.Series(pieces).to_list()


@pytest.mark.parametrize("kind", [bytes, bytearray])
def test_pieces_are_what_lies_between_the_offsets(kind: type[bytes | bytearray]) -> None:
    assert pieces_of(kind(b"one, two"), [0, 3, 3, 5, 8]) == [b"one", b"", b", ", b"two"]


@pytest.mark.parametrize("offsets", [[], [4]])
def test_fewer_than_two_offsets_give_no_piece(offsets: list[int]) -> None:
    assert pieces_of(b"text", offsets) == []


@pytest.mark.parametrize("offsets", [[-1, 2], [0, 5], [3, 2], [0, 3, 2, 4]])
def test_offsets_out_of_order_or_of_the_buffer_are_refused(offsets: list[int]) -> None:
    with pytest.raises(ValueError, match="ascending"):
        Pieces(b"text", np.array(offsets, dtype=np.int64))


def test_random_pieces_of_long_buffers_stay_right_through_expressions() -> None:
    draw = random.Random(1)
    for _ in range(50):
        block = bytearray(draw.randbytes(draw.randrange(1, 200_000)).replace(b"\x80", b"a"))
        cuts = sorted(draw.randrange(len(block) + 1) for _ in range(draw.randrange(2, 40)))
        pieces = Pieces(block, np.array(cuts, dtype=np.int64))
        column = pl.Series(pieces)
        expected = [bytes(block[a:b]) for a, b in pairwise(cuts)]
        assert column.to_list() == expected
        assert column.gather_every(2).bin.size().to_list() == [len(each) for each in expected[::2]]
        assert column.bin.contains(b"\0\1").to_list() == [b"\0\1" in each for each in expected]


def test_the_buffer_is_free_again_when_the_column_is_gone() -> None:
    block = bytearray(b"text")
    pieces = Pieces(block, np.array([0, 4], dtype=np.int64))
    column = pl.Series(pieces)
    with pytest.raises(BufferError):
        block.extend(b"more")
    del column, pieces
    block.extend(b"more")
    assert block == b"textmore"
