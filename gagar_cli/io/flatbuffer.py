"""Just enough of the FlatBuffers format to put new tables before those of a buffer, which stay as they are.

References only point forward, so that a new root in front may refer to anything behind it: nothing of the old buffer
is taken apart, and what it has that nobody here knows of is kept.
"""

import struct
from collections import deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple


class FlatBufferError(ValueError):
    """The bytes are no such buffer."""


class Old(NamedTuple):
    """Something in the old buffer, by its position there."""

    position: int


class Scalar(NamedTuple):
    """A number, and its format in terms of `struct`; at most 4 bytes."""

    format: str
    value: int


class Text(NamedTuple):
    """A string."""

    content: bytes


class Vector(NamedTuple):
    """References to things, one after the other."""

    things: Sequence["Thing"]


class Table(NamedTuple):
    """Slots by their number; those that are missing have their default."""

    slots: Mapping[int, "Scalar | Thing"]


Thing = Old | Text | Vector | Table


class Buffer:
    """Reads a buffer."""

    def __init__(self, content: bytes) -> None:
        self.content = content

    @property
    def root(self) -> int:
        """Where the root table starts."""
        return self.follow(0)

    def slot(self, table: int, number: int) -> int | None:
        """Where a slot of a table lies; None where it has its default."""
        start = table - self.read("i", table)
        if 4 + 2 * number >= self.read("H", start):
            return None
        offset = self.read("H", start + 4 + 2 * number)
        return table + offset if offset else None

    def scalar(self, table: int, number: int, kind: str, default: int) -> Scalar:
        """A number in a slot."""
        position = self.slot(table, number)
        return Scalar(kind, default if position is None else self.read(kind, position))

    def reference(self, table: int, number: int) -> int | None:
        """Where the thing lies that a slot refers to."""
        position = self.slot(table, number)
        return None if position is None else self.follow(position)

    def follow(self, position: int) -> int:
        """Where the thing lies that a reference is to."""
        return position + self.read("I", position)

    def vector(self, position: int) -> list[int]:
        """Where the things lie that a vector refers to."""
        n_things = self.read("I", position)
        if position + 4 + 4 * n_things > len(self.content):
            raise FlatBufferError("a vector is longer than the buffer")
        return [self.follow(position + 4 + 4 * number) for number in range(n_things)]

    def text(self, position: int) -> bytes:
        """The string at a position."""
        stop = position + 4 + self.read("I", position)
        if stop > len(self.content):
            raise FlatBufferError("a text is longer than the buffer")
        return self.content[position + 4 : stop]

    def read(self, kind: str, position: int) -> int:
        """The number at a position."""
        if not 0 <= position <= len(self.content) - struct.calcsize(f"<{kind}"):
            raise FlatBufferError("a reference leads out of the buffer")
        return int(struct.unpack_from(f"<{kind}", self.content, position)[0])


def put_before(root: Table, old: bytes) -> bytes:
    """A buffer of a new root table and all new things that it refers to, with the old buffer behind it."""
    made = bytearray(4)
    waiting: deque[tuple[int, Thing]] = deque([(0, root)])
    to_old: list[tuple[int, int]] = []
    while waiting:
        place, thing = waiting.popleft()
        if isinstance(thing, Old):
            to_old.append((place, thing.position))
            continue
        made += bytes(-len(made) % 4)
        start, references = _append(made, thing)
        struct.pack_into("<I", made, place, start - place)
        waiting += references
    made += bytes(-len(made) % 8)
    for place, position in to_old:
        struct.pack_into("<I", made, place, len(made) + position - place)
    return bytes(made) + old


def _append(made: bytearray, thing: "Text | Vector | Table") -> tuple[int, list[tuple[int, Thing]]]:
    """Append a thing; where it starts, and where its references have to be put."""
    start = len(made)
    if isinstance(thing, Text):
        made += len(thing.content).to_bytes(4, "little") + thing.content + b"\0"
        return start, []
    if isinstance(thing, Vector):
        made += len(thing.things).to_bytes(4, "little") + bytes(4 * len(thing.things))
        return start, [(start + 4 + 4 * number, each) for number, each in enumerate(thing.things)]
    return _append_table(made, thing)


def _append_table(made: bytearray, table: Table) -> tuple[int, list[tuple[int, Thing]]]:
    n_slots = max(table.slots, default=-1) + 1
    offsets = [0] * n_slots
    content = bytearray(4)
    references = []
    for number, value in table.slots.items():
        kind = value.format if isinstance(value, Scalar) else "I"
        content += bytes(-len(content) % struct.calcsize(f"<{kind}"))
        offsets[number] = len(content)
        if isinstance(value, Scalar):
            content += struct.pack(f"<{kind}", value.value)
        else:
            references.append((len(content), value))
            content += bytes(4)
    n_bytes = 4 + 2 * n_slots
    made += bytes(-(len(made) + n_bytes) % 4)
    start = len(made) + n_bytes
    struct.pack_into("<i", content, 0, n_bytes)
    made += struct.pack(f"<HH{n_slots}H", n_bytes, len(content), *offsets) + content
    return start, [(start + offset, thing) for offset, thing in references]
