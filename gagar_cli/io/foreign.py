"""What a file is that is no dump: told by its first bytes, so that the error says how to come to the dump in it.

Without this every line of a web page or a Git LFS pointer would be a bad record of its own.
"""

import os
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from gagar_cli.errors import InputError
from gagar_cli.io.remote import is_remote
from gagar_cli.io.streams import SHARD_SUFFIXES, Opened, open_input, show_path

HEAD_BYTES = 512
_EXPECTED = "expected JSON lines or Parquet"
_UNPACK = "unpack it, and name the files or the folder"
_FETCH = "the server gave a page in its place: download the file again, with a login where it needs one"
_EXPAND = "expand it; of compressed files those of gzip and zstd are read"
_EXPORT = "export its rows as JSON lines or Parquet"
_KINDS: tuple[tuple[bytes, str, str], ...] = (
    (
        b"version https://git-lfs.github.com/spec/",
        "a pointer of Git LFS in the place of the file",
        "`git lfs pull` brings it",
    ),
    (b"\xfd7zXZ\x00", "compressed with xz", _EXPAND),
    (b"BZh", "compressed with bzip2", _EXPAND),
    (b"\x04\x22\x4d\x18", "compressed with lz4", _EXPAND),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive", _UNPACK),
    (b"Rar!\x1a\x07", "a rar archive", _UNPACK),
    (b"PK\x03\x04", "a zip archive", _UNPACK),
    (b"PK\x05\x06", "an empty zip archive", _UNPACK),
    (b"ARROW1\x00\x00", "an Arrow file", "write it as Parquet (`pyarrow.parquet.write_table`)"),
    (b"\x93NUMPY", "an array of numpy", _EXPORT),
    (b"SQLite format 3\x00", "a database of SQLite", _EXPORT),
    (b"\x89HDF\r\n\x1a\n", "an HDF5 file", _EXPORT),
    (b"%PDF-", "a PDF", "name the dump itself"),
    (b"\x7fELF", "a program", "name the dump itself"),
)
_PAGES: tuple[tuple[bytes, str], ...] = (
    (b"<!doctype html", "a web page (HTML)"),
    (b"<html", "a web page (HTML)"),
    (b"<?xml", "an XML document"),
    (b"<error>", "an XML document"),
)
_TAR_MARK = slice(257, 262)
_MARKS = (
    (b"\xff\xfe\0\0", "UTF-32"),
    (b"\0\0\xfe\xff", "UTF-32"),
    (b"\xff\xfe", "UTF-16"),
    (b"\xfe\xff", "UTF-16"),
)
_BRACES = (b"{", b"[")
_MAX_SHOWN = 3


class ForeignError(InputError):
    """The whole file is something else."""


def open_dump_file(path: str) -> Opened:
    """`open_input` of a file of a dump, with what helps where it cannot be read.

    Raises:
        InputError: as `open_input`; and a file that is none of a dump, or Parquet by name only.
        OutputError: the temporary directory is full.
    """
    try:
        opened = open_input(path)
    except InputError as error:
        raise with_help(path, error) from error
    try:
        refuse_foreign(path, opened)
    except BaseException:
        opened.stream.close()
        raise
    return opened


def with_help(path: str, error: InputError) -> InputError:
    """The error about a file that cannot be opened, with what may be done about it."""
    if path != "-" and not is_remote(path) and Path(path).is_dir():
        return InputError(f"{show_path(path)}: a folder, expected a file", "name the file in it")
    return InputError(error.message, error.hint or _help(path, error.message))


def refuse_foreign(path: str, opened: Opened) -> None:
    """See that a file may be what it was opened as; the stream is at its start again.

    Raises:
        InputError: it is something else.
    """
    stream = opened.stream
    stream.seek(0)
    head = stream.read(HEAD_BYTES)
    size = stream.seek(0, os.SEEK_END)
    stream.seek(max(0, size - 4))
    tail = stream.read(4)
    stream.seek(0)
    if error := foreign(show_path(path), head):
        raise error
    if opened.kind != "parquet":
        return
    if not head.startswith((b"PAR1", b"PARE")):
        what = "it is empty" if not head else "it does not begin as Parquet does"
        raise InputError(
            f"{show_path(path)}: cannot be read as Parquet: {what}",
            "a file of JSON lines needs another name, such as .jsonl"
            if head.lstrip().startswith(_BRACES)
            else None,
        )
    if tail not in (b"PAR1", b"PARE"):
        raise InputError(
            f"{show_path(path)}: cannot be read as Parquet: it is cut, its end is missing",
            "a writer puts the end last: wait until it is done, or copy the file again",
        )


