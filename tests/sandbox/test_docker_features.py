"""An engine that refuses options as podman does: what may go goes, with a word about it, and nothing else does."""

import asyncio
import http.server
import json
import re
import socketserver
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from gagar_cli.errors import SandboxError
from gagar_cli.sandbox import docker
from gagar_cli.sandbox.base import Checkout, SandboxLimits
from gagar_cli.sandbox.docker_features import EngineFeatures

REFUSALS = {
    "init": "container-init binary not found on the host: stat /usr/libexec/podman/catatonit: no such file",
    "owner": 'unknown mount option "uid=65534": invalid mount option',
    "inodes": 'unknown mount option "nr_inodes=100000": invalid mount option',
}
LOCKS = ("NetworkMode", "CapDrop", "SecurityOpt", "ReadonlyRootfs", "PidsLimit", "Memory", "Ulimits")


class Engine(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """Speaks as much of the API as it takes to be asked for a container, and never makes one."""

    daemon_threads = True

    def __init__(self, path: str, refuse: str = "") -> None:
        self.asked: list[dict] = []
        self.refuse = refuse
        super().__init__(path, _Handler)

    def complaint(self, asked: dict) -> str | None:
        host = asked["HostConfig"]
        scratch = " ".join(host["Tmpfs"].values())
        if self.refuse:
            return self.refuse
        if host["Init"]:
            return REFUSALS["init"]
        if "uid=" in scratch:
            return REFUSALS["owner"]
        return REFUSALS["inodes"] if "nr_inodes" in scratch else None


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def address_string(self) -> str:
        return "test"

    def log_message(self, *_: object) -> None:
        pass

    def answer(self, status: int, value: object) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        path = re.sub(r"^/v[\d.]+|\?.*$", "", self.path)
        answers = {
            "/version": {
                "Version": "4.3.1",
                "ApiVersion": "1.41",
                "Components": [{"Name": "Podman Engine", "Version": "4.3.1"}],
            },
            "/info": {"Runtimes": {"crun": {}}, "DefaultRuntime": "crun"},
            "/containers/json": [],
            "/volumes": {"Volumes": []},
        }
        if path.startswith("/images/"):
            self.answer(200, {"Id": "sha256:1", "Config": {}})
        else:
            self.answer(200, answers[path])

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append(asked)
        complaint = self.server.complaint(asked)
        self.answer(500, {"message": complaint or "no more questions"})


@pytest.fixture
def engine(tmp_path: Path, monkeypatch) -> Iterator[Engine]:
    path = str(tmp_path / "engine.sock")
    monkeypatch.setenv("DOCKER_HOST", f"unix://{path}")
    with Engine(path) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


async def ask(tmp_path: Path) -> tuple[docker.DockerBackend, str]:
    backend = await docker.open_backend("image:1")
    try:
        sandbox = await backend.open(Checkout(tmp_path), "", SandboxLimits())
        with pytest.raises(SandboxError) as caught:
            await sandbox.run(["true"], timeout_seconds=5)
        return backend, caught.value.message
    finally:
        backend.close()


def run(tmp_path: Path) -> tuple[docker.DockerBackend, str]:
    return asyncio.run(ask(tmp_path))


def test_what_podman_refuses_is_left_out_with_a_word(engine, tmp_path):
    backend, message = run(tmp_path)
    assert "no more questions" in message
    assert len(engine.asked) == 4
    last = engine.asked[-1]["HostConfig"]
    assert last["Init"] is False
    assert last["Tmpfs"]["/checkout"].endswith(",U,mode=0700")
    assert [warning.split(":")[0] for warning in backend.warnings] == [
        "the engine has no init program",
        "the engine takes no limit of files",
    ]
    assert backend.description == "podman 4.3.1, crun"


def test_every_lock_is_asked_for_to_the_end(engine, tmp_path):
    run(tmp_path)
    first, last = engine.asked[0], engine.asked[-1]
    assert [last["HostConfig"][name] for name in LOCKS] == [first["HostConfig"][name] for name in LOCKS]
    assert last["User"] == "65534:65534"


@pytest.mark.parametrize(
    "complaint",
    [
        "network mode none is not supported",
        "dropping capabilities is not supported",
        "a read-only root is not supported",
        "no user 65534",
        "setting rlimit type 7: operation not permitted",
    ],
)
def test_an_engine_that_refuses_a_lock_makes_no_sandbox(engine, tmp_path, complaint):
    engine.refuse = complaint
    backend, message = run(tmp_path)
    assert complaint in message
    assert len(engine.asked) == 1
    assert backend.warnings == []


def test_what_is_left_out_is_told_as_not_held():
    assert EngineFeatures().lost == {}
    assert list(EngineFeatures(has_inode_limit=False).lost) == ["9"]
