"""Control groups for bubblewrap sandboxes, where this machine lets us make them: memory, processes, processor time.

Where they can be had they hold what the watchdog only looks at: memory of every kind, and the rate of CPU use. A
group is made for each command and removed behind it. Both versions of control groups are known: version 1 with a
directory in each controller's hierarchy, version 2 beside our own group, whose parent has to hand memory down.
"""

import asyncio
import contextlib
import json
import os
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from gagar_cli.errors import SandboxError
from gagar_cli.sandbox.base import SandboxLimits
from gagar_cli.sandbox.owner import current_owner, is_orphaned_name, owned_name

HELD_BY_GROUPS = frozenset({"6", "7", "7c", "16"})
"""The attacks of `promises.py` that a group with all three controllers holds in full."""
CONTROLLERS = ("memory", "pids", "cpu")

_PERIOD_MICROSECONDS = 100_000
_OWN_PROCESSES = 2
"""Of bubblewrap's, in each group."""
_REMOVAL_SECONDS = 1.0


class ControlGroup:
    """The group of one command."""

    def __init__(self, directories: Mapping[str, Path]) -> None:
        """`directories` by controller; in version 2 they are the same one."""
        self._directories = dict(directories)

    def add(self, pid: int) -> None:
        """Put a process into the group; what it starts from then on is in it too.

        Raises:
            OSError: it is gone, or the kernel refuses.
        """
        for directory in self._all():
            (directory / "cgroup.procs").write_text(str(pid))

    def has_killed(self) -> bool:
        """Whether the kernel has ended a process of the group for memory."""
        directory = self._directories["memory"]
        for name in ("memory.events", "memory.oom_control"):
            with contextlib.suppress(OSError):
                words = (directory / name).read_text().split()
                return int(words[words.index("oom_kill") + 1]) > 0 if "oom_kill" in words else False
        return False

    def is_removed(self) -> bool:
        """Try to remove the group; whether it is gone, which it is not while its last processes are still ending."""
        gone = [_remove(directory) for directory in self._all()]
        return all(gone)

    def remove(self) -> None:
        """Remove the group, as soon as its last processes have ended. Blocking, for threads."""
        deadline = time.monotonic() + _REMOVAL_SECONDS
        for directory in self._all():
            while not _remove(directory) and time.monotonic() < deadline:
                time.sleep(0.002)

    def _all(self) -> set[Path]:
        return set(self._directories.values())


class Gate:
    """Where a sandbox waits, set up and with nothing of the candidate's run yet, until it is in its group."""

    def __init__(self) -> None:
        self._told, self._tell = os.pipe()
        try:
            self._wait, self._open = os.pipe()
        except OSError:
            os.close(self._told)
            os.close(self._tell)
            raise
        self._is_closed = False

    @property
    def descriptors(self) -> tuple[int, int]:
        """The ends for bubblewrap."""
        return self._tell, self._wait

    @property
    def arguments(self) -> list[str]:
        """The options for bubblewrap."""
        return ["--info-fd", str(self._tell), "--block-fd", str(self._wait)]

    def hand_over(self) -> None:
        """Close bubblewrap's ends, once it has been started or could not be."""
        os.close(self._tell)
        os.close(self._wait)

    async def admit(self, group: ControlGroup) -> None:
        """Wait for the sandbox's first process, put it into the group and let it go on.

        A sandbox that ends before is let be: it has said why.

        Raises:
            OSError: the kernel refuses.
        """
        answer = b""
        while b"}" not in answer:
            await _readable(self._told)
            if not (chunk := os.read(self._told, 4096)):
                break
            answer += chunk
        if b"}" in answer:
            # Gone already where it was ended from outside.
            with contextlib.suppress(ProcessLookupError):
                group.add(int(json.loads(answer)["child-pid"]))
            with contextlib.suppress(BrokenPipeError):
                os.write(self._open, b"x")

    def turn_away(self) -> None:
        """Let a sandbox go on that was not admitted: it finds that nobody lets its launcher go. Again is fine."""
        if not self._is_closed:
            os.close(self._open)
        self._is_closed = True

    def close(self) -> None:
        """Close our own ends, once the sandbox has ended: it must be able to tell who it is."""
        self.turn_away()
        os.close(self._told)


