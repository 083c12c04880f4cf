"""Rank agreement: how far two orders of the same things agree, where both may have ties.

Kendall's τ-b is 1 for the same order, −1 for the opposite one, 0 on average by chance. Pairs that are tied in one order
count neither for nor against, and the scale is corrected for them; an order that ties everything has no τ-b.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from statistics import fmean


def kendall_tau_b(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Kendall's τ-b of two lists of ranks or scores, place by place; None where one of them is all ties.

    Raises:
        ValueError: the lists differ in length.

    >>> kendall_tau_b([1, 2, 3], [1, 2, 3])
    1.0
    >>> round(kendall_tau_b([1, 2, 2, 3], [1, 3, 2, 4]), 6)
    0.912871
    """
    balance = n_untied_first = n_untied_second = 0
    for (a, x), (b, y) in combinations(zip(first, second, strict=True), 2):
        sign_first, sign_second = (a > b) - (a < b), (x > y) - (x < y)
        balance += sign_first * sign_second
        n_untied_first += sign_first != 0
        n_untied_second += sign_second != 0
    if not n_untied_first or not n_untied_second:
        return None
    return balance / math.sqrt(n_untied_first * n_untied_second)


def places(order: Mapping[str, tuple[float, ...]]) -> dict[str, float]:
    """The 1-based place of each name by its sort key, smallest first; ties share the mean of their places.

    >>> places({"a": (2,), "b": (1,), "c": (2,)})
    {'a': 2.5, 'b': 1.0, 'c': 2.5}
    """
    keys = sorted(order.values())
    first = {key: number for number, key in reversed(list(enumerate(keys, 1)))}
    return {name: first[key] + (keys.count(key) - 1) / 2 for name, key in order.items()}


def mean_pairwise_tau(orders: Sequence[Mapping[str, float]]) -> float | None:
    """The mean τ-b over all pairs of orders, on the names that both hold; None where no pair has one."""
    taus = []
    for one, other in combinations(orders, 2):
        names = [name for name in one if name in other]
        taus.append(kendall_tau_b([one[name] for name in names], [other[name] for name in names]))
    known = [tau for tau in taus if tau is not None]
    return fmean(known) if known else None
