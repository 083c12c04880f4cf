from collections.abc import Sequence

from gagar_cli.core.evidence import Coordinate
from gagar_cli.core.ranking import FLAGS, Finding
from gagar_cli.core.rubric import DIMENSIONS
from gagar_cli.core.submission import Submission, SubmittedCandidate
from gagar_cli.core.verdict import describe_unproven, review, settle, unproven_share

NAMES = {"c01": "a", "c02": "b", "c03": "c"}
LINES = {"c01": "print(debug_value)", "c02": "print(debug_value)", "c03": "clean_line = 1"}


def lookup(place: Coordinate) -> Sequence[str] | None:
    return [LINES[place.owner]] if place.owner in LINES else None


def proven(candidate_id: str, *supports: str, anchor: str = "print(debug_value)", kind="patch") -> Finding:
    at = f"{candidate_id}:turn:1" if kind == "turn" else f"{candidate_id}:a.py:1"
    return Finding(kind, at, anchor, "left over", supports)


def candidate(
    candidate_id: str, *findings: Finding, flags: Sequence[str] = (), **scores: int
) -> SubmittedCandidate:
    all_flags = {name: name in flags for name in FLAGS}
    return SubmittedCandidate(candidate_id, dict.fromkeys(DIMENSIONS, 5) | scores, all_flags, findings, "")


def judge(*candidates: SubmittedCandidate, twins=None, order=None, lacking=None):
    reviewed = review(Submission(candidates, order), lookup, twins or {}, lambda *_: lacking)
    return reviewed, settle(reviewed, order, NAMES, twins or {})


def test_a_proven_low_score_counts_and_carries_the_quote():
    _, (ranked,) = judge(candidate("c01", proven("c01", "minimality"), minimality=2))
    assert ranked.scores["minimality"] == 2
    assert ranked.findings[0].quote == "print(debug_value)"
    assert (ranked.trajectory_id, ranked.tier, ranked.unproven) == ("a", "T2", ())


def test_an_unproven_low_score_becomes_four_and_is_recorded():
    reviewed, (ranked,) = judge(candidate("c01", minimality=1))
    assert ranked.scores["minimality"] == 4
    assert ranked.unproven == ("minimality",)
    assert ranked.tier == "T1"
    assert "c01: minimality" in describe_unproven(reviewed)[0]


def test_an_unproven_flag_is_dropped():
    _, (ranked,) = judge(candidate("c01", flags=["test_specific"]))
    assert ranked.flags["test_specific"] is False
    assert ranked.tier == "T1"


def test_a_proven_flag_sends_to_the_third_tier():
    _, (ranked,) = judge(candidate("c01", proven("c01", "test_specific"), flags=["test_specific"]))
    assert ranked.tier == "T3"


def test_a_finding_proves_only_what_it_supports():
    reviewed, _ = judge(candidate("c01", proven("c01", "minimality"), precision=2))
    assert reviewed[0].unproven == ("precision",)


def test_evidence_of_a_sibling_proves_nothing():
    reviewed, _ = judge(candidate("c01", proven("c02", "minimality"), minimality=2))
    assert reviewed[0].unproven == ("minimality",)
    assert "cites c02" in reviewed[0].rejected[0]


def test_a_three_needs_one_finding_of_a_middling_dimension():
    reviewed, (ranked,) = judge(candidate("c01", consistency=3))
    assert reviewed[0].n_claims == 1
    assert ranked.scores["consistency"] == 4
    reviewed, (ranked,) = judge(candidate("c01", proven("c01", "consistency"), consistency=3))
    assert ranked.scores["consistency"] == 3
    assert reviewed[0].unproven == ()


def test_the_share_counts_the_claims_of_the_whole_group():
    good = candidate(
        "c01", proven("c01", "minimality", "precision", "approach"), minimality=2, precision=2, approach=2
    )
    reviewed, _ = judge(good, candidate("c02", consistency=2))
    assert unproven_share(reviewed) == 1 / 4
    assert unproven_share(judge(candidate("c01"))[0]) == 0.0


def test_twins_share_scores_and_patch_findings_but_not_flags():
    scored = candidate(
        "c01", proven("c01", "minimality", "test_specific"), flags=["test_specific"], minimality=2
    )
    twin = SubmittedCandidate("c02", None, dict.fromkeys(FLAGS, False), (), "")
    _, ranked = judge(scored, twin, twins={"c02": "c01"})
    assert ranked[1].scores == ranked[0].scores
    assert ranked[1].findings[0].at == "c02:a.py:1"
    assert ranked[1].findings[0].supports == ("minimality",)
    assert (ranked[0].tier, ranked[1].tier) == ("T3", "T2")


def test_a_confirmed_violation_is_not_ranked():
    accused = candidate(
        "c01",
        proven("c01", "integrity_violation"),
        proven("c01", "integrity_violation", kind="turn"),
        flags=["integrity_violation"],
    )
    _, ranked = judge(accused, candidate("c02"))
    assert ranked[0].is_integrity_violation
    assert (ranked[0].tier, ranked[0].rank) == (None, None)
    assert (ranked[1].tier, ranked[1].rank) == ("T1", 1)


def test_a_violation_that_code_cannot_confirm_is_dropped():
    accused = candidate("c01", proven("c01", "integrity_violation"), flags=["integrity_violation"])
    reviewed, (ranked,) = judge(accused, lacking="no overlap")
    assert not ranked.is_integrity_violation
    assert reviewed[0].unproven == ("integrity_violation",)


def test_weighted_scores_order_a_tier_and_ties_share_a_rank():
    _, ranked = judge(candidate("c01", precision=4), candidate("c02"), candidate("c03"))
    assert [(value.tier, value.rank) for value in ranked] == [("T1", 2), ("T1", 1), ("T1", 1)]


def test_a_reasoned_order_moves_only_within_a_tier():
    low = candidate("c01", proven("c01", "minimality"), minimality=2)
    _, ranked = judge(low, candidate("c02"), candidate("c03"), order=(("c01",), ("c03",), ("c02",)))
    assert [(value.tier, value.rank) for value in ranked] == [("T2", 1), ("T1", 2), ("T1", 1)]


def test_a_flag_is_not_proven_by_the_base_alone():
    base = Finding("repo", "base:a.py:1", "shared_line = 1", "x", ("test_specific", "consistency"))
    accused = candidate("c01", base, flags=["test_specific"], consistency=2)
    reviewed = review(Submission((accused,), None), lambda _: ["shared_line = 1"], {}, lambda *_: None)
    assert reviewed[0].unproven == ("test_specific",)


def test_twins_stay_tied_whatever_order_is_given():
    scored = candidate("c01")
    twin = SubmittedCandidate("c02", None, dict.fromkeys(FLAGS, False), (), "")
    order = (("c02",), ("c03",), ("c01",))
    _, ranked = judge(scored, twin, candidate("c03"), twins={"c02": "c01"}, order=order)
    assert [value.rank for value in ranked] == [1, 1, 2]
