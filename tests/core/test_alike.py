from dataclasses import fields, replace
from fractions import Fraction

import numpy as np
import pytest

from gagar_cli.core.alike import (
    Kinds,
    describe_members,
    find_kinds,
    is_order_free,
    pass_sum_errors,
    tell_apart,
)
from gagar_cli.core.estimators import Options
from gagar_cli.core.judging import Judged, Trajectories, Verdicts, judge_groups
from gagar_cli.core.redistribution import redistribute
from gagar_cli.core.tier_tables import BUILT_IN, Flat, Linear, TierTable, Ties, TopRest

FLASH = BUILT_IN["flash"]
STEPPED = TierTable(
    Linear(Fraction(1), Fraction("0.97"), Fraction("0.9")),
    Flat(Fraction("0.9")),
    TopRest(Fraction("0.5"), Fraction(1, 7)),
)
N_EACH = 150


def make_rows(seed: int, *, has_outsiders: bool = False) -> Trajectories:
    """Groups of 3, 8 and 17 in any order, with invalid members, violations and passes that are not ranked."""
    rng = np.random.default_rng(seed)
    sizes = np.repeat([3, 8, 17], N_EACH)
    group = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    n_rows = len(group)
    is_valid = rng.random(n_rows) < 0.95
    is_passed = is_valid & (rng.random(n_rows) < 0.5)
    is_placed = is_passed & (rng.random(n_rows) < 0.99)
    return Trajectories(
        group=group,
        reward=np.where(is_valid, is_passed, np.nan),
        is_valid=is_valid,
        is_passed=is_passed,
        tier=np.where(is_placed, rng.integers(0, 3, n_rows), -1).astype(np.int8),
        rank=np.where(is_placed, rng.integers(0, 6, n_rows), -1),
        is_violation=is_passed & (rng.random(n_rows) < 0.02),
        is_eligible=rng.random(n_rows) < 0.9 if has_outsiders else None,
    )


def judge(rows: Trajectories) -> Judged:
    n_groups = int(rows.group.max()) + 1
    nothing = np.full(n_groups, None, dtype=np.object_)
    return judge_groups(rows, Verdicts(np.arange(n_groups) % 9 > 0, nothing, nothing))


def kinds_of(tiers: str, ranks: str, table: TierTable = FLASH, n_graded: int = 150) -> Kinds:
    """Of many groups of 4: one failure, and passes of these tiers and ranks, in another order each."""
    rng = np.random.default_rng(5)
    n_groups, size = 150, len(tiers.split()[0]) + 1
    tier, rank = [], []
    for number in range(n_groups):
        order = rng.permutation(size)
        named = number % len(tiers.split())
        tier += np.array([-1, *map(int, tiers.split()[named])])[order].tolist()
        rank += np.array([-1, *map(int, ranks.split()[named])])[order].tolist()
    is_passed = np.array(tier) >= 0
    rows = Trajectories(
        group=np.repeat(np.arange(n_groups), size),
        reward=is_passed.astype(float),
        is_valid=np.ones_like(is_passed),
        is_passed=is_passed,
        tier=np.array(tier, dtype=np.int8),
        rank=np.array(rank),
        is_violation=np.zeros_like(is_passed),
    )
    nothing = np.full(n_groups, None, dtype=np.object_)
    described = describe_members(
        rows, judge_groups(rows, Verdicts(np.ones(n_groups, bool), nothing, nothing))
    )
    assert described is not None
    order = np.arange(n_groups * size, dtype=np.uint32).reshape(-1, size)
    kinds = find_kinds(described, order, np.arange(n_groups) < n_graded, table)
    assert kinds is not None
    return kinds


CASES = [
    ("gagar", Options(cap="none")),
    ("gagar", Options(cap="paper")),
    ("gagar", Options(cap="bounded")),
    ("gagar", Options(cap="waterfill")),
    ("gagar", Options(cap="temper")),
    ("gagar", Options(cap="pass-recentre")),
    ("gagar", Options(limit=1.25)),
    ("gagar", Options(limit=1.1)),
    ("gagar-reward", Options()),
    ("gagar-reward", Options(cap="paper", limit=2.0)),
    ("downweight", Options()),
    ("dr-grpo", Options()),
    ("grpo", Options()),
    ("rloo", Options()),
]


@pytest.mark.parametrize(("method", "options"), CASES)
@pytest.mark.parametrize(
    ("table", "ties"), [(FLASH, "dense"), (FLASH, "average"), (STEPPED, "competition")], ids=str
)
def test_groups_worked_out_once_a_kind_come_out_bit_for_bit_as_one_by_one(
    method: str, options: Options, table: TierTable, ties: Ties
) -> None:
    """With the invariants checked, every group is worked out by itself, in the order in which it is given."""
    for seed, is_sampled in enumerate((False, True)):
        rows = make_rows(seed, has_outsiders=is_sampled)
        judged, ruled = judge(rows), replace(table, ties=ties)
        made = redistribute(rows, judged, ruled, method, options, is_sampled=is_sampled)
        one_by_one = redistribute(
            rows, judged, ruled, method, options, is_sampled=is_sampled, is_checked=True
        )
        for column in fields(made.columns):
            got, expected = (getattr(each.columns, column.name) for each in (made, one_by_one))
            assert got.dtype == expected.dtype
            assert got.tobytes() == expected.tobytes(), column.name
        assert made.effects == one_by_one.effects
        assert made.paper_effects == one_by_one.paper_effects


