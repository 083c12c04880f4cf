"""Sandboxes against the bare commands: what gagar adds to `docker run` and to `bwrap`, in one run, in turn.

Every pair does the same work with the same limits: gagar by its backends, the bare side by the SDK's own calls and by
`bwrap … -- prlimit … -- sh -c …` with the same mounts and filter, started as Python starts any program and, where ours is,
put into control groups of its own by the plainest way there is. The bare side has no watchdog and no guard. The goal is a ratio of at most 1.25 of the medians. Also: 16 containers at once,
and a checkout of 50 MB. The sides take turns at going first. CPU is of this process and of the children that it waited for
(an engine's containers are not among them).
"""

import argparse
import asyncio
import json
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from gagar_cli.errors import SandboxError
from gagar_cli.sandbox import bubblewrap, docker
from gagar_cli.sandbox.base import Checkout, Sandbox, SandboxBackend, SandboxLimits, sandbox_user
from gagar_cli.sandbox.bubblewrap_args import MAX_OPEN_FILES, HandedIn, sandbox_arguments
from gagar_cli.sandbox.bubblewrap_groups import GroupMaker
from gagar_cli.sandbox.docker_engine import held_connection
from gagar_cli.sandbox.docker_options import container_config
from gagar_cli.sandbox.launcher import MAX_FILE_BYTES

GOAL = 1.25
N_FILES, FILE_BYTES = 4_480, 11_200
N_SIDE_BY_SIDE = 16
LIMITS = SandboxLimits(memory_bytes=512 * 1024**2)
PRLIMIT = (
    *("prlimit", f"--nproc={LIMITS.n_processes}", f"--as={2 * LIMITS.memory_bytes}"),
    *(f"--fsize={MAX_FILE_BYTES}", f"--nofile={MAX_OPEN_FILES}", "--core=0", "--cpu=62", "--"),
)
Work = Callable[[], Awaitable[None]]


async def gagar(backend: SandboxBackend, tree: Path, script: str) -> None:
    sandbox: Sandbox = await backend.open(Checkout(tree), "", LIMITS)
    result = await sandbox.run(["sh", "-c", script], timeout_seconds=60)
    await sandbox.close()
    assert result.exit_code == 0, result


def bare_docker(backend: docker.DockerBackend, image: str, tree: Path, script: str) -> None:
    """The same container, made by hand: create, attach, start, exec, remove."""
    client = backend.client
    base = {"Type": "bind", "Source": str(tree), "Target": "/base", "ReadOnly": True}
    config = container_config(
        image, base, LIMITS, checkout="/checkout", volumes=(), labels={}, features=backend.features
    )
    copy = "cd /checkout && tar -C /base -cf - . | tar -xf - && "
    container = client.create_container_from_config(config)["Id"]
    with held_connection(client.attach_socket(container, params={"stdin": 1, "stream": 1})):
        client.start(container)
        execution = client.exec_create(container, ["sh", "-c", copy + script])["Id"]
        client.exec_start(execution)
        assert client.exec_inspect(execution)["ExitCode"] == 0
        client.remove_container(container, force=True)


async def bare_bubblewrap(backend: bubblewrap.BubblewrapBackend, tree: Path, script: str) -> None:
    """The same namespaces, mounts, filter and limits."""
    user = sandbox_user()
    switch = {"user": user.uid, "group": user.gid, "extra_groups": []} if user.must_switch else {}
    with HandedIn() as files:
        start = backend.program.start(files)
        options = sandbox_arguments(Checkout(tree), LIMITS, use_overlay=True, files=files)
        command = [*options, "--", *PRLIMIT, "sh", "-c", f"cd /checkout && {script}"]
        common = {
            "executable": start.executable,
            "env": {**os.environ, **start.environment},
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
            "cwd": "/",
            **switch,
        }
        descriptors = (*start.descriptors, *files.descriptors)
        if backend.groups is None:
            done = subprocess.run(["bwrap", *command], pass_fds=descriptors, check=False, **common)
            code, told = done.returncode, done.stderr
        else:
            code, told = run_in_group(backend.groups, command, descriptors, common)
    assert code == 0, told


def run_in_group(
    groups: GroupMaker, command: list[str], descriptors: tuple[int, ...], common: dict[str, Any]
) -> tuple[int, bytes]:
    """Made, entered before the command begins, and removed: with blocking calls and nothing beside them."""
    group = groups.make(LIMITS)
    told, tell = os.pipe()
    wait, let_go = os.pipe()
    gated = ["bwrap", "--info-fd", str(tell), "--block-fd", str(wait), *command]
    process = subprocess.Popen(gated, pass_fds=(*descriptors, tell, wait), **common)
    os.close(tell)
    os.close(wait)
    answer = b""
    while b"}" not in answer:
        answer += os.read(told, 4096)
    group.add(int(json.loads(answer)["child-pid"]))
    os.write(let_go, b"x")
    _, errors = process.communicate()
    os.close(told)
    os.close(let_go)
    group.remove()
    return process.returncode, errors


