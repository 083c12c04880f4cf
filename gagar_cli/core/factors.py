"""Tier tables: from a candidate's tier and rank to its quality factor q in (0, 1].

A table is six numbers and what ties count for, written in TOML; `flash` is the paper's published one (METHODS 1.3).
Ranks are made dense within each tier of each group first: ties share a place, gaps are closed, and only passing
candidates may be given.
"""

import re
import tomllib
from dataclasses import dataclass, fields
from decimal import Decimal
from difflib import get_close_matches
from fractions import Fraction
from itertools import pairwise
from typing import Literal, NamedTuple, cast, get_args

import numpy as np
from numpy.typing import NDArray

from gagar_cli.core.double_double import DoubleDouble, from_fractions
from gagar_cli.core.ranking import TIERS
from gagar_cli.core.text import escape_untrusted, shorten
from gagar_cli.errors import UsageError

Ties = Literal["dense", "competition", "average"]


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
    """T2 when all of it shares one place; with `ties` other than dense, when it has one member."""
    t3: Fraction
    ties: Ties = "dense"
    """How a tie in T2 counts for the places below it: as one place (`dense`, the paper's), as many places as it has
    members and the best of them for each (`competition`), or their mean (`average`)."""

    def __post_init__(self) -> None:
        """Refuse a table whose factors leave (0, 1] or rank a lower tier above a higher one."""
        if self.ties not in get_args(Ties):
            raise ValueError(f"ties is {self.ties!r}, expected {_TIES}")
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

    def factor(self, tier: str, place: int | Fraction, n_places: int) -> Fraction:
        """The factor of the 0-based `place` among `n_places` of a tier.

        >>> BUILT_IN["flash"].factor("T2", 1, 3)
        Fraction(5, 8)
        """
        if tier == "T1":
            return self.t1_first if place == 0 else self.t1_others
        if tier == "T3":
            return self.t3
        if n_places == 1:
            return self.t2_lone
        return self.t2_best - (self.t2_best - self.t2_worst) * Fraction(place) / (n_places - 1)


KEYS = tuple(entry.name for entry in fields(TierTable))
FACTOR_NAMES = tuple(name for name in KEYS if name != "ties")
_TIES = f"one of {', '.join(get_args(Ties))}"


def _table(*factors: str) -> TierTable:
    first, others, best, worst, lone, third = map(Fraction, factors)
    return TierTable(first, others, best, worst, lone, third)


BUILT_IN = {
    "flash": _table("1.0", "0.9", "0.85", "0.4", "0.85", "0.2"),
    "gentle": _table("1.0", "0.95", "0.9", "0.7", "0.9", "0.5"),
    "strict": _table("1.0", "0.8", "0.7", "0.2", "0.7", "0.05"),
    "none": _table("1", "1", "1", "1", "1", "1"),
}
"""`flash` is the paper's; `gentle` and `strict` are half and about twice as far from 1; `none` moves nothing."""


def parse_tier_table(text: str, path: str) -> TierTable:
    """The table of a TOML text: the six factors, and `ties` where it is not dense; `path` is for messages.

    Raises:
        UsageError: no TOML, an unknown or missing key, a value out of range or out of order.
    """
    try:
        values = tomllib.loads(text, parse_float=Decimal)
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"at line (\d+)", str(error))
        place = f"{path}:{line[1]}" if line else path
        raise UsageError(f"{place}: not TOML: {escape_untrusted(str(error), keep_newlines=False)}") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: not TOML: {escape_untrusted(str(error), keep_newlines=False)}") from error
    for name in values:
        if name not in KEYS:
            nearest = get_close_matches(name, KEYS, n=1, cutoff=0.0)[0]
            shown = shorten(escape_untrusted(name, keep_newlines=False), 80)
            hint = f"the keys are {', '.join(KEYS)}"
            raise UsageError(
                f"{_locate(text, path, name)}: unknown key {shown}, the nearest is {nearest}", hint
            )
    missing = [name for name in FACTOR_NAMES if name not in values]
    if missing:
        raise UsageError(f"{path}: {missing[0]} is missing", f"a tier table has {', '.join(FACTOR_NAMES)}")
    factors = {name: _parse_factor(values[name], name, _locate(text, path, name)) for name in FACTOR_NAMES}
    ties = values.get("ties", "dense")
    if ties not in get_args(Ties):
        shown = shorten(escape_untrusted(repr(ties), keep_newlines=False), 80)
        raise UsageError(f"{_locate(text, path, 'ties')}: ties is {shown}, expected {_TIES}")
    try:
        return TierTable(**factors, ties=cast("Ties", ties))
    except ValueError as error:
        raise UsageError(f"{_locate(text, path, str(error).split()[0])}: {error}") from error


