import itertools
import random

from hypothesis import given
from hypothesis import strategies as st

from gagar_cli.core.aggregate import combine_gradings, rename_owner
from gagar_cli.core.ranking import FLAGS, Finding, RankedCandidate
from gagar_cli.core.rubric import DIMENSIONS, PAPER
from gagar_cli.core.tiers import assign_tier


def opinion(name: str, *flags: str, findings: tuple[Finding, ...] = (), **scores: int) -> RankedCandidate:
    return RankedCandidate(
        name,
        "T1",
        1,
        scores=dict.fromkeys(DIMENSIONS, 5) | scores,
        flags={flag: flag in flags for flag in FLAGS},
        findings=findings,
    )


def test_a_single_grading_stays_as_it_is():
    only = (RankedCandidate("a", "T2", 7),)
    assert combine_gradings([only], PAPER) == only


def test_scores_are_medians_and_the_better_of_two_middle_ones():
    (odd,) = combine_gradings([[opinion("a", minimality=value)] for value in (1, 3, 5)], PAPER)
    (even,) = combine_gradings([[opinion("a", minimality=value)] for value in (2, 4)], PAPER)
    assert (odd.scores["minimality"], even.scores["minimality"]) == (3, 4)


def test_a_flag_needs_more_than_half():
    flagged, clean = opinion("a", "test_specific"), opinion("a")
    (half,) = combine_gradings([[flagged], [clean]], PAPER)
    (most,) = combine_gradings([[flagged], [clean], [flagged]], PAPER)
    assert (half.flags["test_specific"], half.tier) == (False, "T1")
    assert (most.flags["test_specific"], most.tier) == (True, "T3")


def test_the_mean_weighted_score_orders_within_a_tier_and_ties_where_equal():
    first = [opinion("a", consistency=4), opinion("b"), opinion("c", consistency=4)]
    second = [opinion("a"), opinion("b", consistency=4), opinion("c", consistency=4)]
    ranked = combine_gradings([first, second], PAPER)
    assert [(one.trajectory_id, one.tier, one.rank) for one in ranked] == [
        ("a", "T1", 1), ("b", "T1", 1), ("c", "T1", 2),
    ]  # fmt: skip
    # 5 − 0.1·(1 + 0)/2
    assert ranked[0].weighted_score == 4.95


def test_a_violation_keeps_no_place():
    accused = [opinion("a", "integrity_violation"), opinion("b")]
    ranked = combine_gradings([accused, accused], PAPER)
    assert [(one.tier, one.rank) for one in ranked] == [(None, None), ("T1", 1)]


def test_findings_of_all_gradings_stand_once():
    shared = Finding("patch", "c01:a.py:1", "12345678", "x", ("minimality",))
    other = Finding("patch", "c01:a.py:9", "12345678", "y", ("precision",))
    (merged,) = combine_gradings(
        [[opinion("a", findings=(shared,))], [opinion("a", findings=(shared, other))]], PAPER
    )
    assert sorted(finding.at for finding in merged.findings) == ["c01:a.py:1", "c01:a.py:9"]


def test_coordinates_take_the_blind_ids_of_another_grading():
    finding = Finding("patch", "c01:a.py:1", "12345678", "x", ("minimality",), "c02:a.py:3")
    renamed = rename_owner(finding, {"c01": "c03", "c02": "c01"})
    assert (renamed.at, renamed.compared_with) == ("c03:a.py:1", "c01:a.py:3")
    assert (
        rename_owner(Finding("repo", "base:a.py:1", "12345678", "x", ("approach",)), {}).at == "base:a.py:1"
    )


@given(st.lists(st.lists(st.integers(1, 5), min_size=5, max_size=5), min_size=2, max_size=5))
def test_a_score_that_counts_was_given_or_undercut_by_at_least_half(values):
    gradings = [[opinion("a", **dict(zip(DIMENSIONS, row, strict=True)))] for row in values]
    (merged,) = combine_gradings(gradings, PAPER)
    for number, name in enumerate(DIMENSIONS):
        n_at_most = sum(row[number] <= merged.scores[name] for row in values)
        assert 2 * n_at_most >= len(values)
    assert merged.tier == assign_tier(merged.scores, {})


def test_the_order_of_the_gradings_does_not_matter_for_places():
    rng = random.Random(3)
    gradings = [[opinion(name, consistency=rng.randint(3, 5)) for name in "abcd"] for _ in range(3)]
    places = {
        tuple((one.tier, one.rank, one.weighted_score) for one in combine_gradings(list(each), PAPER))
        for each in itertools.permutations(gradings)
    }
    assert len(places) == 1
