"""What a run was just making when it was killed: containers that never started, volumes. Its guard removes them."""

import os
import signal
import subprocess
import sys
import time

import pytest

from gagar_cli.sandbox import docker
from gagar_cli.sandbox.docker_engine import engine_address
from gagar_cli.sandbox.docker_guard import ask, guarded_engine
from gagar_cli.sandbox.owner import current_owner

pytestmark = pytest.mark.docker

IMAGE = "gagar-test:latest"
OWNER = """
import sys, time
from gagar_cli.sandbox import docker
from gagar_cli.sandbox.owner import current_owner
backend = docker._open_backend(None, None, False)
labels = current_owner().labels()
backend.client.create_volume(f"gagar-test-{labels['gagar.pid']}", labels=labels)
for _ in range(3):
    backend.client.create_container_from_config({"Image": sys.argv[1], "Cmd": ["cat"], "Labels": labels})
print(labels["gagar.pid"], flush=True)
time.sleep(60)
"""


def left(client, pid) -> int:
    filters = {"label": f"gagar.pid={pid}"}
    return len(client.containers(all=True, filters=filters)) + len(client.volumes(filters=filters)["Volumes"])


def wait_until_gone(client, pid, seconds: float) -> bool:
    until = time.monotonic() + seconds
    while left(client, pid) and time.monotonic() < until:
        time.sleep(0.05)
    return not left(client, pid)


@pytest.fixture
def made(docker_backend):
    """A container of ours that never started, and the guard's labels for it."""
    labels = {**current_owner().labels(), "gagar.pid": "test-guard"}
    config = {"Image": IMAGE, "Cmd": ["cat"], "Labels": labels}
    container = docker_backend.client.create_container_from_config(config)["Id"]
    yield labels
    docker_backend.client.remove_container(container, force=True)


def test_what_never_started_goes_with_its_owner(docker_backend):
    command = [sys.executable, "-c", OWNER, IMAGE]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as owner:
        pid = owner.stdout.readline().strip()
        assert left(docker_backend.client, pid) == 4
        owner.send_signal(signal.SIGKILL)
    assert wait_until_gone(docker_backend.client, pid, 10)


def test_an_owner_that_closes_its_backend_keeps_what_others_of_its_backends_made(docker_backend, made):
    with guarded_engine(engine_address(), made):
        assert left(docker_backend.client, "test-guard") == 1
    assert left(docker_backend.client, "test-guard") == 1


def test_a_guard_that_only_loses_its_input_removes_nothing(docker_backend, made):
    """A backend that is forgotten closes its files, and its owner lives on."""
    with guarded_engine(engine_address(), made) as guard:
        guard.stdin.close()
        time.sleep(0.5)
        assert left(docker_backend.client, "test-guard") == 1
        guard.kill()


def test_an_engine_elsewhere_has_no_guard():
    with guarded_engine("tcp://127.0.0.1:2375", {}):
        pass


def test_an_engine_that_is_gone_is_no_accident(tmp_path):
    assert ask(str(tmp_path / "none.sock"), "GET", "/containers/json") is None


def test_a_closed_backend_leaves_no_guard():
    def guards() -> int:
        children = subprocess.run(
            ["ps", "-o", "args=", "--ppid", str(os.getpid())], capture_output=True, text=True, check=True
        )
        return children.stdout.count("docker_guard.py")

    before = guards()
    docker._open_backend(None, None, False).close()
    assert guards() == before
