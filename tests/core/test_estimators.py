import json
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gagar_cli.core.batches import Batch, Estimate
from gagar_cli.core.caps import Cap
from gagar_cli.core.double_double import DoubleDouble, FloatArray, from_fractions
from gagar_cli.core.estimators import Options
from gagar_cli.core.estimators import estimate as run_method
from gagar_cli.core.gagar import gagar

SHARED = Path(__file__).resolve().parents[2].parent / "shared"
CAPS: tuple[Cap, ...] = ("none", "paper", "bounded")
Row = tuple[Fraction, bool, Fraction | None]
"""Reward, whether it passed, factor."""


def fractions(*values: str) -> list[Fraction]:
    return [Fraction(value) for value in values]


def one_group(rows: list[Row], *, is_graded: bool = True, is_valid: list[bool] | None = None) -> Batch:
    factors = from_fractions([factor or Fraction(1) for _, _, factor in rows])
    return Batch(
        rewards=np.array([[float(reward) for reward, _, _ in rows]]),
        is_valid=np.array([is_valid or [True] * len(rows)]),
        is_passed=np.array([[passed for _, passed, _ in rows]]),
        is_graded=np.array([is_graded]),
        factors=DoubleDouble(factors.high[None, :], factors.low[None, :]),
    )


def binary_rows(factors: list[Fraction], n_failed: int) -> list[Row]:
    return [(Fraction(1), True, factor) for factor in factors] + [(Fraction(0), False, None)] * n_failed


def exact_base(rows: list[Row]) -> list[Fraction]:
    mean = sum((reward for reward, _, _ in rows), Fraction(0)) / len(rows)
    return [reward - mean for reward, _, _ in rows]


def exact_advantages(rows: list[Row], cap: Cap, limit: Fraction) -> list[Fraction]:
    """The formulas of METHODS in fractions, row by row."""
    base = exact_base(rows)
    paid = {i: factor for i, (_, passed, factor) in enumerate(rows) if passed and factor and base[i] > 0}
    if not paid:
        return base
    total = sum(base[i] for i in paid)
    mean_factor = sum(factor * base[i] for i, factor in paid.items()) / total
    multiplier, shift = 1 / mean_factor, Fraction(0)
    if cap == "bounded":
        shift = max(Fraction(0), (max(paid.values()) - limit * mean_factor) / (limit - 1))
        multiplier = 1 / (mean_factor + shift)
    if cap == "paper":
        multiplier = min(multiplier, limit)
    moved = [
        multiplier * (paid[i] + shift) * amount if i in paid else amount for i, amount in enumerate(base)
    ]
    if cap == "paper":
        moved = [Fraction(0) if rows[i][1] and base[i] < 0 else amount for i, amount in enumerate(moved)]
        mean = sum(moved, Fraction(0)) / len(moved)
        moved = [amount - mean for amount in moved]
    return moved


def ulps(computed: float, exact: Fraction) -> float:
    """How far a double is from a number, in units of that number's last place."""
    return float(abs(Fraction(computed) - exact) / Fraction(float(np.spacing(abs(float(exact))))))


SEED = binary_rows(fractions("1", "0.2"), 2)


@pytest.mark.parametrize(
    ("cap", "expected", "multiplier", "shift", "is_capped"),
    [
        ("none", [5 / 6, 1 / 6, -0.5, -0.5], 5 / 3, 0.0, False),
        ("paper", [0.775, 0.175, -0.475, -0.475], 1.5, 0.0, True),
        ("bounded", [0.75, 0.25, -0.5, -0.5], 1.25, 0.2, True),
    ],
)
def test_worked_example_of_the_paper(
    cap: Cap, expected: list[float], multiplier: float, shift: float, is_capped: bool
) -> None:
    estimate = gagar(one_group(SEED), cap)
    assert estimate.advantage.tolist() == [expected]
    assert estimate.multiplier.tolist() == [multiplier]
    assert estimate.factor_shift.tolist() == [shift]
    assert estimate.is_capped.tolist() == [is_capped]


def test_reward_equivalents_leave_failures_at_zero() -> None:
    assert gagar(one_group(SEED), "none").reward_equivalent.tolist() == [[4 / 3, 2 / 3, 0.0, 0.0]]
    assert gagar(one_group(SEED), "paper").reward_equivalent.tolist() == [[1.25, 0.65, 0.0, 0.0]]
    assert gagar(one_group(SEED), "bounded").reward_equivalent.tolist() == [[1.25, 0.75, 0.0, 0.0]]


