import pytest

from gagar_cli.core.consistency import ShownPlace, measure_consistency
from gagar_cli.core.ranking import GroupRanking, RankedCandidate
from gagar_cli.core.schema import GroupKey


def graded(order: dict[str, tuple[str, int]], shown: dict[str, str], repeats=None) -> GroupRanking:
    candidates = tuple(RankedCandidate(name, tier, rank) for name, (tier, rank) in order.items())
    grader = {"blind_ids": shown} | ({"repeats": repeats} if repeats else {})
    return GroupRanking(GroupKey(None, "g"), "graded", candidates=candidates, grader=grader)


def repeat(**candidates: tuple[str, str, int]) -> dict:
    return {
        "candidates": {
            name: {"blind_id": blind, "tier": tier, "rank": rank}
            for name, (blind, tier, rank) in candidates.items()
        }
    }


def test_a_grader_that_prefers_what_it_sees_first_shows():
    order = {"a": ("T1", 1), "b": ("T1", 2), "c": ("T2", 1)}
    found = measure_consistency([graded(order, {"c01": "a", "c02": "b", "c03": "c", "f01": "x"})] * 2)
    assert found.place_effect == 1
    assert found.by_place == (
        ShownPlace(1, 2, 1.0, 2.0),
        ShownPlace(2, 2, 2.0, 2.0),
        ShownPlace(3, 2, 3.0, 2.0),
    )
    assert (found.n_repeated, found.rank_agreement, found.tier_agreement) == (0, None, None)


def test_repeats_are_compared_with_each_other_by_rank_and_tier():
    repeats = [
        repeat(a=("c01", "T1", 1), b=("c02", "T2", 1)),
        repeat(a=("c02", "T1", 1), b=("c01", "T1", 2)),
        repeat(a=("c01", "T2", 1), b=("c02", "T1", 1)),
    ]
    found = measure_consistency([graded({"a": ("T1", 1), "b": ("T1", 2)}, {}, repeats)])
    assert found.n_repeated == 1
    assert found.rank_agreement == pytest.approx((1 - 1 - 1) / 3)
    # Pairs of gradings: a is T1 T1 T2, b is T2 T1 T1: one of three agrees for each.
    assert found.tier_agreement == pytest.approx(2 / 6)
    # Shown first and placed: 1, 2, 2; by chance 1.5.
    assert found.by_place[0] == ShownPlace(1, 3, pytest.approx(5 / 3), 1.5)


def test_what_is_not_graded_or_was_never_blind_does_not_count():
    skipped = GroupRanking(GroupKey(None, "s"), "skipped", "all_pass")
    by_hand = graded({"a": ("T1", 1), "b": ("T2", 1)}, {})
    found = measure_consistency([skipped, by_hand])
    assert (found.place_effect, found.by_place) == (None, ())


def test_violations_have_no_place():
    order = {"a": ("T1", 1), "b": (None, None), "c": ("T2", 1)}
    found = measure_consistency([graded(order, {"c01": "b", "c02": "a", "c03": "c"})])
    assert [one.shown for one in found.by_place] == [2, 3]
