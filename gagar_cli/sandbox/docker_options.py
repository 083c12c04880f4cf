"""What a container of ours is made of, as the engine's API takes it. Plain values, readable without an engine.

No network, no capability, no new privileges, nobody as its user, a read-only root with sized scratch file systems,
limits on memory, processors, processes and open files, no log on the host. The environment is the image's own, with
nothing of this machine's.
"""

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from gagar_cli.core.text import escape_untrusted, shorten
from gagar_cli.errors import SandboxError
from gagar_cli.sandbox.base import NOBODY, SandboxLimits
from gagar_cli.sandbox.launcher import (
    BASE,
    CHECKOUT,
    HOME,
    MAX_FILE_BYTES,
    MAX_INODES,
    SHARED_MEMORY_BYTES,
    launch_arguments,
)
from gagar_cli.sandbox.seccomp import engine_profile

MAX_OPEN_FILES = 1024

_FIRST_ENGINE_WITH_GOOD_DEFAULT = 25
"""From there on the engine's own seccomp profile refuses io_uring and AF_VSOCK."""

# By its length, so that no half of the connection needs to be closed, which TLS cannot; the launcher reads to the end.
_TAKE_PATCH = """
head -c "$1" >"$HOME/.patch" || exit 1
exec <"$HOME/.patch"
rm "$HOME/.patch"
shift
exec "$@"
"""


def place_checkout(workdir: str | None) -> str:
    """Where the checkout stands: where the image expects the repository, as packages may be installed from there.

    Raises:
        SandboxError: `workdir` is not an absolute, plain path below the root, or taken by the base tree.
    """
    if workdir is None:
        return CHECKOUT
    path = PurePosixPath(workdir)
    is_plain = workdir.isprintable() and path.root == "/" and ".." not in path.parts
    if not is_plain or len(path.parts) < 2 or str(path) == BASE:
        shown = shorten(escape_untrusted(workdir, keep_newlines=False), 80)
        raise SandboxError(f"workdir is {shown!r}, expected an absolute path below / other than {BASE}")
    return str(path)


def launch_with_patch(command: Sequence[str], patch: bytes, checkout: str) -> list[str]:
    """The argument list that takes the patch from stdin, makes the checkout and becomes the command."""
    launch = launch_arguments(command, source=BASE, has_patch=bool(patch), checkout=checkout)
    return ["/bin/sh", "-c", _TAKE_PATCH, "sh", str(len(patch)), *launch]


def container_config(
    image: str,
    base: Mapping[str, Any],
    limits: SandboxLimits,
    *,
    checkout: str,
    volumes: Sequence[str],
    labels: Mapping[str, str],
    engine_version: str,
) -> dict[str, Any]:
    """The body of `POST /containers/create`.

    `base` is the mount of the base tree. `volumes` are the places where the image declares volumes: left to the
    engine, they would be on the host's disk without a limit.

    The first process is `cat` on a stdin that its owner holds. It ends with the owner, and the container with it.
    """
    return {
        "Image": image,
        # The entry point, so that the image's own does not run.
        "Entrypoint": ["cat"],
        "Cmd": [],
        "Healthcheck": {"Test": ["NONE"]},
        "User": f"{NOBODY}:{NOBODY}",
        "WorkingDir": "/",
        "Hostname": "sandbox",
        "Env": [f"HOME={HOME}", "LANG=C.UTF-8"],
        "Labels": dict(labels),
        "AttachStdin": True,
        "OpenStdin": True,
        "StdinOnce": True,
        "HostConfig": _host_config(limits, base, [HOME, *volumes], checkout, engine_version),
    }


def _host_config(
    limits: SandboxLimits, base: Mapping[str, Any], small: Sequence[str], checkout: str, engine_version: str
) -> dict[str, Any]:
    ulimits = {"nofile": MAX_OPEN_FILES, "core": 0, "fsize": MAX_FILE_BYTES}
    return {
        "NetworkMode": "none",
        "CapDrop": ["ALL"],
        "SecurityOpt": ["no-new-privileges", *_seccomp_options(engine_version)],
        "ReadonlyRootfs": True,
        "Mounts": [dict(base)],
        "Tmpfs": {place: _tmpfs(limits.scratch_bytes // 4) for place in small}
        | {checkout: _tmpfs(limits.scratch_bytes)},
        "PidsLimit": limits.n_processes,
        "Memory": limits.memory_bytes,
        "MemorySwap": limits.memory_bytes,
        "NanoCpus": int(limits.cpus * 1e9),
        "ShmSize": SHARED_MEMORY_BYTES,
        "IpcMode": "private",
        "Init": True,
        "Ulimits": [{"Name": name, "Soft": value, "Hard": value} for name, value in ulimits.items()],
        "LogConfig": {"Type": "none"},
        "AutoRemove": True,
    }


def _tmpfs(n_bytes: int) -> str:
    """Executable, since builds run what they make; with an owner, since old engines keep an image directory's mode."""
    owner = f"uid={NOBODY},gid={NOBODY},mode=0700"
    return f"rw,nosuid,nodev,exec,size={n_bytes},nr_inodes={MAX_INODES},{owner}"


def _seccomp_options(engine_version: str) -> list[str]:
    major = engine_version.partition(".")[0]
    if major.isdecimal() and int(major) >= _FIRST_ENGINE_WITH_GOOD_DEFAULT:
        return []
    return [f"seccomp={engine_profile()}"]
