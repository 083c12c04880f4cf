import asyncio
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gagar_cli.errors import SandboxError
from gagar_cli.sandbox import bubblewrap, docker
from gagar_cli.sandbox.base import Checkout, ExecResult, Sandbox, SandboxBackend, SandboxLimits
from gagar_cli.sandbox.tree import RepositoryStore

TEST_IMAGE = "gagar-test:latest"
SMALL = SandboxLimits(memory_bytes=256 * 1024**2, scratch_bytes=64 * 1024**2, output_bytes=20_000)
FILES = {"table.py": "def total(rows):\n    return sum(rows)\n", "docs/notes.txt": "notes\n"}

OPENERS = {"docker": lambda: docker.open_backend(TEST_IMAGE), "bubblewrap": bubblewrap.open_backend}
_tried: dict[str, SandboxBackend | str] = {}


def backend_or_skip(name: str) -> SandboxBackend:
    """The backend; where it does not work here the test is skipped, or fails if it is required."""
    if name not in _tried:
        try:
            _tried[name] = asyncio.run(OPENERS[name]())
        except SandboxError as error:
            _tried[name] = error.message
    backend = _tried[name]
    if isinstance(backend, str):
        is_required = name in os.environ.get("GAGAR_REQUIRE_SANDBOXES", "").split(",")
        (pytest.fail if is_required else pytest.skip)(f"{name} is not available: {backend}")
    return backend


@pytest.fixture(scope="session", autouse=True)
def close_backends() -> Iterator[None]:
    yield
    for backend in _tried.values():
        if isinstance(backend, docker.DockerBackend):
            backend.close()


@pytest.fixture(params=[pytest.param("docker", marks=pytest.mark.docker), "bubblewrap"])
def backend(request: pytest.FixtureRequest) -> SandboxBackend:
    """Every backend in turn."""
    return backend_or_skip(request.param)


@pytest.fixture(scope="session")
def docker_backend() -> docker.DockerBackend:
    return backend_or_skip("docker")


@pytest.fixture(name="bubblewrap")
def bubblewrap_backend() -> bubblewrap.BubblewrapBackend:
    return backend_or_skip("bubblewrap")


@pytest.fixture(scope="session")
def supply(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Path]]:
    """Lays out a repository of literal files where every sandbox can read it."""
    with tempfile.TemporaryDirectory(prefix="gagar-test-") as run_dir:
        n_trees = 0

        def lay_out(**files: str) -> Path:
            nonlocal n_trees
            n_trees += 1
            repos = tmp_path_factory.mktemp("repos")
            for path, content in files.items():
                (repos / "task" / path).parent.mkdir(parents=True, exist_ok=True)
                (repos / "task" / path).write_text(content)
            own_dir = Path(run_dir, str(n_trees))
            Path(run_dir).chmod(0o711)
            own_dir.mkdir()
            return RepositoryStore(repos, own_dir).find("task", None, None).path

        yield lay_out


@pytest.fixture(scope="session")
def tree(supply: Callable[..., Path]) -> Path:
    return supply(**FILES)


class Held:
    """A sandbox for tests that are not coroutines."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox

    def run(self, *command: str, timeout_seconds: float = 20) -> ExecResult:
        return asyncio.run(self.sandbox.run(command, timeout_seconds=timeout_seconds))

    def shell(self, script: str, **options: Any) -> ExecResult:
        return self.run("sh", "-c", script, **options)

    def python(self, script: str, **options: Any) -> ExecResult:
        return self.run("python3", "-I", "-c", script, **options)

    def close(self) -> None:
        asyncio.run(self.sandbox.close())


@pytest.fixture
def hold(backend: SandboxBackend, tree: Path) -> Iterator[Callable[..., Held]]:
    """Opens sandboxes of the backend, closed after the test."""
    held: list[Held] = []

    def open_one(patch: str = "", *, tree: Path = tree, limits: SandboxLimits = SMALL) -> Held:
        held.append(Held(asyncio.run(backend.open(Checkout(tree), patch, limits))))
        return held[-1]

    yield open_one
    for one in held:
        one.close()


@pytest.fixture
def held(hold: Callable[..., Held]) -> Held:
    return hold()
