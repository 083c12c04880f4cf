import itertools
from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gagar_cli.core.rubric import DIMENSIONS
from gagar_cli.core.tiers import assign_tier, rank_within_tiers

FIVES = dict.fromkeys(DIMENSIONS, 5)


@pytest.mark.parametrize(
    ("scores", "flags", "expected"),
    [
        pytest.param({}, (), "T1", id="all-fives"),
        pytest.param(dict.fromkeys(DIMENSIONS, 4), (), "T1", id="all-fours"),
        pytest.param({"consistency": 3}, (), "T2", id="one-three"),
        pytest.param({}, ("serious_process_issue",), "T2", id="process"),
        pytest.param({}, ("regression",), "T2", id="regression"),
        pytest.param({}, ("out_of_scope",), "T3", id="out-of-scope"),
        pytest.param({}, ("test_specific",), "T3", id="test-specific"),
        pytest.param({}, ("regression", "test_specific"), "T3", id="T3-before-T2"),
        pytest.param({"approach": 1}, (), "T3", id="symptom-only"),
        pytest.param({"approach": 2}, (), "T2", id="weak-approach"),
        pytest.param({"minimality": 2, "side_effects": 2}, (), "T3", id="bloated-and-risky"),
        pytest.param({"minimality": 2, "side_effects": 3}, (), "T2", id="bloated"),
        pytest.param({"minimality": 3, "side_effects": 1}, (), "T2", id="risky"),
    ],
)
def test_decision_table(scores: dict[str, int], flags: tuple[str, ...], expected: str) -> None:
    assert assign_tier({**FIVES, **scores}, dict.fromkeys(flags, True)) == expected


def test_tier_shares_of_all_score_vectors() -> None:
    vectors = itertools.product(range(1, 6), repeat=5)
    shares = Counter(assign_tier(dict(zip(DIMENSIONS, vector, strict=True)), {}) for vector in vectors)
    assert shares == {"T1": 32, "T2": 2068, "T3": 1025}


def test_incomplete_scores_have_no_tier() -> None:
    with pytest.raises(ValueError, match="precision is None"):
        assign_tier({"approach": 5}, {})


def test_weighted_score_orders_within_a_tier_and_ties_share_a_rank() -> None:
    tiers = {"a": "T2", "b": "T1", "c": "T2", "d": "T2"}
    weights = {"a": Fraction(3), "b": Fraction(2), "c": Fraction(4), "d": Fraction(3)}
    assert rank_within_tiers(tiers, weights) == {"b": 1, "c": 1, "a": 2, "d": 2}  # type: ignore[arg-type]


def test_order_reorders_and_ties_only_within_a_tier() -> None:
    tiers = {"a": "T1", "b": "T2", "c": "T2"}
    weights = {"a": Fraction(5), "b": Fraction(4), "c": Fraction(3)}
    assert rank_within_tiers(tiers, weights, [["c"], ["b", "a"]]) == {"a": 1, "c": 1, "b": 2}  # type: ignore[arg-type]
    assert rank_within_tiers(tiers, weights, [["a", "b", "c"]]) == {"a": 1, "b": 1, "c": 1}  # type: ignore[arg-type]


def test_candidates_that_the_order_leaves_out_follow_by_weight() -> None:
    tiers = dict.fromkeys("abc", "T2")
    weights = {"a": Fraction(5), "b": Fraction(4), "c": Fraction(3)}
    assert rank_within_tiers(tiers, weights, [["c"], ["gone"]]) == {"c": 1, "a": 2, "b": 3}  # type: ignore[arg-type]


@given(
    st.dictionaries(
        st.text("abcdef", min_size=1, max_size=2),
        st.tuples(st.sampled_from(["T1", "T2", "T3"]), st.integers(1, 5)),
        max_size=9,
    )
)
def test_ranks_agree_with_weights_and_leave_no_gap(candidates: dict[str, tuple[str, int]]) -> None:
    tiers = {name: tier for name, (tier, _) in candidates.items()}
    weights = {name: Fraction(weight) for name, (_, weight) in candidates.items()}
    ranks = rank_within_tiers(tiers, weights)  # type: ignore[arg-type]
    for tier in ("T1", "T2", "T3"):
        members = [name for name in candidates if tiers[name] == tier]
        assert {ranks[name] for name in members} == set(
            range(1, len({weights[name] for name in members}) + 1)
        )
        for first, second in itertools.combinations(members, 2):
            assert (ranks[first] < ranks[second]) == (weights[first] > weights[second])
