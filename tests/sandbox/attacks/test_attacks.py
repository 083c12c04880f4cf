"""Attacks on files, other processes, the kernel and the owner, against every backend."""

import asyncio
import json
import os
import pty
import re
import select
import signal
import socket
import subprocess
import sys
import tty
import uuid
from pathlib import Path

import pytest

from gagar_cli.sandbox.base import sandbox_user
from gagar_cli.sandbox.promises import ATTACKS, OPEN, open_attacks

OWNER = """
import asyncio, fcntl, json, os, sys, termios
from pathlib import Path
from gagar_cli.sandbox import bubblewrap, docker
from gagar_cli.sandbox.base import Checkout, SandboxLimits

if os.isatty(0):
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
name, tree, output, *command = json.loads(sys.argv[1])

async def own():
    opener = docker.open_backend("gagar-test:latest") if name == "docker" else bubblewrap.open_backend()
    sandbox = await (await opener).open(Checkout(Path(tree)), "", SandboxLimits(memory_bytes=256 << 20))
    result = await sandbox.run(command, timeout_seconds=60)
    await sandbox.close()
    Path(output).write_text(result.stdout)

asyncio.run(own())
"""
SCRIPTS = Path(__file__).parent / "scripts"


def owner_arguments(backend, tree, output, script, *arguments):
    """A process of its own that runs a script in a sandbox."""
    command = ["python3", "-I", "-c", (SCRIPTS / f"{script}.py").read_text(), *arguments]
    return [sys.executable, "-c", OWNER, json.dumps([backend.name, str(tree), str(output), *command])]


def test_1_files_of_the_machine_are_not_read(attack, outside):
    open_to_all, key = outside / "open", outside / "key"
    open_to_all.write_text("canary of the machine")
    key.write_text("canary of the owner")
    key.chmod(0o600)
    result = attack(
        "read_files", "/etc/shadow", "/etc/machine-id", str(open_to_all), str(key), __file__
    ).result
    assert result.exit_code == 0
    assert "canary" not in result.stdout
    assert result.stdout.strip() == ""


def test_2_environments_are_not_read(attack, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "canary-of-this-process")
    user = sandbox_user()
    switch = {"user": user.uid, "group": user.gid, "extra_groups": []} if user.must_switch else {}
    bystander = subprocess.Popen(
        ["sleep", "60"], env={"OPENAI_API_KEY": "canary-of-a-bystander"}, cwd="/", **switch
    )
    try:
        result = attack("read_environments").result
    finally:
        bystander.kill()
        bystander.wait()
    assert result.exit_code == 0
    assert "HOME" in result.stdout
    assert "canary" not in result.stdout


def test_3_nothing_is_written_outside(attack, outside, tree):
    name = f"written-{uuid.uuid4().hex}"
    places = ["/", "/tmp", "/var/tmp", "/root", "/home", "/usr", "/etc", "/dev", "/run", "/base"]
    own = [str(outside), str(tree), str(Path(__file__).parent), str(Path.home())]
    before = sorted(tree.rglob("*"))
    assert attack("write_files", name, *places, *own).result.exit_code == 0
    assert [place for place in [*places, *own] if Path(place, name).exists()] == []
    assert list(outside.iterdir()) == []
    assert sorted(tree.rglob("*")) == before


def test_4_nothing_is_connected(attack, outside):
    path, abstract = outside / "socket", f"gagar-attack-{uuid.uuid4().hex}"
    with (
        socket.create_server(("127.0.0.1", 0)) as tcp,
        socket.socket(socket.AF_UNIX) as by_path,
        socket.socket(socket.AF_UNIX) as by_name,
    ):
        by_path.bind(str(path))
        path.chmod(0o777)
        by_name.bind("\0" + abstract)
        for server in (by_path, by_name):
            server.listen()
        engine = ["/var/run/docker.sock", "/run/docker.sock", "/run/containerd/containerd.sock"]
        port = str(tcp.getsockname()[1])
        result = attack("connect", port, abstract, str(path), *engine).result
        waiting, _, _ = select.select([tcp, by_path, by_name], [], [], 0)
    assert waiting == []
    assert result.stdout == ""
    assert result.exit_code == 0


def test_12_nothing_survives_the_timeout(attack):
    result, host = attack("survive", timeout_seconds=1.5)
    assert result.timed_out
    assert host.peak_processes > 0
    assert host.all_gone_within(1)


