"""The sandbox contract: what a backend is given, and what comes back.

A `Sandbox` belongs to one candidate and is never shared: candidates run hostile code. It holds a fresh checkout of
the base repository with that candidate's patch applied, inside (by `git apply`, or file by file where an image has no
git). Every command starts from that state. A non-zero exit is a result; `SandboxError` means that the sandbox itself
could not be made or broke.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

from gagar_cli.sandbox.output import FileOutput

NOBODY = 65534
"""User and group that hostile code runs as where gagar itself runs as root."""


Command = Sequence[str] | str
"""An argument list, or a script for `sh`."""


class SandboxUser(NamedTuple):
    """Who hostile code runs as, seen from this machine."""

    uid: int
    gid: int
    must_switch: bool
    """Whether that is not who we are: files for the sandbox have to be handed over."""


def sandbox_user() -> SandboxUser:
    """The user of sandboxes without an engine: never root."""
    if os.geteuid() == 0:
        return SandboxUser(NOBODY, NOBODY, True)
    return SandboxUser(os.geteuid(), os.getegid(), False)


@dataclass(frozen=True, slots=True)
class SandboxLimits:
    """What one sandbox may use."""

    memory_bytes: int = 2 * 1024**3
    cpus: float = 1.0
    n_processes: int = 128
    scratch_bytes: int = 1024**3
    output_bytes: int = 256 * 1024
    """Kept of each stream, head and tail; the rest is counted and dropped."""


@dataclass(frozen=True, slots=True)
class Checkout:
    """Where the base repository comes from: a directory on this machine, or a directory of an image."""

    tree: Path | None = None
    """Unpacked base repository without `.git`; bound read-only."""
    image: str | None = None
    workdir: str | None = None
    """The repository's place inside `image`."""
    is_copied: bool = True
    """Without it commands start in an empty directory and `tree` stays where it is bound (`launcher.BASE`): for
    programs of ours over a tree that they only read."""


@dataclass(frozen=True, slots=True)
class ExecResult:
    """What one command did."""

    exit_code: int | None
    """None where the command was ended from outside."""
    stdout: str
    stderr: str
    seconds: float
    timed_out: bool = False
    out_of_memory: bool = False
    truncated: bool = False
    """Some output was dropped."""


class Sandbox(Protocol):
    """One candidate's checkout. Close it always; it dies with its owner in any case."""

    async def run(self, command: Command, *, timeout_seconds: float, cwd: str = ".") -> ExecResult:
        """Run an argument list, or a script for `sh`, in a fresh copy of the patched checkout.

        `cwd` is a directory of the checkout, relative to it; no part of it may be a link.

        Raises:
            SandboxError: the sandbox broke.
            CheckoutError: the patch does not apply, or `cwd` is no plain directory of the checkout.
        """

    async def close(self) -> None:
        """End everything that still runs and free what it used; never raises for what is gone already."""


class StreamedSandbox(Sandbox, Protocol):
    """A sandbox whose output can be had whole."""

    async def run(
        self, command: Command, *, timeout_seconds: float, cwd: str = ".", stdout: FileOutput | None = None
    ) -> ExecResult:
        """As `Sandbox.run`; with `stdout`, what the command writes goes there, and not into the result."""


class SandboxBackend(Protocol):
    """A way of making sandboxes on this machine."""

    name: str
    """`docker`, `bubblewrap` or `inspect-only`: recorded in every ranking."""

    async def open(self, checkout: Checkout, patch: str, limits: SandboxLimits) -> StreamedSandbox:
        """A sandbox for one candidate; cheap until the first command.

        Raises:
            SandboxError: this backend cannot serve that checkout (no such image, unreadable tree).
        """
