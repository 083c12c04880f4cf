"""Pieces of a buffer as a column."""

import gc
import random
import subprocess
import sys
from itertools import pairwise

import numpy as np
import polars as pl
import pytest

from gagar_cli.io import arrow_pieces
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


def test_a_column_holds_the_buffer_until_the_last_of_its_slices_is_gone() -> None:
    block = bytearray(b"a text that is too long to lie in its view" * 1000)
    before = bytes(block)
    column = pl.Series(Pieces(block, np.array([0, 20, len(block)], dtype=np.int64)))
    part = column.cast(pl.String).slice(1)
    del column
    gc.collect()
    filler = [bytearray(len(block)) for _ in range(50)]
    assert part.to_list() == [before[20:].decode()]
    with pytest.raises(BufferError):
        block.extend(b"more")
    del part, filler
    block.extend(b"more")
    assert bytes(block) == before + b"more"


def test_pieces_can_be_taken_again_and_again() -> None:
    block = b"x" * 100 + b"y" * 100
    pieces = Pieces(block, np.array([0, 100, 200], dtype=np.int64))
    columns = [pl.Series(pieces) for _ in range(20)]
    del pieces
    gc.collect()
    assert all(column.to_list() == [b"x" * 100, b"y" * 100] for column in columns)


def test_nothing_is_held_of_columns_that_are_gone() -> None:
    n_before = len(arrow_pieces._HELD)
    for _ in range(100):
        pl.Series(Pieces(b"z" * 1000, np.array([0, 400, 1000], dtype=np.int64))).gather_every(2)
    assert len(arrow_pieces._HELD) == n_before


def test_a_column_may_be_gone_after_the_module() -> None:
    script = (
        "import builtins, numpy as np, polars as pl\n"
        "from gagar_cli.io.arrow_pieces import Pieces\n"
        "builtins.kept = pl.Series(Pieces(b'x' * 1000, np.array([0, 1000], dtype=np.int64)))\n"
    )
    done = subprocess.run([sys.executable, "-X", "dev", "-c", script], capture_output=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, b"")
