"""Repositories out of images, as read-only volumes that the sandboxes of one run share.

A checkout stands where the image has its repository, and hides it there. So the engine copies the repository into a
volume once, which is bound elsewhere as the base. The volume goes with the last sandbox that uses it.
"""

import threading
import uuid
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from gagar_cli.sandbox.owner import current_owner


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
        """The engine fills a new volume with what the image has at its place, as soon as a container is created."""
        labels = current_owner().labels()
        volume = f"gagar-{uuid.uuid4().hex}"
        self._client.create_volume(volume, labels=labels)
        mount = {"Type": "volume", "Source": volume, "Target": tree.workdir}
        host_config = {"Mounts": [mount], "NetworkMode": "none", "LogConfig": {"Type": "none"}}
        config = {"Image": tree.image_id, "Entrypoint": ["cat"], "Labels": labels, "HostConfig": host_config}
        container = self._client.create_container_from_config(config)["Id"]
        self._client.remove_container(container, force=True)
        return volume
