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
from gagar_cli.sandbox.base import NOBODY, Command, SandboxLimits
from gagar_cli.sandbox.docker_features import EngineFeatures
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
_SEARCH_PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_ANY_PROCESSES = 32_768
"""Of one user on the whole machine: no real limit, since that is `PidsLimit`."""

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


def launch_from_stdin(
    command: Command, patch: bytes, checkout: str, cwd: str, *, words: str = "", source: str = BASE
) -> list[str]:
    """The argument list that takes the patch from stdin, makes the checkout and becomes the command.

    With `words` for the shell, the patch is what they want. An empty `source` leaves the checkout empty.

    Raises:
        CheckoutError: `cwd` leaves the checkout.
    """
    launch = launch_arguments(
        command, source=source, has_patch=bool(patch), checkout=checkout, cwd=cwd, words=words
    )
    return ["/bin/sh", "-c", _TAKE_PATCH, "sh", str(len(patch)), *launch]


def container_config(
    image: str,
    base: Mapping[str, Any],
    limits: SandboxLimits,
    *,
    checkout: str,
    volumes: Sequence[str],
    labels: Mapping[str, str],
    features: EngineFeatures,
    has_search_path: bool = True,
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
        # Docker fills in a search path where an image has none, podman does not.
        "Env": [f"HOME={HOME}", "LANG=C.UTF-8", *([] if has_search_path else [_SEARCH_PATH])],
        "Labels": dict(labels),
        "AttachStdin": True,
        "OpenStdin": True,
        "StdinOnce": True,
        # For engines that stop a container before they remove it: nothing listens to that.
        "StopTimeout": 1,
        "HostConfig": _host_config(limits, base, [HOME, *volumes], checkout, features),
    }


def _host_config(
    limits: SandboxLimits,
    base: Mapping[str, Any],
    small: Sequence[str],
    checkout: str,
    features: EngineFeatures,
) -> dict[str, Any]:
    ulimits = {"nofile": MAX_OPEN_FILES, "core": 0, "fsize": MAX_FILE_BYTES}
    ulimits |= {"nproc": _ANY_PROCESSES} if features.states_all_limits else {}
    config = {
        "NetworkMode": "none",
        "CapDrop": ["ALL"],
        "SecurityOpt": [
            "no-new-privileges",
            *([f"seccomp={engine_profile()}"] if features.own_filter else []),
        ],
        "ReadonlyRootfs": True,
        "Mounts": [dict(base)],
        "Tmpfs": {place: _tmpfs(limits.scratch_bytes // 4, features) for place in small}
        | {checkout: _tmpfs(limits.scratch_bytes, features)},
        "PidsLimit": limits.n_processes,
        "Memory": limits.memory_bytes,
        "MemorySwap": limits.memory_bytes,
        "NanoCpus": int(limits.cpus * 1e9),
        "ShmSize": SHARED_MEMORY_BYTES,
        "IpcMode": "private",
        "Init": features.has_init,
        "Ulimits": [{"Name": name, "Soft": value, "Hard": value} for name, value in ulimits.items()],
        "LogConfig": {"Type": "none"},
        "AutoRemove": True,
    }
    return config if features.runtime is None else {**config, "Runtime": features.runtime}


def _tmpfs(n_bytes: int, features: EngineFeatures) -> str:
    """Executable, since builds run what they make; with an owner, since old engines keep an image directory's mode."""
    files = f",nr_inodes={MAX_INODES}" if features.has_inode_limit else ""
    owner = f"uid={NOBODY},gid={NOBODY}" if features.has_owner_by_number else "U"
    return f"rw,nosuid,nodev,exec,size={n_bytes}{files},{owner},mode=0700"
