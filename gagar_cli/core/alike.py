"""Groups that differ in nothing but the order of their members: one of each kind is worked out, the others are like it.

For rewards of 0 and 1, where `is_order_free` holds: the others' last bit may hang on the order of a sum. A million groups
of 16 with three tiers are some ten thousand kinds.
"""

from collections.abc import Callable, Iterable, Iterator
from math import lcm
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gagar_cli.core.batches import BoolArray, IntArray
from gagar_cli.core.caps import PAPER_LIMIT
from gagar_cli.core.double_double import FloatArray
from gagar_cli.core.estimators import METHODS, Options
from gagar_cli.core.judging import Judged, Trajectories
from gagar_cli.core.tier_tables import Flat, Linear, TierTable, TopRest

Run = Callable[..., Iterable[Any]]
"""Applies a function to many arguments, like `map`, in any order or at once."""

_N_ROLE_BITS = 3
_FIRST_RANKED = 5
"""Roles: 0 invalid, 1 and 2 failures, 3 and 4 passes without a rank, each outside and eligible; from 5 on, the tiers."""
_MAX_RANK_BITS = 32 - _N_ROLE_BITS
_MAX_SIZE = 128
"""Members of larger groups are lined up one by one, and hardly two such groups are alike."""
_MIN_GROUPS = 128
"""Fewer of one size are worked out sooner than they are compared."""
_PART_CELLS = 2**16
_EXACT = 2**40
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
"""Any odd number whose bits are mixed."""


class Members(NamedTuple):
    """Role and rank of every trajectory in one number each: `role << n_rank_bits | rank`."""

    keys: NDArray[np.unsignedinteger]
    n_rank_bits: int


class Kinds(NamedTuple):
    """The groups of one size by kind, the members of each group in an order that its kind shares."""

    members: NDArray[np.uint32]
    """(n_groups, size) positions of the trajectories."""
    position: NDArray[np.unsignedinteger]
    """(n_groups, size) where each of them stands in the given order of its group."""
    ranks: NDArray[np.unsignedinteger]
    """(n_groups, size) 1-based in the tier, ties shared, gaps closed; 0 where there is none. Those of a kind may differ."""
    first: IntArray
    """(n_kinds,) a group of each kind."""
    which: IntArray
    """(n_groups,) the kind of each."""

    @property
    def n_alike(self) -> IntArray:
        """(n_kinds,) how many groups there are of each."""
        return np.bincount(self.which, minlength=len(self.first))


def is_order_free(method: str, options: Options, table: TierTable, size: int) -> bool:
    """Whether no bit of what the method makes of rewards of 0 and 1 hangs on the order of a group of that size.

    All that it rounds to a double is a fraction of whole numbers below `_EXACT` then. None of them is the middle of two
    neighbouring doubles, which takes 54 bits, or nearer to one than 2**-94 of it; double-doubles err by 2**-100. What
    `gagar-reward` sums are doubles already: that is exact in two of them.
    """
    of_method = METHODS[method]
    has_sums_of_doubles = "leave_one_out" in of_method.options and options.leave_one_out
    has_powers = "cap" in of_method.options and options.cap == "temper"
    if not set(of_method.needs) <= {"factors"} or has_sums_of_doubles or has_powers:
        return False
    unit: int = lcm(*(factor.denominator for _, factor in table.named_factors()))
    n_stepped = sum(isinstance(rule, Linear) for rule in table.rules)
    unit *= (2 * size) ** n_stepped
    limits = (PAPER_LIMIT, *([options.limit] if "limit" in of_method.options else []))
    largest = max(part for limit in limits for part in limit.as_integer_ratio())
    return 4 * size**2 * unit * largest <= _EXACT


def describe_members(rows: Trajectories, judged: Judged, run: Run = map) -> Members | None:
    """What tells the members of a group apart; None where rewards are not 0 and 1, or ranks pass all bounds."""
    if not _is_binary(rows, judged):
        return None
    n_rank_bits = int(rows.rank.max(initial=0)).bit_length()
    if n_rank_bits > _MAX_RANK_BITS:
        return None
    is_short = _N_ROLE_BITS + n_rank_bits <= 16
    keys: NDArray[np.unsignedinteger] = np.empty(len(rows.group), dtype=np.uint16 if is_short else np.uint32)

    def fill(part: slice) -> bool:
        is_passed = judged.is_passed[part]
        is_eligible = np.True_ if rows.is_eligible is None else rows.is_eligible[part]
        is_ranked = is_passed & is_eligible & judged.is_ordered[rows.group[part]]
        role = 1 + 2 * is_passed.view(np.int8) + is_eligible.astype(np.int8)
        role = np.where(is_ranked, _FIRST_RANKED + rows.tier[part], role) * rows.is_valid[part]
        rank = rows.rank[part]
        keys[part] = role.astype(keys.dtype) << n_rank_bits
        keys[part] |= np.where(is_ranked, rank, 0).astype(keys.dtype)
        return not (is_ranked & (rank < 0)).any()

    return Members(keys, n_rank_bits) if all(list(run(fill, _parts(len(keys), 1)))) else None


def _is_binary(rows: Trajectories, judged: Judged) -> bool:
    """Whether the reward of every valid trajectory is 1 if it passed, else 0, and no 0 is negative."""
    is_told = (judged.reward == judged.is_passed) & ~np.signbit(judged.reward)
    return bool((is_told | ~rows.is_valid).all())


