import os
import threading
from pathlib import Path

import pytest

from gagar_cli.sandbox.files import read_regular_file, regular_file_size


@pytest.fixture
def root(tmp_path):
    """A tree beside a secret."""
    (tmp_path / "secret").write_text("secret")
    root = tmp_path / "root"
    (root / "d").mkdir(parents=True)
    (root / "d" / "a.txt").write_text("inside")
    (root / "link").symlink_to("../secret")
    (root / "linked").symlink_to("..")
    os.mkfifo(root / "fifo")
    return root


def test_a_file_is_read_to_its_cap(root):
    assert read_regular_file(root, "d/a.txt", 100) == b"inside"
    assert read_regular_file(root, "d/a.txt", 2) == b"in"
    assert regular_file_size(root, "d/a.txt") == 6


@pytest.mark.parametrize(
    "path",
    ["", ".", "/", "..", "../secret", "d/../../secret", "link", "linked/secret", "fifo", "d", "d/missing", "d/a.txt/b",
     "a\0b", "\ud800", "x" * 5000],
)  # fmt: skip
def test_everything_else_is_none(root, path):
    assert read_regular_file(root, path, 100) is None
    assert regular_file_size(root, path) is None


def test_an_absolute_path_is_none(root):
    assert read_regular_file(root, str(root / "d/a.txt"), 100) is None


def test_a_sparse_file_costs_its_cap_only(root):
    with (root / "sparse").open("wb") as file:
        file.truncate(1 << 40)
    assert read_regular_file(root, "sparse", 5) == bytes(5)


def test_no_race_leads_outside(root, tmp_path):
    """A file and its directory are swapped for links while they are read, as a running command could."""
    (tmp_path / "away").mkdir()
    (tmp_path / "away" / "a.txt").write_text("secret")
    is_over = threading.Event()

    def swap() -> None:
        real, link = root / "d", root / "swap"
        while not is_over.is_set():
            link.symlink_to(tmp_path / "away")
            real.rename(root / "kept")
            link.rename(real)
            real.unlink()
            (root / "kept").rename(real)

    swapper = threading.Thread(target=swap)
    swapper.start()
    try:
        seen = {read_regular_file(root, "d/a.txt", 100) for _ in range(20_000)}
    finally:
        is_over.set()
        swapper.join()
    assert seen <= {b"inside", None}
    assert Path(tmp_path / "away" / "a.txt").read_text() == "secret"