def test_lone_t3_pass_keeps_its_advantage_unless_the_cap_is_literal() -> None:
    rows = binary_rows(fractions("0.2"), 7)
    assert gagar(one_group(rows), "none").advantage[0, 0] == 0.875
    assert gagar(one_group(rows), "bounded").advantage[0, 0] == 0.875
    assert gagar(one_group(rows), "paper").advantage[0, 0] == pytest.approx(0.3390625, abs=1e-15)


def test_multiplier_of_exactly_the_limit_is_not_capped() -> None:
    factors = fractions("1") + [Fraction("0.85") - Fraction("0.45") * Fraction(k, 7) for k in range(8)]
    rng = np.random.default_rng(1)
    for _ in range(200):
        shuffled = [factors[i] for i in rng.permutation(9)]
        estimate = gagar(one_group(binary_rows(shuffled, 7)), "paper")
        assert not estimate.is_capped[0]
        assert (estimate.advantage[0, 9:] == estimate.base[0, 9:]).all()


def test_invalid_rows_leave_the_mean_and_get_nothing() -> None:
    rows = [*SEED, (Fraction(7), True, Fraction(1))]
    estimate = gagar(one_group(rows, is_valid=[True] * 4 + [False]), "bounded")
    assert estimate.advantage[0, :4].tolist() == [0.75, 0.25, -0.5, -0.5]
    assert np.isnan([estimate.advantage[0, 4], estimate.base[0, 4], estimate.reward_equivalent[0, 4]]).all()


@pytest.mark.parametrize("cap", CAPS)
def test_ungraded_group_keeps_its_base(cap: Cap) -> None:
    estimate = gagar(one_group(SEED, is_graded=False), cap)
    assert estimate.advantage.tolist() == [[0.5, 0.5, -0.5, -0.5]]
    assert estimate.reward_equivalent.tolist() == [[1.0, 1.0, 0.0, 0.0]]
    assert np.isnan(estimate.multiplier[0])
    assert not estimate.is_capped[0]


@pytest.mark.parametrize("cap", ["none", "bounded"])
def test_pass_below_the_mean_is_left_alone(cap: Cap) -> None:
    rows = [
        (Fraction(1), True, Fraction(1)),
        (Fraction(3, 4), True, Fraction("0.2")),
        (Fraction(1, 8), True, Fraction("0.4")),
        (Fraction(0), False, None),
    ]
    estimate = gagar(one_group(rows), cap)
    assert estimate.advantage[0, 2:].tolist() == estimate.base[0, 2:].tolist()
    assert estimate.advantage[0, :2].sum() == pytest.approx(estimate.base[0, :2].sum(), abs=1e-15)
    assert estimate.reward_equivalent[0, 2:].tolist() == [0.125, 0.0]


def test_group_without_a_valid_row_gives_only_nan() -> None:
    estimate = gagar(one_group(SEED, is_valid=[False] * 4))
    assert np.isnan(estimate.advantage).all()
    assert np.isnan(estimate.multiplier).all()


def test_dr_grpo_looks_at_no_factor() -> None:
    estimate = run_method("dr-grpo", one_group(SEED))
    assert estimate.advantage.tolist() == [[0.5, 0.5, -0.5, -0.5]]
    assert not estimate.is_capped.any()


@pytest.mark.parametrize(("cap", "limit"), [("bounded", 1.0), ("bounded", float("nan")), ("tight", 1.5)])
def test_unknown_cap_or_useless_limit_is_refused(cap: Cap, limit: float) -> None:
    with pytest.raises(ValueError, match="expected one of none, paper, bounded"):
        gagar(one_group(SEED), cap, limit)


FACTORS = st.sampled_from(fractions("1", "0.9", "0.85", "0.775", "0.625", "0.475", "0.4", "0.2"))
LIMITS = st.sampled_from([1.125, 1.5, 2.0])


@st.composite
def binary_groups(draw: st.DrawFn) -> list[Row]:
    return binary_rows(draw(st.lists(FACTORS, min_size=1, max_size=12)), draw(st.integers(1, 12)))


