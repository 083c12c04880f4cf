"""What runs that were killed left behind: containers, volumes, control groups, directories with repositories.

Only what carries its owner's mark is touched, and only where that owner is surely gone. Containers and bubblewrap's
processes end with their owner by themselves; a guard beside each run removes its directories and control groups then.
What a guard misses, since it was killed too, the next run or `gagar clean` removes.
"""

import contextlib
import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from gagar_cli.errors import SandboxError
from gagar_cli.sandbox.base import sandbox_user
from gagar_cli.sandbox.bubblewrap_groups import group_places, reap_groups
from gagar_cli.sandbox.owner import current_owner, is_orphaned_name, owned_name

# A line says that its run has removed everything itself: what is left carries the same mark and is another run's of
# this process. Without one the input ends with its owner. Control groups can be removed once the last of their
# processes has ended.
_GUARD = """
read -r word && exit
directories=$1
shift
for round in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    rm -rf "$directories"*
    left=
    for place in "$@"; do
        for group in "$place"*; do
            [ -d "$group" ] && ! rmdir "$group" && left=yes
        done
    done
    [ -z "$left" ] && exit
    sleep 0.1
done
"""


@dataclass(frozen=True, slots=True)
class Leftovers:
    """What was removed."""

    containers_and_volumes: tuple[str, ...]
    control_groups: tuple[str, ...]
    directories: tuple[str, ...]
    engine: str
    """The docker engine that was looked at, or why none was."""

    @property
    def removed(self) -> tuple[str, ...]:
        """Everything, one name each."""
        return (*self.containers_and_volumes, *self.control_groups, *self.directories)

    def to_record(self) -> dict[str, object]:
        """The result as one JSON object."""
        return asdict(self)


def remove_leftovers() -> Leftovers:
    """Remove what is left of owners that are gone, on this machine and on its docker engine."""
    engine, found = _reap_engine()
    return Leftovers(tuple(found), tuple(reap_groups()), tuple(reap_directories()), engine)


@contextlib.contextmanager
def removed_after_death() -> Iterator[None]:
    """While this lasts a guard waits for our end, however it comes, and removes what we leave then.

    Left in peace it removes nothing: a process may have several runs, each with a guard, and all carry its mark.
    """
    mark = owned_name(current_owner(), "")
    places = [str(place / mark) for place in (Path(tempfile.gettempdir()), *group_places())]
    with subprocess.Popen(  # noqa: S603 - a fixed script; the places are arguments
        ["/bin/sh", "-c", _GUARD, "gagar-guard", *places],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={"PATH": "/usr/bin:/bin"},
        cwd="/",
        # Ctrl-C in a terminal is for us.
        start_new_session=True,
    ) as guard:
        try:
            yield
        finally:
            assert guard.stdin is not None  # noqa: S101 - a pipe
            with contextlib.suppress(OSError, ValueError):
                guard.stdin.write(b"done\n")
            with contextlib.suppress(OSError):
                guard.stdin.close()


def reap_directories() -> list[str]:
    """Remove temporary directories of owners that are gone; their paths."""
    removed = []
    for directory in sorted(Path(tempfile.gettempdir()).glob("gagar-*")):
        if is_orphaned_name(directory.name) and _is_ours(directory):
            shutil.rmtree(directory, ignore_errors=True)
            if not directory.exists():
                removed.append(str(directory))
    return removed


def _is_ours(directory: Path) -> bool:
    """Others may make such names in a shared directory; a probe's belongs to the sandboxes' user."""
    with contextlib.suppress(OSError):
        status = directory.lstat()
        return stat.S_ISDIR(status.st_mode) and status.st_uid in (os.geteuid(), sandbox_user().uid)
    return False


def _reap_engine() -> tuple[str, list[str]]:
    from gagar_cli.sandbox.docker_engine import connect, mapped_errors, reap_orphans

    try:
        client, facts = connect()
        with contextlib.closing(client), mapped_errors("the docker engine failed"):
            return facts.engine, reap_orphans(client)
    except SandboxError as error:
        return error.message, []
