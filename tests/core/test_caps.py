"""The caps against independent exact computations, and the properties that each of them claims."""

import json
import math
from dataclasses import replace
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gagar_cli.core.batches import Batch
from gagar_cli.core.caps import Cap
from gagar_cli.core.double_double import DoubleDouble, from_fractions
from gagar_cli.core.estimators import Options, estimate
from gagar_cli.core.gagar import downweight, gagar, gagar_reward

SHARED = Path(__file__).resolve().parents[2].parent / "shared"
CONSERVING: tuple[Cap, ...] = ("none", "bounded", "waterfill", "temper", "pass-recentre")
Row = tuple[Fraction, Fraction | None]
"""Reward, and the factor of a pass."""


def one_group(rows: list[Row]) -> Batch:
    factors = from_fractions([factor or Fraction(1) for _, factor in rows])
    return Batch(
        rewards=np.array([[float(reward) for reward, _ in rows]]),
        is_valid=np.ones((1, len(rows)), dtype=bool),
        is_passed=np.array([[factor is not None for _, factor in rows]]),
        is_graded=np.array([True]),
        factors=DoubleDouble(factors.high[None, :], factors.low[None, :]),
    )


def binary(*factors: str, failed: int) -> list[Row]:
    passes: list[Row] = [(Fraction(1), Fraction(factor)) for factor in factors]
    return passes + [(Fraction(0), None)] * failed


def exact_base(rows: list[Row]) -> list[Fraction]:
    mean = sum((reward for reward, _ in rows), Fraction(0)) / len(rows)
    return [reward - mean for reward, _ in rows]


def paid_passes(rows: list[Row]) -> list[tuple[int, Fraction, Fraction]]:
    """Position, A and q of the passes above the mean."""
    base = exact_base(rows)
    return [(i, base[i], factor) for i, (_, factor) in enumerate(rows) if factor and base[i] > 0]


def exact_waterfill(rows: list[Row], limit: Fraction) -> list[Fraction]:
    """METHODS 5A as it is written: sort by q, try every number of saturated passes."""
    paid = sorted(paid_passes(rows), key=lambda each: -each[2])
    total = sum((amount for _, amount, _ in paid), Fraction(0))
    moved = exact_base(rows)
    for n_full in range(len(paid)):
        rest = paid[n_full:]
        full = sum((amount for _, amount, _ in paid[:n_full]), Fraction(0))
        level = (total - limit * full) / sum(factor * amount for _, amount, factor in rest)
        if level * rest[0][2] <= limit:
            break
    for i, amount, factor in paid:
        moved[i] = min(limit, level * factor) * amount
    return moved


def exact_temper(rows: list[Row], limit: Fraction) -> list[Fraction]:
    """METHODS 5C by bisection of β with 36 digits."""
    with localcontext() as context:
        context.prec = 36
        paid = [(i, a, Decimal(q.numerator) / Decimal(q.denominator)) for i, a, q in paid_passes(rows)]
        amounts = {i: Decimal(a.numerator) / Decimal(a.denominator) for i, a, _ in paid}
        largest = max(q for _, _, q in paid)
        bound = Decimal(limit.numerator) / Decimal(limit.denominator)

        def top(exponent: Decimal) -> Decimal:
            weighted = sum(amounts[i] * (q / largest) ** exponent for i, _, q in paid)
            return sum(amounts.values(), Decimal(0)) / weighted

        low, high = Decimal(0), Decimal(1)
        if top(high) <= bound:
            low = high
        for _ in range(110):
            middle = (low + high) / 2
            low, high = (middle, high) if top(middle) <= bound else (low, middle)
        moved = exact_base(rows)
        for i, _, q in paid:
            moved[i] = Fraction(top(low) * (q / largest) ** low * amounts[i])
        return moved


