import pytest

from gagar_cli.core.ranking import GroupRanking, RankedCandidate
from gagar_cli.core.ranking_agreement import agree
from gagar_cli.core.schema import GroupKey


def ranking(group: str, **places: str) -> tuple[GroupKey, GroupRanking]:
    """`a="T1/2"` is a candidate's place, `a="violation"` a violation."""
    candidates = []
    for name, place in places.items():
        tier, _, rank = place.partition("/")
        is_violation = place == "violation"
        candidates.append(
            RankedCandidate(
                name,
                None if is_violation else tier,
                None if is_violation else int(rank),
                weighted_score=None if is_violation else 6.0 - int(tier[1]),
                flags={"integrity_violation": is_violation},
            )
        )
    key = GroupKey(None, group)
    return key, GroupRanking(key, "graded", candidates=tuple(candidates))


def test_the_same_rankings_agree_wholly():
    one = dict([ranking("g", a="T1/1", b="T2/1", c="T2/2"), ranking("h", a="T1/1", b="T3/1")])
    found = agree({"x": one, "y": one}, n_resamples=50)
    pair = found.pairs[0]
    assert (pair.tau_b.value, pair.top1.value, pair.same_tier.value, pair.n_candidates) == (1.0, 1.0, 1.0, 5)
    assert found.tiers.alpha == 1.0
    assert found.disputes == ()


def test_opposite_orders_and_moved_tiers_are_measured():
    one = dict([ranking("g", a="T1/1", b="T1/2", c="T2/1")])
    other = dict([ranking("g", a="T2/2", b="T2/1", c="T1/1")])
    found = agree({"x": one, "y": other}, n_resamples=0)
    pair = found.pairs[0]
    # All three pairs of candidates stand the other way round.
    assert (pair.tau_b.value, pair.top1.value, pair.same_tier.value) == (-1.0, 0.0, 0.0)
    assert pair.confusion == ((0, 2, 0, 0), (1, 0, 0, 0), (0, 0, 0, 0), (0, 0, 0, 0))
    # Each candidate is one class apart, and 1 − τ-b is 2.
    assert found.disputes[0].distance == 3.0
    assert found.disputes[0].says["y"] == {"c": "T1/1", "b": "T2/1", "a": "T2/2"}


def test_best_places_are_compared_as_sets():
    one, other = (
        dict([ranking("g", a="T1/1", b="T1/1", c="T1/2")]),
        dict([ranking("g", a="T1/1", b="T1/2", c="T1/3")]),
    )
    assert agree({"x": one, "y": other}, n_resamples=0).pairs[0].top1.value == 0.5


def test_a_violation_is_the_last_class_of_all():
    one, other = dict([ranking("g", a="T1/1", b="T3/1")]), dict([ranking("g", a="T1/1", b="violation")])
    pair = agree({"x": one, "y": other}, n_resamples=0).pairs[0]
    assert pair.tau_b.value == 1.0
    assert pair.confusion[2] == (0, 0, 0, 1)


def test_only_what_both_ranked_is_compared():
    ungraded = GroupRanking(GroupKey(None, "h"), "ungraded", "endpoint: x")
    one = dict([ranking("g", a="T1/1", b="T1/2"), (ungraded.key, ungraded)])
    other = dict([ranking("g", b="T1/1", c="T1/2"), ranking("h", a="T1/1")])
    found = agree({"x": one, "y": other}, n_resamples=0)
    assert found.n_groups == {"x": 1, "y": 2}
    assert (found.pairs[0].n_groups, found.pairs[0].n_candidates, found.pairs[0].tau_b) == (1, 1, None)


def test_three_raters_have_every_pair_and_one_alpha_whose_interval_holds_it():
    groups = {
        name: dict(
            ranking(f"g{n}", a=f"T{1 + (n + shift) % 3}/1", b="T2/1", c=f"T{1 + n % 3}/2") for n in range(12)
        )
        for name, shift in (("x", 0), ("y", 0), ("z", 1))
    }
    found = agree(groups, n_resamples=200)
    assert [(pair.first, pair.second) for pair in found.pairs] == [("x", "y"), ("x", "z"), ("y", "z")]
    assert found.tiers.n_units == 36
    assert found.tiers.interval.low <= found.tiers.alpha <= found.tiers.interval.high < 1.0
    assert found.pairs[0].tau_b.value == pytest.approx(1.0)
