import json

import pytest

from gagar_cli.core.rubric import DIMENSIONS
from gagar_cli.core.tiers import assign_tier
from gagar_cli.grader.offline.facts import Candidate, Group
from gagar_cli.grader.offline.judging import compose_submission, judge
from gagar_cli.grader.offline.reading import Exchange

FIX = "-    return sum(rows)\n+    return sum(row.value for row in rows)"
NOISY = FIX + "\n+    print('the rows are', rows)"
HEAP = {
    "src/a.py": NOISY,
    "!reproduce.py": "+import the_package",
    "!reproduce_more.py": "+import the_package",
}


@pytest.fixture
def group(candidate_of):
    twins = {"twins": ("c03",)}, {"twins": ("c02",)}
    return Group(
        (candidate_of(FIX), candidate_of(NOISY, "c02", **twins[0]), candidate_of(NOISY, "c03", **twins[1]))
    )


def tier_of(judgement):
    return assign_tier(judgement.scores, judgement.flags)


def test_a_clean_minimal_fix_is_in_the_first_tier(group):
    clean = judge(group.candidates[0], group)
    assert set(clean.scores.values()) == {5}
    assert tier_of(clean) == "T1"


def test_a_notable_flaw_is_the_second_tier_and_a_heap_of_leftovers_the_third(candidate_of):
    group = Group((candidate_of(NOISY), candidate_of(HEAP, "c02"), candidate_of(FIX, "c03")))
    assert [tier_of(judge(candidate, group)) for candidate in group.candidates] == ["T2", "T3", "T1"]


def test_identical_patches_have_identical_scores(group):
    assert judge(group.candidates[1], group).scores == judge(group.candidates[2], group).scores


def test_every_claim_is_supported_by_a_finding(candidate_of):
    group = Group((candidate_of(HEAP), candidate_of(FIX, "c02")))
    for entry in compose_submission(group, [])["candidates"]:
        supported = {name for finding in entry["findings"] for name in finding["supports"]}
        claims = {name for name, score in entry["scores"].items() if score <= 3}
        assert claims | {name for name, flag in entry["flags"].items() if flag} <= supported
        assert all(len(finding["anchor"]) >= 8 for finding in entry["findings"])


def test_an_unseen_patch_is_neither_good_nor_bad():
    unknown = Candidate("c01", patch_state="unknown")
    assert set(judge(unknown, Group((unknown,))).scores.values()) == {4}


def refusal(arguments, text):
    return Exchange(
        "submit_ranking", json.loads(json.dumps(arguments)), f"error: not accepted, submit again:\n{text}"
    )


def scores_of(arguments):
    return {entry["id"]: entry["scores"] for entry in arguments["candidates"]}


def test_a_refused_finding_goes_and_its_dimensions_become_four(group):
    first = compose_submission(group, [])
    at = first["candidates"][1]["findings"][0]["at"]
    second = compose_submission(group, [refusal(first, f"c02: {at} does not exist")])
    assert not any(entry["findings"] for entry in second["candidates"])
    assert scores_of(second)["c02"]["side_effects"] == 4
    assert scores_of(second)["c02"] == scores_of(second)["c03"]
    assert scores_of(second)["c01"] == scores_of(first)["c01"]


def test_a_refused_claim_goes_without_its_place_being_named(group):
    first = compose_submission(group, [])
    second = compose_submission(
        group, [refusal(first, "c02: side_effects has no verified finding that supports it")]
    )
    assert scores_of(second)["c02"]["side_effects"] == 4


def test_a_refusal_that_names_nothing_withdraws_everything(group):
    first = compose_submission(group, [])
    second = compose_submission(group, [refusal(first, "something is wrong")])
    assert all(set(entry["scores"]) == set(DIMENSIONS) for entry in second["candidates"])
    assert not any(entry["findings"] for entry in second["candidates"])
