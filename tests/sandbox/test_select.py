import asyncio
import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

from gagar_cli.errors import SandboxError, UsageError
from gagar_cli.sandbox import bubblewrap
from gagar_cli.sandbox.select import SandboxRequest, choose_backend

# The SDK drops the socket that it could not connect.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")


def choose(name: str, image: str | None = None, *, dump_image=None, has_repos=True, **wishes):
    request = SandboxRequest(name, image, **wishes)
    return asyncio.run(choose_backend(request, dump_image=dump_image, has_repos=has_repos))


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

    monkeypatch.setattr(bubblewrap, "find_program", find)


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
        choose("docker", dump_image="one:1")
    with pytest.raises(SandboxError, match="no bwrap"):
        choose("bubblewrap")


@pytest.mark.docker
def test_auto_falls_back_where_the_images_of_the_dump_are_not_here(docker_backend, bubblewrap):
    chosen = choose("auto", dump_image="no-such-image:1")
    assert chosen.name == "bubblewrap"
    assert chosen.reason.startswith("docker: image no-such-image:1 is not on this machine; bubblewrap")


@pytest.mark.docker
def test_without_repositories_there_is_nothing_to_fall_back_on(docker_backend):
    chosen = choose("auto", dump_image="no-such-image:1", has_repos=False)
    assert (chosen.backend, chosen.name) == (None, "inspect-only")
    assert "bubblewrap: no repository is supplied" in chosen.reason


@pytest.mark.docker
def test_an_unknown_runtime_is_told_with_those_that_there_are(docker_backend):
    with pytest.raises(SandboxError, match=r"no runtime 'no-such', only .*runc"):
        choose("auto", "gagar-test:latest", runtime="no-such")


@pytest.mark.docker
def test_a_runtime_of_the_engine_is_used_and_named(docker_backend):
    chosen = choose("auto", "gagar-test:latest", runtime="io.containerd.runc.v2")
    chosen.backend.close()
    assert chosen.name == "docker"
    assert chosen.reason.endswith("io.containerd.runc.v2")


def test_a_runtime_is_never_replaced_by_something_that_holds_less(no_engine, bubblewrap):
    with pytest.raises(SandboxError, match="no docker engine"):
        choose("auto", "gagar-test:latest", runtime="runsc")


@pytest.mark.parametrize(
    ("name", "wishes"),
    [
        ("bubblewrap", {"runtime": "runsc"}),
        ("inspect-only", {"runtime": "runsc"}),
        ("docker", {"environment": Path("/somewhere")}),
    ],
)
def test_an_option_of_another_backend_is_a_usage_error(name, wishes):
    with pytest.raises(UsageError, match=r"leave one|is docker's|is bubblewrap's"):
        choose(name, "gagar-test:latest", **wishes)
