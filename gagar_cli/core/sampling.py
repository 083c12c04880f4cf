"""Which tasks and attempts an audit looks at: drawn by a seed and the names alone; and equal shares of unequal lists.

The order of a dump, and what else is in it, do not matter: adding a task changes at most the tasks that it displaces.
"""

import hashlib
import random
from collections.abc import Iterable, Sequence
from itertools import combinations, product
from math import comb, prod
from typing import TypeVar

One = TypeVar("One")
_MAX_CHOICES = 5_000


def draw(names: Iterable[str], n: int | None, *, seed: int, salt: str = "") -> list[str]:
    """At most `n` of the names (all for None), in their drawn order.

    >>> draw(["a", "b", "c"], 2, seed=1) == draw(["c", "b", "a"], 2, seed=1)
    True
    """

    def place(name: str) -> bytes:
        text = "\x1f".join((str(seed), salt, name))
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()

    return sorted(set(names), key=place)[:n]


def is_drawn(name: str, share: float, *, salt: str) -> bool:
    """Whether a name belongs to a share of all names, by the name alone.

    >>> is_drawn("a", 1.0, salt=""), is_drawn("a", 0.0, salt="")
    (True, False)
    """
    digest = hashlib.sha256(f"{salt}\x1f{name}".encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8]) < share * 2**64


def choose_of_each(lists: Sequence[Sequence[One]], size: int) -> list[tuple[tuple[One, ...], ...]]:
    """All ways to take `size` of each list, or many of them where they are too many.

    >>> choose_of_each(["ab", "c"], 1)
    [(('a',), ('c',)), (('b',), ('c',))]
    """
    if prod(comb(len(one), size) for one in lists) <= _MAX_CHOICES:
        return list(product(*(combinations(one, size) for one in lists)))
    generator = random.Random(0)  # noqa: S311 - a draw that repeats
    return [tuple(tuple(generator.sample(one, size)) for one in lists) for _ in range(_MAX_CHOICES)]
