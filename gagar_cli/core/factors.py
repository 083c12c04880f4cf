"""Tier tables: from a candidate's tier and rank to its quality factor q in (0, 1].

A table is six numbers, written in TOML; `flash` is the paper's published one (METHODS 1.3). Ranks are made dense within
each tier of each group first: ties share a place, gaps are closed, and only passing candidates may be given.
"""

import re
import tomllib
from dataclasses import dataclass, fields
from decimal import Decimal
from difflib import get_close_matches
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gagar_cli.core.double_double import DoubleDouble, from_fractions
from gagar_cli.core.ranking import TIERS
from gagar_cli.core.text import escape_untrusted, shorten
from gagar_cli.errors import InputError


@dataclass(frozen=True, slots=True)
class TierTable:
    """The factors of the tiers, in descending order where they are compared."""

    t1_first: Fraction
    """Every member of the best tie of T1."""
    t1_others: Fraction
    """Every other T1, whatever its place."""
    t2_best: Fraction
    """The first place of T2; the places below step evenly down to `t2_worst`."""
    t2_worst: Fraction
    t2_lone: Fraction
    """T2 when all of it shares one place."""
    t3: Fraction

    def __post_init__(self) -> None:
        """Refuse a table whose factors leave (0, 1] or rank a lower tier above a higher one."""
        for name in FACTOR_NAMES:
            if not 0 < getattr(self, name) <= 1:
                raise ValueError(
                    f"{name} is {float(getattr(self, name)):g}, expected more than 0 and at most 1"
                )
        descending = ("t1_first", "t1_others", "t2_best", "t2_lone", "t2_worst", "t3")
        for upper, lower in pairwise(descending):
            if getattr(self, lower) > getattr(self, upper):
                limit = f"at most {upper} ({float(getattr(self, upper)):g})"
                raise ValueError(f"{lower} is {float(getattr(self, lower)):g}, expected {limit}")

    def factor(self, tier: str, place: int, n_places: int) -> Fraction:
        """The factor of the 0-based `place` among `n_places` tied groups of a tier.

        >>> BUILT_IN["flash"].factor("T2", 1, 3)
        Fraction(5, 8)
        """
        if tier == "T1":
            return self.t1_first if place == 0 else self.t1_others
        if tier == "T3":
            return self.t3
        if n_places == 1:
            return self.t2_lone
        return self.t2_best - (self.t2_best - self.t2_worst) * Fraction(place, n_places - 1)


FACTOR_NAMES = tuple(entry.name for entry in fields(TierTable))

BUILT_IN = {
    "flash": TierTable(
        t1_first=Fraction("1.0"),
        t1_others=Fraction("0.9"),
        t2_best=Fraction("0.85"),
        t2_worst=Fraction("0.4"),
        t2_lone=Fraction("0.85"),
        t3=Fraction("0.2"),
    )
}


def parse_tier_table(text: str, path: str) -> TierTable:
    """The table of a TOML text: the six factors, nothing else; `path` is for messages.

    Raises:
        InputError: no TOML, an unknown or missing key, a value out of range or out of order.
    """
    try:
        values = tomllib.loads(text, parse_float=Decimal)
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"at line (\d+)", str(error))
        place = f"{path}:{line[1]}" if line else path
        raise InputError(f"{place}: not TOML: {escape_untrusted(str(error), keep_newlines=False)}") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not TOML: {escape_untrusted(str(error), keep_newlines=False)}") from error
    for name in values:
        if name not in FACTOR_NAMES:
            nearest = get_close_matches(name, FACTOR_NAMES, n=1, cutoff=0.0)[0]
            shown = shorten(escape_untrusted(name, keep_newlines=False), 80)
            hint = f"the keys are {', '.join(FACTOR_NAMES)}"
            raise InputError(
                f"{_locate(text, path, name)}: unknown key {shown}, the nearest is {nearest}", hint
            )
    missing = [name for name in FACTOR_NAMES if name not in values]
    if missing:
        raise InputError(f"{path}: {missing[0]} is missing", f"a tier table has {', '.join(FACTOR_NAMES)}")
    factors = {name: _parse_factor(values[name], name, _locate(text, path, name)) for name in FACTOR_NAMES}
    try:
        return TierTable(**factors)
    except ValueError as error:
        raise InputError(f"{_locate(text, path, str(error).split()[0])}: {error}") from error


class Places(NamedTuple):
    """Where each candidate stands among the tied groups of its tier."""

    tier: NDArray[np.integer]
    """Index into `TIERS`."""
    place: NDArray[np.int64]
    """0-based: ties share it, and there are no gaps."""
    n_places: NDArray[np.int64]
    """Tied groups of the candidate's tier in its group."""


def dense_places(group: NDArray[np.integer], tier: NDArray[np.integer], rank: NDArray[np.integer]) -> Places:
    """Ranks with ties kept and gaps closed, per tier of each group.

    `group`, `tier`, `rank`: (n_candidates,) integers, in any order; a candidate appears once.
    """
    order = np.lexsort((rank, tier, group))
    opens_tier = _opens(group[order]) | _opens(tier[order])
    opens_place = opens_tier | _opens(rank[order])
    tier_number = np.cumsum(opens_tier) - 1
    places_so_far = np.cumsum(opens_place)
    place, n_places = np.empty((2, len(order)), dtype=np.int64)
    place[order] = places_so_far - places_so_far[opens_tier][tier_number]
    n_places[order] = np.bincount(tier_number[opens_place])[tier_number]
    return Places(tier, place, n_places)


def quality_factors(table: TierTable, places: Places) -> DoubleDouble:
    """The factor of every candidate, (n_candidates,), each correct to two doubles."""
    if not len(places.tier):
        return from_fractions([])
    # A table has few distinct factors however many candidates there are, so exact fractions cost nothing.
    stride = int(places.n_places.max()) + 1
    keys = (places.tier.astype(np.int64) * stride + places.n_places) * stride + places.place
    distinct, which = np.unique(keys, return_inverse=True)
    exact = from_fractions(
        [
            table.factor(TIERS[key // stride**2], key % stride, key // stride % stride)
            for key in distinct.tolist()
        ]
    )
    return DoubleDouble(exact.high[which], exact.low[which])


def _opens(values: NDArray[np.integer]) -> NDArray[np.bool_]:
    """Where a sorted array starts or changes."""
    opens = np.ones(len(values), dtype=bool)
    opens[1:] = values[1:] != values[:-1]
    return opens


def _parse_factor(value: object, name: str, place: str) -> Fraction:
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        shown = shorten(escape_untrusted(repr(value), keep_newlines=False), 80)
        raise InputError(f"{place}: {name} is {shown}, expected a number")
    # An exponent such as 1e-999999999 would make the fraction's integers as long as memory.
    if isinstance(value, Decimal) and not (value.is_finite() and -30 < value.adjusted() < 30):
        raise InputError(f"{place}: {name} is {value}, expected more than 0 and at most 1")
    return Fraction(value)


def _locate(text: str, path: str, name: str) -> str:
    """`path:line` of a key, or the path alone where it is not spelt out at the start of a line."""
    pattern = re.compile(rf"""\s*\[*\s*["']?{re.escape(name)}["']?\s*[=.\]]""")
    for number, line in enumerate(text.splitlines(), 1):
        if pattern.match(line):
            return f"{path}:{number}"
    return path
