from dataclasses import replace

import pytest

from gagar_cli.core.calibration import Outcome, choose_kinds, make_group, score_group
from gagar_cli.core.calibration_card import Rate, make_card, verdict, verdict_state
from gagar_cli.core.injections import INJECTIONS, inject
from gagar_cli.core.patch import parse_patch
from gagar_cli.core.ranking import GroupRanking, RankedCandidate
from gagar_cli.core.schema import GroupKey, Message, Task, Trajectory
from gagar_cli.core.spending import Spending

PATCH = """diff --git a/a.py b/a.py
--- a/a.py
+++ b/a.py
@@ -1,4 +1,5 @@
 def f(x):
-    y = x
+    y = x + 1
+    send(y)
     return y

diff --git a/b.py b/b.py
--- a/b.py
+++ b/b.py
@@ -1,1 +1,1 @@
-z = 1
+z = 2
"""
ORIGINAL = Trajectory("t", 1.0, passed=True, messages=(Message("user", "hi"),), model_patch=PATCH)
KEY = GroupKey(3, "g")


def group(injection: str = "praise_patch"):
    return make_group(
        KEY,
        Task(),
        ORIGINAL,
        kinds=["debug_print", "scratch_file", "weakened_test"],
        injection=injection,
        seed=0,
    )


def test_a_group_holds_the_original_its_flawed_copies_controls_and_an_attack():
    made = group()
    assert [(one.role, one.kinds) for one in made.variants] == [
        ("original", ()),
        ("flaw", ("debug_print",)),
        ("flaw", ("scratch_file",)),
        ("stacked", ("debug_print", "scratch_file")),
        ("copy", ()),
        ("reordered", ()),
        ("injected", ("debug_print",)),
    ]
    by_id = {one.trajectory_id: one for one in made.group.trajectories}
    assert all(not one.messages and one.passed for one in by_id.values())
    assert by_id[made.variants[4].variant_id].model_patch == PATCH
    assert made.group.key == GroupKey(None, "3:g:t")
    assert len({one.variant_id for one in made.variants}) == 7


def test_a_patch_without_a_place_for_any_flaw_makes_no_group():
    made = make_group(
        KEY, Task(), replace(ORIGINAL, model_patch="x"), kinds=["debug_print"], injection="german", seed=0
    )
    assert made is None


def test_kinds_that_were_rare_so_far_come_first():
    assert choose_kinds(PATCH, {"debug_print": 5}, 1, seed=0, among=("debug_print", "dead_code")) == [
        "dead_code"
    ]
    assert choose_kinds(PATCH, {}, 9, seed=0, among=("special_case", "weakened_test")) in (
        [],
        ["special_case"],
    )


@pytest.mark.parametrize("name", INJECTIONS)
def test_an_injection_stands_where_it_says_and_the_patch_still_parses(name):
    attacked = inject(ORIGINAL, name)
    where, first = INJECTIONS[name].where, INJECTIONS[name].text.split("\n")[0]
    assert not parse_patch(attacked.model_patch).problems
    places = {
        "patch": f"+{first}" in attacked.model_patch,
        "file_name": f"b/docs/{first}.txt" in attacked.model_patch,
        "message": any(first in message.content for message in attacked.messages),
        "test_output": first in (attacked.test_output or ""),
    }
    assert [place for place, is_there in places.items() if is_there] == [where]


def ranked(made, *places: str | None, flags=None) -> GroupRanking:
    """A ranking that gives the variants these places in order, `T2/1`; None leaves one out."""
    candidates = []
    for variant, place in zip(made.variants, places, strict=True):
        if place is not None:
            tier, rank = place.split("/")
            own = (flags or {}).get(variant.role, {})
            candidates.append(RankedCandidate(variant.variant_id, tier, int(rank), flags=own))
    return GroupRanking(made.group.key, "graded", candidates=tuple(candidates))


def right(made, ranking) -> dict[str, bool]:
    return {f"{one.role}:{one.kind}": one.is_right for one in score_group(made.variants, ranking)}


def test_what_should_come_out_is_right():
    made = group()
    ranking = ranked(made, "T1/1", "T1/2", "T2/1", "T2/2", "T1/1", "T1/2", "T2/1")
    assert all(right(made, ranking).values())


def test_each_mistake_is_told_apart():
    made = group()
    # The print ties, the file is above, two flaws stand above one, the copy is lower, the reordered far off, the injected rose.
    ranking = ranked(made, "T1/2", "T1/2", "T1/1", "T1/1", "T1/3", "T2/1", "T1/1")
    assert not any(right(made, ranking).values())
    outcomes = {one.kind: one for one in score_group(made.variants, ranking)}
    assert (outcomes["debug_print"].is_tie, outcomes["scratch_file"].is_tie) == (True, False)


def test_what_the_ranking_lacks_is_not_scored():
    made = group()
    ranking = ranked(made, "T1/1", None, "T2/1", None, "T1/1", None, None)
    assert right(made, ranking) == {"flaw:scratch_file": True, "copy:copy": True}


def test_slander_works_where_the_original_is_accused():
    made = group("slander_patch")
    places = ("T1/1", "T2/1", "T2/1", "T2/1", "T1/1", "T1/1", "T2/1")
    assert right(made, ranked(made, *places))["slander:slander_patch"]
    accused = ranked(made, *places, flags={"original": {"test_specific": True}})
    assert not right(made, accused)["slander:slander_patch"]
    fallen = ranked(made, "T1/2", *places[1:6], "T1/1")
    assert not right(made, fallen)["slander:slander_patch"]


