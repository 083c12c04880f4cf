"""Inputs behind an address (`s3://`, `gs://`, `hf://`, `https://`): read through fsspec, copied once.

A record is read again by its place, which remote stores answer slowly or not at all: the file is copied into an
anonymous temporary file first. Where the store is and who may read it is fsspec's business and its environment's:
what an address itself holds of that (`user:password@`, a signature in its query) is shown nowhere.
Addresses of local files are refused, since the checks on regular files would not see them.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, cast

from gagar_cli.core.text import escape_untrusted, shorten
from gagar_cli.errors import InputError, UsageError

_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")
_ADDRESSES = re.compile(_ADDRESS.pattern + r"[^\s'\"<>]+")
_LOGIN = re.compile(r"(?<=://)[^/?#]*@")
_QUERY = re.compile(r"(?<=[?&])([^=&#]+)=[^&#]*")
_LOCAL = ("file", "local")
_MAX_FILES = 1_000_000


def is_remote(path: str) -> bool:
    """Whether a named input is an address."""
    return _ADDRESS.match(path) is not None


def masked(text: str) -> str:
    """A text whose addresses show neither logins nor the values of queries.

    >>> masked("https://me:secret@host/d.jsonl?part=1&sig=abc is missing")
    'https://…@host/d.jsonl?part=…&sig=… is missing'
    """
    return _ADDRESSES.sub(lambda found: _QUERY.sub(r"\1=…", _LOGIN.sub("…@", found[0])), text)


def list_remote(path: str, suffixes: tuple[str, ...]) -> list[str]:
    """The files that an address stands for: itself, or the sorted shards of a folder, to its depth where a store lists it.

    A folder behind `http` is a page of links, which may lead anywhere: only its own files are taken.

    Raises:
        UsageError: fsspec, or what it needs for this store, is not installed; or the address is no remote one.
        InputError: nothing is there, or the store does not answer.
    """
    with _mapped(path):
        filesystem, place = _open_store(path)
        if not filesystem.isdir(place):
            return [path]
        is_page = path.lower().startswith(("http://", "https://"))
        listed = filesystem.ls(place, detail=False) if is_page else filesystem.find(place)
        names = [str(name) for name in listed if is_page or not _is_hidden(str(name), place)]
        if len(names) > _MAX_FILES:
            raise InputError(f"{_shown(path)}: more than {_MAX_FILES:,} files")
    shards = sorted(name for name in names if _is_shard(name, suffixes))
    if not shards:
        raise InputError(f"{_shown(path)}: no shards in this folder, expected {', '.join(suffixes)}")
    return [str(filesystem.unstrip_protocol(name)) for name in shards]


@contextmanager
def open_remote(path: str) -> Iterator[BinaryIO]:
    """The bytes of a remote file, front to back.

    Raises:
        UsageError: fsspec, or what it needs for this store, is not installed; or the address is no remote one.
        InputError: nothing is there, or the store does not answer; also while reading.
    """
    with _mapped(path):
        filesystem, place = _open_store(path)
        with filesystem.open(place, "rb") as stream:
            yield cast("BinaryIO", stream)


def _open_store(path: str) -> tuple[Any, str]:
    try:
        from fsspec.core import url_to_fs
    except ImportError as error:
        raise UsageError(
            f"{_shown(path)}: addresses need fsspec", "install it with `pip install fsspec`"
        ) from error
    protocol = path.partition("://")[0].lower()
    if protocol in _LOCAL or "::" in path:
        raise InputError(f"{_shown(path)}: is no address of a remote store", "give a local file by its path")
    filesystem, place = url_to_fs(path)
    return filesystem, str(place)


@contextmanager
def _mapped(path: str) -> Iterator[None]:
    """What stores raise, as errors of ours with the address."""
    try:
        yield
    except (InputError, UsageError):
        raise
    except ImportError as error:
        raise UsageError(f"{_shown(path)}: {_short(error)}", "each store needs its own package") from error
    except FileNotFoundError as error:
        raise InputError(f"{_shown(path)}: no such file or folder") from error
    except Exception as error:  # each store has exceptions of its own, none of which is a bug of ours
        raise InputError(
            f"{_shown(path)}: cannot be read: {type(error).__name__}: {_short(error)}"
        ) from error


def _is_hidden(name: str, folder: str) -> bool:
    """Whether a file lies in a hidden folder below the named one."""
    inside = name.removeprefix(folder.rstrip("/")).strip("/")
    return any(part.startswith(".") for part in inside.split("/"))


def _is_shard(name: str, suffixes: tuple[str, ...]) -> bool:
    return name.endswith(suffixes) and not name.rsplit("/", 1)[-1].startswith(".")


def _shown(path: str) -> str:
    return escape_untrusted(masked(path), keep_newlines=False)


def _short(error: Exception) -> str:
    return shorten(escape_untrusted(masked(str(error)), keep_newlines=False), 200)
