"""An untrusted repository laid out in a private directory: from a tar archive, or from a directory.

Only regular files, directories and inward symbolic links come out. Every `.git` is left out (its configuration can
run programs), so are links that leave the repository and special files. A member that tries to leave the directory
ends the whole thing: such an archive was made to harm. Links are made last, so nothing is ever written through one.
"""

import gzip
import lzma
import os
import shutil
import stat
import tarfile
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, BinaryIO, NamedTuple, cast

from gagar_cli.core.text import escape_untrusted, shorten
from gagar_cli.errors import InputError
from gagar_cli.sandbox.base import sandbox_user

MAX_ENTRIES = 200_000
MAX_TOTAL_BYTES = 4 * 1024**3
MAX_HEADER_BYTES = 1024 * 1024
"""Read at once of an archive: what is larger is a header made to fill the memory."""

_CHUNK_BYTES = 1 << 16
_GIT = ".git"
_ARCHIVE_ERRORS = (tarfile.TarError, zlib.error, lzma.LZMAError, EOFError, gzip.BadGzipFile)


class LaidOut(NamedTuple):
    """A repository on disk."""

    root: Path
    files: tuple[str, ...]
    """Regular files, sorted, relative to `root`."""


def lay_out(source: Path, target: Path) -> LaidOut:
    """Write the repository in `source` (a directory, or .tar, .tar.gz, .tar.xz) below `target`.

    The one directory that archives often wrap a repository in is not part of it.

    Raises:
        InputError: a broken archive, a member that leaves the repository, or more than the caps allow.
    """
    layout = _Layout(source.name, target)
    try:
        if source.is_dir():
            _copy_directory(source, layout)
            return layout.finish("")
        with source.open("rb") as raw:
            _unpack(_decompress(raw), layout)
        return layout.finish(layout.wrapper())
    except BaseException as error:
        # Half a repository must not look like one.
        shutil.rmtree(target, ignore_errors=True)
        if isinstance(error, OSError):
            raise InputError(f"{source.name}: {error.strerror or error}") from error
        raise


def lay_out_archive(name: str, content: BinaryIO, target: Path) -> LaidOut:
    """Write what a plain tar archive holds below `target`, with every directory as it stands there.

    Raises:
        InputError: as `lay_out`; `name` is what it calls the archive.
    """
    layout = _Layout(name, target)
    try:
        _unpack(cast("IO[bytes]", content), layout)
        return layout.finish("")
    except BaseException:
        shutil.rmtree(target, ignore_errors=True)
        raise


def is_inward_link(name: str, target: str) -> bool:
    """Whether a symbolic link at `name` points into the repository, whatever other links there are.

    Climbing is allowed at the start only: the directories above `name` are real, but `d/..` is not `.` where `d` is
    itself a link.

    >>> is_inward_link("docs/a.md", "../README.md"), is_inward_link("a", "../a"), is_inward_link("a", "d/../b")
    (True, False, False)
    """
    parts = PurePosixPath(target).parts
    n_climbs = next((place for place, part in enumerate(parts) if part != ".."), len(parts))
    depth = len(PurePosixPath(name).parts) - 1
    rest = parts[n_climbs:]
    is_clean = not target.startswith("/") and ".." not in rest and "\0" not in target
    return bool(parts) and is_clean and n_climbs <= depth and _GIT not in map(str.lower, rest)


class _Layout:
    """The directory as it grows, and what is counted against the caps."""

    def __init__(self, source_name: str, root: Path) -> None:
        self.source_name = source_name
        self._root = root
        self._files: set[str] = set()
        self._links: dict[str, str] = {}
        self._n_entries = 0
        self._n_bytes = 0
        root.mkdir(mode=0o755)

    def add_directory(self, name: str) -> None:
        if path := self._place(name):
            self._make(name, partial(path.mkdir, mode=0o755, parents=True, exist_ok=True))

    def add_link(self, name: str, target: str) -> None:
        if self._place(name):
            self._links[_clean(name)] = target

    def add_file(self, name: str, n_bytes: int, is_executable: bool, read: Callable[[int], bytes]) -> None:
        if path := self._place(name):
            self._count(name, n_bytes)
            self._make(name, partial(self._write, path, n_bytes, is_executable, read))
            self._files.add(_clean(name))

    def add_copy(self, name: str, earlier: str) -> None:
        """A hard link, made as a file of its own; nothing where its target did not come before."""
        if _clean(earlier) not in self._files or not (path := self._place(name)):
            return
        original = self._root / _clean(earlier)
        self._count(name, original.stat().st_size)
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        self._make(name, partial(shutil.copy, original, path))
        self._files.add(_clean(name))

    def wrapper(self) -> str:
        """The directory that holds everything else, with a slash; empty where there is none."""
        tops = {name.split("/", 1)[0] for name in [*self._files, *self._links]}
        is_wrapped = len(tops) == 1 and all("/" in name for name in [*self._files, *self._links])
        return f"{tops.pop()}/" if is_wrapped else ""

    def finish(self, wrapper: str) -> LaidOut:
        """Make the links that stay inside, and hand the tree to the sandbox's user."""
        for name, target in self._links.items():
            if is_inward_link(name.removeprefix(wrapper), target):
                self._make(name, partial(self._link, name, target))
        user = sandbox_user()
        if user.must_switch:
            for _, _, files, handle in os.fwalk(self._root):
                for name in files:
                    os.chown(name, user.uid, user.gid, dir_fd=handle, follow_symlinks=False)
                os.fchown(handle, user.uid, user.gid)
        return LaidOut(
            self._root / wrapper, tuple(sorted(name.removeprefix(wrapper) for name in self._files))
        )

    def refuse(self, name: str, why: str) -> InputError:
        """The error that names the archive and its member."""
        shown = shorten(escape_untrusted(name, keep_newlines=False), 80)
        return InputError(f"{self.source_name}: member {shown!r} {why}")

    def _place(self, name: str) -> Path | None:
        """Where a member goes; None for what is left out."""
        self._n_entries += 1
        if self._n_entries > MAX_ENTRIES:
            raise self.refuse(name, f"is one of more than {MAX_ENTRIES:,} entries")
        parts = PurePosixPath(name).parts
        if name.startswith("/") or ".." in parts or "\0" in name:
            raise self.refuse(name, "leaves the repository")
        if not parts or _GIT in map(str.lower, parts):
            return None
        return self._root.joinpath(*parts)

    def _count(self, name: str, n_bytes: int) -> None:
        self._n_bytes += n_bytes
        if self._n_bytes > MAX_TOTAL_BYTES:
            raise self.refuse(name, f"takes the repository over {MAX_TOTAL_BYTES // 1024**3} GiB")

    def _make(self, name: str, make: Callable[[], object]) -> None:
        """Names come out of an archive: one can be too long, or below another file."""
        try:
            make()
        except (FileExistsError, NotADirectoryError, IsADirectoryError, UnicodeEncodeError) as error:
            raise self.refuse(name, "clashes with another member or cannot be a file name") from error
        except OSError as error:
            raise self.refuse(name, f"cannot be written: {error.strerror}") from error

    def _link(self, name: str, target: str) -> None:
        path = self._root / name
        # Below another link its climbs would start elsewhere.
        is_below_link = any(
            parent.is_symlink() for parent in path.parents if parent.is_relative_to(self._root)
        )
        if not is_below_link and not os.path.lexists(path):
            path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            path.symlink_to(target)

    @staticmethod
    def _write(path: Path, n_bytes: int, is_executable: bool, read: Callable[[int], bytes]) -> None:
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        with path.open("wb") as file:
            while n_bytes > 0 and (chunk := read(min(n_bytes, _CHUNK_BYTES))):
                file.write(chunk)
                n_bytes -= len(chunk)
            os.fchmod(file.fileno(), 0o755 if is_executable else 0o644)


