from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gagar_cli.core.estimators import Options
from gagar_cli.core.judging import GRADINGS, Trajectories, Verdicts, judge_groups
from gagar_cli.core.redistribution import redistribute
from gagar_cli.core.tier_tables import BUILT_IN

ROWS = st.tuples(
    st.integers(0, 4),  # group
    st.booleans(),  # valid
    st.booleans(),  # passed
    st.integers(-1, 2),  # tier
    st.integers(0, 3),  # rank
    st.integers(0, 9),  # a violation where 0
)
Row = tuple[int, bool, bool, int, int, int]


def trajectories(rows: list[Row]) -> Trajectories:
    is_valid = np.array([valid for _, valid, *_ in rows], dtype=bool)
    is_passed = np.array([valid and passed for _, valid, passed, *_ in rows], dtype=bool)
    return Trajectories(
        group=np.array([group for group, *_ in rows], dtype=np.int64),
        reward=np.where(is_valid, is_passed.astype(float), np.nan),
        is_valid=is_valid,
        is_passed=is_passed,
        tier=np.array([row[3] for row in rows], dtype=np.int8),
        rank=np.array([row[4] for row in rows], dtype=np.int64),
        is_violation=is_passed & np.array([row[5] == 0 for row in rows], dtype=bool),
    )


def verdicts(is_ranked: list[bool]) -> Verdicts:
    nothing = np.full(len(is_ranked), None, dtype=np.object_)
    return Verdicts(np.array(is_ranked), nothing, nothing)


def advantages(rows: list[Row], is_ranked: list[bool]) -> list[float]:
    table = BUILT_IN["flash"]
    judged = judge_groups(trajectories(rows), verdicts(is_ranked))
    made = redistribute(trajectories(rows), judged, table, "gagar", Options())
    return made.columns.advantage.tolist()


@given(st.lists(ROWS, max_size=40), st.lists(st.booleans(), min_size=5, max_size=5))
def test_groups_in_one_dump_are_as_if_each_were_alone(rows: list[Row], is_ranked: list[bool]) -> None:
    together = advantages(rows, is_ranked)
    for code in range(5):
        alone = advantages([row for row in rows if row[0] == code], is_ranked)
        np.testing.assert_array_equal(
            alone, [got for got, row in zip(together, rows, strict=True) if row[0] == code]
        )


@given(st.lists(ROWS, max_size=40), st.lists(st.booleans(), min_size=5, max_size=5))
def test_every_group_that_is_not_graded_has_a_reason(rows: list[Row], is_ranked: list[bool]) -> None:
    judged = judge_groups(trajectories(rows), verdicts(is_ranked))
    is_graded = judged.status == GRADINGS.index("graded")
    assert [reason is None for reason in judged.reason] == is_graded.tolist()
    assert not (is_graded & ~np.array(is_ranked)).any()


@given(st.lists(ROWS, min_size=1, max_size=40))
def test_valid_rows_have_advantages_that_sum_to_zero_in_each_group(rows: list[Row]) -> None:
    values = np.array(advantages(rows, [True] * 5))
    subject = trajectories(rows)
    assert (np.isnan(values) == ~subject.is_valid).all()
    sums = np.bincount(subject.group, weights=np.nan_to_num(values))
    assert np.abs(sums).max() < 1e-14


def test_effects_are_measured_against_the_base() -> None:
    rows: list[Row] = [
        (0, True, True, 0, 1, 9),
        (0, True, True, 2, 1, 9),
        (0, True, False, -1, 0, 9),
        (0, True, False, -1, 0, 9),
    ]
    subject = trajectories(rows)
    judged = judge_groups(subject, verdicts([True]))
    _, effects, paper, *_ = redistribute(subject, judged, BUILT_IN["flash"], "gagar", Options(cap="none"))
    assert paper is not None
    assert (effects.n_capped, effects.n_changed_groups, effects.n_changed_failures) == (0, 1, 0)
    assert (paper.n_capped, paper.n_changed_groups, paper.n_changed_failures) == (1, 1, 2)
    assert (effects.max_amplification, paper.max_amplification) == (5 / 3, 1.55)


def test_batches_may_be_taken_in_any_order_and_at_once() -> None:
    """9,000 groups of sizes 1 to 9: many batches, and the columns of one after another are the reference."""
    draw = np.random.default_rng(5)
    sizes = draw.integers(1, 10, 9000)
    group = draw.permutation(np.repeat(np.arange(9000), sizes))
    rows = [
        (int(code), bool(row[0]), bool(row[1]), int(row[2]) % 3, int(row[2]), int(row[3]))
        for code, row in zip(group, draw.integers(0, (2, 2, 4, 10), (len(group), 4)), strict=True)
    ]
    subject = trajectories(rows)
    judged = judge_groups(subject, verdicts([True] * 9000))

    def backwards(take: Callable[[Any], Any], batches: Iterable[Any]) -> list[Any]:
        return [take(batch) for batch in reversed(list(batches))]

    with ThreadPoolExecutor(4) as pool:
        made = [
            redistribute(subject, judged, BUILT_IN["flash"], "gagar", Options(), is_checked=True, run=run)
            for run in (map, backwards, pool.map)
        ]
    for other in made[1:]:
        for name in (
            "advantage",
            "quality_factor",
            "tier",
            "rank",
            "multiplier",
            "factor_shift",
            "is_capped",
        ):
            np.testing.assert_array_equal(getattr(other.columns, name), getattr(made[0].columns, name))
        assert (other.effects, other.paper_effects) == (made[0].effects, made[0].paper_effects)
        assert other.breaches == made[0].breaches
