"""Memory and files of a sandbox without a control group, watched from the host.

A thread looks 20 times a second at the processes of one command. It ends the command when they hold more memory than
allowed, when a scratch file system holds too much or too many files, or when the machine itself runs short: socket
buffers and the like belong to no process. It is a thread of its own because the event loop may be busy just then.

Does not bound the rate of CPU use, nor what is taken and given back between two looks.
"""

import contextlib
import os
import threading
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


class Watchdog(threading.Thread):
    """Watches the descendants of one process until stopped; calls `end` once when they take too much."""

    _running: set["Watchdog"] = set()  # noqa: RUF012 - shared on purpose: all commands draw on one machine

    def __init__(self, pid: int, limits: SandboxLimits, end: Callable[[], None]) -> None:
        super().__init__(name=f"gagar-watchdog-{pid}", daemon=True)
        self.has_ended = False
        """The command was ended for the memory or the files it took."""
        self._pid = pid
        self._limits = limits
        self._end = end
        self._stopped = threading.Event()
        self._available_at_start = _available_bytes()

    def run(self) -> None:
        """Watch; what `start` begins."""
        self._running.add(self)
        try:
            while not self._stopped.wait(POLL_SECONDS):
                if self._is_over():
                    self.has_ended = True
                    break
        finally:
            self._running.discard(self)
            # Also after an accident of ours: nothing runs unwatched.
            if not self._stopped.is_set():
                self._end()

    def stop(self) -> None:
        """End the watch and wait until it has ended, after which the process number may be reused."""
        self._stopped.set()
        self.join()

    def _is_over(self) -> bool:
        processes = list(_descendants(self._pid))
        return self._holds_too_much(processes) or self._fills_scratch(processes) or self._starves_machine()

    def _holds_too_much(self, processes: list[int]) -> bool:
        # Resident sizes count shared pages once a process; where they exceed the limit the fair share decides.
        limit = self._limits.memory_bytes
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
        return n_bytes > self._limits.scratch_bytes or status.f_files - status.f_ffree > MAX_INODES

    def _starves_machine(self) -> bool:
        available = _available_bytes()
        allowed = UNSEEN_BYTES + sum(watchdog._limits.memory_bytes for watchdog in list(self._running))
        return (
            self._available_at_start - available > allowed
            or available < _MIN_AVAILABLE_SHARE * _total_bytes()
        )


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
