import os
import subprocess
import sys
import threading

import pytest

from gagar_cli.sandbox.base import SandboxLimits
from gagar_cli.sandbox.watchdog import Watchdog

HOLD = "import sys; x = bytearray({n} << 20); print('held', flush=True); sys.stdin.read()"


@pytest.fixture
def family():
    """A shell whose child holds 64 MiB."""
    command = ["sh", "-c", f'{sys.executable} -I -c "$1"; true', "sh", HOLD.format(n=64)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as shell:
        shell.stdout.readline()
        yield shell.pid


def watch(pid: int, memory_bytes: int, seconds: float) -> tuple[Watchdog, bool]:
    """The watchdog after its watch, and whether it ended the command."""
    ended = threading.Event()
    watchdog = Watchdog(pid, SandboxLimits(memory_bytes=memory_bytes), ended.set)
    watchdog.start()
    is_ended = ended.wait(seconds)
    watchdog.stop()
    return watchdog, is_ended


def test_memory_of_descendants_is_counted(family):
    watchdog, is_ended = watch(family, 32 << 20, 10)
    assert is_ended
    assert watchdog.has_ended


def test_a_command_within_its_limits_goes_on(family):
    watchdog, is_ended = watch(family, 256 << 20, 0.3)
    assert not is_ended
    assert not watchdog.has_ended


def test_a_process_that_is_gone_disturbs_nothing():
    child = subprocess.Popen([sys.executable, "-I", "-c", ""])
    child.wait()
    assert not watch(child.pid, 32 << 20, 0.2)[1]


def test_nothing_runs_unwatched_after_an_accident(monkeypatch):
    monkeypatch.setattr(threading, "excepthook", lambda _: None)  # the accident is meant
    ended = threading.Event()
    watchdog = Watchdog(os.getpid(), None, ended.set)
    watchdog.start()
    assert ended.wait(5)
    assert not watchdog.has_ended
    watchdog.stop()


def test_an_accident_ends_what_runs_side_by_side_and_nothing_that_comes_after(monkeypatch, family):
    monkeypatch.setattr(threading, "excepthook", lambda _: None)  # the accident is meant
    ended = [threading.Event() for _ in range(2)]
    limits = SandboxLimits(memory_bytes=1 << 30)
    pair = [Watchdog(os.getpid(), one, event.set) for one, event in zip((limits, None), ended, strict=True)]
    for watchdog in pair:
        watchdog.start()
    assert all(event.wait(5) for event in ended)
    for watchdog in pair:
        watchdog.stop()
    assert watch(family, 32 << 20, 10)[1]


def test_a_stopped_watch_ends_nothing(family):
    ended = threading.Event()
    watchdog = Watchdog(family, SandboxLimits(memory_bytes=32 << 20), ended.set)
    watchdog.start()
    watchdog.stop()
    assert not ended.wait(0.2)


def test_one_thread_watches_every_command(family):
    watchdogs = [Watchdog(family, SandboxLimits(memory_bytes=1 << 30), lambda: None) for _ in range(8)]
    for watchdog in watchdogs:
        watchdog.start()
    names = [thread.name for thread in threading.enumerate()]
    for watchdog in watchdogs:
        watchdog.stop()
    assert names.count("gagar-watchdog") == 1
