"""Memory and files of a sandbox without a control group, watched from the host.

A thread looks 20 times a second at the processes of every command. It ends a command when they hold more memory than
allowed, when a scratch file system holds too much or too many files, or when the machine itself runs short: socket
buffers and the like belong to no process. It is a thread of its own because the event loop may be busy just then, and
one for all commands, since starting one takes longer than some commands do.

Does not bound the rate of CPU use, nor what is taken and given back between two looks.
"""

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from gagar_cli.sandbox.base import SandboxLimits
from gagar_cli.sandbox.launcher import CHECKOUT, HOME, MAX_INODES

POLL_SECONDS = 0.05
UNSEEN_BYTES = 1024**3
"""How far the machine's available memory may fall beyond what all watched commands are allowed together."""
_MIN_AVAILABLE_SHARE = 0.04
_WATCHED_PLACES = (CHECKOUT, HOME, "/dev/shm")  # noqa: S108 - inside the sandbox
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Watchdog:
    """Watches the descendants of one process until stopped; calls `end` once when they take too much."""

    def __init__(self, pid: int, limits: SandboxLimits, end: Callable[[], None]) -> None:
        self.limits = limits
        self.has_ended = False
        """The command was ended for the memory or the files it took."""
        self._pid = pid
        self._end = end
        self._is_stopped = False
        self._looking = threading.Lock()
        self._available_at_start = _available_bytes()

    def start(self) -> None:
        """Begin to watch."""
        _LOOKOUT.add(self)

    def stop(self) -> None:
        """End the watch, and a look that is just going on: after it the process number may be reused."""
        _LOOKOUT.discard(self)
        with self._looking:
            self._is_stopped = True

    def look(self) -> None:
        """End the command where it takes too much."""
        with self._looking:
            if not self._is_stopped and self._is_over():
                self.has_ended = True
                self._is_stopped = True
                self._end()

    def end(self) -> None:
        """End the command, whatever it takes, since nobody watches it."""
        with self._looking:
            if not self._is_stopped:
                self._end()

    def _is_over(self) -> bool:
        processes = list(_descendants(self._pid))
        return self._holds_too_much(processes) or self._fills_scratch(processes) or self._starves_machine()

    def _holds_too_much(self, processes: list[int]) -> bool:
        # Resident sizes count shared pages once a process; where they exceed the limit the fair share decides.
        limit = self.limits.memory_bytes
        return sum(map(_resident_bytes, processes)) > limit and sum(map(_fair_bytes, processes)) > limit

    def _fills_scratch(self, processes: list[int]) -> bool:
        for process in processes:
            root = Path("/proc", str(process), "root")
            if not _is_same_root(root):
                return any(self._is_full(f"{root}{place}") for place in _WATCHED_PLACES)
        return False

    def _is_full(self, place: str) -> bool:
        try:
            status = os.statvfs(place)
        except OSError:
            return False
        n_bytes = (status.f_blocks - status.f_bfree) * status.f_frsize
        return n_bytes > self.limits.scratch_bytes or status.f_files - status.f_ffree > MAX_INODES

    def _starves_machine(self) -> bool:
        available = _available_bytes()
        allowed = UNSEEN_BYTES + sum(watchdog.limits.memory_bytes for watchdog in _LOOKOUT.watched())
        return (
            self._available_at_start - available > allowed
            or available < _MIN_AVAILABLE_SHARE * _total_bytes()
        )


class _Lookout:
    """The thread that looks, and what it looks at."""

    def __init__(self) -> None:
        self._watched: set[Watchdog] = set()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def add(self, watchdog: Watchdog) -> None:
        with self._changed:
            self._watched.add(watchdog)
            self._changed.notify()
            # None yet, none after an accident, and none in a fork of the process that had one.
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="gagar-watchdog", daemon=True)
                self._thread.start()

    def discard(self, watchdog: Watchdog) -> None:
        with self._changed:
            self._watched.discard(watchdog)

    def watched(self) -> list[Watchdog]:
        with self._changed:
            return list(self._watched)

    def _run(self) -> None:
        try:
            while True:
                with self._changed:
                    self._changed.wait_for(lambda: self._watched)
                time.sleep(POLL_SECONDS)
                for watchdog in self.watched():
                    watchdog.look()
        finally:
            # After an accident of ours: nothing runs unwatched.
            with self._changed:
                self._thread = None
                unwatched, self._watched = self._watched, set()
            for watchdog in unwatched:
                watchdog.end()


_LOOKOUT = _Lookout()


def _descendants(pid: int) -> Iterator[int]:
    """Children of children; orphans stay in, since the first process of their namespace adopts them."""
    waiting = [pid]
    while waiting:
        children = _children(waiting.pop())
        yield from children
        waiting += children


def _children(pid: int) -> list[int]:
    """Of all threads of a process; processes and threads may be gone between two lines of this."""
    found = []
    with contextlib.suppress(OSError):
        for thread in Path("/proc", str(pid), "task").iterdir():
            with contextlib.suppress(OSError):
                found += (thread / "children").read_bytes().split()
    return [int(child) for child in found]


def _resident_bytes(pid: int) -> int:
    try:
        return int(Path("/proc", str(pid), "statm").read_bytes().split()[1]) * _PAGE_BYTES
    except (OSError, IndexError):
        return 0


def _fair_bytes(pid: int) -> int:
    """Its memory with every shared page divided by its users; the resident size where that is not told."""
    try:
        summary = Path("/proc", str(pid), "smaps_rollup").read_bytes()
    except OSError:
        return _resident_bytes(pid)
    return next((int(line.split()[1]) * 1024 for line in summary.splitlines() if line.startswith(b"Pss:")), 0)


def _is_same_root(root: Path) -> bool:
    """Whether a process still sees the machine's own root: it is not in its sandbox yet."""
    try:
        return root.samefile("/")
    except OSError:
        return True


def _memory_field(name: bytes) -> int:
    for line in Path("/proc/meminfo").read_bytes().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) * 1024
    return 0


def _available_bytes() -> int:
    return _memory_field(b"MemAvailable:")


def _total_bytes() -> int:
    return _memory_field(b"MemTotal:")
