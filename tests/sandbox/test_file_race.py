"""A running attacker swaps a file and its directory for links, while the host reads them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gagar_cli.sandbox.files import read_regular_file, regular_file_size

N_TRIES = 200_000

SWAP = """
import os, sys
root, away, what = sys.argv[1:]
os.chdir(root)
real, link = ("d/a.txt", "link-to-file") if what == "file" else ("d", "link-to-directory")
os.symlink(os.path.join(away, "a.txt" if what == "file" else "."), link)
print("swapping", flush=True)
while True:
    os.rename(real, "kept")
    os.rename(link, real)
    os.rename(real, link)
    os.rename("kept", real)
"""


@pytest.fixture(params=["file", "directory"])
def raced(request, tmp_path):
    """A tree in which another process swaps without a pause; outside of it lies what must not be read."""
    root, away = tmp_path / "root", tmp_path / "away"
    for directory, content in ((root / "d", "inside"), (away, "secret, and longer")):
        directory.mkdir(parents=True)
        (directory / "a.txt").write_text(content)
    swapper = subprocess.Popen(
        [sys.executable, "-I", "-c", SWAP, str(root), str(away), request.param], stdout=subprocess.PIPE
    )
    assert swapper.stdout.readline() == b"swapping\n"
    yield root
    assert swapper.poll() is None
    swapper.kill()
    swapper.wait()
    swapper.stdout.close()


def test_no_try_leads_outside(raced: Path):
    contents: dict[bytes | None, int] = {}
    sizes: set[int | None] = set()
    for _ in range(N_TRIES):
        content = read_regular_file(raced, "d/a.txt", 100)
        contents[content] = contents.get(content, 0) + 1
    for _ in range(1000):
        sizes.add(regular_file_size(raced, "d/a.txt"))
    assert set(contents) <= {b"inside", None}
    assert sizes <= {len(b"inside"), None}
    # The swaps were met, so that there was something to hold against.
    assert contents[None] > 100


def test_the_race_is_a_real_one(raced: Path):
    """A path that is resolved and checked before it is opened leaks here."""
    n_leaks = 0
    for _ in range(N_TRIES):
        path = raced / "d/a.txt"
        try:
            if Path(os.path.realpath(path)).is_relative_to(raced) and path.read_text() != "inside":
                n_leaks += 1
                break
        except OSError:
            continue
    assert n_leaks
