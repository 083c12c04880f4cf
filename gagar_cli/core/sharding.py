"""Shards: a dump divided over machines that do not talk to each other, by a digest of each group's key.

Every machine reads the whole index and takes the groups that are its own. The division depends on nothing but the
key and the number of shards: not on the order of the dump, the machine or the Python that runs.
"""

import hashlib
import json
import re
from dataclasses import dataclass

from gagar_cli.core.schema import GroupKey
from gagar_cli.errors import UsageError

MAX_SHARDS = 100_000


@dataclass(frozen=True, slots=True)
class Shard:
    """The `number`-th of `n_shards`, counted from 1."""

    number: int
    n_shards: int

    def holds(self, key: GroupKey) -> bool:
        """Whether a group is this shard's.

        The first 8 bytes of SHA-256 over `[step,"group_id"]` as compact ASCII JSON, modulo the number of shards.

        >>> [Shard(number, 2).holds(GroupKey(None, "task-7")) for number in (1, 2)].count(True)
        1
        """
        text = json.dumps([key.step, key.group_id], separators=(",", ":"))
        digest = hashlib.sha256(text.encode()).digest()
        return int.from_bytes(digest[:8]) % self.n_shards == self.number - 1


def parse_shard(text: str) -> Shard:
    """The shard of a text such as `2/8`.

    >>> parse_shard("2/8")
    Shard(number=2, n_shards=8)

    Raises:
        UsageError: it is not of that form, or out of range.
    """
    found = re.fullmatch(r"([0-9]{1,6})/([0-9]{1,6})", text)
    if found is None:
        raise UsageError(f"--shard is {text[:40]!r}, expected I/N", "for example `--shard 1/4`, up to 4/4")
    number, n_shards = int(found[1]), int(found[2])
    if not 1 <= number <= n_shards <= MAX_SHARDS:
        raise UsageError(f"--shard is {text}, expected I from 1 to N, and N at most {MAX_SHARDS:,}")
    return Shard(number, n_shards)
