"""Which tasks and attempts an audit looks at: drawn by a seed and the names alone.

The order of a dump, and what else is in it, do not matter: adding a task changes at most the tasks that it displaces.
"""

import hashlib
from collections.abc import Iterable


def draw(names: Iterable[str], n: int | None, *, seed: int, salt: str = "") -> list[str]:
    """At most `n` of the names (all for None), in their drawn order.

    >>> draw(["a", "b", "c"], 2, seed=1) == draw(["c", "b", "a"], 2, seed=1)
    True
    """

    def place(name: str) -> bytes:
        text = "\x1f".join((str(seed), salt, name))
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()

    return sorted(set(names), key=place)[:n]
