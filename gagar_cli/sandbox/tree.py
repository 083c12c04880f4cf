"""Repositories that `--repos DIR` supplies: found by task, laid out once, read by the grader's tools.

In DIR are archives or directories named `<instance_id>@<commit>`, `<instance_id>`, or `<owner>__<name>@<commit>`; a
commit may be shortened to seven digits or more. Names of tasks come from a dump and are only ever compared with what
is in DIR, never made into a path.
"""

import hashlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gagar_cli.errors import InputError
from gagar_cli.sandbox.base import sandbox_user
from gagar_cli.sandbox.files import read_regular_file, regular_file_size
from gagar_cli.sandbox.layout import lay_out

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
        self._trees: dict[Path, RepositoryTree] = {}
        self._lock = threading.Lock()
        self._trees_dir = run_dir / "trees"
        self._trees_dir.mkdir(mode=0o700)
        if sandbox_user().must_switch:
            # The sandbox's user has to pass through; names cannot be listed.
            for directory in (run_dir, self._trees_dir):
                directory.chmod(0o711)

    def find(
        self, instance_id: str | None, repo: str | None, base_commit: str | None
    ) -> RepositoryTree | None:
        """The repository of a task; None where none is supplied.

        Raises:
            InputError: the archive is broken or hostile.
        """
        source = next(self._matches(instance_id, repo, base_commit), None)
        if source is None:
            return None
        with self._lock:
            if source not in self._trees:
                self._trees[source] = self._lay_out(source)
            return self._trees[source]

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

    def _lay_out(self, source: Path) -> RepositoryTree:
        target = (
            self._trees_dir / hashlib.sha256(source.name.encode("utf-8", "surrogateescape")).hexdigest()[:16]
        )
        return RepositoryTree(*lay_out(source, target))


def _stem(path: Path) -> str:
    """The name without an archive's ending."""
    if path.is_dir():
        return path.name
    return next((path.name.removesuffix(end) for end in _ARCHIVES if path.name.endswith(end)), "")
