"""The ledger: JSON lines that survive being killed, one line a finished group.

A record counts as done when `append` has returned: one write, then fdatasync. Opening drops a torn last line, which
was never acknowledged, and refuses a damaged line anywhere else without touching the file: each line carries a
checksum. One run at a time holds the lock. Beside the ledger, `<ledger>.run.json` keeps the settings that its records
were made with; a run with other settings is refused, because its records would not compare. How the last run read its
dump stands there too, for those who use the records; a run that reads it otherwise goes on.
"""

import errno
import fcntl
import json
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from gagar_cli.errors import InputError, OutputError, UsageError
from gagar_cli.io.jsonl import Line, dump_line, show_value
from gagar_cli.io.ledger_lines import checksum, read_checked, read_sealed
from gagar_cli.io.streams import show_path
from gagar_cli.io.writers import sync_directory, write_summary_file

_MAX_LISTED_SETTINGS = 10
_READING = "read"
"""Of the settings the one that may change: what was read is told by digests of it."""


class Place(NamedTuple):
    """Where a record lies in a ledger: its line, without the end."""

    offset: int
    n_bytes: int


Take = Callable[[dict[str, object], Place], None]
"""Is given a record without its checksum, and its place."""


class Ledger:
    """An open, locked ledger. Made by `open`; a context manager."""

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self.records: list[dict[str, object]] = []
        """What was there when it was opened, checked, in order, without checksums; nothing where others took it."""
        self.notes: list[str] = []
        self._descriptor: int | None = descriptor
        self._n_bytes = 0
        self._n_records = 0

    @classmethod
    def open(
        cls,
        path: str,
        *,
        config: Mapping[str, object] | None,
        overwrite: bool = False,
        reading: Mapping[str, object] | None = None,
        take: Take | None = None,
    ) -> Self:
        """Open or make a ledger for a run with these settings; `overwrite` empties it first.

        `reading` is kept with the settings as `read`, and not compared. `take` is given each record that is there, and
        `records` stays empty: all of a long ledger takes many times its size.

        Without settings it is opened to be corrected: whatever run, person or tool wrote it, its lines stay and need
        no checksum.

        Raises:
            OutputError: locked by another run, not a regular file, or it cannot be written.
            InputError: a line is damaged; the file is left as it is.
            UsageError: it was made with other settings.
        """
        ledger = cls(path, _open_locked(path))
        try:
            ledger._load(
                config,
                reading,
                take or (lambda record, _: ledger.records.append(record)),
                overwrite=overwrite,
            )
        except BaseException:
            ledger.close()
            raise
        return ledger

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give back the lock."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def append(self, *records: Mapping[str, object]) -> list[Place]:
        """Put records on disk, all by one write; they are there when this returns, at these places.

        Raises:
            OutputError: they are not, and the ledger is as before; nothing more is taken.
        """
        if self._descriptor is None:
            raise OutputError(f"{show_path(self.path)}: the ledger is closed")
        lines = [dump_line({**record, "checksum": checksum(record)}) for record in records]
        try:
            n_written = os.write(self._descriptor, b"".join(lines))
            if n_written != sum(map(len, lines)):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            # Not to be tried again after a failure: the kernel may have dropped the pages and report success.
            os.fdatasync(self._descriptor)
        except OSError as error:
            self._take_back()
            message = (
                f"{show_path(self.path)}: cannot be appended to: {(error.strerror or str(error)).lower()}"
            )
            raise OutputError(
                message, "records before this one are safe: the same command goes on from them"
            ) from error
        places = []
        for line in lines:
            places.append(Place(self._n_bytes, len(line) - 1))
            self._n_bytes += len(line)
        return places

    def read(self, place: Place) -> dict[str, object]:
        """A record that was taken or appended, read again, without its checksum.

        Raises:
            OutputError: the ledger is closed.
            InputError: it cannot be read.
        """
        if self._descriptor is None:
            raise OutputError(f"{show_path(self.path)}: the ledger is closed")
        try:
            text = os.pread(self._descriptor, place.n_bytes, place.offset)
        except OSError as error:
            raise InputError(f"{show_path(self.path)}: {(error.strerror or str(error)).lower()}") from error
        line = Line(0, place.offset, text, is_cut=False)
        return read_sealed(line) or read_checked(line, self.path)

    def _take_back(self) -> None:
        assert self._descriptor is not None  # noqa: S101 - for the type checker
        try:
            os.ftruncate(self._descriptor, self._n_bytes)
        except OSError:
            self.notes.append(f"{show_path(self.path)}: the last line is torn; the next run drops it")
        self.close()

    def _load(
        self,
        config: Mapping[str, object] | None,
        reading: Mapping[str, object] | None,
        take: Take,
        *,
        overwrite: bool,
    ) -> None:
        assert self._descriptor is not None  # noqa: S101 - for the type checker
        settings = None if config is None else json.loads(dump_line(_with_reading(config, reading)))
        settings_path = _settings_path(self.path)
        try:
            if overwrite:
                os.ftruncate(self._descriptor, 0)
            n_bytes = self._read_records(take, must_be_ours=settings is not None)
            is_told = bool(self._n_records and settings is not None and self._compare_settings(settings))
            n_torn = os.fstat(self._descriptor).st_size - n_bytes
            if n_torn and settings is None:
                hint = "a run that goes on drops what was torn; a file made by hand wants a newline"
                raise InputError(f"{show_path(self.path)}: the last line has no newline", hint)
            if n_torn:
                os.ftruncate(self._descriptor, n_bytes)
                self.notes.append(f"{show_path(self.path)}: a torn last line of {n_torn:,} bytes is dropped")
            os.fsync(self._descriptor)
        except OSError as error:
            raise OutputError(f"{show_path(self.path)}: {(error.strerror or str(error)).lower()}") from error
        self._n_bytes = n_bytes
        if settings is not None and not is_told:
            write_summary_file(settings_path, settings)

    def _read_records(self, take: Take, *, must_be_ours: bool) -> int:
        """Give away what is complete, whose length comes back. Lines that are not ours may lack a checksum."""
        assert self._descriptor is not None  # noqa: S101 - for the type checker
        n_bytes = 0
        with os.fdopen(os.dup(self._descriptor), "rb") as stream:
            stream.seek(0)
            for number, text in enumerate(stream, start=1):
                if not text.endswith(b"\n"):
                    break
                line = Line(number, n_bytes, text.rstrip(b"\n"), is_cut=False)
                if must_be_ours or line.text.strip():
                    record = read_sealed(line)
                    if record is None:
                        record = read_checked(line, self.path, must_be_ours=must_be_ours)
                    take(record, Place(n_bytes, len(line.text)))
                    self._n_records += 1
                n_bytes += len(text)
        return n_bytes

    def _compare_settings(self, settings: Mapping[str, object]) -> bool:
        """Whether all of them stand beside the ledger already."""
        earlier = read_settings(self.path)
        if earlier is None:
            missing = show_path(_settings_path(self.path))
            self.notes.append(f"{missing}: missing, the settings of earlier records are unknown")
            return False
        refuse_other_settings(self.path, earlier, settings)
        return earlier.get(_READING) == settings.get(_READING)


