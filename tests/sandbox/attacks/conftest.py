"""Attacks run inside; whether they got through is read on the host, from what `Host` saw meanwhile."""

import fcntl
import os
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from gagar_cli.sandbox.base import ExecResult, SandboxBackend
from gagar_cli.sandbox.bubblewrap import BubblewrapBackend
from gagar_cli.sandbox.bubblewrap_groups import HELD_BY_GROUPS
from gagar_cli.sandbox.promises import OPEN

SCRIPTS = Path(__file__).parent / "scripts"
POLL_SECONDS = 0.02
TICKS = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Host(threading.Thread):
    """Looks at the machine while a command runs: the processes that carry its mark, memory, their checkout."""

    def __init__(self, mark: str) -> None:
        super().__init__(daemon=True)
        self.mark = mark
        self.peak_processes = 0
        self.peak_resident_bytes = 0
        self.peak_cpu_seconds = 0.0
        self.peak_files = 0
        self.peak_file_bytes = 0
        self.memory_dip_bytes = 0
        self._is_over = threading.Event()
        self._available_at_start = available_bytes()

    def run(self) -> None:
        while not self._is_over.wait(POLL_SECONDS):
            pids = self.marked()
            self.peak_processes = max(self.peak_processes, len(pids))
            self.peak_resident_bytes = max(self.peak_resident_bytes, sum(map(resident_bytes, pids)))
            self.peak_cpu_seconds = max(self.peak_cpu_seconds, sum(map(cpu_seconds, pids)))
            self.memory_dip_bytes = max(self.memory_dip_bytes, self._available_at_start - available_bytes())
            self._look_into_checkout(pids)

    def stop(self) -> None:
        self._is_over.set()
        self.join()

    def marked(self) -> list[int]:
        """Processes of this machine whose command line has the mark."""
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                if self.mark.encode() in path.read_bytes():
                    found.append(int(path.parent.name))
            except OSError:
                continue
        return found

    def wait_for(self, is_so: Callable[[list[int]], bool], seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while not (result := is_so(self.marked())) and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
        return result

    def all_gone_within(self, seconds: float) -> bool:
        return self.wait_for(lambda pids: not pids, seconds)

    def _look_into_checkout(self, pids: list[int]) -> None:
        for pid in pids:
            checkout = Path(f"/proc/{pid}/root/checkout")
            try:
                status = os.statvfs(checkout)
                self.peak_files = max(self.peak_files, status.f_files - status.f_ffree)
                self.peak_file_bytes = max(self.peak_file_bytes, (checkout / "sparse").lstat().st_size)
            except OSError:
                continue


class Attacked(NamedTuple):
    """What came of one attack."""

    result: ExecResult
    host: Host


@pytest.fixture
def host() -> Host:
    """Finds the processes that carry a new mark."""
    return Host(f"mark-{uuid.uuid4().hex}")


@pytest.fixture
def alone() -> Iterator[None]:
    """One attack at a time, also where tests run side by side: what it takes is measured on the whole machine."""
    with Path(tempfile.gettempdir(), "gagar-attacks.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.fixture
def attack(hold, host, alone) -> Callable[..., Attacked]:
    """Runs a script of this directory in a sandbox of the backend, watched from outside."""

    def run(script: str, *arguments: str, timeout_seconds: float = 30, **options) -> Attacked:
        host.start()
        try:
            source = (SCRIPTS / f"{script}.py").read_text()
            command = ("python3", "-I", "-c", source, host.mark, *arguments)
            result = hold(**options).run(*command, timeout_seconds=timeout_seconds)
        finally:
            host.stop()
        return Attacked(result, host)

    return run


@pytest.fixture(
    params=[pytest.param("docker", marks=pytest.mark.docker), "bubblewrap", "bubblewrap without groups"]
)
def backend(request: pytest.FixtureRequest) -> SandboxBackend:
    """Every backend in turn; bubblewrap also as on machines that let nobody make control groups."""
    if request.param == "docker":
        return request.getfixturevalue("docker_backend")
    found = request.getfixturevalue("bubblewrap")
    if request.param == "bubblewrap":
        return found
    if found.groups is None:
        pytest.skip("no control groups can be made here: bubblewrap is without them in any case")
    return BubblewrapBackend(found.program, has_overlay=found._has_overlay, groups=None)


@pytest.fixture
def is_open(backend) -> Callable[[str], bool]:
    """Whether a backend is said to leave an attack open, in part or in full."""
    groups = getattr(backend, "groups", None)
    held_by_groups = HELD_BY_GROUPS if groups is not None and groups.has_all else frozenset()
    return lambda number: number in OPEN[backend.name] and number not in held_by_groups


@pytest.fixture
def outside(tmp_path_factory) -> Iterator[Path]:
    """A directory that everybody may read and write, as no sandbox may see."""
    directory = Path(f"/var/tmp/gagar-attack-{uuid.uuid4().hex}")
    directory.mkdir()
    directory.chmod(0o777)
    yield directory
    for path in directory.iterdir():
        path.unlink()
    directory.rmdir()


def available_bytes() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("the kernel tells no available memory")


def resident_bytes(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_BYTES
    except (OSError, IndexError):
        return 0


def cpu_seconds(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / TICKS
