"""The argument list of one bubblewrap run, and the small files that it hands in.

Everything is built from nothing: an empty root with the machine's `/usr` read-only, private `/tmp`, `/dev`, `/proc`,
and the checkout. A Python under another prefix than `/usr` is visible only as a virtual environment that is handed in.
"""

import functools
import os
import platform
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Self

from gagar_cli.sandbox.base import Checkout, SandboxLimits, sandbox_user
from gagar_cli.sandbox.environment import Environment
from gagar_cli.sandbox.launcher import BASE, CHECKOUT, HOME, MAX_FILE_BYTES, SHARED_MEMORY_BYTES
from gagar_cli.sandbox.seccomp import compile_filter

SEARCH_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"
MAX_OPEN_FILES = 256
"""Low because buffers of sockets are memory that no process is charged with."""

_LINKED_DIRECTORIES = ("bin", "lib", "lib32", "lib64", "sbin")
_ETC = ("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives", "/etc/mime.types")


def sandbox_arguments(
    checkout: Checkout,
    limits: SandboxLimits,
    *,
    use_overlay: bool,
    files: "HandedIn",
    environment: Environment | None = None,
) -> list[str]:
    """What goes to `bwrap --args`; the files that it names are opened in `files`."""
    assert checkout.tree is not None  # noqa: S101 - the backend refuses checkouts without a tree
    tree = str(checkout.tree.resolve())
    arguments = [
        *("--unshare-all", "--unshare-user", "--disable-userns", "--cap-drop", "ALL"),
        *("--die-with-parent", "--new-session", "--hostname", "sandbox"),
        "--clearenv",
        *("--setenv", "HOME", HOME, "--setenv", "LANG", "C.UTF-8"),
        *_search_path(environment),
        *("--ro-bind", "/usr", "/usr", *_system_directories()),
        *_etc_arguments(files),
        *("--proc", "/proc", "--dev", "/dev"),
        *("--size", str(limits.scratch_bytes // 4), "--tmpfs", HOME),
        *("--size", str(SHARED_MEMORY_BYTES), "--tmpfs", "/dev/shm"),  # noqa: S108 - inside the sandbox
    ]
    for place in environment.places if environment else ():
        arguments += ["--ro-bind", str(place), str(place)]
    if use_overlay:
        arguments += ["--overlay-src", tree, "--tmp-overlay", CHECKOUT]
    else:
        arguments += ["--ro-bind", tree, BASE, "--size", str(limits.scratch_bytes), "--tmpfs", CHECKOUT]
    # After the last mount: the two are file systems without a size.
    arguments += ["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/"]
    return [*arguments, "--seccomp", str(files.add(compile_filter(platform.machine())))]


def shell_limits(limits: SandboxLimits, timeout_seconds: float) -> str:
    """Limits for `ulimit`, in the words of the launcher.

    They are set inside, where the number of processes is counted for this user namespace alone. Address space is
    twice the memory: some programs reserve what they never touch, and what is touched the watchdog sees.
    """
    values = {
        "c": 0,
        "n": MAX_OPEN_FILES,
        "f": min(limits.scratch_bytes, MAX_FILE_BYTES) // 512,
        "v": 2 * limits.memory_bytes // 1024,
        "t": int(timeout_seconds * limits.cpus) + 2,
        "u": limits.n_processes,
    }
    return " ".join(f"{option}={value}" for option, value in values.items())


class HandedIn:
    """Open files that bubblewrap reads from; used as a context that closes them."""

    def __init__(self) -> None:
        self.descriptors: list[int] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for descriptor in self.descriptors:
            os.close(descriptor)
        self.descriptors.clear()

    def add(self, content: bytes) -> int:
        """A descriptor that reads `content`."""
        descriptor = os.memfd_create("gagar")
        self.descriptors.append(descriptor)
        os.write(descriptor, content)
        os.lseek(descriptor, 0, os.SEEK_SET)
        return descriptor

    def add_arguments(self, arguments: Sequence[str]) -> int:
        """A descriptor for `--args`: not on the command line, which the sandbox can read."""
        return self.add(b"".join(os.fsencode(argument) + b"\0" for argument in arguments))


def _search_path(environment: Environment | None) -> list[str]:
    if environment is None:
        return ["--setenv", "PATH", SEARCH_PATH]
    root = str(environment.root)
    return ["--setenv", "PATH", f"{environment.bin}:{SEARCH_PATH}", "--setenv", "VIRTUAL_ENV", root]


@functools.cache
def _system_directories() -> tuple[str, ...]:
    """`/bin`, `/lib` and the like as this machine has them: links into `/usr`, or directories of their own."""
    found: list[str] = []
    for name in _LINKED_DIRECTORIES:
        path = Path("/", name)
        if path.is_symlink():
            found += ["--symlink", str(path.readlink()), str(path)]
        elif path.is_dir():
            found += ["--ro-bind", str(path), str(path)]
    return tuple(found)


def _etc_arguments(files: HandedIn) -> Iterator[str]:
    user = sandbox_user()
    own = {
        "/etc/hosts": "127.0.0.1 localhost sandbox\n::1 localhost\n",
        "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
        "/etc/passwd": f"sandbox:x:{user.uid}:{user.gid}:sandbox:{HOME}:/bin/sh\n",
        "/etc/group": f"sandbox:x:{user.gid}:\n",
    }
    for path, content in own.items():
        yield from ("--ro-bind-data", str(files.add(content.encode())), path)
    for path in (*_ETC, *_python_settings()):
        yield from ("--ro-bind-try", path, path)


@functools.cache
def _python_settings() -> tuple[str, ...]:
    return tuple(str(path) for path in Path("/etc").glob("python3.*"))
