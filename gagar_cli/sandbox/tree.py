"""Repositories that `--repos DIR` supplies: found by task, laid out once, read by the grader's tools.

In DIR are archives or directories named `<instance_id>@<commit>`, `<instance_id>`, or `<owner>__<name>@<commit>`; a
commit may be shortened to seven digits or more. There may be clones as well (`clones.py`): of these the tree at the
task's commit is taken (`archiving.py`), once a run. Where it cannot be, the files that lie there are taken as they are:
for a clone of the task's name, and for another that has just this commit checked out.

Names of tasks come from a dump and are only ever compared with what is in DIR, never made into a path.
"""

import hashlib
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from gagar_cli.errors import InputError, SandboxError
from gagar_cli.sandbox.archiving import Archiver, UnknownCommitError
from gagar_cli.sandbox.base import sandbox_user
from gagar_cli.sandbox.clone_notes import CloneNotes
from gagar_cli.sandbox.clones import Clone, find_clones, is_commit, read_clone
from gagar_cli.sandbox.files import read_regular_file, regular_file_size
from gagar_cli.sandbox.layout import LaidOut, lay_out

MAX_TEXT_BYTES = 8 * 1024 * 1024
_ARCHIVES = (".tar.gz", ".tar.xz", ".tgz", ".tar")
_MIN_COMMIT_CHARS = 7
_BINARY_PROBE_BYTES = 8192


@dataclass(frozen=True, slots=True)
class RepositoryTree:
    """One base repository, laid out without `.git` in a private directory."""

    path: Path
    """Its directory: what a `Checkout` binds."""
    files: tuple[str, ...]
    """Regular files, sorted, relative to `path`."""

    def list_files(self) -> tuple[str, ...]:
        """The regular files, sorted."""
        return self.files

    def read(self, path: str, max_bytes: int = MAX_TEXT_BYTES) -> bytes | None:
        """The start of a file; None where there is no regular file of that name."""
        return read_regular_file(self.path, path, max_bytes)

    def read_text(self, path: str) -> str | None:
        """A whole text file, what is not UTF-8 as surrogate escapes; None for binary and overlong files too."""
        size = regular_file_size(self.path, path)
        content = self.read(path) if size is not None and size <= MAX_TEXT_BYTES else None
        if content is None or b"\0" in content[:_BINARY_PROBE_BYTES]:
            return None
        return content.decode("utf-8", "surrogateescape")


class RepositoryStore:
    """The repositories of one run. Safe to use from several threads."""

    def __init__(self, repos_dir: Path, run_dir: Path) -> None:
        """Look through `repos_dir`; trees go below `run_dir`, which its maker removes.

        Raises:
            InputError: `repos_dir` cannot be listed.
        """
        try:
            self._sources = {_stem(path): path for path in sorted(repos_dir.iterdir())}
        except OSError as error:
            raise InputError(
                f"{repos_dir}: {error.strerror}", "`--repos` names a directory of repositories"
            ) from error
        self.archiver: Archiver | None = None
        """What takes commits out of clones; None: nothing does."""
        self._repos_dir = repos_dir
        self._notes = CloneNotes()
        self._trees: dict[str, RepositoryTree] = {}
        self._lacking: set[str] = set()
        """Commits of clones that cannot be had."""
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._lock = threading.Lock()
        self._trees_dir = run_dir / "trees"
        self._trees_dir.mkdir(mode=0o700)
        if sandbox_user().must_switch:
            # The sandbox's user has to pass through; names cannot be listed.
            for directory in (run_dir, self._trees_dir):
                directory.chmod(0o711)

    @property
    def notes(self) -> tuple[str, ...]:
        """What could not be taken out of clones, and what was taken instead."""
        return self._notes.lines()

    def find(
        self, instance_id: str | None, repo: str | None, base_commit: str | None, image: str | None = None
    ) -> RepositoryTree | None:
        """The repository of a task; None where none is supplied. `image` is the task's, should a sandbox need one.

        Raises:
            InputError: the archive is broken or hostile.
        """
        commit = base_commit.lower() if base_commit else ""
        source = next(self._matches(instance_id, repo, base_commit), None)
        if source is not None:
            clone = read_clone(source, source.name) if is_commit(commit) and source.is_dir() else None
            if clone and (tree := self._take_out(clone, commit, image)):
                return tree
            if clone:
                self._notes.add_files(clone, commit)
            return self._once(str(source), lambda target: lay_out(source, target))
        if not repo or not base_commit:
            return None
        for clone in find_clones(self._repos_dir, repo):
            if not is_commit(commit):
                self._notes.add(clone, base_commit, "the task's commit is not given by its digits")
            elif tree := self._take_out(clone, commit, image) or self._checked_out(clone, commit):
                return tree
        return None

    def _take_out(self, clone: Clone, commit: str, image: str | None) -> RepositoryTree | None:
        key = f"{clone.git_directory}@{commit}"
        archiver = self.archiver
        if archiver is None or clone.problem or key in self._lacking:
            if key not in self._lacking:
                self._notes.add(
                    clone, commit, clone.problem or "no sandbox is used to take a commit out of it"
                )
            return None
        try:
            return self._once(key, lambda target: archiver.lay_out(clone, commit, target, image))
        except UnknownCommitError:
            hint = clone.lack() or f"`git fetch origin {commit}` in it, or another clone"
            self._notes.add(clone, commit, "it does not hold the commit", hint)
        except (SandboxError, InputError) as error:
            self._notes.add(clone, commit, error.message)
        self._lacking.add(key)
        return None

    def _checked_out(self, clone: Clone, commit: str) -> RepositoryTree | None:
        """The files of a clone that says that it has this commit checked out."""
        work_tree, head = clone.work_tree, clone.head()
        if work_tree is None or clone.problem or not head or not head.startswith(commit):
            return None
        self._notes.add_files(clone, commit)
        return self._once(str(work_tree), lambda target: lay_out(work_tree, target))

    def _once(self, key: str, make: Callable[[Path], LaidOut]) -> RepositoryTree:
        with self._lock:
            lock = self._locks[key]
        with lock:
            if key not in self._trees:
                name = hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()[:16]
                self._trees[key] = RepositoryTree(*make(self._trees_dir / name))
            return self._trees[key]

    def _matches(self, instance_id: str | None, repo: str | None, base_commit: str | None) -> Iterator[Path]:
        """Sources that fit, best first: the task at the commit, the task, the repository at the commit."""
        if instance_id:
            yield from self._at_commit(instance_id, base_commit)
            if instance_id in self._sources:
                yield self._sources[instance_id]
        if repo and base_commit:
            yield from self._at_commit(repo.replace("/", "__"), base_commit)

    def _at_commit(self, stem: str, base_commit: str | None) -> Iterator[Path]:
        """Without a commit in the dump, the one that a task's repository is supplied at."""
        for name, path in self._sources.items():
            own, mark, commit = name.rpartition("@")
            if (
                mark
                and own == stem
                and len(commit) >= _MIN_COMMIT_CHARS
                and (base_commit or commit).startswith(commit)
            ):
                yield path


def _stem(path: Path) -> str:
    """The name without an archive's ending."""
    if path.is_dir():
        return path.name
    return next((path.name.removesuffix(end) for end in _ARCHIVES if path.name.endswith(end)), "")