class Places(NamedTuple):
    """Where each candidate stands in its tier."""

    tier: NDArray[np.integer]
    """Index into `TIERS`."""
    place: NDArray[np.int64]
    """0-based: ties share it, and there are no gaps."""
    n_places: NDArray[np.int64]
    """Tied groups of the candidate's tier in its group."""
    twice_position: NDArray[np.int64]
    """Twice the 0-based position that the tie policy gives; the mean of a tie's positions may be a half."""
    n_positions: NDArray[np.int64]


def dense_places(
    group: NDArray[np.integer], tier: NDArray[np.integer], rank: NDArray[np.integer], ties: Ties = "dense"
) -> Places:
    """Ranks with ties kept and gaps closed, per tier of each group.

    `group`, `tier`, `rank`: (n_candidates,) integers, in any order; a candidate appears once.
    """
    order = np.lexsort((rank, tier, group))
    opens_tier = _opens(group[order]) | _opens(tier[order])
    opens_place = opens_tier | _opens(rank[order])
    tier_number = np.cumsum(opens_tier) - 1
    place_number = np.cumsum(opens_place) - 1
    place, n_places, twice_position, n_positions = np.empty((4, len(order)), dtype=np.int64)
    place[order] = place_number - place_number[opens_tier][tier_number]
    n_places[order] = np.bincount(tier_number[opens_place])[tier_number]
    if ties == "dense":
        return Places(tier, place, n_places, 2 * place, n_places)
    first_of_tier, first_of_place = np.flatnonzero(opens_tier), np.flatnonzero(opens_place)
    n_better = first_of_place[place_number] - first_of_tier[tier_number]
    n_tied = np.bincount(place_number)[place_number]
    twice_position[order] = 2 * n_better + (n_tied - 1 if ties == "average" else 0)
    n_positions[order] = np.bincount(tier_number)[tier_number]
    return Places(tier, place, n_places, twice_position, n_positions)


def quality_factors(table: TierTable, places: Places) -> DoubleDouble:
    """The factor of every candidate, (n_candidates,), each correct to two doubles."""
    if not len(places.tier):
        return from_fractions([])
    # T1 and T3 know the first place and the others only, whatever ties count for.
    is_stepped = places.tier == TIERS.index("T2")
    twice = np.where(is_stepped, places.twice_position, 2 * places.place)
    length = np.where(is_stepped, places.n_positions, places.n_places)
    # A table has few distinct factors however many candidates there are, so exact fractions cost nothing.
    stride = 2 * int(length.max()) + 1
    keys = (places.tier.astype(np.int64) * stride + length) * stride + twice
    distinct, which = np.unique(keys, return_inverse=True)
    exact = from_fractions(
        [
            table.factor(TIERS[key // stride**2], Fraction(key % stride, 2), key // stride % stride)
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
        raise UsageError(f"{place}: {name} is {shown}, expected a number")
    # An exponent such as 1e-999999999 would make the fraction's integers as long as memory.
    if isinstance(value, Decimal) and not (value.is_finite() and -30 < value.adjusted() < 30):
        raise UsageError(f"{place}: {name} is {value}, expected more than 0 and at most 1")
    return Fraction(value)


def _locate(text: str, path: str, name: str) -> str:
    """`path:line` of a key, or the path alone where it is not spelt out at the start of a line."""
    pattern = re.compile(rf"""\s*\[*\s*["']?{re.escape(name)}["']?\s*[=.\]]""")
    for number, line in enumerate(text.splitlines(), 1):
        if pattern.match(line):
            return f"{path}:{number}"
    return path
