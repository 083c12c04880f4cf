"""New tables before those of a buffer, read back."""

import pytest

from gagar_cli.io.flatbuffer import Buffer, FlatBufferError, Old, Scalar, Table, Text, Vector, put_before


def old_buffer() -> bytes:
    return put_before(Table({0: Text(b"old"), 1: Scalar("h", -7)}), b"")


def test_new_things_and_old_ones_are_found_from_the_new_root() -> None:
    old = old_buffer()
    inner = Table({0: Scalar("B", 200), 3: Text("ключ".encode())})
    root = Table(
        {1: Scalar("i", -5), 2: Vector([inner, Old(Buffer(old).root), inner]), 4: Old(Buffer(old).root)}
    )
    made = Buffer(put_before(root, old))
    assert made.content.endswith(old)
    assert len(made.content) % 8 == len(old) % 8
    assert made.scalar(made.root, 1, "i", 0).value == -5
    assert made.slot(made.root, 0) is made.reference(made.root, 9) is None
    things = made.reference(made.root, 2)
    assert things is not None
    first, second, third = made.vector(things)
    assert second == made.reference(made.root, 4) == len(made.content) - len(old) + Buffer(old).root
    for table in (first, third):
        name = made.reference(table, 3)
        assert name is not None
        assert made.text(name).decode() == "ключ"
        assert made.scalar(table, 0, "B", 0) == Scalar("B", 200)
        assert made.scalar(table, 1, "B", 9) == Scalar("B", 9)
    assert made.scalar(second, 1, "h", 0).value == -7


@pytest.mark.parametrize("kind", ["B", "h", "i"])
def test_numbers_and_references_are_aligned(kind: str) -> None:
    root = Table({0: Scalar("B", 1), 1: Scalar(kind, 2), 2: Text(b"x"), 3: Scalar(kind, 3)})
    made = Buffer(put_before(root, b""))
    size = {"B": 1, "h": 2, "i": 4}[kind]
    positions = [made.slot(made.root, number) for number in range(4)]
    assert [
        position % step for position, step in zip(positions, (1, size, 4, size), strict=True) if position
    ] == [0] * 4
    assert made.root % 4 == 0


@pytest.mark.parametrize(
    "content", [b"", b"\0\0\0", b"\xff\xff\xff\x7f", b"\4\0\0\0\xff\xff\xff\x7f", b"\4\0\0\0\x01\0\0\x80"]
)
def test_references_out_of_the_buffer_are_refused(content: bytes) -> None:
    with pytest.raises(FlatBufferError, match="out of the buffer"):
        Buffer(content).slot(Buffer(content).root, 0)


def test_longer_texts_and_vectors_than_the_buffer_are_refused() -> None:
    buffer = Buffer(b"\xff\0\0\0text")
    with pytest.raises(FlatBufferError, match="a text is longer"):
        buffer.text(0)
    with pytest.raises(FlatBufferError, match="a vector is longer"):
        buffer.vector(0)