def read_settings(path: str) -> dict[str, object] | None:
    """The settings that a ledger's records were made with; None where they are not kept.

    Raises:
        InputError: they cannot be read.
    """
    settings_path = _settings_path(path)
    try:
        earlier = json.loads(settings_path.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError(f"{show_path(settings_path)}: {(error.strerror or str(error)).lower()}") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{show_path(settings_path)}: not JSON, expected a run's settings") from error
    if not isinstance(earlier, dict):
        raise InputError(f"{show_path(settings_path)} is {show_value(earlier)}, expected a run's settings")
    return {name: value for name, value in earlier.items() if name != "schema_version"}


def refuse_other_settings(path: str, earlier: Mapping[str, object], settings: Mapping[str, object]) -> None:
    """Compare a run's settings with those of a ledger.

    Raises:
        UsageError: they differ.
    """
    now = json.loads(dump_line(settings))
    differing = list(_differences({**earlier, _READING: None}, {**now, _READING: None}))
    if not differing:
        return
    listed = differing[:_MAX_LISTED_SETTINGS]
    if len(differing) > len(listed):
        listed.append(f"… {len(differing) - len(listed)} more")
    raise UsageError(
        f"{show_path(path)}: was written with other settings: {'; '.join(listed)}",
        "give the old settings to go on, another output, or `--overwrite` to start anew",
    )


def _with_reading(config: Mapping[str, object], reading: Mapping[str, object] | None) -> Mapping[str, object]:
    return config if reading is None else {**config, _READING: reading}


def _settings_path(path: str) -> Path:
    return Path(f"{path}.run.json")


def _open_locked(path: str) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    descriptor = None
    try:
        descriptor = os.open(path, flags, 0o666)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OutputError(f"{show_path(path)}: not a regular file, expected a ledger")
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        sync_directory(Path(path).absolute().parent)
    except BaseException as error:
        if descriptor is not None:
            os.close(descriptor)
        if isinstance(error, BlockingIOError):
            raise OutputError(
                f"{show_path(path)}: locked by another run", "wait for it, or name another output"
            ) from error
        if isinstance(error, OSError):
            reason = (
                "is a symbolic link" if error.errno == errno.ELOOP else (error.strerror or str(error)).lower()
            )
            raise OutputError(f"{show_path(path)}: {reason}") from error
        raise
    return descriptor


def _differences(earlier: object, now: object, path: str = "") -> Iterator[str]:
    if isinstance(earlier, dict) and isinstance(now, dict):
        for key in sorted({*earlier, *now}):
            yield from _differences(earlier.get(key), now.get(key), f"{path}.{key}" if path else key)
    elif earlier != now or isinstance(earlier, bool) != isinstance(now, bool):
        yield f"{path} was {show_value(earlier)}, is {show_value(now)}"