def foreign(name: str, head: bytes) -> ForeignError | None:
    """The error about a file that begins with these bytes; None where it may be a dump."""
    for magic, what, hint in _KINDS:
        if head.startswith(magic):
            return ForeignError(f"{name}: {what}, {_EXPECTED}", hint)
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    for beginning, what in _PAGES:
        if text.startswith(beginning):
            return ForeignError(f"{name}: {what}, {_EXPECTED}", _FETCH)
    # The mark alone may stand in a text; the name before it is filled up with zeros.
    if head[_TAR_MARK] == b"ustar" and b"\0" in head[: _TAR_MARK.start]:
        return ForeignError(f"{name}: a tar archive, {_EXPECTED}", _UNPACK)
    encoding = next((encoding for mark, encoding in _MARKS if head.startswith(mark)), None) or _wide(head)
    if encoding is not None:
        return ForeignError(
            f"{name}:1: not UTF-8 (looks like {encoding})",
            f"`iconv -f {encoding} -t UTF-8 FILE > NEW` makes it UTF-8",
        )
    return None


def _wide(head: bytes) -> str | None:
    """The encoding of text without a mark whose first character takes more than a byte."""
    for encoding, width in (("UTF-32", 4), ("UTF-16", 2)):
        for brace in _BRACES:
            padding = b"\0" * (width - 1)
            if head.startswith(brace + padding):
                return f"{encoding}LE"
            if head.startswith(padding + brace):
                return f"{encoding}BE"
    return None


def _help(path: str, message: str) -> str | None:
    """What may be done about a file that cannot be opened or expanded."""
    if path == "-" or is_remote(path):
        return "it ends too early: look at what writes it" if "truncated" in message else None
    named = Path(path)
    if "truncated" in message:
        program = "zstdcat" if path.endswith(".zst") else "zcat"
        return f"the copy or its writer stopped early: copy it again; `{program} FILE | gagar … -` reads what is there"
    if "damaged" in message:
        with suppress(OSError), named.open("rb") as stream:
            return _kind_of_damaged(show_path(path), stream)
    if "permission denied" in message:
        return "another user owns it: ask for the right to read it, or for a copy"
    with suppress(OSError):
        if named.is_symlink() and "no such file" in message:
            return f"it is a symbolic link to {show_path(named.readlink())}, which is not there"
        if named.is_symlink():
            return "its symbolic links lead in a circle"
    if "no such file" in message:
        return _nearest(named)
    return None


def _kind_of_damaged(name: str, stream: BinaryIO) -> str:
    head = stream.read(HEAD_BYTES)
    if head.lstrip().startswith(_BRACES):
        return "it is not compressed: name it without .gz or .zst"
    found = foreign(name, head)
    what = "" if found is None else f"it is {found.message.removeprefix(f'{name}: ').partition(', ')[0]}: "
    return f"{what}{'copy it again' if found is None else found.hint}"


def _nearest(named: Path) -> str | None:
    """The first folder of a path that is not there, or files of a dump beside where it should be."""
    missing = next((each for each in reversed(named.parents) if not each.exists()), None)
    if missing is not None:
        return f"there is no folder {show_path(missing)}"
    beside: list[str] = []
    with suppress(OSError):
        beside = sorted(each.name for each in named.parent.iterdir() if each.name.endswith(SHARD_SUFFIXES))
    return f"in that folder are {', '.join(map(show_path, beside[:_MAX_SHOWN]))}" if beside else None


def without_shards(path: str, error: InputError) -> InputError:
    """The error about a folder without a file of a dump, with what there is in it."""
    try:
        names = sorted(each.name for each in Path(path).iterdir() if not each.name.startswith("."))
    except OSError:
        return error
    if not names:
        return InputError(error.message, "the folder is empty")
    shown = ", ".join(map(show_path, names[:_MAX_SHOWN])) + (", …" if len(names) > _MAX_SHOWN else "")
    return InputError(
        error.message,
        f"in it are {shown}; files of a native format are found to any depth, `gagar formats` lists them",
    )
