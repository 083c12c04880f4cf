"""Blind ids: who is who in a group is known to the code, never to the grader.

Candidates become `c01`, `c02`, … and references `f01`, …, in an order that depends on a key and the group but not on
the order of the dump: a grader's bias for a position averages out over groups, and the same run always shows the same.
"""

import hashlib
from collections.abc import Sequence

from gagar_cli.core.schema import GroupKey


def permute(trajectory_ids: Sequence[str], seed: int, key: GroupKey) -> list[str]:
    """The ids in the keyed order of this group.

    >>> sorted(permute(["a", "b", "c"], 0, GroupKey(None, "g")))
    ['a', 'b', 'c']
    """

    def place(trajectory_id: str) -> bytes:
        text = "\x1f".join((str(seed), str(key.step), key.group_id, trajectory_id))
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()

    return sorted(trajectory_ids, key=place)


def blind_ids(trajectory_ids: Sequence[str], seed: int, key: GroupKey, *, prefix: str) -> dict[str, str]:
    """Blind id to trajectory id, in blind order: `c01`, `c02`, …; three digits from a hundred on."""
    width = max(2, len(str(len(trajectory_ids))))
    ordered = permute(trajectory_ids, seed, key)
    return {f"{prefix}{number:0{width}d}": trajectory_id for number, trajectory_id in enumerate(ordered, 1)}
