"""An owner of 16 sandboxes is killed with SIGKILL, again and again: what is left of them a second later.

Prints a line a round that left something, with when it was gone, and a summary; exits 1 if any did. Looks for processes,
containers, volumes, control groups and temporary directories. With `--early` the owner is killed at some moment while it
is still making them, and has 5 seconds: the engine goes on making what it was asked for.
"""

import argparse
import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from gagar_cli.errors import SandboxError
from gagar_cli.sandbox import bubblewrap, docker
from gagar_cli.sandbox.base import Checkout, SandboxLimits, sandbox_user
from gagar_cli.sandbox.bubblewrap_groups import group_places
from gagar_cli.sandbox.docker_engine import connect
from gagar_cli.sandbox.leftovers import removed_after_death
from gagar_cli.sandbox.owner import current_owner, owned_name

N_SANDBOXES = 16
GRACE_SECONDS = 1.0
EARLY_GRACE_SECONDS = 5.0
EARLY_SECONDS = 4.0
AFTER_SECONDS = 20.0
SETUP_SECONDS = 60.0
LIMITS = SandboxLimits(memory_bytes=128 * 1024**2)


async def own(name: str, image: str, mark: str) -> None:
    """What the owner does: open the sandboxes, run a command with a child of its own in each, and wait."""
    owner = current_owner()
    with removed_after_death(), tempfile.TemporaryDirectory(prefix=owned_name(owner, "")) as directory:
        tree = Path(directory)
        tree.chmod(0o755)
        user = sandbox_user()
        os.chown(tree, user.uid, user.gid)
        print(json.dumps({"pid": owner.pid, "name": owned_name(owner, "")}), flush=True)
        backend = await (docker.open_backend(image) if name == "docker" else bubblewrap.open_backend())
        sandboxes = [await backend.open(Checkout(tree), "", LIMITS) for _ in range(N_SANDBOXES)]
        script = f"setsid sleep {mark} & exec sleep {mark}"
        await asyncio.gather(*(one.run(["sh", "-c", script], timeout_seconds=600) for one in sandboxes))


def processes(mark: str) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().decode("utf-8", "replace").split("\0")
        except OSError:
            continue
        if mark in words and words[0] == "sleep":
            found.append(f"process {path.parent.name}")
    return found


def leftovers(name: str, owner: dict[str, str], mark: str) -> list[str]:
    found = processes(mark)
    places = [Path(tempfile.gettempdir()), *group_places()]
    found += [str(path) for place in places for path in place.glob(owner["name"] + "*")]
    if name == "docker":
        client, _ = connect()
        filters = {"label": f"gagar.pid={owner['pid']}"}
        found += [f"container {one['Id'][:12]}" for one in client.containers(all=True, filters=filters)]
        found += [f"volume {one['Name']}" for one in client.volumes(filters=filters)["Volumes"] or []]
        client.close()
    return found


def wait_for_end(name: str, owner: dict[str, str], mark: str, seconds: float) -> list[str]:
    """What is left after this time, and when it was gone."""
    started = time.monotonic()
    while (left := leftovers(name, owner, mark)) and time.monotonic() < started + seconds:
        time.sleep(0.05)
    if not left:
        return []
    n_processes = sum(one.startswith("process") for one in left)
    while leftovers(name, owner, mark) and time.monotonic() < started + AFTER_SECONDS:
        time.sleep(0.05)
    seconds = time.monotonic() - started
    return [f"{len(left)} left, {n_processes} of them processes, gone after {seconds:.1f} s", *left]


def kill_one(name: str, image: str, number: int, *, is_early: bool) -> list[str]:
    """One round: what is left."""
    mark = f"7{os.getpid()}.{number}"
    command = [sys.executable, __file__, "--own", mark, "--backend", name, "--image", image]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        owner = json.loads(process.stdout.readline())
        if is_early:
            time.sleep(random.Random(number).uniform(0, EARLY_SECONDS))
            process.send_signal(signal.SIGKILL)
            process.wait()
            return wait_for_end(name, owner, mark, EARLY_GRACE_SECONDS)
        deadline = time.monotonic() + SETUP_SECONDS
        while len(processes(mark)) < 2 * N_SANDBOXES and time.monotonic() < deadline:
            time.sleep(0.05)
        n_running = len(processes(mark))
        process.send_signal(signal.SIGKILL)
    if n_running < 2 * N_SANDBOXES:
        return [f"only {n_running} of {2 * N_SANDBOXES} processes came up"]
    return wait_for_end(name, owner, mark, GRACE_SECONDS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backend", choices=("docker", "bubblewrap"), default="bubblewrap")
    parser.add_argument("--image", default="gagar-test:latest")
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--early", action="store_true")
    parser.add_argument("--own", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.own:
        asyncio.run(own(chosen.backend, chosen.image, chosen.own))
        return
    n_bad = 0
    for number in range(chosen.rounds):
        left = kill_one(chosen.backend, chosen.image, number, is_early=chosen.early)
        n_bad += bool(left)
        if left:
            print(f"round {number}: {', '.join(left[:3])}", flush=True)
    print(
        f"{chosen.backend}: {chosen.rounds} owners of {N_SANDBOXES} sandboxes killed, {n_bad} left something"
    )
    sys.exit(n_bad > 0)


if __name__ == "__main__":
    try:
        main()
    except SandboxError as error:
        sys.exit(f"not measured: {error.message}")
