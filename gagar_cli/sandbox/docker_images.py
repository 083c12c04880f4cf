"""Repositories out of images, as read-only volumes that the sandboxes of one run share.

A checkout stands where the image has its repository, and hides it there. So the engine copies the repository into a
volume once, which is bound elsewhere as the base. The volume goes with the last sandbox that uses it.
"""

import threading
import uuid
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from gagar_cli.errors import SandboxError
from gagar_cli.sandbox.owner import current_owner

_REMOVAL_SECONDS = 120
_REMOVE_HISTORY = r"""
rm -rf -- "$1/.git" && [ ! -e "$1/.git" ] || exit 1
find "$1" -name .git -prune -exec rm -rf -- {} + 2>/dev/null || :
"""


class ImageTree(NamedTuple):
    """A repository's place."""

    image_id: str
    workdir: str


@dataclass(slots=True)
class _Copy:
    n_users: int = 0
    volume: str | None = None
    making: threading.Lock = field(default_factory=threading.Lock)


class ImageTrees:
    """The volumes of one engine that are in use. Safe to use from several threads; errors are the engine's own."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._copies: dict[ImageTree, _Copy] = {}
        self._lock = threading.Lock()

    def acquire(self, tree: ImageTree) -> str:
        """The volume with a copy of the tree; wants a `release`."""
        with self._lock:
            copy = self._copies.setdefault(tree, _Copy())
            copy.n_users += 1
        try:
            with copy.making:
                if copy.volume is None:
                    copy.volume = self._make(tree)
                return copy.volume
        except BaseException:
            self.release(tree)
            raise

    def release(self, tree: ImageTree) -> None:
        """Give back what `acquire` handed out."""
        with self._lock:
            copy = self._copies[tree]
            copy.n_users -= 1
            if copy.n_users:
                return
            del self._copies[tree]
        if copy.volume is not None:
            self._client.remove_volume(copy.volume)

    def _make(self, tree: ImageTree) -> str:
        """The engine fills a new volume with what the image has at its place when a container with it is created.

        That container then removes every `.git`: a benchmark's history may hold the answer, for the grader and for the
        candidate's own code.

        Raises:
            SandboxError: the history could not be removed.
        """
        labels = current_owner().labels()
        volume = f"gagar-{uuid.uuid4().hex}"
        self._client.create_volume(volume, labels=labels)
        host_config = {
            "Mounts": [{"Type": "volume", "Source": volume, "Target": tree.workdir}],
            "NetworkMode": "none",
            "LogConfig": {"Type": "none"},
            "ReadonlyRootfs": True,
            "CapDrop": ["ALL"],
            # The files may be anybody's.
            "CapAdd": ["DAC_OVERRIDE", "FOWNER"],
            "SecurityOpt": ["no-new-privileges"],
        }
        config = {
            "Image": tree.image_id,
            "Entrypoint": ["/bin/sh", "-c", _REMOVE_HISTORY, "sh", tree.workdir],
            "Cmd": [],
            "User": "0:0",
            "Labels": labels,
            "HostConfig": host_config,
        }
        container = self._client.create_container_from_config(config)["Id"]
        try:
            self._client.start(container)
            status = self._client.wait(container, timeout=_REMOVAL_SECONDS)["StatusCode"]
        except BaseException:
            self._client.remove_container(container, force=True)
            self._client.remove_volume(volume)
            raise
        self._client.remove_container(container, force=True)
        if status != 0:
            self._client.remove_volume(volume)
            raise SandboxError(
                f"the history in {tree.workdir} of the image could not be removed (exit {status})"
            )
        return volume
