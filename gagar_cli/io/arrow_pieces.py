"""Pieces of a buffer as a column of bytes: no copy, and no pyarrow, whose import takes as long as reading a gigabyte.

They are handed over by Arrow's C data interface (arrow.apache.org/docs/format/CDataInterface.html). The buffer has to
stay as it is while the column, or one that was made of it, is in use. Its memory is held until the last of them is
gone, and no longer.
"""

import ctypes
import itertools
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray


class _Schema(ctypes.Structure):
    """`struct ArrowSchema`."""

    _fields_: ClassVar[Any] = [
        ("format", ctypes.c_char_p),
        ("name", ctypes.c_char_p),
        ("metadata", ctypes.c_char_p),
        ("flags", ctypes.c_int64),
        ("n_children", ctypes.c_int64),
        ("children", ctypes.c_void_p),
        ("dictionary", ctypes.c_void_p),
        ("release", ctypes.c_void_p),
        ("private_data", ctypes.c_void_p),
    ]


class _Array(ctypes.Structure):
    """`struct ArrowArray`."""

    _fields_: ClassVar[Any] = [
        ("length", ctypes.c_int64),
        ("null_count", ctypes.c_int64),
        ("offset", ctypes.c_int64),
        ("n_buffers", ctypes.c_int64),
        ("n_children", ctypes.c_int64),
        ("buffers", ctypes.c_void_p),
        ("children", ctypes.c_void_p),
        ("dictionary", ctypes.c_void_p),
        ("release", ctypes.c_void_p),
        ("private_data", ctypes.c_void_p),
    ]


_HELD: dict[int, object] = {}
"""What columns in use refer to, by the number that their structures carry."""
_numbers = itertools.count(1)


def _release_schema(structure: Any) -> None:
    structure.contents.release = None


def _release_array(structure: Any, held: dict[int, object] = _HELD) -> None:
    # Whoever calls has moved the structure: it is told by what it carries, not by where it lies.
    held.pop(structure.contents.private_data, None)
    structure.contents.release = None


def _pointer(function: Any) -> int | None:
    # One reference is never given back: at the end of the process a column may be gone later than this module.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(function))
    return ctypes.cast(function, ctypes.c_void_p).value


_SCHEMA_RELEASE = _pointer(ctypes.CFUNCTYPE(None, ctypes.POINTER(_Schema))(_release_schema))
_ARRAY_RELEASE = _pointer(ctypes.CFUNCTYPE(None, ctypes.POINTER(_Array))(_release_array))
_LARGE_BINARY = b"Z"
_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype = ctypes.py_object
_new_capsule.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)


class Pieces:
    """The pieces of a buffer between neighbouring offsets, for one column: `pl.Series(Pieces(…))`."""

    def __init__(self, block: bytes | bytearray, offsets: NDArray[np.int64]) -> None:
        if len(offsets) and not (
            offsets[0] >= 0 and offsets[-1] <= len(block) and (np.diff(offsets) >= 0).all()
        ):
            raise ValueError("the offsets do not lie in the buffer in ascending order")
        self._block = block
        self._offsets = np.array(offsets, dtype=np.int64)
        self._structures: list[ctypes.Structure] = []

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        """Two structures, new ones each time; whoever takes them moves them away while this object is there."""
        content = np.frombuffer(self._block, dtype=np.uint8)
        buffers = (ctypes.c_void_p * 3)(None, _address(self._offsets), _address(content))
        schema = _Schema(format=_LARGE_BINARY, name=b"", release=_SCHEMA_RELEASE)
        number = next(_numbers)
        array = _Array(
            length=max(len(self._offsets) - 1, 0),
            n_buffers=3,
            buffers=ctypes.addressof(buffers),
            release=_ARRAY_RELEASE,
            private_data=number,
        )
        self._structures += [schema, array]
        _HELD[number] = (content, self._offsets, buffers)
        capsule = _new_capsule(ctypes.addressof(schema), b"arrow_schema", None)
        return capsule, _new_capsule(ctypes.addressof(array), b"arrow_array", None)


def _address(array: NDArray[Any]) -> int:
    return int(array.__array_interface__["data"][0])
