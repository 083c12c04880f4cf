"""Clones among the repositories that a user supplies: found by name, and read without git.

A clone is a directory with a `.git` of its own, or a bare or mirror one. Its `.git` is hostile: here only names are
compared and a few small files read, without following a link. What it holds at a commit, `archiving.py` takes out.
Names of tasks come from a dump and are only ever compared with what is there, never made into a path.
"""

import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gagar_cli.sandbox.files import read_regular_file

_COMMIT = re.compile(r"[0-9a-f]{7,64}")
_WHOLE_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_BRANCH = re.compile(r"ref: (refs/heads/[^\s\0]{1,200})")
_MAX_REFERENCE_BYTES = 1024
_MAX_PACKED_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Clone:
    """A repository with its history."""

    name: str
    """As it is called in the directory of repositories."""
    git_directory: Path
    work_tree: Path | None
    """None for a bare clone."""
    problem: str | None = None
    """Why it is not read."""

    def head(self) -> str | None:
        """The commit that is checked out, as far as it can be told; the work tree may differ from it."""
        head = self._read("HEAD")
        branch = _BRANCH.fullmatch(head)
        if branch is None:
            return head if _WHOLE_COMMIT.fullmatch(head) else None
        loose = self._read(branch[1])
        if _WHOLE_COMMIT.fullmatch(loose):
            return loose
        packed = read_regular_file(self.git_directory, "packed-refs", _MAX_PACKED_BYTES) or b""
        lines = (line.split() for line in packed.decode("utf-8", "replace").splitlines())
        return next((line[0] for line in lines if line[1:] == [branch[1]]), None)

    def lack(self) -> str | None:
        """Why commits may be missing here, and what mends it; None where nothing says so."""
        if read_regular_file(self.git_directory, "objects/info/alternates", 1):
            return "it borrows from another repository, which sandboxes do not see: `git repack -a -d` in it"
        if read_regular_file(self.git_directory, "shallow", 1):
            return "it is a shallow clone: `git fetch --unshallow` in it"
        return None

    def _read(self, path: str) -> str:
        content = read_regular_file(self.git_directory, path, _MAX_REFERENCE_BYTES) or b""
        return content.decode("utf-8", "replace").strip()


def is_commit(text: str) -> bool:
    """Whether a task's commit is one by its digits: names of branches and tags are not taken."""
    return _COMMIT.fullmatch(text) is not None


def read_clone(directory: Path, name: str) -> Clone | None:
    """The clone that a directory is; None where it is none."""
    git_directory = directory / ".git"
    if mode := _mode(git_directory):
        # Anywhere on the machine: never followed.
        problem = None if stat.S_ISDIR(mode) else "its .git is a link or a file that points elsewhere"
        return Clone(name, git_directory, directory, problem)
    is_bare = all(_is_plain_directory(directory / part) for part in ("objects", "refs"))
    return Clone(name, directory, None) if is_bare and stat.S_ISREG(_mode(directory / "HEAD")) else None


def find_clones(repos_dir: Path, repo: str) -> Iterator[Clone]:
    """Clones of `owner/name`: `owner__name`, `owner/name` or `name`, each also with `.git` at its end."""
    owner, _, name = repo.rpartition("/")
    wanted = [repo.replace("/", "__"), name]
    yield from _named(repos_dir, wanted[:1])
    for directory in _directories(repos_dir):
        if directory.name == owner:
            yield from _named(directory, [name], prefix=f"{owner}/")
    yield from _named(repos_dir, wanted[1:])


def _named(place: Path, names: list[str], prefix: str = "") -> Iterator[Clone]:
    endings = [f"{name}{end}" for name in names if name for end in ("", ".git")]
    found = {directory.name: directory for directory in _directories(place) if directory.name in endings}
    for name in endings:
        clone = read_clone(found[name], prefix + name) if name in found else None
        if clone is not None:
            yield clone


def _directories(place: Path) -> list[Path]:
    try:
        return [path for path in place.iterdir() if path.is_dir()]
    except OSError:
        return []


def _is_plain_directory(path: Path) -> bool:
    return stat.S_ISDIR(_mode(path))


def _mode(path: Path) -> int:
    try:
        return path.lstat().st_mode
    except OSError:
        return 0
