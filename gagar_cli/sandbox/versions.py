"""Versions of engines and runtimes that are known to let a container out, or too much in. Plain values."""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from gagar_cli.errors import SandboxError

_FIRST_ENGINE_WITH_GOOD_DEFAULT = 25
_LEAKED_DIRECTORY = "CVE-2024-21626: a container can reach the machine's files by a directory left open"
_REDIRECTED_MOUNTS = (
    "CVE-2025-31133, -52565, -52881: a container can redirect the runtime's mounts and writes"
)


class EngineFacts(NamedTuple):
    """What a docker engine says about itself."""

    engine: str
    """Its name and version."""
    major: int | None
    runc: str | None
    kernel: str
    """Of the machine that the engine runs on, which need not be this one."""
    runtimes: tuple[str, ...]
    default_runtime: str
    is_podman: bool


def read_engine_facts(version: Mapping[str, Any], info: Mapping[str, Any]) -> EngineFacts:
    """The facts in the engine's answers to `/version` and `/info`."""
    components = {str(part.get("Name")): str(part.get("Version")) for part in version.get("Components") or ()}
    # Podman says `OCI Runtime (runc)`, and several lines.
    runc = next((told for name, told in components.items() if "runc" in name), None)
    is_podman = any(name.lower().startswith("podman") for name in components)
    number = str(version.get("Version", ""))
    triple = _triple(number)
    return EngineFacts(
        engine=f"{'podman' if is_podman else 'docker'} {number}",
        major=triple[0] if triple else None,
        runc=runc and runc.split("\n")[0].removeprefix("runc version "),
        kernel=str(version.get("KernelVersion") or info.get("KernelVersion") or "unknown"),
        runtimes=tuple(sorted(info.get("Runtimes") or ())),
        default_runtime=str(info.get("DefaultRuntime") or "its own runtime"),
        is_podman=is_podman,
    )


def runc_problem(version: str) -> str | None:
    """Why not to trust this runc; None where nothing is known against it.

    >>> runc_problem("1.3.3"), runc_problem("1.2.8+ds1")
    (None, None)
    """
    triple = _triple(version)
    if triple is None:
        return f"runc {version}: the version cannot be read, so that nothing is known about it"
    told = None
    if triple < (1, 1, 12):
        told = _LEAKED_DIRECTORY
    elif triple < (1, 2, 8) or (1, 3, 0) <= triple < (1, 3, 3) or re.match(r"v?1\.4\.0-rc\.[12]\b", version):
        told = _REDIRECTED_MOUNTS
    return told and f"runc {version} ({told}); unless your distribution has mended it, update"


def needs_own_filter(facts: EngineFacts) -> bool:
    """Whether the engine's system call filter is too old to be kept."""
    return not facts.is_podman and (facts.major is None or facts.major < _FIRST_ENGINE_WITH_GOOD_DEFAULT)


def engine_problem(facts: EngineFacts) -> str | None:
    """What the engine's own defaults let in; None where they are good, or replaced by ours."""
    if not needs_own_filter(facts):
        return None
    return (
        f"{facts.engine}: before 25 its own system call filter lets io_uring and AF_VSOCK through; "
        "gagar's sandboxes bring their own, other containers of this machine do not"
    )


def check_runtime(facts: EngineFacts, runtime: str | None) -> None:
    """Look for a runtime among the engine's; None is its default.

    Raises:
        SandboxError: it has none of that name.
    """
    if runtime is not None and runtime not in facts.runtimes:
        names = ", ".join(facts.runtimes) or "none that it names"
        raise SandboxError(
            f"{facts.engine} has no runtime {runtime!r}, only {names}",
            "add it to the engine's configuration, or leave `--runtime` out",
        )


def _triple(version: str) -> tuple[int, int, int] | None:
    match = re.match(r"v?(\d+)\.(\d+)(?:\.(\d+))?", version)
    return (int(match[1]), int(match[2]), int(match[3] or 0)) if match else None
