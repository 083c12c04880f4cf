"""Attacks that every backend holds, each bounded so that a backend which does not hold only fails the test."""

import asyncio
import contextlib
import os
import socket
import time
from pathlib import Path

import pytest

from gagar_cli.sandbox.base import SandboxLimits

SYSTEM_CALLS = """
import ctypes, errno, socket
libc = ctypes.CDLL(None, use_errno=True)
def refused(*call):
    return libc.syscall(*call) == -1 and ctypes.get_errno() in (errno.EPERM, errno.ENOSYS, errno.EACCES)
calls = {"unshare": (272, 0x10000000), "mount": (165, 0, 0, 0, 0, 0), "io_uring_setup": (425, 1, 0),
         "bpf": (321, 0, 0, 0), "add_key": (248, 0, 0, 0, 0, 0), "memfd_create": (319, b"x", 0), "setns": (308, 0, 0)}
print([name for name, call in calls.items() if not refused(*call)])
for family in (17, 40):
    try:
        socket.socket(family, socket.SOCK_STREAM if family == 40 else socket.SOCK_RAW)
        print("family", family)
    except OSError:
        pass
"""


def processes_with(text: str) -> list[int]:
    """Processes of this machine whose command line has the text."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if text in path.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace"):
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


def wait_until(is_so, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not (result := is_so()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return result


def test_a_timeout_is_told(held):
    result = held.run("sleep", "60", timeout_seconds=1)
    assert result.timed_out
    assert result.exit_code is None
    assert not result.out_of_memory
    assert held.run("true").exit_code == 0


def test_a_child_that_left_its_session_dies_with_the_timeout(held):
    script = (
        "import os, signal, time\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    if os.fork() == 0:\n"
        "        for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:\n"
        "            signal.signal(number, signal.SIG_IGN)\n"
        "        os.execvp('sleep', ['sleep', '4711.25'])\n"
        "time.sleep(60)\n"
    )
    assert held.python(script, timeout_seconds=1.5).timed_out
    assert wait_until(lambda: not processes_with("sleep 4711.25"), 1)


def test_memory_is_held_and_told_apart(held):
    result = held.python("x = [bytearray(32 << 20) for _ in range(64)]", timeout_seconds=30)
    assert result.out_of_memory
    assert result.exit_code != 0
    assert not result.timed_out


def test_memory_of_many_processes_is_held(held):
    script = (
        "import os, time\n"
        "for _ in range(5):\n"
        "    if os.fork() == 0:\n"
        "        x = bytearray(128 << 20); time.sleep(1.5)\n"
        "for _ in range(5):\n"
        "    os.wait()\n"
    )
    result = held.python(script, timeout_seconds=10)
    assert result.out_of_memory or result.timed_out
    assert not processes_with("bytearray(128 << 20)")


def test_a_fork_bomb_is_held(hold):
    held, sibling = hold(), hold()
    script = (
        "import os, time\n"
        "for n in range(500):\n"
        "    try:\n"
        "        if os.fork() == 0:\n"
        "            time.sleep(30)\n"
        "            os._exit(0)\n"
        "    except OSError:\n"
        "        break\n"
        "print(n, flush=True)\n"
        "os._exit(0)\n"
    )
    assert 0 < int(held.python(script).stdout) < 128
    assert sibling.run("true").exit_code == 0


def test_scratch_space_is_held(held):
    script = (
        "for n in 1 2 3 4; do head -c 40000000 /dev/zero >fill.$n || exit 9; done; sleep 1; echo all written"
    )
    result = held.shell(script)
    assert result.exit_code != 0
    assert "all written" not in result.stdout


def test_large_files_are_held(held):
    assert held.python("open('sparse', 'wb').truncate(1 << 40)").exit_code != 0


def test_there_is_no_network(held):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        result = held.python(f"import socket; socket.create_connection(('127.0.0.1', {port}), 2)")
    assert result.exit_code == 1
    assert "refused" in result.stderr or "unreachable" in result.stderr


def test_loopback_and_local_names_work(held):
    script = (
        "import socket\n"
        "server = socket.create_server(('localhost', 0))\n"
        "socket.create_connection(server.getsockname(), 2)\n"
    )
    assert held.python(script).exit_code == 0


def test_the_environment_and_keys_of_the_owner_are_not_there(held, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "canary-of-the-test")
    result = held.shell("env; cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null")
    assert "HOME=/tmp" in result.stdout
    assert "canary" not in result.stdout
    assert "PYTEST" not in result.stdout


def test_files_of_the_machine_are_not_there(held, tmp_path):
    secret = Path(f"/var/tmp/gagar-secret-{os.getpid()}")
    secret.write_text("canary")
    secret.chmod(0o644)
    try:
        result = held.shell(
            f"cat {secret} /etc/shadow {Path(__file__)} 2>/dev/null; ls /root /home/* 2>/dev/null"
        )
    finally:
        secret.unlink()
    assert result.stdout == ""


def test_nothing_but_the_scratch_places_can_be_written(held):
    script = "for d in / /usr /usr/bin /etc /dev /proc/sys/kernel /base /var /run /root; do touch $d/x && echo $d; done"
    assert held.shell(script).stdout == ""


def test_the_command_has_no_privileges(held):
    result = held.shell(
        "id -u; grep -E '^(CapEff|CapBnd|NoNewPrivs|Seccomp):' /proc/self/status | tr -d '\\t'"
    )
    uid, *status = result.stdout.split()
    assert uid != "0"
    assert status == ["CapEff:0000000000000000", "CapBnd:0000000000000000", "NoNewPrivs:1", "Seccomp:2"]


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="numbers of system calls of x86_64")
def test_system_calls_that_reach_the_kernel_are_refused(held):
    assert held.python(SYSTEM_CALLS).stdout == "[]\n"


def test_siblings_do_not_see_each_other(hold):
    """Both run at the same time, each over the same base tree."""
    first, second = hold(), hold()

    async def both():
        leave = "echo first >>table.py; touch /tmp/first /dev/shm/first; exec sleep 2.0077"
        look = "sleep 1; cat table.py; ls /tmp /dev/shm; cat /proc/[0-9]*/cmdline"
        return await asyncio.gather(
            first.sandbox.run(["sh", "-c", leave], timeout_seconds=20),
            second.sandbox.run(["sh", "-c", look], timeout_seconds=20),
        )

    _, seen = asyncio.run(both())
    assert "sum(rows)" in seen.stdout
    assert "first" not in seen.stdout
    assert "2.0077" not in seen.stdout


async def until_it_runs(command: str) -> None:
    """The command itself, not what starts it with its words among others."""
    words = command.replace(" ", "\0").encode() + b"\0"
    for _ in range(500):
        for process in processes_with(command):
            with contextlib.suppress(OSError):
                if Path(f"/proc/{process}/cmdline").read_bytes() == words:
                    return
        await asyncio.sleep(0.02)
    raise AssertionError(f"{command} was not started")


def test_a_cancelled_command_is_ended(held):
    async def cancel():
        command = asyncio.create_task(held.sandbox.run(["sleep", "4712.5"], timeout_seconds=60))
        await until_it_runs("sleep 4712.5")
        command.cancel()
        await asyncio.wait([command])
        await held.sandbox.close()

    asyncio.run(cancel())
    assert wait_until(lambda: not processes_with("sleep 4712.5"), 1)


def test_closing_ends_what_runs(held):
    async def close():
        command = asyncio.create_task(held.sandbox.run(["sleep", "4713.5"], timeout_seconds=60))
        await until_it_runs("sleep 4713.5")
        started = time.monotonic()
        await held.sandbox.close()
        result = await command
        return result, time.monotonic() - started

    result, seconds = asyncio.run(close())
    assert result.exit_code is None
    assert seconds < 2
    assert wait_until(lambda: not processes_with("sleep 4713.5"), 1)


def test_limits_are_the_callers(hold):
    held = hold(limits=SandboxLimits(memory_bytes=1 << 30, scratch_bytes=512 << 20))
    assert held.python("x = bytearray(600 << 20)").exit_code == 0
    assert held.shell("head -c 200000000 /dev/zero >a").exit_code == 0
