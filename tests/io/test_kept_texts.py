import copy
import gc
import os
import pickle
import resource
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gagar_cli.errors import OutputError
from gagar_cli.io.kept_texts import TextFile

TEXTS = [b"", b"a", os.urandom(100_000), b"line\n" * 2_000_000]


@contextmanager
def limited(kind: int, soft: int) -> Iterator[None]:
    usual = resource.getrlimit(kind)
    resource.setrlimit(kind, (soft, usual[1]))
    try:
        yield
    finally:
        resource.setrlimit(kind, usual)


def test_texts_come_back_in_any_order() -> None:
    file = TextFile()
    kept = [*file.keep(TEXTS), *file.keep(TEXTS[:2])]
    assert [one.read() for one in reversed(kept)] == [b"a", b"", *reversed(TEXTS)]


def test_texts_are_asked_for_as_there_is_room_for_them() -> None:
    made: list[int] = []

    def texts() -> Iterator[bytes]:
        for number in range(6):
            made.append(number)
            yield b"x" * 3_000_000

    kept = TextFile().keep(texts())
    next(kept)
    assert made == [0, 1]


def test_no_space_is_told_with_what_helps(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "absent"))
    with pytest.raises(OutputError, match="a long log cannot be kept in the temporary directory") as caught:
        list(TextFile().keep(TEXTS))
    assert "TMPDIR" in (caught.value.hint or "")


def test_a_disk_that_fills_is_told_and_what_was_kept_stands() -> None:
    file = TextFile()
    (first,) = file.keep([b"first"])
    with (
        limited(resource.RLIMIT_FSIZE, 50_000),
        pytest.raises(OutputError, match="cannot be kept in the temporary directory: file too large"),
    ):
        list(file.keep([os.urandom(100_000)]))
    (third,) = file.keep([b"third"])
    assert (first.read(), third.read()) == (b"first", b"third")


def test_too_many_open_files_are_told_with_what_helps() -> None:
    # Of the descriptors below the limit some may be free.
    limit = max(int(path.name) for path in Path("/proc/self/fd").iterdir()) + 1
    files = [TextFile() for _ in range(limit)]
    with (
        limited(resource.RLIMIT_NOFILE, limit),
        pytest.raises(OutputError, match="too many open files") as caught,
    ):
        [list(file.keep([b"text"])) for file in files]
    assert "ulimit -n" in (caught.value.hint or "")


def test_files_that_nobody_can_reach_do_not_add_up() -> None:
    """As those of groups whose errors are kept with their tracebacks."""

    def n_open() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    start = n_open()
    gc.disable()
    try:
        for _ in range(200):
            file = TextFile()
            cycle = [list(file.keep([b"text"]))]
            cycle.append(cycle)  # type: ignore[arg-type]
        assert n_open() < start + 100
    finally:
        gc.enable()


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_file_is_not_copied(copied) -> None:
    with pytest.raises(TypeError, match="cannot be copied"):
        copied(TextFile())