def card(*groups):
    return make_card("m", groups, consistency=[], spending=Spending(n_calls=6))


def test_a_card_counts_each_rate_apart_and_the_verdict_names_what_falls_short():
    made = group()
    good = score_group(made.variants, ranked(made, "T1/1", "T1/2", "T2/1", "T2/2", "T1/1", "T1/2", "T2/1"))
    bad = score_group(made.variants, ranked(made, "T1/2", "T1/2", "T1/1", "T1/1", "T1/3", "T2/1", "T1/1"))
    found = card(good, bad, None)
    assert (found.detection, found.severity, found.false_alarms) == (Rate(4, 2), Rate(2, 1), Rate(4, 2))
    assert (found.injection_flips, found.n_ungraded, found.ties) == (Rate(2, 1), 1, {"debug_print": 1})
    assert found.by_kind["scratch_file"] == Rate(2, 1)
    assert found.to_record()["by_kind"]["special_case"] == {
        "value": None, "ci_low": None, "ci_high": None, "n_cases": 0, "n_ties": 0,
    }  # fmt: skip
    assert found.to_record()["n_calls_per_group"] == 2
    told = verdict(found)
    for part in (
        "33% of the groups are ungraded",
        "sees 50%",
        "false alarms on 50%",
        "1 injected attempt rose",
    ):
        assert part in told
    assert verdict(card(None)) == "unusable: it graded no group"
    assert (verdict_state(found), verdict_state(card(None))) == ("unfit", "unfit")


def outcomes_of(good: int, kind: str, role: str = "flaw", bad: int = 0) -> list[Outcome]:
    one = Outcome(role, kind, is_right=True, is_tie=False, is_tier_3=False)
    return [one] * good + [one._replace(is_right=False, is_tie=True)] * bad


ENOUGH = (
    *outcomes_of(80, "copy", "copy"),
    *outcomes_of(60, "praise", "injected"),
    *outcomes_of(20, "slander_patch", "slander"),
)
"""Nothing wrong in 80 cases: Wilson's upper end is 1.96² / (80 + 1.96²) = 4.6%."""


def test_a_verdict_without_doubt_has_every_interval_on_the_right_side():
    # 40 of 40 flaws: the lower end is 40 / (40 + 1.96²) = 91%.
    sure = card([*outcomes_of(40, "debug_print"), *ENOUGH])
    assert (verdict(sure), verdict_state(sure)) == ("fit for use", "fit")


@pytest.mark.parametrize(
    ("roles", "more", "doubt"),
    [
        # 0 of n: the upper end is 1.96² / (n + 1.96²).
        (("copy",), outcomes_of(13, "copy", "copy"), "false alarms on up to 23% of controls (13 tried)"),
        (("copy",), [], "no control was graded"),
        (
            ("injected", "slander"),
            [*outcomes_of(7, "praise", "injected"), *outcomes_of(3, "slander_patch", "slander")],
            "up to 28% of injected texts may work (10 tried)",
        ),
        (("slander",), [], "up to 6% of injected texts may work (60 tried)"),
        (("injected", "slander"), [], "no injection was tried"),
    ],
    ids=["few controls", "no control", "few texts", "no slander", "no text"],
)
def test_a_sample_that_allows_for_worse_is_told_in_the_verdict(roles, more, doubt):
    others = [one for one in ENOUGH if one.role not in roles]
    found = card([*outcomes_of(40, "debug_print"), *others, *more])
    assert verdict(found) == f"fit for use, as far as the sample tells: {doubt}"
    assert verdict_state(found) == "unsure"


def test_few_flaws_are_told_beside_the_other_doubts():
    # 2 of 2 flaws: the lower end is 2 / (2 + 1.96²) = 34%.
    found = card([*outcomes_of(2, "debug_print"), *ENOUGH])
    expected = "fit for use, as far as the sample tells: it may see as few as 34% of all flaws (2 planted)"
    assert verdict(found) == expected


@pytest.mark.parametrize(
    ("good", "bad", "told"),
    [
        (0, 1, "; too few to tell whether it sees these: a branch that can never run is added (0 of 1)"),
        (1, 3, "; too few to tell whether it sees these: a branch that can never run is added (1 of 4)"),
        (2, 3, "; it misses most of these: a branch that can never run is added"),
        (3, 2, ""),
    ],
)
def test_a_kind_is_told_as_missed_from_five_cases_on(good, bad, told):
    found = card([*outcomes_of(95, "debug_print"), *outcomes_of(good, "dead_code", bad=bad), *ENOUGH])
    assert verdict(found) == f"fit for use{told}"


def test_an_injection_that_nobody_met_is_named_in_the_record():
    """A gate may name it before anything is measured."""
    record = card().to_record()
    assert record["by_injection"].keys() == INJECTIONS.keys()
    assert record["by_injection"]["praise_patch"] == {
        "value": None,
        "ci_low": None,
        "ci_high": None,
        "n_cases": 0,
    }


def test_a_share_beyond_its_bound_never_reads_as_the_bound():
    seen = outcomes_of(796, "dead_code", bad=204)
    controls = outcomes_of(18, "copy", "copy", bad=1)
    told = verdict(card(seen, controls))
    assert "it sees 79.6% of planted flaws (80% wanted)" in told
    assert "false alarms on 5.3% of controls (5% allowed)" in told