@st.composite
def graded_rewards(draw: st.DrawFn) -> list[Row]:
    """Passing rewards in sixty-fourths, so that fractions and doubles are the same numbers."""
    passing = draw(st.lists(st.tuples(st.integers(1, 64), FACTORS), min_size=1, max_size=8))
    rows: list[Row] = [(Fraction(reward, 64), True, factor) for reward, factor in passing]
    return rows + [(Fraction(0), False, None)] * draw(st.integers(1, 8))


groups = binary_groups() | graded_rewards()


@given(groups, st.sampled_from(CAPS), LIMITS)
def test_advantages_are_the_exact_ones_rounded_once(rows: list[Row], cap: Cap, limit: float) -> None:
    expected = exact_advantages(rows, cap, Fraction(limit))
    computed = gagar(one_group(rows), cap, limit).advantage[0]
    # The tolerance of the cap's test leaves groups alone that are this near to the limit.
    assert all(ulps(c, e) <= 0.501 for c, e in zip(computed.tolist(), expected, strict=True))


@given(groups, st.sampled_from(["none", "bounded"]), LIMITS)
def test_pass_sum_is_kept_and_every_other_row_is_untouched(rows: list[Row], cap: Cap, limit: float) -> None:
    estimate = gagar(one_group(rows), cap, limit)
    is_paid = np.array([[passed for _, passed, _ in rows]]) & (estimate.base > 0)
    assert estimate.advantage[is_paid].sum() == pytest.approx(estimate.base[is_paid].sum(), abs=1e-14)
    assert (estimate.advantage[~is_paid] == estimate.base[~is_paid]).all()


@given(binary_groups(), st.sampled_from(CAPS), LIMITS)
def test_better_factor_means_strictly_more_advantage(rows: list[Row], cap: Cap, limit: float) -> None:
    advantage = gagar(one_group(rows), cap, limit).advantage[0]
    ranked = sorted(
        ((factor, got) for (_, passed, factor), got in zip(rows, advantage, strict=True) if passed and factor)
    )
    for (worse, less), (better, more) in pairwise(ranked):
        assert less == more if worse == better else less < more
    assert min(got for _, got in ranked) > 0


@given(groups, LIMITS)
def test_bounded_cap_amplifies_by_at_most_the_limit(rows: list[Row], limit: float) -> None:
    estimate = gagar(one_group(rows), "bounded", limit)
    assert (np.abs(estimate.advantage) <= limit * np.abs(estimate.base) * (1 + 1e-11)).all()


@given(groups, st.sampled_from(CAPS), st.randoms(use_true_random=False))
def test_shuffling_a_group_shuffles_its_result(rows: list[Row], cap: Cap, random: object) -> None:
    order = list(range(len(rows)))
    random.shuffle(order)  # type: ignore[attr-defined]
    straight = gagar(one_group(rows), cap).advantage[0]
    shuffled = gagar(one_group([rows[i] for i in order]), cap).advantage[0]
    assert shuffled.tolist() == straight[order].tolist()


@given(groups, FACTORS, st.sampled_from(["none", "bounded"]))
def test_equal_factors_change_no_bit(rows: list[Row], factor: Fraction, cap: Cap) -> None:
    uniform: list[Row] = [(reward, passed, factor if passed else None) for reward, passed, _ in rows]
    estimate = gagar(one_group(uniform), cap)
    assert estimate.advantage.tolist() == estimate.base.tolist()
    assert not estimate.is_capped[0]


@given(groups, st.sampled_from(CAPS))
def test_reward_equivalents_less_their_mean_are_the_advantages(rows: list[Row], cap: Cap) -> None:
    estimate = gagar(one_group(rows), cap)
    centred = estimate.reward_equivalent - estimate.reward_equivalent.mean()
    assert centred == pytest.approx(estimate.advantage, abs=1e-14)


@given(st.floats(-1e6, 1e6), st.integers(1, 9))
def test_constant_group_has_no_advantage(reward: float, size: int) -> None:
    estimate = gagar(one_group([(Fraction(reward), True, Fraction(1))] * size))
    assert estimate.base.tolist() == [[0.0] * size]


def vector_groups() -> list[dict[str, object]]:
    path = SHARED / "vectors" / "vectors.json"
    return json.loads(path.read_text())["groups"] if path.is_file() else []


def factor_of(text: str | None) -> Fraction | None:
    return None if text is None else Fraction(text)


