import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gagar_cli.core.factors import dense_places, quality_factors
from gagar_cli.core.ranking import TIERS
from gagar_cli.core.tier_tables import BUILT_IN, Linear, Ties

SHARED = Path(__file__).resolve().parents[2].parent / "shared"


def factors(*candidates: tuple[str, int], group: list[int] | None = None) -> list[float]:
    codes = np.array(group or [0] * len(candidates))
    tier = np.array([TIERS.index(name) for name, _ in candidates])
    rank = np.array([rank for _, rank in candidates])
    return quality_factors(BUILT_IN["flash"], dense_places(codes, tier, rank)).high.tolist()


@pytest.mark.parametrize(
    ("candidates", "expected"),
    [
        pytest.param([("T1", 1), ("T1", 2), ("T1", 3)], [1.0, 0.9, 0.9], id="T1"),
        pytest.param([("T1", 1), ("T1", 1), ("T1", 2)], [1.0, 1.0, 0.9], id="T1-tie"),
        pytest.param([("T2", 1)], [0.85], id="lone-T2"),
        pytest.param([("T2", 1), ("T2", 1)], [0.85, 0.85], id="tied-T2"),
        pytest.param([("T2", 2), ("T2", 1), ("T2", 3)], [0.625, 0.85, 0.4], id="T2-steps"),
        pytest.param([("T2", 0), ("T2", 7), ("T2", 3)], [0.85, 0.4, 0.625], id="gaps-close"),
        pytest.param([("T2", 1), ("T2", 2), ("T2", 2)], [0.85, 0.4, 0.4], id="dense-ties"),
        pytest.param([("T3", 1), ("T3", 2)], [0.2, 0.2], id="T3"),
        pytest.param([("T1", 5), ("T2", 9), ("T3", 2)], [1.0, 0.85, 0.2], id="each-tier-has-its-own-ranks"),
        pytest.param([], [], id="none"),
    ],
)
def test_flash_factors(candidates: list[tuple[str, int]], expected: list[float]) -> None:
    assert factors(*candidates) == expected


def test_groups_have_their_own_ranks() -> None:
    assert factors(("T2", 1), ("T2", 2), ("T2", 2), ("T2", 3), group=[3, 1, 3, 1]) == [0.85, 0.85, 0.4, 0.4]


@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from(TIERS), st.integers(0, 5)), max_size=20))
def test_vectorised_factors_are_those_of_one_group_at_a_time(rows: list[tuple[int, str, int]]) -> None:
    expected = []
    for group, tier, rank in rows:
        ranks = sorted({r for g, t, r in rows if (g, t) == (group, tier)})
        expected.append(float(BUILT_IN["flash"].factor(tier, ranks.index(rank), len(ranks))))
    assert (
        factors(*((tier, rank) for _, tier, rank in rows), group=[group for group, _, _ in rows]) == expected
    )


def test_low_parts_hold_what_doubles_cannot() -> None:
    exact = quality_factors(BUILT_IN["flash"], dense_places(np.zeros(4, int), np.ones(4, int), np.arange(4)))
    for high, low, place in zip(exact.high.tolist(), exact.low.tolist(), range(4), strict=True):
        assert abs(Fraction(high) + Fraction(low) - (Fraction("0.85") - Fraction(9 * place, 60))) < Fraction(
            1, 2**100
        )


@pytest.mark.parametrize(
    ("ties", "expected"),
    [
        ("dense", [0.85, 0.4, 0.4, 1.0, 1.0, 0.9]),
        ("competition", [0.85, 0.625, 0.625, 1.0, 1.0, 0.9]),
        ("average", [0.85, 0.5125, 0.5125, 1.0, 1.0, 0.9]),
    ],
)
def test_ties_count_as_the_table_says(ties: Ties, expected: list[float]) -> None:
    table = replace(BUILT_IN["flash"], ties=ties)
    tier, rank = np.array([1, 1, 1, 0, 0, 0]), np.array([1, 2, 2, 3, 3, 7])
    assert quality_factors(table, dense_places(np.zeros(6, int), tier, rank, ties)).high.tolist() == expected


@pytest.mark.parametrize(("ties", "expected"), [("dense", 0.8), ("competition", 0.85), ("average", 0.625)])
def test_tier_of_one_tie_is_lone_only_where_ties_are_dense(ties: Ties, expected: float) -> None:
    steps = Linear(Fraction("0.85"), Fraction("0.8"), Fraction("0.4"))
    table = replace(BUILT_IN["flash"], t2=steps, ties=ties)
    tied = dense_places(np.zeros(3, int), np.ones(3, int), np.ones(3, int), ties)
    assert quality_factors(table, tied).high.tolist() == [expected] * 3
    alone = dense_places(np.zeros(1, int), np.ones(1, int), np.ones(1, int), ties)
    assert quality_factors(table, alone).high.tolist() == [0.8]


@pytest.mark.shared
@pytest.mark.skipif(
    not (SHARED / "vectors").is_dir(), reason="the reference vectors are not beside this checkout"
)
@pytest.mark.parametrize("ties", ["dense", "competition", "average"])
def test_tie_variants_of_the_reference_vectors(ties: Ties) -> None:
    n_met = 0
    for group in json.loads((SHARED / "vectors" / "vectors.json").read_text())["groups"]:
        variants = group["gagar_exact"].get("tie_variants")
        rows = [group["input"][i] for i in group["gagar_exact"]["valid_index"]]
        passing = [row for row in rows if row["passed"] and not row["integrity_violation"]]
        if variants and all(row["tier"] for row in passing):
            tier = np.array([TIERS.index(row["tier"]) for row in passing])
            rank = np.array([row["rank"] for row in passing])
            places = dense_places(np.zeros(len(rank), int), tier, rank, ties)
            made = quality_factors(replace(BUILT_IN["flash"], ties=ties), places).high.tolist()
            assert made == [float(Fraction(text)) for text in variants[ties] if text]
            n_met += 1
    assert n_met > 15


@pytest.mark.shared
@pytest.mark.skipif(
    not (SHARED / "vectors").is_dir(), reason="the reference vectors are not beside this checkout"
)
def test_factors_of_the_reference_vectors() -> None:
    for group in json.loads((SHARED / "vectors" / "vectors.json").read_text())["groups"]:
        exact = group["gagar_exact"]
        expected = [float(Fraction(q)) for q in exact.get("q", []) if q]
        rows = [group["input"][i] for i in exact["valid_index"]]
        passing = [row for row in rows if row["passed"] and not row["integrity_violation"]]
        if expected:
            assert factors(*((row["tier"], row["rank"]) for row in passing)) == expected


@given(
    st.lists(
        st.tuples(
            st.integers(0, 3), st.sampled_from(TIERS), st.sampled_from([0, 1, 2, 5, 2**40, 2**62, 2**63 - 1])
        ),
        max_size=12,
    )
)
def test_ranks_of_any_size_give_the_places_of_their_order(rows: list[tuple[int, str, int]]) -> None:
    known = sorted({rank for _, _, rank in rows})
    groups = [group for group, _, _ in rows]
    small = [(tier, known.index(rank)) for _, tier, rank in rows]
    assert factors(*((tier, rank) for _, tier, rank in rows), group=groups) == factors(*small, group=groups)
