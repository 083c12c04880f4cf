"""Groups that arrive trajectory by trajectory: which of them are whole, by count, by mark or by quiet.

Time comes in as a number of seconds. A group is told once as whole, in the order in which that came about; what
arrives for it afterwards is told by `add`.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from gagar_cli.core.schema import GroupKey


@dataclass(slots=True)
class _Arriving:
    trajectory_ids: set[str] = field(default_factory=set)
    last_seconds: float = 0.0


class Arrivals:
    """Keeps the groups that are not whole yet."""

    def __init__(self, group_size: int | None = None, quiet_seconds: float | None = None) -> None:
        """`group_size` distinct trajectories, or `quiet_seconds` without a new one, make a group whole."""
        self._group_size = group_size
        self._quiet_seconds = quiet_seconds
        self._arriving: dict[GroupKey, _Arriving] = {}
        self._ready: dict[GroupKey, None] = {}
        """Whole by count or mark and not told yet, in that order."""
        self._told: set[GroupKey] = set()

    @property
    def n_waiting(self) -> int:
        """Groups of which something is there, and that were not told as whole."""
        return len(self._arriving)

    def add(self, key: GroupKey, trajectory_id: str, seconds: float) -> bool:
        """Take in one record; False where its group was told as whole before."""
        if key in self._told:
            return False
        group = self._arriving.setdefault(key, _Arriving())
        group.trajectory_ids.add(trajectory_id)
        group.last_seconds = seconds
        if self._group_size is not None and len(group.trajectory_ids) >= self._group_size:
            self._ready.setdefault(key)
        return True

    def mark(self, key: GroupKey) -> None:
        """The group's writer says that it is whole."""
        if key in self._arriving:
            self._ready.setdefault(key)

    def reopen(self, key: GroupKey) -> None:
        """Forget what arrived for a group, and that it was told as whole."""
        self._told.discard(key)
        self._ready.pop(key, None)
        self._arriving.pop(key, None)

    def is_open(self, key: GroupKey) -> bool:
        """Whether a group was not told as whole, or was reopened since."""
        return key not in self._told

    def take_whole(
        self,
        seconds: float,
        *,
        is_end: bool = False,
        is_awaited: Callable[[GroupKey], bool] = lambda _: False,
    ) -> Iterator[GroupKey]:
        """The groups that are whole by now, each told once; all of them at the end.

        Quiet means nothing for a group of which something is awaited that must come.
        """
        for key, group in self._arriving.items():
            is_quiet = self._quiet_seconds is not None and seconds - group.last_seconds >= self._quiet_seconds
            if is_end or (is_quiet and not is_awaited(key)):
                self._ready.setdefault(key)
        ready, self._ready = self._ready, {}
        for key in ready:
            del self._arriving[key]
            self._told.add(key)
            yield key
