"""What only the docker backend does: images, engines, what is left behind."""

import asyncio
import os
from dataclasses import replace
from pathlib import Path

import pytest

from gagar_cli.errors import SandboxError
from gagar_cli.sandbox import docker
from gagar_cli.sandbox.base import Checkout, SandboxLimits
from gagar_cli.sandbox.docker_engine import reap_orphans
from gagar_cli.sandbox.owner import current_owner

pytestmark = pytest.mark.docker

IMAGE = "gagar-test:latest"
IN_IMAGE = "/usr/share/perl5"
"""A directory of the test image that stands for its repository."""
LIMITS = SandboxLimits(memory_bytes=256 * 1024**2)


def run(backend, checkout, script, patch=""):
    async def open_run_close():
        sandbox = await backend.open(checkout, patch, LIMITS)
        try:
            return await sandbox.run(["sh", "-c", script], timeout_seconds=30)
        finally:
            await sandbox.close()

    return asyncio.run(open_run_close())


def ours(backend):
    """Containers and volumes of this process."""
    filters = {"label": f"gagar.pid={os.getpid()}"}
    volumes = backend.client.volumes(filters=filters)["Volumes"] or []
    return [*backend.client.containers(all=True, filters=filters), *volumes]


def test_an_engine_that_does_not_answer_is_told(monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", "unix:///nonexistent/docker.sock")
    with pytest.raises(SandboxError, match="no docker engine answers") as caught:
        asyncio.run(docker.open_backend(None))
    assert "DOCKER_HOST" in (caught.value.hint or "")


def test_an_address_that_is_none_is_told(monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", "nonsense://x")
    with pytest.raises(SandboxError, match="no docker engine answers"):
        asyncio.run(docker.open_backend(None))


def test_a_missing_image_is_named_and_never_pulled(docker_backend):
    with pytest.raises(SandboxError, match="image no/such:1 is not on this machine") as caught:
        asyncio.run(docker.open_backend("no/such:1"))
    assert "docker pull no/such:1" in (caught.value.hint or "")
    with pytest.raises(SandboxError, match="no/such:2"):
        run(docker_backend, Checkout(image="no/such:2", workdir="/repo"), "true")


@pytest.mark.parametrize("name", ["UPPER case", "a\x1b[2Jb", "x; rm -rf ~", "../../containers/json", ""])
def test_a_hostile_image_name_is_an_error(docker_backend, name):
    with pytest.raises(SandboxError) as caught:
        run(docker_backend, Checkout(image=name, workdir="/repo"), "true")
    assert "\x1b" not in caught.value.message + (caught.value.hint or "")


def test_the_description_names_engine_and_runtime(docker_backend):
    assert docker_backend.name == "docker"
    assert docker_backend.description.startswith("docker ")
    assert docker_backend.facts.engine in docker_backend.description


def test_a_repository_in_the_image_is_patched_in_its_own_place(docker_backend):
    """Packages that are installed from their checkout must be the patched ones."""
    patch = "--- /dev/null\n+++ b/added.txt\n@@ -0,0 +1 @@\n+added\n"
    checkout = Checkout(image=IMAGE, workdir=IN_IMAGE)
    result = run(
        docker_backend, checkout, f"pwd; cat {IN_IMAGE}/added.txt; test -e Git.pm && rm Git.pm", patch
    )
    assert (result.exit_code, result.stdout) == (0, f"{IN_IMAGE}\nadded\n")
    assert run(docker_backend, checkout, "test -e Git.pm && test ! -e added.txt").exit_code == 0


def test_a_supplied_repository_stands_at_the_workdir(docker_backend, tree):
    result = run(docker_backend, Checkout(tree=tree, workdir="/testbed/inner"), "pwd; ls")
    assert result.stdout.split() == ["/testbed/inner", "docs", "table.py"]


@pytest.mark.parametrize("workdir", ["relative", "/", "/a/../b", "/a\n/b", "//", ""])
def test_a_workdir_that_is_no_place_is_refused(docker_backend, tree, workdir):
    with pytest.raises(SandboxError, match="workdir is"):
        run(docker_backend, Checkout(tree=tree, workdir=workdir), "true")


@pytest.mark.parametrize("workdir", ["/proc", "/usr", "/dev"])
def test_a_workdir_that_breaks_the_container_breaks_nothing_else(docker_backend, tree, workdir):
    with pytest.raises(SandboxError):
        run(docker_backend, Checkout(tree=tree, workdir=workdir), "true")
    assert ours(docker_backend) == []


@pytest.mark.parametrize("workdir", ["/no/such", "/etc/passwd"])
def test_a_workdir_that_the_image_lacks_is_named(docker_backend, workdir):
    with pytest.raises(SandboxError, match=f"there is no directory {workdir} in the image"):
        run(docker_backend, Checkout(image=IMAGE, workdir=workdir), "true")


def test_neither_a_repository_nor_its_place_is_an_error(docker_backend):
    with pytest.raises(SandboxError, match="neither a repository nor its place"):
        run(docker_backend, Checkout(image=IMAGE), "true")


def test_a_tree_that_is_gone_breaks_the_sandbox_only(docker_backend, tree):
    with pytest.raises(SandboxError, match="the docker engine failed"):
        run(docker_backend, Checkout(tree=tree / "gone"), "true")


def test_nothing_is_left_behind(docker_backend, tree):
    run(docker_backend, Checkout(tree=tree), "(setsid sleep 60 &) ; exit 3")
    run(docker_backend, Checkout(image=IMAGE, workdir=IN_IMAGE), "true")
    assert ours(docker_backend) == []


def test_sandboxes_of_one_image_share_a_copy(docker_backend):
    async def run_two():
        checkout = Checkout(image=IMAGE, workdir=IN_IMAGE)
        pair = [await docker_backend.open(checkout, "", LIMITS) for _ in range(2)]
        await asyncio.gather(*(one.run(["true"], timeout_seconds=30) for one in pair))
        n_copies = len(ours(docker_backend))
        await pair[0].close()
        still_runs = await pair[1].run(["test", "-e", "Git.pm"], timeout_seconds=30)
        await pair[1].close()
        return n_copies, still_runs.exit_code

    assert asyncio.run(run_two()) == (1, 0)


def test_what_a_dead_owner_left_is_reaped(docker_backend):
    client = docker_backend.client
    dead = replace(current_owner(), start="1").labels()
    alive = current_owner().labels()
    config = {"Image": IMAGE, "Entrypoint": ["cat"], "HostConfig": {"NetworkMode": "none"}}
    kept, orphan = (
        client.create_container_from_config(config | {"Labels": who})["Id"] for who in (alive, dead)
    )
    volume = client.create_volume(f"gagar-test-{os.getpid()}", labels=dead)["Name"]
    try:
        reap_orphans(client)
        assert orphan not in [one["Id"] for one in client.containers(all=True)]
        assert [one["Id"] for one in ours(docker_backend)] == [kept]
    finally:
        client.remove_container(kept)
    assert volume not in [one["Name"] for one in client.volumes()["Volumes"] or []]


def test_no_socket_is_leaked(docker_backend, tree):
    # The pool of connections grows to what one command needs.
    for _ in range(5):
        run(docker_backend, Checkout(tree=tree), "true")
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(5):
        run(docker_backend, Checkout(tree=tree), "true")
    assert len(list(Path("/proc/self/fd").iterdir())) <= before + 1


def test_a_closed_sandbox_runs_nothing(docker_backend, tree):
    async def run_after_close():
        sandbox = await docker_backend.open(Checkout(tree=tree), "", LIMITS)
        await sandbox.close()
        await sandbox.run(["true"], timeout_seconds=30)

    with pytest.raises(SandboxError, match="closed"):
        asyncio.run(run_after_close())


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="numbers of system calls of x86_64")
def test_the_namespace_and_tracing_calls_are_closed(docker_backend, tree):
    script = (
        "import ctypes, os; libc = ctypes.CDLL(None, use_errno=True)\n"
        "calls = {'clone': (56, 0x10000000 | 17, 0, 0, 0, 0), 'io_uring_setup': (425, 1, 0),\n"
        "         'keyctl': (250, 0, -1), 'ptrace': (101, 0, 0, 0, 0), 'bpf': (321, 0, 0, 0)}\n"
        "print([name for name, call in calls.items() if libc.syscall(*call) >= 0])"
    )
    assert run(docker_backend, Checkout(tree=tree), f'python3 -I -c "{script}"').stdout == "[]\n"


@pytest.fixture
def image_with_history(docker_backend):
    """An image whose repository has a history, with the answer in it."""
    client = docker_backend.client
    script = "mkdir -p /repo/vendored && cd /repo && echo x > a.py && git init -q && git add . && git -c user.name=a -c user.email=a@b commit -qm GOLD_FIX && cp -r .git vendored/.git"
    container = client.create_container(IMAGE, ["sh", "-c", script], network_disabled=True)["Id"]
    client.start(container)
    assert client.wait(container)["StatusCode"] == 0
    client.commit(container, "gagar-test-history", "1")
    client.remove_container(container, force=True)
    yield "gagar-test-history:1"
    client.remove_image("gagar-test-history:1", force=True)


def test_the_history_of_an_images_repository_is_out_of_reach(docker_backend, image_with_history):
    script = "ls -A . vendored; find / -name .git 2>/dev/null; grep -rl GOLD_FIX /base /repo 2>/dev/null; git --git-dir=/base/.git log; true"
    result = run(docker_backend, Checkout(image=image_with_history, workdir="/repo"), script)
    assert result.stdout.split() == [".:", "a.py", "vendored", "vendored:"]
    assert "GOLD_FIX" not in result.stdout + result.stderr
