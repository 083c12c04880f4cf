"""Files of an untrusted tree, read from the host without ever following a link.

The path is walked one component at a time from an open directory. Checking a path and then opening it is a race that
a running attacker wins, also with O_NOFOLLOW, which looks at the last component only.
"""

import os
import stat
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import TypeVar

_Result = TypeVar("_Result")

# O_NONBLOCK: opening a FIFO would wait for its other end.
_FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_DIRECTORY_FLAGS = _FILE_FLAGS | os.O_DIRECTORY


def read_regular_file(root: Path, path: str, max_bytes: int) -> bytes | None:
    """At most `max_bytes` of the file at `path` below `root`.

    None where there is no regular file, or the path is absolute, climbs, or crosses a link.
    """
    return _with_regular_file(root, path, lambda file: _read(file, max_bytes))


def regular_file_size(root: Path, path: str) -> int | None:
    """The size of a file in bytes, under the same rules."""
    return _with_regular_file(root, path, lambda file: os.fstat(file).st_size)


def _with_regular_file(root: Path, path: str, use: Callable[[int], _Result]) -> _Result | None:
    components = PurePosixPath(path).parts
    if not components or path.startswith("/") or ".." in components or "\0" in path:
        return None
    try:
        file = _open_below(root, components)
    except (OSError, UnicodeEncodeError):
        return None
    try:
        return use(file) if stat.S_ISREG(os.fstat(file).st_mode) else None
    except OSError:
        return None
    finally:
        os.close(file)


def _open_below(root: Path, components: tuple[str, ...]) -> int:
    directory = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for component in components[:-1]:
            inner = os.open(component, _DIRECTORY_FLAGS, dir_fd=directory)
            os.close(directory)
            directory = inner
        return os.open(components[-1], _FILE_FLAGS, dir_fd=directory)
    finally:
        os.close(directory)


def _read(file: int, max_bytes: int) -> bytes:
    chunks = []
    while max_bytes > 0 and (chunk := os.read(file, min(max_bytes, 1 << 20))):
        chunks.append(chunk)
        max_bytes -= len(chunk)
    return b"".join(chunks)