@dataclass(frozen=True, slots=True)
class GroupMaker:
    """Where groups can be made."""

    version: int
    parents: Mapping[str, Path]
    """By controller; only those that can be had."""

    @property
    def description(self) -> str:
        """For people."""
        return f"control groups v{self.version} ({', '.join(self.parents)})"

    @property
    def has_all(self) -> bool:
        """Whether every controller can be had."""
        return set(self.parents) == set(CONTROLLERS)

    def make(self, limits: SandboxLimits) -> ControlGroup:
        """A new group with these limits.

        Raises:
            OSError: it cannot be made.
        """
        name = owned_name(current_owner(), uuid.uuid4().hex[:12])
        group = ControlGroup({controller: parent / name for controller, parent in self.parents.items()})
        try:
            for controller, parent in self.parents.items():
                (parent / name).mkdir(exist_ok=self.version == 2)
                for file, value in self._settings(controller, limits).items():
                    _write(parent / name / file, value)
        except OSError:
            group.remove()
            raise
        return group

    def _settings(self, controller: str, limits: SandboxLimits) -> dict[str, str]:
        """Files and values; one whose name starts with `?` may be missing."""
        memory, quota = str(limits.memory_bytes), str(int(limits.cpus * _PERIOD_MICROSECONDS))
        if controller == "pids":
            return {"pids.max": str(limits.n_processes + _OWN_PROCESSES)}
        if self.version == 2:
            cpu = {"cpu.max": f"{quota} {_PERIOD_MICROSECONDS}"}
            return {"memory.max": memory, "?memory.swap.max": "0"} if controller == "memory" else cpu
        if controller == "memory":
            return {"memory.limit_in_bytes": memory, "?memory.memsw.limit_in_bytes": memory}
        return {"cpu.cfs_period_us": str(_PERIOD_MICROSECONDS), "cpu.cfs_quota_us": quota}


def make_gated_group(
    maker: GroupMaker | None, limits: SandboxLimits
) -> tuple[ControlGroup, Gate] | tuple[None, None]:
    """A group for one command, and the gate before it; none without a maker.

    Raises:
        SandboxError: it cannot be made.
    """
    if maker is None:
        return None, None
    try:
        gate = Gate()
        try:
            return maker.make(limits), gate
        except OSError:
            gate.hand_over()
            gate.close()
            raise
    except OSError as error:
        raise SandboxError(f"no control group can be made: {error}") from error


def find_group_maker(proc: Path = Path("/proc/self")) -> GroupMaker | None:
    """Where groups can be made from here, tried out; None where none can hold memory.

    `proc` is this process's directory.
    """
    for version, parents in _candidates(proc):
        usable = {name: parent for name, parent in parents.items() if _works(version, name, parent)}
        if "memory" in usable:
            return GroupMaker(version, usable)
    return None


def group_places(proc: Path = Path("/proc/self")) -> list[Path]:
    """The directories in which groups may have been made."""
    return sorted({parent for _, parents in _candidates(proc) for parent in parents.values()})


def reap_groups(proc: Path = Path("/proc/self")) -> list[str]:
    """Remove empty groups of owners that are gone; their paths."""
    found = [directory for place in group_places(proc) for directory in place.glob("gagar-*")]
    return [str(one) for one in found if is_orphaned_name(one.name) and _remove(one)]


async def _readable(file: int) -> None:
    """Wait until something can be read, or the other end is closed."""
    loop = asyncio.get_running_loop()
    is_ready: asyncio.Future[None] = loop.create_future()

    def tell() -> None:
        if not is_ready.done():
            is_ready.set_result(None)

    loop.add_reader(file, tell)
    try:
        await is_ready
    finally:
        loop.remove_reader(file)


def _candidates(proc: Path) -> Iterator[tuple[int, dict[str, Path]]]:
    """Directories in which a group could be made, by version and controller."""
    try:
        memberships = [line.split(":", 2) for line in (proc / "cgroup").read_text().splitlines()]
        mounts = (proc / "mountinfo").read_text().splitlines()
    except OSError:
        return
    first: dict[str, Path] = {}
    for mount in mounts:
        before, _, after = mount.partition(" - ")
        root, point = before.split()[3:5]
        kind, *_, options = after.split()
        for _, names, path in memberships:
            own = Path(point, path.removeprefix(root.rstrip("/")).lstrip("/"))
            if kind == "cgroup" and set(names.split(",")) & set(options.split(",")) & set(CONTROLLERS):
                first |= {name: own for name in names.split(",") if name in CONTROLLERS}
            elif kind == "cgroup2" and not names:
                # Beside us: a group with processes of its own cannot hand controllers down, save the root.
                for parent in (own.parent, own) if own != Path(point) else (own,):
                    handed_down = _read_words(parent / "cgroup.subtree_control")
                    yield 2, {name: parent for name in CONTROLLERS if name in handed_down}
    yield 1, {name: first[name] for name in CONTROLLERS if name in first}


def _works(version: int, controller: str, parent: Path) -> bool:
    try:
        # Nothing has been in it, so that there is nothing to wait for.
        GroupMaker(version, {controller: parent}).make(SandboxLimits()).is_removed()
    except (OSError, KeyError):
        return False
    return True


def _write(file: Path, value: str) -> None:
    if file.name.startswith("?"):
        with contextlib.suppress(OSError):
            file.with_name(file.name[1:]).write_text(value)
    else:
        file.write_text(value)


def _remove(directory: Path) -> bool:
    """Whether it is gone."""
    try:
        directory.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _read_words(file: Path) -> list[str]:
    try:
        return file.read_text().split()
    except OSError:
        return []