def exact_pass_recentre(rows: list[Row], limit: Fraction) -> list[Fraction]:
    paid = paid_passes(rows)
    moved = exact_base(rows)
    if paid:
        mean = sum(q * a for _, a, q in paid) / sum(a for _, a, _ in paid)
        for i, amount, factor in paid:
            moved[i] = (1 + min(1 / mean, limit) * (factor - mean)) * amount
    return moved


EXACT = {"waterfill": exact_waterfill, "temper": exact_temper, "pass-recentre": exact_pass_recentre}
MAX_ULPS = 0.501
"""Rounded once: no double is nearer to the exact number, but for ties."""


def ulps(computed: float, exact: Fraction) -> float:
    return float(abs(Fraction(computed) - exact) / Fraction(float(np.spacing(abs(float(exact))))))


SEED = binary("1", "0.2", failed=2)


@pytest.mark.parametrize(
    ("cap", "expected", "multiplier", "shift"),
    [
        pytest.param("waterfill", [0.75, 0.25], 2.5, 0.0, id="waterfill"),
        pytest.param("temper", [0.75, 0.25], 1.5, 0.0, id="temper"),  # 0.2^β = 1/3
        pytest.param("pass-recentre", [0.8, 0.2], 1.5, 1 / 15, id="pass-recentre"),
    ],
)
def test_worked_example(cap: Cap, expected: list[float], multiplier: float, shift: float) -> None:
    made = gagar(one_group(SEED), cap)
    assert made.advantage[0].tolist() == pytest.approx([*expected, -0.5, -0.5], abs=2e-16)
    assert made.multiplier[0] == pytest.approx(multiplier, abs=1e-15)
    assert made.factor_shift[0] == pytest.approx(shift, abs=1e-16)
    assert made.is_capped[0]


def test_tempered_vector_of_three_tiers() -> None:
    """A is 3/8: the top gets 1.5 of it, the five together 15/8, and both steps down are the same power of q."""
    top, middle, *low = gagar(
        one_group(binary("1", "0.625", "0.2", "0.2", "0.2", failed=3)), "temper"
    ).advantage[0, :5]
    assert (top, middle) == (pytest.approx(0.5625, abs=1e-15), pytest.approx(0.4606990009953879, abs=1e-15))
    assert low == [pytest.approx(0.2839336663348707, abs=1e-15)] * 3
    assert top + middle + sum(low) == pytest.approx(1.875, abs=1e-15)
    assert math.log(middle / top) / math.log(0.625) == pytest.approx(
        math.log(low[0] / top) / math.log(0.2), abs=1e-14
    )


@pytest.mark.parametrize("cap", CONSERVING)
def test_lone_t3_pass_and_uniform_factors_keep_their_bits(cap: Cap) -> None:
    for rows in (binary("0.2", failed=7), binary("0.2", "0.2", "0.2", failed=3)):
        made = gagar(one_group(rows), cap)
        assert made.advantage.tolist() == made.base.tolist()
        assert not made.is_capped[0]


def test_lone_t3_pass_loses_most_of_its_advantage_to_the_papers_cap() -> None:
    assert gagar(one_group(binary("0.2", failed=7)), "paper").advantage[0, 0] == 217 / 640


@pytest.mark.parametrize("cap", [*CONSERVING, "paper"])
def test_rewards_that_differ_by_rounding_alone_stay_finite_and_conserved(cap: Cap) -> None:
    rows: list[Row] = [
        (Fraction(0.1 + 0.2), Fraction(1)),
        (Fraction(0.3), Fraction(1, 5)),
        (Fraction(0.3), None),
    ]
    made = gagar(one_group(rows), cap)
    assert np.abs(made.advantage).max() < 1e-15
    assert np.abs(made.advantage.sum()) < 1e-30


FACTORS = st.sampled_from(
    [Fraction(text) for text in ("1", "0.9", "0.85", "0.775", "0.625", "0.4", "0.2", "0.01")]
)
LIMITS = st.sampled_from([1.0625, 1.5, 2.0, 8.0])


