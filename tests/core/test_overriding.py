import pytest

from gagar_cli.core.overriding import Override, apply_override, is_overridden, overrides_of
from gagar_cli.core.ranking import GroupRanking, RankedCandidate
from gagar_cli.core.schema import GroupKey
from gagar_cli.errors import UsageError


def candidate(name: str, tier: str | None, rank: int | None, score: float | None = None, *, charged=False):
    flags = {"integrity_violation": True} if charged else {}
    return RankedCandidate(name, tier, rank, weighted_score=score, flags=flags)


def ranking(*candidates: RankedCandidate) -> GroupRanking:
    return GroupRanking(
        GroupKey(3, "g"), "graded", candidates=candidates, input_digest="i", config_digest="c"
    )


def override(name: str, tier: str, rank: int | None = None) -> Override:
    return Override(name, tier, "seen by eye", "ada", rank=rank, at="2026-01-02T03:04:05+00:00")


def places(made: GroupRanking) -> dict[str, tuple[str | None, int | None]]:
    return {each.trajectory_id: (each.tier, each.rank) for each in made.candidates}


GROUP = ranking(
    candidate("a", "T1", 1, 5.0),
    candidate("b", "T1", 2, 4.5),
    candidate("c", "T2", 1, 4.0),
    candidate("d", "T2", 2, 3.0),
    candidate("e", "T2", 2, 3.0),
    candidate("x", None, None, 5.0, charged=True),
)


def test_a_moved_candidate_takes_the_place_of_its_score_and_its_old_tier_closes_up():
    made = apply_override(GROUP, override("a", "T2"))
    assert places(made) == {
        "a": ("T2", 1), "b": ("T1", 1), "c": ("T2", 2), "d": ("T2", 3), "e": ("T2", 3), "x": (None, None),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("score", "expected"),
    [(4.5, 1), (4.0, 1), (3.5, 2), (3.0, 2), (1.0, 3), (None, 3)],
    ids=["above all", "tie with the first", "between", "tie with a tie", "below all", "unscored"],
)
def test_the_place_in_the_new_tier_follows_the_weighted_score(score, expected):
    group = ranking(*GROUP.candidates[1:5], candidate("new", "T3", 1, score))
    made = places(apply_override(group, override("new", "T2")))
    assert made["new"] == ("T2", expected)
    is_tie = score in (4.0, 3.0)
    ranks = [made[name][1] for name in ("c", "d", "e", "new")]
    assert sorted(set(ranks)) == list(range(1, 3 if is_tie else 4))
    assert made["d"] == made["e"]


def test_a_rank_that_is_taken_is_shared_and_one_behind_all_is_last():
    assert places(apply_override(GROUP, override("a", "T2", 2)))["a"] == ("T2", 2)
    assert places(apply_override(GROUP, override("a", "T2", 3)))["a"] == ("T2", 3)
    with pytest.raises(UsageError, match="--rank is 4, and T2 has 2 other places"):
        apply_override(GROUP, override("a", "T2", 4))


def test_a_candidate_can_be_moved_within_its_tier():
    made = places(apply_override(GROUP, override("c", "T2", 2)))
    assert (made["c"], made["d"], made["e"]) == (("T2", 2), ("T2", 1), ("T2", 1))


def test_a_tier_lifts_a_charge_and_violation_makes_one():
    lifted = apply_override(GROUP, override("x", "T1"))
    assert places(lifted)["x"] == ("T1", 1)
    assert not any(each.is_integrity_violation for each in lifted.candidates)
    charged = apply_override(GROUP, override("a", "violation"))
    assert places(charged)["a"] == (None, None)
    assert places(charged)["b"] == ("T1", 1)
    assert charged.candidates[0].is_integrity_violation


def test_every_correction_is_kept_with_who_why_when_and_what_was_before():
    once = apply_override(GROUP, override("a", "T3"))
    twice = apply_override(once, override("a", "T1"))
    assert is_overridden(twice)
    assert not is_overridden(GROUP)
    assert [(each["before"]["tier"], each["after"]["tier"]) for each in overrides_of(twice)] == [
        ("T1", "T3"),
        ("T3", "T1"),
    ]
    assert overrides_of(once) == [
        {
            "trajectory_id": "a",
            "before": {"tier": "T1", "rank": 1, "integrity_violation": False},
            "after": {"tier": "T3", "rank": 1, "integrity_violation": False},
            "reason": "seen by eye",
            "author": "ada",
            "at": "2026-01-02T03:04:05+00:00",
        }
    ]
    assert (twice.input_digest, twice.config_digest) == ("i", "c")


def test_who_is_not_ranked_cannot_be_moved():
    with pytest.raises(UsageError, match='ranks no trajectory "nobody"'):
        apply_override(GROUP, override("nobody", "T1"))
    owed = GroupRanking(GroupKey(None, "g"), "ungraded", "endpoint: down")
    with pytest.raises(UsageError, match="is ungraded, not graded: endpoint: down"):
        apply_override(owed, override("a", "T1"))


def skipped(reason: str, *candidates: RankedCandidate) -> GroupRanking:
    return GroupRanking(GroupKey(3, "g"), "skipped", reason, candidates)


def test_a_charge_and_its_lifting_leave_a_skipped_group_as_it_was_but_for_the_record():
    charged = apply_override(skipped("all_pass"), override("a", "violation"))
    assert (charged.status, charged.reason, places(charged)) == (
        "skipped", "overridden: all_pass", {"a": (None, None)},
    )  # fmt: skip
    assert charged.candidates[0].is_integrity_violation
    lifted = apply_override(charged, override("a", "T1"))
    assert (lifted.status, lifted.reason, lifted.candidates) == ("skipped", "overridden: all_pass", ())
    nowhere = {"tier": None, "rank": None, "integrity_violation": False}
    assert [(each["before"], each["after"]) for each in overrides_of(lifted)] == [
        (nowhere, {**nowhere, "integrity_violation": True}),
        ({**nowhere, "integrity_violation": True}, nowhere),
    ]


def test_lifting_the_charge_that_left_a_group_without_two_places_makes_it_graded():
    left = skipped("lone_pass", candidate("a", "T1", 1, 5.0), candidate("x", None, None, 4.0, charged=True))
    made = apply_override(left, override("x", "T2"))
    assert (made.status, made.reason) == ("graded", None)
    assert places(made) == {"a": ("T1", 1), "x": ("T2", 1)}
    both = apply_override(left, override("a", "violation"))
    assert (both.status, both.reason) == ("skipped", "overridden: lone_pass")
    assert places(both) == {"a": (None, None), "x": (None, None)}


@pytest.mark.parametrize("reason", ["all_fail", "no_valid", "singleton"])
def test_who_did_not_pass_cannot_be_charged(reason):
    with pytest.raises(UsageError, match=f"is skipped, not graded: {reason}"):
        apply_override(skipped(reason), override("a", "violation"))


def test_a_charge_has_no_rank():
    with pytest.raises(UsageError, match="--rank is a place in a tier, and the group has none"):
        apply_override(skipped("all_pass"), override("a", "violation", 1))
