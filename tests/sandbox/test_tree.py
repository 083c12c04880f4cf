import os
import shutil
import tarfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gagar_cli.errors import InputError
from gagar_cli.sandbox.tree import RepositoryStore

COMMIT = "809c53c07748aaaa0000000000000000deadbeef"
SHARED_REPOS = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "repos"


@pytest.fixture
def repos(tmp_path):
    """A directory of repositories; each holds one file with the repository's own name."""
    directory = tmp_path / "repos"
    directory.mkdir()

    def add(name: str) -> None:
        content = directory / name
        content.mkdir()
        (content / "NAME").write_text(name)
        if name.endswith((".tar", ".tar.gz")):
            moved = content.rename(tmp_path / "content")
            with tarfile.open(directory / name, "w:gz" if name.endswith("gz") else "w") as tar:
                tar.add(moved, arcname="wrapped")
            shutil.rmtree(moved)

    return add


@pytest.fixture
def store(tmp_path):
    def make() -> RepositoryStore:
        run_dir = tmp_path / "run"
        run_dir.mkdir()
        return RepositoryStore(tmp_path / "repos", run_dir)

    return make


@pytest.mark.parametrize(
    ("name", "task"),
    [
        ("o__r-1@809c53c07748.tar.gz", ("o__r-1", "o/r", COMMIT)),
        ("o__r-1@809c53c07748", ("o__r-1", None, None)),
        ("o__r-1", ("o__r-1", "o/r", COMMIT)),
        ("o__r-1.tar", ("o__r-1", None, COMMIT)),
        ("o__r@809c53c.tar.gz", ("o__r-1", "o/r", COMMIT)),
        (f"o__r@{COMMIT}", (None, "o/r", COMMIT)),
    ],
)
def test_a_repository_is_found_by_its_task(repos, store, name, task):
    repos("other")
    repos(name)
    assert store().find(*task).read_text("NAME") == name


@pytest.mark.parametrize(
    "task",
    [
        pytest.param(("o__r-2", "o/r", "0" * 40), id="another commit"),
        pytest.param((None, "o/r", None), id="no commit"),
        pytest.param(("../repos/o__r-1", None, None), id="a path"),
        pytest.param(("", "", ""), id="nothing"),
        pytest.param((None, None, None), id="unknown"),
    ],
)
def test_what_is_not_supplied_is_none(repos, store, task):
    repos("o__r@809c53c")
    repos("o__r-1")
    repos("s__s@80")
    assert store().find(*task) is None


def test_the_task_itself_goes_before_its_repository(repos, store):
    repos("o__r@809c53c")
    repos("o__r-1@809c53c")
    assert store().find("o__r-1", "o/r", COMMIT).read_text("NAME") == "o__r-1@809c53c"


def test_a_commit_shorter_than_seven_digits_is_no_commit(repos, store):
    repos("o__r@809c53")
    assert store().find(None, "o/r", COMMIT) is None


def test_a_repository_is_laid_out_once(repos, store):
    repos("o__r-1.tar.gz")
    found = store()
    with ThreadPoolExecutor(4) as threads:
        trees = list(threads.map(lambda _: found.find("o__r-1", None, None), range(8)))
    assert all(tree is trees[0] for tree in trees)


def test_the_tree_is_kept_from_other_users(repos, store, tmp_path):
    repos("o__r-1")
    tree = store().find("o__r-1", None, None)
    assert (tmp_path / "run" / "trees").stat().st_mode & 0o066 == 0
    assert not (tree.path / "NAME").stat().st_mode & 0o022


def test_a_directory_that_is_missing_is_bad_input(tmp_path):
    with pytest.raises(InputError, match="No such file"):
        RepositoryStore(tmp_path / "missing", tmp_path)


def test_text_is_whole_or_none(tmp_path, store):
    content = tmp_path / "repos" / "t"
    content.mkdir(parents=True)
    (content / "latin.py").write_bytes(b"# caf\xe9\r\n")
    (content / "image.png").write_bytes(b"\x89PNG\0\0")
    with (content / "huge.txt").open("wb") as file:
        file.truncate(9 << 20)
    tree = store().find("t", None, None)
    assert tree.read_text("latin.py") == "# caf\udce9\r\n"
    assert tree.read_text("image.png") is None
    assert tree.read_text("huge.txt") is None
    assert tree.read_text("missing") is None
    assert tree.read("huge.txt", 4) == b"\0\0\0\0"
    assert tree.list_files() == ("huge.txt", "image.png", "latin.py")


@pytest.mark.shared
@pytest.mark.skipif(not SHARED_REPOS.is_dir(), reason="the reference data is not here")
def test_the_reference_repositories_are_found(tmp_path):
    tree = RepositoryStore(SHARED_REPOS, tmp_path).find(
        "sympy__sympy-24443", "sympy/sympy", "809c53c077485ca48a206cee78340389cb83b7f1"
    )
    assert "sympy/__init__.py" in tree.list_files()
    assert tree.read_text("setup.py").startswith("#!/usr/bin/env python")
    assert os.access(tree.path / "setup.py", os.X_OK)
