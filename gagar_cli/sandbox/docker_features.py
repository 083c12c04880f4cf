"""What an engine can do of a container's description, and what may be left out where it cannot.

Engines that speak docker's API (podman above all) refuse some options. Comforts may go, with a warning: the `init`
process, the number of files of a scratch file system. Its owner is said in podman's words where docker's are refused.
Everything else is asked for as it is, and an engine that refuses it makes no sandbox.
"""

from dataclasses import dataclass, replace
from typing import Self


@dataclass(frozen=True, slots=True)
class EngineFeatures:
    """How containers are described to one engine."""

    own_filter: bool = False
    """Bring our own system call filter: the engine's is too old."""
    runtime: str | None = None
    """What runs containers there; None: the engine's default."""
    has_init: bool = True
    has_owner_by_number: bool = True
    """Owners of scratch space are said by number; else as podman does, by a letter."""
    has_inode_limit: bool = True
    states_all_limits: bool = False
    """Name a limit of processes for each user too, as the engine's own may be more than it is allowed to give."""

    @property
    def lost(self) -> dict[str, str]:
        """Attacks of `promises.py` that are not held for want of an option, each with what is true instead."""
        return (
            {}
            if self.has_inode_limit
            else {"9": "the engine takes no limit of files: only their size is held"}
        )

    def without_refused(self, complaint: str) -> tuple[Self, str | None] | None:
        """The features without what an engine's complaint is about, and what is lost; None where nothing may go.

        >>> EngineFeatures(has_init=False).without_refused("catatonit is missing") is None
        True
        """
        words = complaint.lower()
        if self.has_init and ("catatonit" in words or "container-init" in words or "docker-init" in words):
            return replace(self, has_init=False), "the engine has no init program: ended children stay listed"
        if self.has_inode_limit and "nr_inodes" in words:
            lacking = "the engine takes no limit of files: only the size of scratch space is held"
            return replace(self, has_inode_limit=False), lacking
        if self.has_owner_by_number and ("uid=" in words or "gid=" in words):
            return replace(self, has_owner_by_number=False), None
        return None
