"""Joined files that grow, or appear while a dump is followed: read anew when they have changed.

What cannot be read yet (nothing in it, a torn last line, a file that is gone) is tried again at its next change; until then
what it said before holds. Reading takes at most a tenth of the time: a large file that grows all the time is not read at every look.
"""

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gagar_cli.errors import InputError, UsageError
from gagar_cli.io.formats.facts import is_inferred
from gagar_cli.io.joins import Joins
from gagar_cli.io.jsonl import parse_object
from gagar_cli.io.markers import END_FILE, END_OF_DUMP
from gagar_cli.io.records import MISSING, Fields
from gagar_cli.io.streams import path_identity, show_path

_READING_SHARE = 10
_END_BYTES = 4096
"""Of a file, in which a mark at its end is looked for."""


class FollowedJoins:
    """What the `--join` files say by now."""

    def __init__(self, paths: Sequence[str]) -> None:
        """Look for the named files and folders.

        Raises:
            UsageError: standard input.
            InputError: a path that is not there, in a folder that is not there either, or a named pipe.
        """
        for path in paths:
            if path == "-":
                raise UsageError(
                    "--join - is not for --follow", "write the verdicts to a file, which may grow"
                )
            if Path(path).exists() and not (Path(path).is_file() or Path(path).is_dir()):
                raise InputError(
                    f"{show_path(path)}: not a regular file", "write the verdicts to a file, which may grow"
                )
            if not Path(path).exists() and not Path(path).absolute().parent.is_dir():
                raise InputError(f"{show_path(path)}: no such file or directory")
        self._paths = tuple(paths)
        self._joins: Joins | None = None
        self._read: object = None
        """The state of files and runs when they were read, or could not be."""
        self._failure: InputError | None = None
        self._there: set[str] = set()
        """What was read last."""
        self._tried_seconds = float("-inf")
        self._trying_seconds = 0.0

    @property
    def is_ended(self) -> bool:
        """Whether every file says that no more comes."""
        return all(_is_ended(Path(path)) for path in self._paths)

    @property
    def has_verdicts(self) -> bool:
        """Whether anything in them says who passed."""
        return self._joins is not None and self._joins.has_verdicts

    def renew(self, runs: Sequence[str], *, is_last: bool) -> bool:
        """Read what has changed; whether something is said anew. `runs`: run directories of the dump.

        Raises:
            InputError: with `is_last`, what cannot be read.
        """
        started = time.monotonic()
        if not is_last and started - self._tried_seconds < _READING_SHARE * self._trying_seconds:
            return False
        there = [path for path in self._paths if Path(path).exists()]
        if not self._there <= {*there}:
            return False  # it is being replaced
        state = (tuple(dict.fromkeys(runs)), tuple(_state(Path(path)) for path in there))
        if state == self._read:
            if is_last and self._failure is not None:
                raise self._failure
            return False
        self._read = state
        try:
            joins = Joins(there, runs)
        except InputError as error:
            self._failure = error
            if is_last:
                raise
            return False
        finally:
            self._tried_seconds = time.monotonic()
            self._trying_seconds = self._tried_seconds - started
        self.close()
        self._joins, self._failure, self._there = joins, None, {*there}
        return True

    def overlay(
        self, record: Mapping[str, Any], fields: Fields, run: str | None, where: str | None = None
    ) -> dict[str, Any]:
        """The record with what is known about it by now; counted where a place is given."""
        if self._joins is None:
            # As the overlay of nothing: a verdict is awaited, also where the format infers one.
            has_own = fields.find(record, "resolved") is not MISSING
            has_own = has_own and not is_inferred(record, is_native=run is not None)
            awaited = {fields.mapping.get("resolved", "resolved"): None}
            return {**record, **({} if has_own else awaited)}
        return self._joins.overlay(dict(record), fields, run=run, where=where)

    def check(self) -> None:
        """Refuse what is said of one attempt and would go to several.

        Raises:
            InputError: with the first places.
        """
        if self._joins is not None:
            self._joins.refuse_shared()

    def notes(self) -> list[str]:
        """What did not fit together."""
        return [] if self._joins is None else list(self._joins.notes())

    def close(self) -> None:
        """Give back what is kept."""
        if self._joins is not None:
            self._joins.close()


def _state(path: Path) -> object:
    """What changes when a file, or anything in a folder, is written to."""
    if not path.is_dir():
        return path_identity(path)
    files = (Path(folder, name) for folder, _, names in os.walk(path) for name in names)
    return frozenset((str(each), path_identity(each)) for each in files)


def _is_ended(path: Path) -> bool:
    """A folder with the end file, or lines of which the last one is the mark."""
    if path.is_dir():
        return (path / END_FILE).exists()
    try:
        with path.open("rb") as stream:
            stream.seek(max(0, os.fstat(stream.fileno()).st_size - _END_BYTES))
            last = stream.read().rstrip().rpartition(b"\n")[2]
            return parse_object(last, "").get(END_OF_DUMP) is True
    except (OSError, InputError):
        return False
