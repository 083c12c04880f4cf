"""Who made a sandbox, written so that another process can tell later whether that one still lives.

A process number alone is reused. With its start time and the boot it belongs to it is not; with the PID namespace
one knows whether the number can be looked up from here at all.
"""

import os
from dataclasses import asdict, dataclass
from pathlib import Path

LABEL_PREFIX = "gagar."


@dataclass(frozen=True, slots=True)
class Owner:
    """A process, told apart from all others of this machine."""

    boot_id: str
    pid_namespace: str
    pid: str
    start: str
    """Clock ticks after boot."""

    def labels(self) -> dict[str, str]:
        """The owner as labels of a container."""
        return {LABEL_PREFIX + name: value for name, value in asdict(self).items()}


def current_owner() -> Owner:
    """This process."""
    pid = str(os.getpid())
    return Owner(_boot_id(), _pid_namespace(), pid, _start_time(pid) or "")


def is_orphaned(labels: dict[str, str]) -> bool:
    """Whether a container's labels name an owner that is surely gone.

    An owner in another PID namespace (gagar in a container, on the same engine) cannot be looked up: not orphaned.
    """
    try:
        owner = Owner(**{name: labels[LABEL_PREFIX + name] for name in Owner.__dataclass_fields__})
    except KeyError:
        return False
    if owner.boot_id != _boot_id():
        return True
    return owner.pid_namespace == _pid_namespace() and _start_time(owner.pid) != owner.start


def owned_name(owner: Owner, suffix: str) -> str:
    """A name for a directory that tells its owner; `suffix` tells it from the owner's others."""
    return f"gagar-{owner.boot_id[:8]}-{_digits(owner.pid_namespace)}-{owner.pid}-{owner.start}-{suffix}"


def is_orphaned_name(name: str) -> bool:
    """Whether a name that `owned_name` made tells of an owner that is surely gone.

    One of another boot may be of another machine that shares the directory: not orphaned.
    """
    prefix, _, _ = name.rpartition("-")
    words = prefix.split("-")
    if len(words) != 5 or words[0] != "gagar":
        return False
    _, boot_id, namespace, pid, start = words
    is_from_here = (boot_id, namespace) == (_boot_id()[:8], _digits(_pid_namespace()))
    return is_from_here and _start_time(pid) != start


def _digits(text: str) -> str:
    return "".join(char for char in text if char.isdecimal())


def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def _pid_namespace() -> str:
    return str(Path("/proc/self/ns/pid").readlink())


def _start_time(pid: str) -> str | None:
    """Field 22 of /proc/PID/stat; None where there is no such process."""
    if not pid.isdecimal():
        return None
    try:
        stat = Path("/proc", pid, "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The second field is the program's name in parentheses, and may hold blanks and parentheses itself.
    return stat.rpartition(")")[2].split()[19]
