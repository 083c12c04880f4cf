"""What every backend promises about its end, its neighbours and the machine's sockets; `test_sandbox_*` has the rest."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

OWNER = """
import asyncio, json, sys
from pathlib import Path
from gagar_cli.sandbox import bubblewrap, docker
from gagar_cli.sandbox.base import Checkout, SandboxLimits

name, image, tree, seconds = json.loads(sys.argv[1])

async def own():
    opener = docker.open_backend(image) if name == "docker" else bubblewrap.open_backend()
    sandbox = await (await opener).open(Checkout(Path(tree)), "", SandboxLimits(memory_bytes=256 << 20))
    await sandbox.run(["sh", "-c", f"setsid sleep {seconds} & exec sleep {seconds}"], timeout_seconds=60)

asyncio.run(own())
"""


def count_processes(*command: str) -> int:
    """How many processes of this machine have that command line."""
    wanted = b"".join(word.encode() + b"\0" for word in command)
    n_found = 0
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            n_found += path.read_bytes() == wanted
        except OSError:
            continue
    return n_found


def wait_for(condition, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
    return condition()


def test_nothing_survives_an_owner_that_is_killed(backend, tree):
    seconds = f"47{os.getpid()}.5"
    settings = json.dumps([backend.name, "gagar-test:latest", str(tree), seconds])
    owner = subprocess.Popen([sys.executable, "-c", OWNER, settings])
    try:
        assert wait_for(lambda: count_processes("sleep", seconds) == 2, 20)
    finally:
        owner.send_signal(signal.SIGKILL)
        owner.wait()
    assert wait_for(lambda: count_processes("sleep", seconds) == 0, 2)


def test_sockets_of_the_machine_cannot_be_reached(held):
    script = "import socket, sys\nfor name in sys.argv[1:]:\n    s = socket.socket(socket.AF_UNIX)\n    s.connect(name)"
    with tempfile.TemporaryDirectory() as directory, socket.socket(socket.AF_UNIX) as by_path:
        Path(directory).chmod(0o755)
        path = f"{directory}/socket"
        by_path.bind(path)
        Path(path).chmod(0o777)
        by_path.listen()
        with socket.socket(socket.AF_UNIX) as abstract:
            name = f"gagar-test-{os.getpid()}"
            abstract.bind("\0" + name)
            abstract.listen()
            assert held.python(script.replace("sys.argv[1:]", repr([path]))).exit_code == 1
            assert held.python(script.replace("sys.argv[1:]", repr(["\0" + name]))).exit_code == 1
    engine = held.shell("ls /var/run/docker.sock /run/docker.sock 2>/dev/null")
    assert engine.stdout == ""


def test_there_is_no_interface_but_loopback(held):
    result = held.shell("cat /proc/net/dev")
    assert [line.split(":")[0].strip() for line in result.stdout.splitlines()[2:]] == ["lo"]


def test_the_base_tree_stays_as_it_is(held, tree):
    before = {path: path.read_bytes() for path in tree.rglob("*") if path.is_file()}
    held.shell("rm -rf ./* ; for f in /base/*; do echo x >>$f; rm -rf $f; done; chmod -R 777 /base")
    assert {path: path.read_bytes() for path in tree.rglob("*") if path.is_file()} == before
    assert held.run("cat", "table.py").stdout == before[tree / "table.py"].decode()


def test_shared_memory_objects_do_not_meet_the_next_command(held):
    make = "import ctypes; print(ctypes.CDLL(None).shmget(4711, 4096, 0o1666))"
    find = "import ctypes; print(ctypes.CDLL(None).shmget(4711, 4096, 0o666))"
    assert int(held.python(make).stdout) >= 0
    assert held.python(find).stdout == "-1\n"


def test_the_next_command_works_after_a_fork_bomb(held):
    script = (
        "import os, time\n"
        "n = 0\n"
        "try:\n"
        "    while n < 400:\n"
        "        if os.fork() == 0:\n"
        "            time.sleep(60)\n"
        "            os._exit(0)\n"
        "        n += 1\n"
        "except OSError:\n"
        "    pass\n"
        "print(n, flush=True)\n"
        "os._exit(0)\n"
    )
    assert 0 < int(held.python(script).stdout) <= 128
    assert held.run("echo", "usable").stdout == "usable\n"


def test_a_killed_sandbox_is_a_result(held):
    """Code of the candidate may end all that it can reach, even what holds its sandbox."""
    assert held.shell("kill -9 -1; exit 3").exit_code != 0
    assert held.run("echo", "usable").stdout == "usable\n"


def test_closing_twice_is_fine(held):
    assert held.run("true").exit_code == 0
    held.close()
    held.close()


def test_commands_may_run_side_by_side(hold):
    sandboxes = [hold().sandbox for _ in range(4)]

    async def run_all():
        return await asyncio.gather(*(one.run(["sh", "-c", "pwd"], timeout_seconds=30) for one in sandboxes))

    assert [result.exit_code for result in asyncio.run(run_all())] == [0, 0, 0, 0]


def test_a_large_patch_arrives_whole(hold):
    lines = 60_000
    body = "".join(f"+line {n}\n" for n in range(lines))
    patch = f"diff --git a/big.txt b/big.txt\nnew file mode 100644\n--- /dev/null\n+++ b/big.txt\n@@ -0,0 +1,{lines} @@\n{body}"
    assert hold(patch).shell("wc -l <big.txt; tail -n 1 big.txt").stdout == f"{lines}\nline {lines - 1}\n"


def test_bytes_that_are_no_text_are_kept_or_replaced(hold):
    patch = "diff --git a/b.txt b/b.txt\nnew file mode 100644\n--- /dev/null\n+++ b/b.txt\n@@ -0,0 +1 @@\n+\udcff\n"
    assert hold(patch).shell("od -An -tx1 b.txt; cat b.txt").stdout == " ff 0a\n\ufffd\n"