def _clean(name: str) -> str:
    return str(PurePosixPath(name))


def _unpack(raw: IO[bytes], layout: _Layout) -> None:
    try:
        content = cast("IO[bytes]", _Members(raw, layout))
        with tarfile.open(fileobj=content, mode="r:") as archive:
            for member in archive:
                _add_member(archive, member, layout)
                # Else the archive keeps every header that it has read.
                archive.members = []  # type: ignore[attr-defined] # public, and missing in the stubs
    except _ARCHIVE_ERRORS as error:
        raise InputError(f"{layout.source_name}: not a readable archive: {error}") from error
    except OSError as error:
        raise InputError(f"{layout.source_name}: {error.strerror or error}") from error


def _add_member(archive: tarfile.TarFile, member: tarfile.TarInfo, layout: _Layout) -> None:
    if member.isreg():
        content = archive.extractfile(member)
        if content is not None:
            layout.add_file(member.name, member.size, bool(member.mode & stat.S_IXUSR), content.read)
    elif member.isdir():
        layout.add_directory(member.name)
    elif member.issym():
        layout.add_link(member.name, member.linkname)
    elif member.islnk():
        layout.add_copy(member.name, member.linkname)


def _decompress(raw: BinaryIO) -> IO[bytes]:
    magic = raw.read(6)
    raw.seek(0)
    if magic.startswith(b"\x1f\x8b"):
        return cast("IO[bytes]", gzip.open(raw))
    return cast("IO[bytes]", lzma.open(raw)) if magic == b"\xfd7zXZ\0" else raw


class _Members:
    """The unpacked archive as `tarfile` reads it: no single read may be larger than a sane header."""

    def __init__(self, content: IO[bytes], layout: _Layout) -> None:
        self._content = content
        self._layout = layout

    def read(self, n_bytes: int) -> bytes:
        if n_bytes > MAX_HEADER_BYTES:
            raise self._layout.refuse("(header)", f"is longer than {MAX_HEADER_BYTES:,} bytes")
        return self._content.read(n_bytes)

    def seek(self, place: int) -> int:
        # A member that is skipped is unpacked all the same: a bomb is met here.
        if place > 2 * MAX_TOTAL_BYTES:
            raise self._layout.refuse("(archive)", f"unpacks to more than {MAX_TOTAL_BYTES // 1024**3} GiB")
        return self._content.seek(place)

    def tell(self) -> int:
        return self._content.tell()


def _copy_directory(source: Path, layout: _Layout) -> None:
    for directory, folders, files, handle in os.fwalk(source):
        folders[:] = [name for name in folders if name.lower() != _GIT]
        inside = PurePosixPath(os.path.relpath(directory, source))
        for name in [*folders, *files]:
            _copy_entry(handle, name, str(inside / name), layout)


def _copy_entry(handle: int, name: str, path: str, layout: _Layout) -> None:
    status = os.stat(name, dir_fd=handle, follow_symlinks=False)
    if stat.S_ISDIR(status.st_mode):
        layout.add_directory(path)
    elif stat.S_ISLNK(status.st_mode):
        layout.add_link(path, os.readlink(name, dir_fd=handle))
    elif stat.S_ISREG(status.st_mode):
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=handle)
        with os.fdopen(file, "rb") as content:
            layout.add_file(path, status.st_size, bool(status.st_mode & stat.S_IXUSR), content.read)
