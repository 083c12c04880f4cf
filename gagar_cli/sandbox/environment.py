"""A virtual environment of this machine that bubblewrap sandboxes may see: what has to be bound for it, and what not.

It appears read-only at its own path, since its scripts have that path in them, and so does the installation of Python
that it was made from. Both are looked at before: a directory that holds more than a Python would show the machine's
secrets to hostile code.
"""

import os
from pathlib import Path
from typing import NamedTuple

from gagar_cli.errors import SandboxError
from gagar_cli.sandbox.launcher import BASE, CHECKOUT

_CONFIGURATION = "pyvenv.cfg"
_MAX_CONFIGURATION_BYTES = 65_536
_VISIBLE_ANYWAY = Path("/usr")
_NEVER = tuple(
    Path(place)
    for place in (
        "/bin",
        "/boot",
        "/dev",
        "/etc",
        "/home",
        "/media",
        "/mnt",
        "/opt",
        "/proc",
        "/root",
        "/run",
    )
) + tuple(Path(place) for place in ("/sbin", "/srv", "/sys", "/tmp", "/usr", "/var", "/var/lib"))  # noqa: S108 - refused
_TAKEN = tuple(Path(place) for place in (BASE, CHECKOUT, "/dev", "/etc", "/proc"))
"""Where sandboxes have something of their own."""
_OTHERS_MAY_WRITE = 0o002


class Environment(NamedTuple):
    """What is bound for a virtual environment."""

    root: Path
    places: tuple[Path, ...]
    """Directories to bind at their own paths: the environment, and its Python where it is not under `/usr`."""

    @property
    def bin(self) -> Path:
        """Where its programs are."""
        return self.root / "bin"


def read_environment(directory: Path) -> Environment:
    """The virtual environment in a directory.

    Raises:
        SandboxError: it is none, or it or its Python holds more than sandboxes may see.
    """
    root = directory.resolve()
    home = _read_home(root)
    _check_place(root, "the environment")
    interpreter = root / "bin" / "python"
    if not interpreter.exists():
        raise SandboxError(f"{root} has no bin/python", "make it anew: `python3 -m venv DIR`")
    # The link leads to where the interpreter really is, `home` to where its library is: usually the same.
    prefixes = {interpreter.resolve().parent.parent, home.resolve().parent}
    places = [root]
    for prefix in sorted(prefixes):
        if prefix.is_relative_to(_VISIBLE_ANYWAY) or prefix.is_relative_to(root):
            continue
        _check_place(prefix, "the environment's Python")
        if not any(prefix.glob("lib/python3*/os.py")):
            raise SandboxError(
                f"{prefix}, which the environment names as its Python, is no installation of Python",
                "make the environment anew with the Python that is to be used",
            )
        places.append(prefix)
    return Environment(root, tuple(places))


def _read_home(root: Path) -> Path:
    """The directory of the interpreter that the environment was made with."""
    try:
        with (root / _CONFIGURATION).open(encoding="utf-8", errors="replace") as file:
            lines = file.read(_MAX_CONFIGURATION_BYTES).splitlines()
    except OSError as error:
        raise SandboxError(
            f"{root} is no virtual environment: there is no {_CONFIGURATION}",
            "`--env` names a directory that `python3 -m venv` made",
        ) from error
    values = (line.partition("=")[2].strip() for line in lines if line.partition("=")[0].strip() == "home")
    home = Path(next(values, ""))
    if not home.is_absolute():
        raise SandboxError(f"{root / _CONFIGURATION} names no home of the interpreter", "make it anew")
    return home


def _check_place(place: Path, what: str) -> None:
    """Refuse what holds other things than it says, and what others could change under a running sandbox."""
    private = (Path.home().resolve(), *_NEVER)
    if any(path.is_relative_to(place) for path in private) or any(map(place.is_relative_to, _TAKEN)):
        raise SandboxError(
            f"{what} is {place}, which holds more than a Python",
            "make an environment in a directory of its own",
        )
    status = place.stat()
    if not place.is_dir() or status.st_mode & _OTHERS_MAY_WRITE or status.st_uid not in (0, os.geteuid()):
        raise SandboxError(
            f"{what} is {place}, which others may change",
            "it must be yours or root's, and not writable by all",
        )