def batch_of(group: dict) -> tuple[Batch, dict]:  # type: ignore[type-arg]
    exact = group["gagar_exact"]
    rows: list[Row] = []
    factors = iter(exact.get("q") or [None] * len(exact["valid_index"]))
    for index in exact["valid_index"]:
        row = group["input"][index]
        is_violation = row["integrity_violation"]
        reward = Fraction(0) if is_violation else Fraction(str(row["reward"]))
        rows.append((reward, row["passed"] and not is_violation, factor_of(next(factors))))
    return one_group(rows, is_graded=group["graded"] and exact["status"] == "mixed"), exact


def assert_near(computed: FloatArray, exact: list[str], max_ulps: float) -> None:
    assert [ulps(c, Fraction(e)) <= max_ulps for c, e in zip(computed.tolist(), exact, strict=True)] == [
        True
    ] * len(exact)


@pytest.mark.shared
@pytest.mark.skipif(not vector_groups(), reason="the reference vectors are not beside this checkout")
@pytest.mark.parametrize("group", vector_groups(), ids=lambda group: group["id"])
def test_reference_vectors_are_met_to_half_a_unit(group: dict) -> None:  # type: ignore[type-arg]
    batch, exact = batch_of(group)
    if not batch.is_graded[0]:
        for cap in CAPS:
            assert_near(gagar(batch, cap).advantage[0], exact["initial"], 0.501)
        return
    is_binary = set(np.unique(batch.rewards)) <= {0.0, 1.0}
    # Rewards such as 0.9 are no doubles: the advantage carries their rounding besides its own.
    max_ulps = 0.501 if is_binary else 1.5
    bounded, paper = gagar(batch, "bounded"), gagar(batch, "paper")
    assert_near(bounded.base[0], exact["initial"], max_ulps)
    assert_near(bounded.advantage[0], exact["bounded_affine"], max_ulps)
    assert_near(bounded.factor_shift, [exact["bounded_affine_t"]], max_ulps)
    assert_near(paper.advantage[0], exact["capped_recentred"], max_ulps)
    assert_near(paper.multiplier, [exact["lam_used_capped"]], max_ulps)
    assert_near(paper.reward_equivalent[0], exact["reward_space_capped"], max_ulps)
    assert paper.is_capped[0] == exact["cap_binds"]
    if is_binary:  # below-mean passes are left alone by `none`; the vectors recentre them away
        free = gagar(batch, "none")
        assert_near(free.advantage[0], exact["sum_preserving"], max_ulps)
        assert_near(free.multiplier, [exact["lam"]], max_ulps)
        assert_near(free.reward_equivalent[0], exact["reward_space_sum_preserving"], max_ulps)


def test_groups_of_a_batch_do_not_touch_each_other() -> None:
    first, second = SEED, binary_rows(fractions("0.9", "0.85", "0.2"), 1)
    together = Batch(
        *(
            np.concatenate(parts)
            for parts in zip(*(fields_of(one_group(rows)) for rows in (first, second)), strict=True)
        ),
        factors=DoubleDouble(
            *(
                np.concatenate(parts)
                for parts in zip(one_group(first).factors, one_group(second).factors, strict=True)
            )
        ),
    )
    both: Estimate = gagar(together, "paper")
    assert both.advantage[0].tolist() == gagar(one_group(first), "paper").advantage[0].tolist()
    assert both.advantage[1].tolist() == gagar(one_group(second), "paper").advantage[0].tolist()


def fields_of(batch: Batch) -> tuple[np.ndarray, ...]:  # type: ignore[type-arg]
    return batch.rewards, batch.is_valid, batch.is_passed, batch.is_graded


def test_no_rewards_stand_for_a_paper_cap_that_moves_only_the_eligible() -> None:
    """λ = 5/3 is cut: the eligible rows lose what the other keeps, and no mean is subtracted from all of them."""
    batch = one_group(binary_rows(fractions("1", "0.2"), 2))
    partly = replace(batch, is_eligible=np.array([[True, True, True, False]]))
    paper = run_method("gagar", partly, Options(cap="paper"))
    assert paper.advantage.tolist() == [[0.775, 0.175, -0.475, -0.5]]
    assert np.isnan(paper.reward_equivalent).all()
    kept = run_method("gagar", partly, Options(cap="bounded"))
    assert kept.reward_equivalent.tolist() == [[1.25, 0.75, 0.0, 0.0]]
    whole = run_method("gagar", batch, Options(cap="paper"))
    assert whole.reward_equivalent.tolist() == [[1.25, 0.65, 0.0, 0.0]]
