"""Tensors and arrays out of a pickle, as nested lists: made of bytes, shape and strides, without torch and numpy."""

import math
import struct
from collections.abc import Sequence
from typing import Any

MAX_NUMBERS = 200_000_000
CODES = {
    "f2": "e", "f4": "f", "f8": "d", "i1": "b", "i2": "h", "i4": "i", "i8": "q",
    "u1": "B", "u2": "H", "u4": "I", "u8": "Q", "b1": "?",
}  # fmt: skip
NAMES = {
    "float16": "f2", "float32": "f4", "float64": "f8", "int8": "i1", "int16": "i2", "int32": "i4", "int64": "i8",
    "uint8": "u1", "uint16": "u2", "uint32": "u4", "uint64": "u8", "bool": "b1", "bfloat16": "bf",
}  # fmt: skip


class RefusedError(Exception):
    """The file is not what is read here; the text says why."""


class Storage:
    """The bytes of a storage and the kind of its numbers."""

    def __init__(self, kind: "Kind", data: bytes) -> None:
        self.kind = kind
        self.data = data


class Kind:
    """A class of storages, or a dtype: `BUILD` may give it a byte order."""

    def __init__(self, code: str, order: str = "<") -> None:
        self.code = code
        self.order = order

    def __setstate__(self, state: Any) -> None:
        if isinstance(state, tuple) and len(state) > 1 and state[1] in ("<", ">", "|", "="):
            self.order = ">" if state[1] == ">" else "<"


class Array:
    """An array of numpy: `BUILD` gives its shape, dtype and bytes."""

    def __init__(self, *_: Any) -> None:
        self.value: Any = []

    def __setstate__(self, state: Any) -> None:
        if not isinstance(state, tuple) or len(state) != 5:
            raise RefusedError("an array with an unknown state")
        _, shape, kind, is_fortran, data = state
        flat = data if isinstance(data, list) else numbers(kind, data)
        self.value = shaped(flat, checked_shape(shape), is_fortran=bool(is_fortran))


def numbers(kind: Any, data: Any) -> list[Any]:
    """The numbers in some bytes."""
    if not isinstance(kind, Kind) or not isinstance(data, bytes | bytearray):
        raise RefusedError("numbers of an unknown kind")
    if kind.code == "bf":
        halves = struct.unpack(f"<{len(data) // 2}H", data[: len(data) // 2 * 2])
        return [struct.unpack("<f", struct.pack("<I", half << 16))[0] for half in halves]
    code = CODES.get(kind.code)
    if code is None:
        raise RefusedError(f"numbers of the kind {kind.code!r}")
    size = struct.calcsize(code)
    return list(struct.unpack(f"{kind.order}{len(data) // size}{code}", data[: len(data) // size * size]))


def checked_shape(shape: Any) -> tuple[int, ...]:
    """A shape of few numbers."""
    if (
        not isinstance(shape, tuple)
        or not all(type(each) is int and each >= 0 for each in shape)
        or len(shape) > 8
    ):
        raise RefusedError("a tensor with an impossible shape")
    if math.prod(shape) > MAX_NUMBERS:
        raise RefusedError("a tensor with too many numbers")
    return shape


def shaped(flat: Sequence[Any], shape: Sequence[int], *, is_fortran: bool = False) -> Any:
    """Nested lists of a shape."""
    strides = []
    step = 1
    for size in shape if is_fortran else reversed(shape):
        strides.append(step)
        step *= size
    return strided(flat, shape, strides if is_fortran else strides[::-1], 0)


def strided(flat: Sequence[Any], shape: Sequence[int], strides: Sequence[int], offset: int) -> Any:
    """Nested lists of a shape, taken from a flat list by strides."""
    if not shape:
        return flat[offset]
    if len(shape) == 1:
        return [flat[offset + place * strides[0]] for place in range(shape[0])]
    return [strided(flat, shape[1:], strides[1:], offset + place * strides[0]) for place in range(shape[0])]


def rebuilt_tensor(storage: Any, offset: Any, shape: Any, strides: Any, *_: Any) -> Any:
    """What `torch._utils._rebuild_tensor_v2` makes, as nested lists."""
    if not isinstance(storage, Storage) or type(offset) is not int or offset < 0:
        raise RefusedError("a tensor without a storage")
    shape = checked_shape(tuple(shape))
    strides = checked_shape(tuple(strides))
    if len(strides) != len(shape):
        raise RefusedError("a tensor with an impossible layout")
    if 0 in shape:
        return shaped([], shape)
    flat = numbers(storage.kind, storage.data)
    last = offset + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
    if last >= len(flat):
        raise RefusedError("a tensor beyond its storage")
    return strided(flat, shape, strides, offset)


def scalar(kind: Any, data: Any = b"") -> Any:
    """A single number of numpy."""
    found = numbers(kind, data)
    if len(found) != 1:
        raise RefusedError("a number without a value")
    return found[0]


def dtype(name: Any, *_: Any) -> Kind:
    """A dtype by its name."""
    code = str(name).lstrip("<>|=")
    return Kind(NAMES.get(code, code), ">" if str(name).startswith(">") else "<")


def from_buffer(data: Any, kind: Any, shape: Any, order: Any, *_: Any) -> Any:
    """An array of numpy under protocol 5."""
    return shaped(numbers(kind, bytes(data)), checked_shape(tuple(shape)), is_fortran=order == "F")