async def compare(name: str, ours: Work, bare: Work, n_runs: int) -> None:
    times: dict[str, list[float]] = {"ours": [], "bare": []}
    cpu = {"ours": 0.0, "bare": 0.0}
    sides = [("ours", ours), ("bare", bare)]
    for work in (ours, bare):
        await work()
    for _ in range(n_runs):
        for side, work in sides:
            started, used = time.perf_counter(), sum(os.times()[:4])
            await work()
            times[side].append(1000 * (time.perf_counter() - started))
            cpu[side] += 1000 * (sum(os.times()[:4]) - used) / n_runs
        sides.reverse()
    ratios = sorted(one / other for one, other in zip(times["ours"], times["bare"], strict=True))
    ratio = statistics.median(times["ours"]) / statistics.median(times["bare"])
    spread = f"{ratios[0]:.2f} / {statistics.median(ratios):.2f} / {ratios[-1]:.2f}"
    verdict = "" if ratio <= GOAL else f"  above {GOAL}"
    medians = f"{statistics.median(times['ours']):10.1f} {statistics.median(times['bare']):10.1f}"
    spent = f"{cpu['ours']:.1f} / {cpu['bare']:.1f}"
    print(f"{name:42} {medians} {ratio:7.2f} {spread:>22} {spent:>15}{verdict}", flush=True)


def lay_out(root: Path, n_files: int) -> Path:
    """A tree of many files that belongs to the sandboxes' user."""
    tree = root / f"tree-{n_files}"
    for number in range(n_files):
        path = tree / f"d{number // 100}" / f"f{number}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"%07d\n" % number * (FILE_BYTES // 8))
    user = sandbox_user()
    if user.must_switch:
        for path in (tree, *tree.rglob("*")):
            os.chown(path, user.uid, user.gid)
    return tree


async def measure_docker(image: str, small: Path, large: Path, n_runs: int) -> None:
    try:
        backend = await docker.open_backend(image)
    except SandboxError as error:
        print(f"docker: not measured: {error.message}")
        return

    async def by_hand(tree: Path, script: str) -> None:
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(backend.threads, bare_docker, backend, image, tree, script)

    async def many(one: Work) -> None:
        await asyncio.gather(*(one() for _ in range(N_SIDE_BY_SIDE)))

    await compare("docker: whole cycle, true", lambda: gagar(backend, small, "true"), lambda: by_hand(small, "true"), n_runs)  # fmt: skip
    await compare(
        "docker: whole cycle, python",
        lambda: gagar(backend, small, "python3 -I -c pass"),
        lambda: by_hand(small, "python3 -I -c pass"),
        n_runs,
    )
    await compare(
        f"docker: {N_SIDE_BY_SIDE} containers at once",
        lambda: many(lambda: gagar(backend, small, "true")),
        lambda: many(lambda: by_hand(small, "true")),
        max(2, n_runs // 5),
    )
    write = "echo x >>d0/f0.txt"
    await compare("docker: 50 MB checkout, one write", lambda: gagar(backend, large, write), lambda: by_hand(large, write), n_runs)  # fmt: skip
    backend.close()


async def measure_bubblewrap(small: Path, large: Path, n_runs: int) -> None:
    try:
        backend = await bubblewrap.open_backend()
    except SandboxError as error:
        print(f"bubblewrap: not measured: {error.message}")
        return
    without = bubblewrap.BubblewrapBackend(backend.program, has_overlay=True)
    write = "echo x >>d0/f0.txt"
    for one in (backend, without) if backend.groups else (backend,):
        print(f"({one.description})")
        for name, tree, script in (
            ("bubblewrap: true", small, "true"),
            ("bubblewrap: python", small, "python3 -I -c pass"),
            ("bubblewrap: one second of work", small, "sleep 1"),
            ("bubblewrap: 50 MB checkout, one write", large, write),
        ):
            n = max(3, n_runs // 5) if "sleep" in script else 2 * n_runs
            await compare(
                name,
                lambda one=one, tree=tree, script=script: gagar(one, tree, script),
                lambda tree=tree, script=script: bare_bubblewrap(backend, tree, script),
                n,
            )


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--image", default="gagar-test:latest")
    parser.add_argument("--runs", type=int, default=15)
    chosen = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="gagar-bench-"))
    try:
        root.chmod(0o711)
        small, large = lay_out(root, 3), lay_out(root, N_FILES)
        print(
            f"{'':42} {'gagar ms':>10} {'bare ms':>10} {'ratio':>7} {'min / median / max':>22} {'CPU ms':>15}"
        )
        await measure_bubblewrap(small, large, chosen.runs)
        await measure_docker(chosen.image, small, large, chosen.runs)
    finally:
        shutil.rmtree(root)


if __name__ == "__main__":
    asyncio.run(main())