@st.composite
def groups(draw: st.DrawFn) -> list[Row]:
    """Rewards of passes are 1, or in sixty-fourths so that fractions and doubles are the same numbers."""
    rewards = draw(st.sampled_from([st.just(64), st.integers(1, 64)]))
    passes = draw(st.lists(st.tuples(rewards, FACTORS), min_size=1, max_size=12))
    rows: list[Row] = [(Fraction(reward, 64), factor) for reward, factor in passes]
    return rows + [(Fraction(0), None)] * draw(st.integers(1, 8))


@settings(deadline=None, max_examples=60)
@given(groups(), st.sampled_from(sorted(EXACT)), LIMITS)
def test_advantages_are_the_exact_ones(rows: list[Row], cap: Cap, limit: float) -> None:
    assume(paid_passes(rows))
    computed = gagar(one_group(rows), cap, limit).advantage[0].tolist()
    expected = EXACT[cap](rows, Fraction(limit))
    assert max(ulps(c, e) for c, e in zip(computed, expected, strict=True)) <= MAX_ULPS


@given(groups(), st.sampled_from(CONSERVING), LIMITS)
def test_pass_sum_is_kept_and_every_other_row_is_untouched(rows: list[Row], cap: Cap, limit: float) -> None:
    made = gagar(one_group(rows), cap, limit)
    is_paid = np.zeros_like(made.base, dtype=bool)
    is_paid[0, [i for i, _, _ in paid_passes(rows)]] = True
    assert made.advantage[is_paid].sum() == pytest.approx(made.base[is_paid].sum(), abs=1e-14)
    assert (made.advantage[~is_paid] == made.base[~is_paid]).all()
    assert (made.advantage[is_paid] > 0).all()


@given(groups(), st.sampled_from(["bounded", "waterfill", "temper"]), LIMITS)
def test_no_pass_is_amplified_beyond_the_limit(rows: list[Row], cap: Cap, limit: float) -> None:
    made = gagar(one_group(rows), cap, limit)
    assert (np.abs(made.advantage) <= limit * np.abs(made.base) * (1 + 1e-11)).all()


@given(groups(), st.sampled_from(CONSERVING), LIMITS)
def test_better_factor_is_amplified_more(rows: list[Row], cap: Cap, limit: float) -> None:
    """Strictly, but for `waterfill`, where several may stand at the limit."""
    made = gagar(one_group(rows), cap, limit)
    paid = sorted((factor, made.advantage[0, i] / made.base[0, i]) for i, _, factor in paid_passes(rows))
    for (worse, less), (better, more) in pairwise(paid):
        if worse == better or cap == "waterfill":
            assert less <= more * (1 + 1e-12)
        else:
            assert less < more


@given(groups(), st.sampled_from(CONSERVING), st.randoms(use_true_random=False))
def test_shuffling_a_group_shuffles_its_result(rows: list[Row], cap: Cap, random: Any) -> None:
    order = list(range(len(rows)))
    random.shuffle(order)
    straight = gagar(one_group(rows), cap).advantage[0]
    shuffled = gagar(one_group([rows[i] for i in order]), cap).advantage[0]
    assert shuffled.tolist() == straight[order].tolist()


@given(groups(), st.sampled_from([*CONSERVING, "paper"]))
def test_reward_space_gives_the_same_advantages_to_a_trainer_that_centres(rows: list[Row], cap: Cap) -> None:
    direct, made = gagar(one_group(rows), cap), gagar_reward(one_group(rows), cap)
    assert made.advantage == pytest.approx(direct.advantage, abs=1e-14)
    centred = made.reward_equivalent - made.reward_equivalent.mean()
    assert made.advantage == pytest.approx(centred, abs=1e-15)


@given(groups())
def test_downweight_is_the_factor_times_the_base(rows: list[Row]) -> None:
    made = downweight(one_group(rows))
    exact = [(factor or 1) * amount for (_, factor), amount in zip(rows, exact_base(rows), strict=True)]
    assert max(ulps(c, e) for c, e in zip(made.advantage[0].tolist(), exact, strict=True)) <= 0.501


