"""What is remembered of a ranking is what summaries and later runs ask of it."""

from dataclasses import replace

import pytest

from gagar_cli.core.consistency import consistency_of
from gagar_cli.core.ranking import Finding, GroupRanking, RankedCandidate
from gagar_cli.core.schema import GroupKey
from gagar_cli.grading_kept import KeptRanking
from gagar_cli.io.ledger import Place

FINDING = Finding("patch", "c01:a.py:1", "an anchor", "a claim", ("minimality",))
GRADED = GroupRanking(
    GroupKey(7, "g"),
    "graded",
    candidates=(
        RankedCandidate("a", "T1", 1, unproven=("approach",)),
        RankedCandidate("b", "T3", 1, findings=(FINDING, FINDING)),
        RankedCandidate("c", "T3", 2),
        RankedCandidate("d", None, None, flags={"integrity_violation": True}, findings=(FINDING,)),
    ),
    grader={
        "mode": "agentic",
        "calls": 3,
        "tokens": {"in": 10, "out": 2},
        "blind_ids": {"c01": "b", "c02": "a", "c03": "c"},
        "integrity": {"verdicts": [{"verdict": "disputed"}, {"verdict": "confirmed"}]},
    },
    input_digest="i",
    config_digest="c",
)


def test_the_counts_are_those_of_the_candidates():
    kept = KeptRanking.of(GRADED, place=Place(5, 9))
    assert (kept.n_by_tier, kept.n_violations, kept.n_disputed) == ((1, 0, 2), 1, 1)
    assert (kept.n_findings, kept.n_unproven) == (3, 1)
    assert (kept.spending.n_calls, kept.spending.n_tokens) == (3, 12)
    assert kept.consistency == consistency_of(GRADED)


def test_the_ranking_itself_is_not_held():
    kept = KeptRanking.of(GRADED, place=Place(5, 9))
    assert (kept.ranking, kept.place) == (None, Place(5, 9))


@pytest.mark.parametrize(
    ("status", "reason", "grader", "is_owed"),
    [
        ("graded", None, {"calls": 1}, False),
        ("skipped", "all_pass", {}, True),
        ("skipped", "all_pass", {"calls": 0}, False),
        ("ungraded", "endpoint: status 500", {}, True),
        ("ungraded", "verdict: silent", {"calls": 1}, False),
        ("ungraded", "late: 1 trajectory", {"calls": 1}, False),
    ],
)
def test_what_is_owed(status, reason, grader, is_owed):
    kept = KeptRanking.of(replace(GRADED, status=status, reason=reason, grader=grader))
    assert kept.is_owed() == is_owed
    assert kept.is_owed(("late",)) == (is_owed or reason == "late: 1 trajectory")


@pytest.mark.parametrize(
    ("reason", "more", "is_amendment"),
    [(None, {}, False), (None, {"overrides": [{}]}, True), ("late: 1", {"late": ["x"]}, True)],
)
def test_what_only_amends_an_earlier_line(reason, more, is_amendment):
    kept = KeptRanking.of(replace(GRADED, reason=reason, grader={**GRADED.grader, **more}))
    assert kept.is_amendment == is_amendment
    assert kept.late == tuple(more.get("late", ()))