def find_kinds(
    described: Members,
    order: NDArray[np.uint32],
    is_graded: BoolArray,
    table: TierTable,
    run: Run = map,
) -> Kinds | None:
    """The kinds of groups of one size; None where it does not pay to look for them.

    `order`: (n_groups, size) positions of the trajectories; `is_graded`: (n_groups,).
    """
    n_groups, size = order.shape
    if size > _MAX_SIZE or n_groups < _MIN_GROUPS:
        return None
    dtype = np.uint8 if (size << _N_ROLE_BITS) <= 2**8 else np.uint16
    members = np.empty_like(order)
    position, ranks = np.empty((2, n_groups, size), dtype=np.uint8)
    codes = np.empty((size + 1, n_groups), dtype=dtype)
    codes[0] = is_graded
    n_told = _places_that_count(table, size).astype(dtype)

    def line_up(part: slice) -> None:
        members[part], position[part], keys = _in_shared_order(described, order[part])
        role = keys >> described.n_rank_bits
        place = _dense_places(keys, role)
        ranks[part] = ((place + 1) * (role >= _FIRST_RANKED)).T
        told = np.minimum(place, n_told[role])
        codes[1:, part] = (told << _N_ROLE_BITS) | role.astype(dtype)

    list(run(line_up, _parts(n_groups, size)))
    return Kinds(members, position, ranks, *tell_apart(codes, _hashes(codes)))


def _places_that_count(table: TierTable, size: int) -> IntArray:
    """By role, from which place of a tier on all have one factor; one of as many as there are in steps."""
    of_rule = {Flat: 0, TopRest: 1}
    return np.array([0] * _FIRST_RANKED + [of_rule.get(type(rule), size) for rule in table.rules])


def _in_shared_order(
    described: Members, order: NDArray[np.uint32]
) -> tuple[NDArray[np.uint32], NDArray[np.integer], NDArray[np.integer]]:
    """The members of each group by role and rank, where they stood before, and their keys by column."""
    n_groups, size = order.shape
    n_bits = (size - 1).bit_length()
    is_short = _N_ROLE_BITS + described.n_rank_bits + n_bits <= 32
    # One number a member, so that no sort has to carry a second array along.
    packed: NDArray[np.unsignedinteger] = described.keys[order].astype(np.uint32 if is_short else np.uint64)
    packed <<= n_bits
    packed |= np.arange(size, dtype=packed.dtype)
    packed.sort(axis=1)
    position = packed & ((1 << n_bits) - 1)
    members = order.ravel()[np.arange(n_groups)[:, None] * size + position.astype(np.int64)]
    # By column, as few long steps take less time than many short ones.
    return members, position, np.ascontiguousarray((packed >> n_bits).T)


def _dense_places(keys: NDArray[np.integer], role: NDArray[np.integer]) -> NDArray[np.uint8]:
    """(size, n_groups) 0-based places in the tier of sorted keys: ties share one, and there are no gaps."""
    place = np.zeros(keys.shape, dtype=np.uint8)
    opens = keys[1:] != keys[:-1]
    is_same_tier = role[1:] == role[:-1]
    for column in range(1, len(keys)):
        place[column] = (place[column - 1] + opens[column - 1]) * is_same_tier[column - 1]
    return place


def _hashes(codes: NDArray[np.unsignedinteger]) -> NDArray[np.uint64]:
    hashes = np.zeros(codes.shape[1], dtype=np.uint64)
    for each in codes:
        hashes *= _MULTIPLIER
        hashes += each
    return hashes


def tell_apart(codes: NDArray[np.unsignedinteger], hashes: NDArray[np.uint64]) -> tuple[IntArray, IntArray]:
    """A group of each kind, and the kind of each group; `codes`: (size, n_groups).

    Groups that share a hash with another kind are kinds of their own: that costs time, no more.
    """
    _, first, which = np.unique(hashes, return_index=True, return_inverse=True)
    is_like = np.ones(len(which), dtype=bool)
    for each in codes:
        is_like &= each == each[first][which]
    others = np.flatnonzero(~is_like)
    which[others] = len(first) + np.arange(len(others))
    return np.concatenate((first, others)), which


def share_out(
    kinds: Kinds, columns: Iterable[NDArray[Any]], ranks: IntArray, is_graded: BoolArray, run: Run = map
) -> None:
    """What the first group of a kind has in `columns`, by trajectory, the others get; `ranks` are everyone's own."""
    firsts = kinds.members[kinds.first]
    tables = [(values, values[firsts]) for values in columns]

    def fill(part: slice) -> None:
        members, which = kinds.members[part].astype(np.int64), kinds.which[part]
        for values, table in tables:
            values[members] = table[which]
        own = kinds.ranks[part]
        ranks[members] = np.where((own > 0) & is_graded[part, None], own, ranks.dtype.type(-1))

    list(run(fill, _parts(*kinds.members.shape)))


def pass_sum_errors(
    kinds: Kinds, is_pass: BoolArray, base: FloatArray, advantages: list[FloatArray], run: Run = map
) -> list[float]:
    """The largest |Σ passes' advantage − Σ passes' base| of a group for each of the advantages, summed in the given order.

    All are (n_kinds, size). Who has no advantage has moved nothing.
    """
    tables = [np.where(is_pass, np.where(np.isnan(each), base, each), 0.0) for each in (base, *advantages)]

    def measure(part: slice) -> list[float]:
        which, position = kinds.which[part], kinds.position[part]
        n_groups, size = position.shape
        spots = np.arange(n_groups)[:, None] * size + position
        given = np.empty((n_groups, size))
        sums = []
        for table in tables:
            given.ravel()[spots] = table[which]
            sums.append(given.sum(axis=1))
        return [float(np.abs(each - sums[0]).max(initial=0.0)) for each in sums[1:]]

    return [max(each) for each in zip(*run(measure, _parts(*kinds.members.shape)), strict=True)]


def _parts(n_groups: int, size: int) -> Iterator[slice]:
    n_at_once = max(1, _PART_CELLS // size)
    return (slice(start, min(start + n_at_once, n_groups)) for start in range(0, n_groups, n_at_once))