def test_downweight_has_no_reward_equivalent_where_it_moves_something() -> None:
    assert np.isnan(downweight(one_group(SEED)).reward_equivalent).all()
    assert downweight(one_group(binary("1", "1", failed=2))).reward_equivalent.tolist() == [[1, 1, 0, 0]]


def vector_groups() -> list[dict[str, Any]]:
    path = SHARED / "vectors" / "vectors.json"
    groups = json.loads(path.read_text())["groups"] if path.is_file() else []
    return [group for group in groups if group["graded"] and group["gagar_exact"]["status"] == "mixed"]


@pytest.mark.shared
@pytest.mark.skipif(not vector_groups(), reason="the reference vectors are not beside this checkout")
@pytest.mark.parametrize("group", vector_groups(), ids=lambda group: group["id"])
def test_reference_vectors_are_met(group: dict[str, Any]) -> None:
    exact = group["gagar_exact"]
    rows: list[Row] = []
    for index, factor in zip(exact["valid_index"], exact["q"], strict=True):
        row = group["input"][index]
        reward = Fraction(0) if row["integrity_violation"] else Fraction(str(row["reward"]))
        rows.append((reward, Fraction(factor) if factor else None))
    batch = one_group(rows)
    # Rewards such as 0.9 are no doubles: the advantage carries their rounding besides its own.
    max_ulps = 0.501 if {reward for reward, _ in rows} <= {0, 1} else 1.5

    def assert_met(computed: Any, name: str) -> None:
        pairs = zip(computed[0].tolist(), exact[name], strict=True)
        assert max(ulps(number, Fraction(text)) for number, text in pairs) <= max_ulps

    filled = gagar(batch, "waterfill")
    assert_met(filled.advantage, "bounded_waterfill")
    assert ulps(filled.multiplier[0], Fraction(exact["bounded_waterfill_tau"])) <= max_ulps
    assert_met(gagar(batch, "pass-recentre").advantage, "pass_side_recentre")
    assert_met(downweight(batch).advantage, "downweight_only")
    for name, cap in (("reward_space_sum_preserving", "none"), ("reward_space_capped", "paper")):
        if max_ulps < 1:  # below-mean passes are left alone by `none`; the vectors recentre them away
            assert_met(gagar_reward(batch, cap).reward_equivalent, name)  # type: ignore[arg-type]


def test_methods_are_run_with_their_own_options() -> None:
    made = estimate("gagar", one_group(SEED), Options(cap="pass-recentre", limit=1.25))
    assert made.multiplier[0] == 1.25
    assert estimate("dr-grpo", one_group(SEED), Options(cap="none")).advantage.tolist() == [
        [0.5, 0.5, -0.5, -0.5]
    ]


@pytest.mark.parametrize("cap", [*CONSERVING, "paper"])
def test_the_unit_of_rewards_does_not_matter_however_small_it_is(cap: Cap) -> None:
    """Factors of 1e-30 times advantages of 1e-295 are no doubles any more."""
    rows = [(Fraction(1), Fraction(1, 2)), (Fraction(1, 2), Fraction(1)), (Fraction(1), Fraction(1, 10**30))]
    batch = one_group([*rows, (Fraction(0), None), (Fraction(1, 4), None)])
    tiny = replace(batch, rewards=batch.rewards * 2.0**-980)
    assert gagar(tiny, cap).advantage.tolist() == (gagar(batch, cap).advantage * 2.0**-980).tolist()
    assert gagar(tiny, cap).multiplier.tolist() == gagar(batch, cap).multiplier.tolist()


@pytest.mark.parametrize("limit", [1.0, 1e7, math.inf, math.nan])
def test_a_limit_that_bounds_nothing_is_refused(limit: float) -> None:
    with pytest.raises(ValueError, match=r"expected one of .* a limit above 1, at most 1e\+06"):
        gagar(one_group(binary("1", "0.2", failed=2)), "bounded", limit)