def test_members_in_another_order_are_the_same_kind() -> None:
    kinds = kinds_of("012 112", "000 010")
    assert len(kinds.first) == 2
    np.testing.assert_array_equal(np.sort(kinds.n_alike), [75, 75])
    np.testing.assert_array_equal(kinds.which, np.arange(150) % 2 ^ kinds.which[0])


@pytest.mark.parametrize(
    ("tiers", "ranks", "table", "n_kinds"),
    [
        pytest.param("000 000", "012 011", FLASH, 1, id="a place below the first"),
        pytest.param("000 000", "011 001", FLASH, 2, id="more in the first place"),
        pytest.param("222 222", "012 000", FLASH, 1, id="a tier of one factor"),
        pytest.param("111 111", "012 011", FLASH, 2, id="a tier in steps"),
        pytest.param("111 111", "157 012", FLASH, 1, id="gaps between ranks"),
        pytest.param("000 000", "012 011", STEPPED, 2, id="another table's steps"),
    ],
)
def test_kinds_differ_where_factors_do(tiers: str, ranks: str, table: TierTable, n_kinds: int) -> None:
    assert len(kinds_of(tiers, ranks, table).first) == n_kinds


def test_ranks_are_those_of_each_group_even_where_factors_are_one() -> None:
    kinds = kinds_of("222 222", "157 111")
    by_group = np.sort(kinds.ranks, axis=1)
    np.testing.assert_array_equal(by_group[::2], np.tile([0, 1, 2, 3], (75, 1)))
    np.testing.assert_array_equal(by_group[1::2], np.tile([0, 1, 1, 1], (75, 1)))


def test_groups_that_are_not_graded_are_another_kind() -> None:
    kinds = kinds_of("012", "000", n_graded=60)
    np.testing.assert_array_equal(np.sort(kinds.n_alike), [60, 90])


def test_groups_that_share_a_hash_by_chance_are_kinds_of_their_own() -> None:
    codes = np.array([[1, 1, 1, 2], [7, 8, 7, 7]], dtype=np.uint8)
    first, which = tell_apart(codes, np.zeros(4, dtype=np.uint64))
    np.testing.assert_array_equal(codes[:, first[which]], codes)
    np.testing.assert_array_equal(first, [0, 1, 3])


@pytest.mark.parametrize(
    ("method", "options", "table", "size", "is_free"),
    [
        pytest.param("gagar", Options(), FLASH, 128, True, id="published"),
        pytest.param("gagar", Options(limit=1.1), FLASH, 8, False, id="limit of 53 bits"),
        pytest.param("gagar", Options(cap="temper"), FLASH, 8, False, id="powers"),
        pytest.param("grpo", Options(limit=1.1), FLASH, 8, True, id="a limit that is not used"),
        pytest.param("grpo", Options(leave_one_out=True), FLASH, 8, False, id="sums of doubles"),
        pytest.param("papo", Options(), FLASH, 8, False, id="process scores"),
        pytest.param(
            "gagar", Options(), replace(FLASH, t3=Flat(Fraction("0.123456789"))), 8, False, id="long factor"
        ),
    ],
)
def test_order_is_told_to_matter_where_it_might(
    method: str, options: Options, table: TierTable, size: int, is_free: bool
) -> None:
    assert is_order_free(method, options, table, size) is is_free


@pytest.mark.parametrize("reward", [0.5, -0.0, 1.0])
def test_rewards_other_than_0_for_failures_are_left_to_be_worked_out(reward: float) -> None:
    rows = make_rows(1)
    assert describe_members(rows, judge(rows)) is not None
    failure = np.flatnonzero(rows.is_valid & ~rows.is_passed)[0]
    rows.reward[failure] = reward
    assert describe_members(rows, judge(rows)) is None


def test_ranks_beyond_all_bounds_are_left_to_be_worked_out() -> None:
    rows = make_rows(1)
    rows.rank[np.flatnonzero(rows.rank >= 0)[0]] = 2**29
    assert describe_members(rows, judge(rows)) is None


@pytest.mark.parametrize(("n_groups", "size"), [(127, 4), (128, 129)], ids=["few", "large"])
def test_few_and_large_groups_are_not_compared(n_groups: int, size: int) -> None:
    described = describe_members(rows := make_rows(1), judge(rows))
    assert described is not None
    order = np.zeros((n_groups, size), dtype=np.uint32)
    assert find_kinds(described, order, np.ones(n_groups, dtype=bool), FLASH) is None


def test_drift_is_summed_in_the_given_order() -> None:
    """1e16 + 1 − 1e16 is 0, 1e16 − 1e16 + 1 is 1."""
    kinds = Kinds(
        members=np.arange(6, dtype=np.uint32).reshape(2, 3),
        position=np.array([[0, 1, 2], [0, 2, 1]], dtype=np.uint8),
        ranks=np.zeros((2, 3), dtype=np.uint8),
        first=np.array([0]),
        which=np.array([0, 0]),
    )
    base = np.zeros((1, 3))
    moved = np.array([[1e16, 1.0, -1e16]])
    is_pass = np.ones((1, 3), dtype=bool)
    assert pass_sum_errors(kinds, is_pass, base, [moved, np.full((1, 3), np.nan)]) == [1.0, 0.0]
