"""What the user named for a followed run, and the files that lie there by now."""

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from gagar_cli.errors import InputError, UsageError
from gagar_cli.io.markers import END_FILE
from gagar_cli.io.native_files import SUFFIXES
from gagar_cli.io.native_found import Found
from gagar_cli.io.piped import PipedLines
from gagar_cli.io.remote import is_remote
from gagar_cli.io.streams import SHARD_SUFFIXES, show_path
from gagar_cli.io.tails import Tail

_JSON = (".json", ".traj", ".pred")
_WHOLE = (".gz", ".zst", ".parquet", ".pq", ".pt", ".pkl", *_JSON)
_LISTING_SHARE = 10
"""A large folder is listed again when so many times as long has passed as listing it took."""
_QUICK_SECONDS = 0.02
"""A folder that is listed faster is listed at every look."""


@dataclass(slots=True)
class Input:
    """What the user named: a file, a folder or `-`."""

    path: str
    piped: PipedLines | None = None
    is_ended: bool = False
    is_native: bool | None = None
    """Of a folder, once its first file of either kind is there."""
    notes: list[str] = field(default_factory=list)
    listed_seconds: float = float("-inf")
    listing_seconds: float = 0.0


@dataclass(slots=True)
class FollowedFile:
    """One file of an input."""

    path: str
    input: Input
    is_inside: bool
    """It lies in the folder that was named."""
    is_direct: bool = True
    tail: Tail | None = None
    found: Found | None = None
    label: str = ""
    is_lines: bool | None = None
    """Whether it is read line by line, once that is known."""
    is_left_out: bool = False
    seen: tuple[int, ...] | None = None
    """Size, time and inode at the last look."""
    refused: tuple[int, ...] | None = None
    """What they were when it could not be read."""

    @property
    def place(self) -> str:
        """The path that it is read by."""
        return self.input.piped.path if self.input.piped is not None else self.path

    def state(self) -> tuple[int, ...] | None:
        """What changes when it is written to; None where it is gone."""
        try:
            found = Path(self.place).stat()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise InputError(f"{show_path(self.path)}: {(error.strerror or str(error)).lower()}") from error
        return (found.st_size, found.st_mtime_ns, found.st_ino)

    @property
    def is_json(self) -> bool:
        """Whether its name is that of one JSON document."""
        return self.path.lower().endswith(_JSON)

    @property
    def is_whole(self) -> bool:
        """Whether a file of its name is written once, as a whole."""
        return self.path.lower().endswith(_WHOLE)


def new_files(named: Input, *, is_deep: bool, must_list: bool) -> Iterator[FollowedFile]:
    """The files of an input, those that are known too; notes whether it has ended.

    A folder is searched to its depth for native files, or only itself for shards. A large one is not listed at every look.

    Raises:
        InputError: what is named is a named pipe, a socket or a device.
    """
    folder = Path(named.path)
    if not folder.is_dir():
        # What is not there yet may become a file or a folder.
        if folder.exists() and not folder.is_file():
            raise InputError(f"{show_path(named.path)}: not a regular file", "pipe it in and name it `-`")
        if folder.exists():
            yield FollowedFile(named.path, named, is_inside=False)
        return
    # Asked before listing: what was there before the end file is listed.
    named.is_ended = named.is_ended or (folder / END_FILE).exists()
    started = time.monotonic()
    is_due = started - named.listed_seconds >= _LISTING_SHARE * named.listing_seconds
    if not (is_due or must_list or named.is_ended or named.listing_seconds < _QUICK_SECONDS):
        return
    yield from _listed(named, is_deep=is_deep)
    named.listed_seconds = time.monotonic()
    named.listing_seconds = named.listed_seconds - started


def check_path(path: str) -> None:
    """Whether a path can be followed.

    Raises:
        UsageError: it is on another machine.
        InputError: it is not there, nor is the folder that it could appear in.
    """
    if is_remote(path):
        raise UsageError(
            f"{show_path(path)}: --follow needs files, folders or `-` of this machine",
            "without it the address is read once; copy new shards into a folder here and follow that",
        )
    if path != "-" and not Path(path).exists() and not Path(path).absolute().parent.is_dir():
        raise InputError(f"{show_path(path)}: no such file or directory")


def _listed(named: Input, *, is_deep: bool) -> Iterator[FollowedFile]:
    suffixes = (*SUFFIXES, *SHARD_SUFFIXES) if is_deep else SHARD_SUFFIXES
    for folder, folders, names in os.walk(named.path):
        is_direct = folder == named.path
        folders[:] = sorted(name for name in folders if is_deep and not name.startswith("."))
        for name in sorted(names):
            if name.endswith(suffixes) and not name.startswith("."):
                yield FollowedFile(str(Path(folder) / name), named, is_inside=True, is_direct=is_direct)