def test_13_processes_of_the_machine_are_not_killed(attack):
    user = sandbox_user()
    switch = {"user": user.uid, "group": user.gid, "extra_groups": []} if user.must_switch else {}
    bystander = subprocess.Popen(["sleep", "60"], cwd="/", start_new_session=True, **switch)
    try:
        attack("kill_all", str(bystander.pid), str(-bystander.pid), str(os.getpid()), str(os.getppid()))
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_14_no_door_of_the_kernel_opens(attack):
    core_pattern = Path("/proc/sys/kernel/core_pattern").read_text()
    result = attack("reach_kernel").result
    assert result.stdout == "[]\n", result.stderr
    assert Path("/proc/sys/kernel/core_pattern").read_text() == core_pattern


def test_15_a_neighbour_is_not_reached(hold, supply):
    """One candidate writes wherever it can while another runs its tests."""
    tree = supply(**{"tests.py": "print('honest')\n"})
    attacker, victim = hold(tree=tree), hold(tree=tree)
    source = (SCRIPTS / "tamper.py").read_text()

    async def both():
        command = ["python3", "-I", "-c", source, "mark", "2.5", "tests.py"]
        running = asyncio.create_task(attacker.sandbox.run(command, timeout_seconds=20))
        await asyncio.sleep(0.5)
        slowly = ["sh", "-c", "sleep 1.2; python3 tests.py"]
        seen = await victim.sandbox.run(slowly, timeout_seconds=20)
        return await running, seen

    attacked, seen = asyncio.run(both())
    assert seen.stdout == "honest\n"
    assert "sleep 1.2" not in attacked.stdout
    assert (tree / "tests.py").read_text() == "print('honest')\n"


def test_15b_what_is_left_behind_does_not_reach_the_next_command(hold, supply):
    tree = supply(**{"tests.py": "print('honest')\n"})
    held = hold(tree=tree)
    mark = f"mark-{uuid.uuid4().hex}"
    source = (SCRIPTS / "tamper.py").read_text()
    leave = ["sh", "-c", 'setsid python3 -I -c "$@" >/dev/null 2>&1 & sleep 0.5', "sh", source, mark, "8"]
    assert held.run(*leave, "tests.py").exit_code == 0
    assert held.shell("sleep 0.5; python3 tests.py; cat /proc/[0-9]*/cmdline").stdout.startswith("honest\n")
    assert mark not in held.shell("cat /proc/[0-9]*/cmdline").stdout
    assert hold(tree=tree).shell("python3 tests.py").stdout == "honest\n"


@pytest.mark.skipif(not Path("/dev/ptmx").exists(), reason="no terminals can be made here")
def test_17_nothing_is_typed_into_the_owners_terminal(backend, tree, tmp_path):
    """The owner has a real terminal; what an attack types would wait there as if the user had typed it."""
    output = tmp_path / "output"
    arguments = owner_arguments(backend, tree, output, "type_into_terminal")
    terminal, theirs = pty.openpty()
    try:
        tty.setraw(theirs)
        owner = subprocess.Popen(
            arguments,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        assert owner.wait(30) == 0
        typed, _, _ = select.select([theirs], [], [], 0.2)
    finally:
        os.close(theirs)
        os.close(terminal)
    assert output.read_text() == "typed 0\n"
    assert typed == []


def test_18_nothing_survives_an_owner_that_is_killed(backend, tree, tmp_path, host):
    owner = subprocess.Popen(owner_arguments(backend, tree, tmp_path / "output", "survive", host.mark))
    try:
        # The attack and the child that left its session, beside the owner itself.
        assert host.wait_for(lambda pids: len(set(pids) - {owner.pid}) >= 2, 20)
    finally:
        owner.send_signal(signal.SIGKILL)
        owner.wait()
    assert host.all_gone_within(1)


def test_19_command_lines_name_no_path_of_the_machine(attack, tree):
    result = attack("read_command_lines").result
    assert result.exit_code == 0
    assert "read_command_lines" not in result.stdout
    assert str(tree) not in result.stdout
    assert str(Path(__file__).parents[3]) not in result.stdout


def test_every_attack_is_run():
    tested = set()
    for path in Path(__file__).parent.glob("test_attacks*.py"):
        tested |= set(re.findall(r"^def test_(\d+[a-z]?)_", path.read_text(), re.MULTILINE))
    assert tested == {attack.number for attack in ATTACKS}


def test_what_is_open_is_named_in_order():
    numbers = [attack.number for attack in ATTACKS]
    for backend, reasons in OPEN.items():
        named = [attack.number for attack, _ in open_attacks(backend)]
        assert set(named) == set(reasons)
        assert named == sorted(named, key=numbers.index)
    assert OPEN["docker"] == {}
