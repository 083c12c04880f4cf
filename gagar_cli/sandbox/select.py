"""Which sandbox a run uses: the strongest that works here and can serve its checkouts, told with the reason."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from gagar_cli.core.text import escape_untrusted
from gagar_cli.errors import SandboxError, UsageError
from gagar_cli.sandbox.base import SandboxBackend

INSPECT_ONLY = "inspect-only"
CHOICES = ("auto", "docker", "bubblewrap", INSPECT_ONLY)


class _TriedBackend(SandboxBackend, Protocol):
    description: str


@dataclass(frozen=True, slots=True)
class SandboxRequest:
    """What a run asks of its sandbox."""

    name: str = "auto"
    image: str | None = None
    """For tasks that name none: their repository is put into it."""
    runtime: str | None = None
    """One of the docker engine's; only docker is tried then, as nothing else holds as much."""
    pull: bool = False
    """Fetch images that are not on this machine."""
    environment: Path | None = None
    """A virtual environment that bubblewrap sandboxes see."""


@dataclass(frozen=True, slots=True)
class ChosenBackend:
    """A run's sandbox: None means that nothing is ever run."""

    backend: SandboxBackend | None
    name: str
    reason: str
    """One line for people: why this one."""
    is_asked: bool = False
    """Named by the user, and not found out."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What is told without being asked: which one was found, where none was named."""
        return () if self.is_asked else (f"sandbox: {self.name}: {self.reason}",)


async def choose_backend(
    request: SandboxRequest, *, dump_image: str | None = None, has_repos: bool = False
) -> ChosenBackend:
    """The backend that was named, or for `auto` docker, else bubblewrap, else none.

    Docker needs an image with the repository (`dump_image`, which stands for all of a dump's) or one to put a
    repository into; bubblewrap needs repositories.

    Raises:
        UsageError: there is no backend of that name, or an option is another backend's.
        SandboxError: the backend that was named does not work here; the message says what is missing.
    """
    name = _check(request)
    if name == INSPECT_ONLY:
        return ChosenBackend(None, INSPECT_ONLY, "asked for: patches are read, nothing is run", is_asked=True)
    openers: dict[str, Callable[[], Awaitable[_TriedBackend]]] = {
        "docker": lambda: _open_docker(request, dump_image, must_have=name == "auto"),
        "bubblewrap": lambda: _open_bubblewrap(request, has_repos=has_repos or name != "auto"),
    }
    if name != "auto":
        backend = await openers[name]()
        return ChosenBackend(backend, name, f"asked for: {backend.description}", is_asked=True)
    refusals = []
    for candidate, open_backend in openers.items():
        try:
            backend = await open_backend()
        except SandboxError as error:
            refusals.append(f"{candidate}: {escape_untrusted(error.message, keep_newlines=False)}")
        else:
            return ChosenBackend(backend, candidate, "; ".join([*refusals, f"{backend.description} works"]))
    return ChosenBackend(None, INSPECT_ONLY, "; ".join(refusals))


def _check(request: SandboxRequest) -> str:
    """The name of the backend, or `auto`."""
    name = request.name
    if name not in CHOICES:
        raise UsageError(f"--sandbox is {name!r}, expected one of {', '.join(CHOICES)}")
    if request.runtime is not None:
        if name not in ("auto", "docker"):
            raise UsageError(f"--runtime is docker's, and --sandbox is {name}", "leave one of them out")
        name = "docker"
    if request.environment is not None and name not in ("auto", "bubblewrap"):
        raise UsageError("--env is bubblewrap's, and docker or none was asked for", "leave one of them out")
    return name


async def _open_docker(request: SandboxRequest, dump_image: str | None, *, must_have: bool) -> _TriedBackend:
    """`must_have`: the image of the dump is looked for now, as something else can be taken yet."""
    if request.image is None and dump_image is None:
        raise SandboxError("no image is at hand", "name one with `--sandbox-image`")
    from gagar_cli.sandbox import docker

    # Where the dump's are not here, a run without another image could make no sandbox at all.
    wanted = request.image or (dump_image if must_have else None)
    return await docker.open_backend(wanted, runtime=request.runtime, pull=request.pull)


async def _open_bubblewrap(request: SandboxRequest, *, has_repos: bool) -> _TriedBackend:
    if not has_repos:
        raise SandboxError("no repository is supplied", "supply them with `--repos`")
    from gagar_cli.sandbox import bubblewrap

    return await bubblewrap.open_backend(request.environment)
