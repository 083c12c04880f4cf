from dataclasses import replace

import pytest

from gagar_cli.core.integrity_action import ViolationActs, act_on_violations
from gagar_cli.core.ranking import GroupRanking, RankedCandidate
from gagar_cli.core.schema import GroupKey

FLAG = {"integrity_violation": True}


def ranking(
    *candidates: RankedCandidate, status="graded", kept: dict[str, str] | None = None
) -> GroupRanking:
    verdicts = [{"trajectory_id": name, "tier_if_kept": tier} for name, tier in (kept or {}).items()]
    reason = None if status == "graded" else "lone_pass"
    grader = {"integrity": {"verdicts": verdicts}}
    return GroupRanking(GroupKey(1, "g"), status, reason, candidates, grader)


def honest(name: str, tier: str, rank: int, weight: float | None = None) -> RankedCandidate:
    return RankedCandidate(name, tier, rank, weighted_score=weight)


def violation(name: str, weight: float | None = None) -> RankedCandidate:
    return RankedCandidate(name, None, None, weighted_score=weight, flags=FLAG)


def placed(acted: GroupRanking) -> dict[str, tuple[str | None, int | None]]:
    assert not [one for one in acted.candidates if one.is_integrity_violation]
    return {one.trajectory_id: (one.tier, one.rank) for one in acted.candidates}


GROUP = ranking(
    honest("a", "T1", 1, 4.8), violation("v", 4.5), honest("b", "T1", 2, 4.2), honest("c", "T3", 1, 2.0),
    kept={"v": "T1"},
)  # fmt: skip


def test_zero_leaves_the_ranking_as_it_is():
    assert act_on_violations(GROUP, "zero") is GROUP


def test_t3_puts_it_behind_everything():
    assert placed(act_on_violations(GROUP, "t3")) == {
        "a": ("T1", 1),
        "v": ("T3", 2),
        "b": ("T1", 2),
        "c": ("T3", 1),
    }


def test_report_puts_it_where_its_scores_belong():
    assert placed(act_on_violations(GROUP, "report")) == {
        "a": ("T1", 1), "v": ("T1", 2), "b": ("T1", 3), "c": ("T3", 1),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("weight", "expected"),
    [(4.9, {"a": 2, "v": 1, "b": 3}), (4.8, {"a": 1, "v": 1, "b": 2}), (4.0, {"a": 1, "b": 2, "v": 3})],
)
def test_equal_scores_tie_and_others_stand_before_or_behind(weight, expected):
    candidates = (honest("a", "T1", 1, 4.8), violation("v", weight), honest("b", "T1", 2, 4.2))
    found = placed(act_on_violations(ranking(*candidates, kept={"v": "T1"}), "report"))
    assert {name: rank for name, (_, rank) in found.items()} == expected


def test_a_group_with_too_few_left_is_graded_again_where_the_violation_keeps_a_place():
    short = ranking(honest("a", "T2", 1, 3.0), violation("v", 4.5), status="skipped", kept={"v": "T1"})
    assert act_on_violations(short, "zero").status == "skipped"
    for action in ("t3", "report"):
        acted = act_on_violations(short, action)
        assert (acted.status, acted.reason) == ("graded", None)


def test_a_lone_pass_stays_skipped_whatever_is_done():
    lone = ranking(violation("v"), status="skipped")
    assert act_on_violations(lone, "report").status == "skipped"
    assert placed(act_on_violations(lone, "report")) == {"v": (None, None)}


def test_a_verdict_of_another_tool_has_no_place_to_go_back_to():
    foreign = replace(GROUP, grader={})
    assert placed(act_on_violations(foreign, "report"))["v"] == (None, None)
    assert placed(act_on_violations(foreign, "t3"))["v"] == ("T3", 2)


def test_violations_are_counted_in_the_last_line_of_a_group():
    acts = ViolationActs("report")
    clean = ranking(honest("a", "T1", 1), honest("v", "T1", 1))
    assert len(list(acts.act([GROUP, replace(GROUP, key=GroupKey(1, "h")), clean]))) == 3
    assert acts.n_violations == 1
