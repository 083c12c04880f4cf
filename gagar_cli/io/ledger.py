"""The ledger: JSON lines that survive being killed, one line a finished group.

A record counts as done when `append` has returned: one write, then fdatasync. Opening drops a torn last line, which
was never acknowledged, and refuses a damaged line anywhere else without touching the file: each line carries a
checksum. One run at a time holds the lock. Beside the ledger, `<ledger>.run.json` keeps the settings that its records
were made with; a run with other settings is refused, because its records would not compare.
"""

import errno
import fcntl
import hashlib
import json
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from gagar_cli.errors import InputError, OutputError, UsageError
from gagar_cli.io.jsonl import Line, dump_line, parse_line, show_value
from gagar_cli.io.streams import show_path
from gagar_cli.io.writers import sync_directory, write_atomically

_MAX_LISTED_SETTINGS = 10


class Ledger:
    """An open, locked ledger. Made by `open`; a context manager."""

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self.records: list[dict[str, object]] = []
        """What was there when it was opened, checked, in order, without checksums."""
        self.notes: list[str] = []
        self._descriptor: int | None = descriptor
        self._n_bytes = 0

    @classmethod
    def open(cls, path: str, *, config: Mapping[str, object] | None, overwrite: bool = False) -> Self:
        """Open or make a ledger for a run with these settings; `overwrite` empties it first.

        Without settings it is opened to be corrected: whatever run, person or tool wrote it, its lines stay and need
        no checksum.

        Raises:
            OutputError: locked by another run, not a regular file, or it cannot be written.
            InputError: a line is damaged; the file is left as it is.
            UsageError: it was made with other settings.
        """
        ledger = cls(path, _open_locked(path))
        try:
            ledger._load(config, overwrite=overwrite)
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

    def append(self, *records: Mapping[str, object]) -> None:
        """Put records on disk, all by one write; they are there when this returns.

        Raises:
            OutputError: they are not, and the ledger is as before; nothing more is taken.
        """
        if self._descriptor is None:
            raise OutputError(f"{show_path(self.path)}: the ledger is closed")
        line = b"".join(dump_line({**record, "checksum": checksum(record)}) for record in records)
        try:
            n_written = os.write(self._descriptor, line)
            if n_written != len(line):
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
        self._n_bytes += len(line)

    def _take_back(self) -> None:
        assert self._descriptor is not None  # noqa: S101 - for the type checker
        try:
            os.ftruncate(self._descriptor, self._n_bytes)
        except OSError:
            self.notes.append(f"{show_path(self.path)}: the last line is torn; the next run drops it")
        self.close()

    def _load(self, config: Mapping[str, object] | None, *, overwrite: bool) -> None:
        assert self._descriptor is not None  # noqa: S101 - for the type checker
        settings = None if config is None else json.loads(dump_line(config))
        settings_path = _settings_path(self.path)
        try:
            if overwrite:
                os.ftruncate(self._descriptor, 0)
            n_bytes = self._read_records(must_be_ours=settings is not None)
            if self.records and settings is not None:
                self._compare_settings(settings)
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
        if settings is not None and (not self.records or not settings_path.exists()):
            with write_atomically(settings_path) as stream:
                stream.write(json.dumps(settings, indent=2, sort_keys=True).encode() + b"\n")

    def _read_records(self, *, must_be_ours: bool) -> int:
        """Fill `records`; the length of what is complete. Lines that are not ours may lack a checksum."""
        assert self._descriptor is not None  # noqa: S101 - for the type checker
        n_bytes = 0
        with os.fdopen(os.dup(self._descriptor), "rb") as stream:
            stream.seek(0)
            for number, text in enumerate(stream, start=1):
                if not text.endswith(b"\n"):
                    break
                line = Line(number, n_bytes, text.rstrip(b"\n"), is_cut=False)
                if must_be_ours or line.text.strip():
                    self.records.append(read_checked(line, self.path, must_be_ours=must_be_ours))
                n_bytes += len(text)
        return n_bytes

    def _compare_settings(self, settings: Mapping[str, object]) -> None:
        earlier = read_settings(self.path)
        if earlier is None:
            missing = show_path(_settings_path(self.path))
            self.notes.append(f"{missing}: missing, the settings of earlier records are unknown")
            return
        refuse_other_settings(self.path, earlier, settings)


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
    return earlier


def refuse_other_settings(path: str, earlier: Mapping[str, object], settings: Mapping[str, object]) -> None:
    """Compare a run's settings with those of a ledger.

    Raises:
        UsageError: they differ.
    """
    differing = list(_differences(earlier, json.loads(dump_line(settings))))
    if not differing:
        return
    listed = differing[:_MAX_LISTED_SETTINGS]
    if len(differing) > len(listed):
        listed.append(f"… {len(differing) - len(listed)} more")
    raise UsageError(
        f"{show_path(path)}: was written with other settings: {'; '.join(listed)}",
        "give the old settings to go on, another output, or `--overwrite` to start anew",
    )


def _settings_path(path: str) -> Path:
    return Path(f"{path}.run.json")


def checksum(record: Mapping[str, object]) -> str:
    """The first 16 hex digits of SHA-256 over the record's canonical JSON, `checksum` left out."""
    content = json.loads(dump_line({key: value for key, value in record.items() if key != "checksum"}))
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def read_checked(line: Line, source: str, *, must_be_ours: bool = True) -> dict[str, object]:
    """The record on a ledger's line, without its checksum.

    Raises:
        InputError: not one JSON object, or its checksum does not fit, or is missing where the line must be ours.
    """
    record = parse_line(line, show_path(source))
    found = record.pop("checksum", None)
    if found != checksum(record) and (found is not None or must_be_ours):
        what = "is missing" if found is None else f"is {show_value(found)}, which does not fit the line"
        hint = "the line was damaged or edited; nothing was overwritten"
        raise InputError(f"{show_path(source)}:{line.number}: checksum {what}", hint)
    return record


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
