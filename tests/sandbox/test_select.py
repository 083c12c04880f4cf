import asyncio
import gc
from collections.abc import Iterator

import pytest

from gagar_cli.errors import SandboxError, UsageError
from gagar_cli.sandbox import bubblewrap
from gagar_cli.sandbox.select import choose_backend

# The SDK drops the socket that it could not connect.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")


def choose(name: str, image: str | None = None, *, dump_has_images: bool = False):
    return asyncio.run(choose_backend(name, image=image, dump_has_images=dump_has_images))


@pytest.fixture
def no_engine(monkeypatch, tmp_path) -> Iterator[None]:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/no.sock")
    yield
    gc.collect()


@pytest.fixture
def no_program(monkeypatch):
    """A machine without any bwrap."""

    def find() -> None:
        raise SandboxError("there is no bwrap program")

    monkeypatch.setattr(bubblewrap, "_find_program", find)


def test_inspect_only_runs_nothing():
    chosen = choose("inspect-only")
    assert (chosen.backend, chosen.name) == (None, "inspect-only")


def test_an_unknown_name_is_a_usage_error():
    with pytest.raises(UsageError, match="expected one of auto, docker, bubblewrap, inspect-only"):
        choose("plain")


@pytest.mark.docker
def test_docker_goes_first_where_an_image_is_at_hand(docker_backend):
    chosen = choose("auto", "gagar-test:latest")
    chosen.backend.close()
    assert chosen.name == "docker"
    assert chosen.reason.isprintable()


@pytest.mark.docker
def test_an_image_that_is_missing_is_named(docker_backend):
    with pytest.raises(SandboxError, match="no-such-image"):
        choose("docker", "no-such-image:1")


def test_docker_without_any_image_is_refused():
    with pytest.raises(SandboxError, match="no image"):
        choose("docker")


def test_without_an_engine_bubblewrap_is_next(no_engine, bubblewrap):
    chosen = choose("auto", "gagar-test:latest")
    assert chosen.name == "bubblewrap"
    assert chosen.reason.startswith("docker: no docker engine answers")
    assert chosen.reason.isprintable()


def test_without_either_nothing_is_run_and_both_are_told(no_engine, no_program):
    chosen = choose("auto", "gagar-test:latest")
    assert chosen.backend is None
    assert chosen.name == "inspect-only"
    assert "docker: no docker engine" in chosen.reason
    assert "bubblewrap: there is no bwrap" in chosen.reason


def test_a_backend_that_was_named_is_not_replaced(no_engine, no_program):
    with pytest.raises(SandboxError, match="no docker engine"):
        choose("docker", dump_has_images=True)
    with pytest.raises(SandboxError, match="no bwrap"):
        choose("bubblewrap")
