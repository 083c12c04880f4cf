"""Which sandbox a run uses: the strongest that works here and can serve its checkouts, told with the reason."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from gagar_cli.core.text import escape_untrusted
from gagar_cli.errors import SandboxError, UsageError
from gagar_cli.sandbox.base import SandboxBackend

INSPECT_ONLY = "inspect-only"
CHOICES = ("auto", "docker", "bubblewrap", INSPECT_ONLY)


class _TriedBackend(SandboxBackend, Protocol):
    description: str


@dataclass(frozen=True, slots=True)
class ChosenBackend:
    """A run's sandbox: None means that nothing is ever run."""

    backend: SandboxBackend | None
    name: str
    reason: str
    """One line for people: why this one."""


async def choose_backend(name: str, *, image: str | None, dump_has_images: bool) -> ChosenBackend:
    """The backend of that name, or for `auto` docker, else bubblewrap, else none.

    Docker needs an image with the repository (the dump's `docker_image`) or one to put a repository into (`image`).

    Raises:
        UsageError: there is no backend of that name.
        SandboxError: the backend that was named does not work here; the message says what is missing.
    """
    if name not in CHOICES:
        raise UsageError(f"--sandbox is {name!r}, expected one of {', '.join(CHOICES)}")
    if name == INSPECT_ONLY:
        return ChosenBackend(None, INSPECT_ONLY, "asked for: patches are read, nothing is run")
    openers: dict[str, Callable[[], Awaitable[_TriedBackend]]] = {
        "docker": lambda: _open_docker(image, dump_has_images),
        "bubblewrap": _open_bubblewrap,
    }
    if name != "auto":
        backend = await openers[name]()
        return ChosenBackend(backend, name, f"asked for: {backend.description}")
    refusals = []
    for candidate, open_backend in openers.items():
        try:
            backend = await open_backend()
        except SandboxError as error:
            refusals.append(f"{candidate}: {escape_untrusted(error.message, keep_newlines=False)}")
        else:
            return ChosenBackend(backend, candidate, "; ".join([*refusals, f"{backend.description} works"]))
    return ChosenBackend(None, INSPECT_ONLY, "; ".join(refusals))


async def _open_docker(image: str | None, dump_has_images: bool) -> _TriedBackend:
    if image is None and not dump_has_images:
        raise SandboxError("no image is at hand", "name one with `--sandbox-image`")
    from gagar_cli.sandbox import docker

    return await docker.open_backend(image)


async def _open_bubblewrap() -> _TriedBackend:
    from gagar_cli.sandbox import bubblewrap

    return await bubblewrap.open_backend()
