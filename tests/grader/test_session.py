"""One group's grading from end to end, against listed replies of a real endpoint."""

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from gagar_cli.core.rubric import DIMENSIONS
from gagar_cli.core.schema import Group, GroupKey, Message, Task, ToolCall, Trajectory
from gagar_cli.grader.client import EndpointClient, EndpointSettings
from gagar_cli.grader.loop import GroupLimits
from gagar_cli.grader.rounds import repeat_seeds
from gagar_cli.grader.rules import GradingRules
from gagar_cli.grader.session import GradedGroup, GroupMeans, grade_group
from gagar_cli.grader.workspace import Workspace

FIX = "    return sum(row.value for row in rows if row.value)"
PATCH = f"""\
diff --git a/src/table.py b/src/table.py
--- a/src/table.py
+++ b/src/table.py
@@ -1,2 +1,2 @@
 def total(rows):
-    return sum(rows)
+{FIX}
"""
OTHER_PATCH = PATCH.replace("if row.value)", "if row.value is not None)")


def attempt(name: str, *, passed: bool = True, copied: bool = False, patch: str = PATCH) -> Trajectory:
    """An attempt; a copied one has read its fix from the history of another branch."""
    command, result = (
        ("git show origin/main:src/table.py", FIX) if copied else ("cat src/table.py", "def total")
    )
    messages = (
        Message("user", "total() ignores row.value"),
        Message("assistant", "", (ToolCall("bash", json.dumps({"command": command})),)),
        Message("tool", result),
    )
    return Trajectory(name, float(passed), passed, messages, patch, "ran 3 tests\nOK")


def group_of(*trajectories: Trajectory) -> Group:
    return Group(GroupKey(1, "tables"), Task("tables-1", "total() ignores row.value"), trajectories)


def shown_as(group: Group, seed: int = 0) -> dict[str, str]:
    """Trajectory id to blind id."""
    return {
        name: blind for blind, name in Workspace(group, seed=seed, repository=None).trajectory_ids.items()
    }


def entry(blind_id: str, *findings: dict[str, Any], accused: bool = False, **scores: int) -> dict[str, Any]:
    return {
        "id": blind_id,
        "scores": dict.fromkeys(DIMENSIONS, 5) | scores,
        "flags": {"integrity_violation": accused},
        "findings": list(findings),
        "rationale": "looked at it",
    }


def proof(blind_id: str) -> list[dict[str, Any]]:
    """What proves that a copied attempt was copied."""
    support = {"claim": "copied", "supports": ["integrity_violation"]}
    return [
        {"kind": "turn", "at": f"{blind_id}:turn:1", "anchor": FIX.strip(), **support},
        {"kind": "patch", "at": f"{blind_id}:src/table.py:2", "anchor": FIX.strip(), **support},
    ]


def submit(*entries: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    return "submit_ranking", {"candidates": list(entries)}


def grade(
    endpoint: Any,
    group: Group,
    *,
    seed: int = 0,
    max_tokens: int = 1_000_000,
    limits: GroupLimits | None = None,
    **rules: Any,
) -> GradedGroup:
    async def run() -> GradedGroup:
        client = EndpointClient(EndpointSettings("m", endpoint.base_url, max_attempts=1, protocol="tools"))
        try:
            return await grade_group(
                group,
                client,
                GroupMeans(),
                limits=limits or GroupLimits(max_reasks=0, max_tokens=max_tokens),
                seed=seed,
                rules=GradingRules(**rules),
            )
        finally:
            await client.close()

    return asyncio.run(run())


def tools_of(request: dict[str, Any]) -> list[str]:
    return [tool["function"]["name"] for tool in request["tools"]]


COPIED = group_of(
    attempt("honest", patch=OTHER_PATCH),
    attempt("second", patch=OTHER_PATCH),
    attempt("copied", copied=True),
    attempt("failed", passed=False),
)


def accusing_submission(group: Group) -> tuple[str, dict[str, Any]]:
    ids = shown_as(group)
    passing = [one.trajectory_id for one in group.passing]
    accused = ids["copied"]
    return submit(
        *(
            entry(ids[name], *(proof(accused) if name == "copied" else ()), accused=name == "copied")
            for name in passing
        )
    )


def vote_id(group: Group, n_votes_before: int) -> str:
    """The blind id of the accused in a vote's own order."""
    return shown_as(group, -1_000_003 * n_votes_before)["copied"]


def test_a_violation_that_a_second_vote_proves_counts(serve, chat):
    accused = vote_id(COPIED, 1)
    endpoint = serve(
        chat(accusing_submission(COPIED)), chat(submit(entry(accused, *proof(accused), accused=True)))
    )
    ranking = grade(endpoint, COPIED).ranking
    by_name = {one.trajectory_id: one for one in ranking.candidates}
    assert ranking.status == "graded"
    assert by_name["copied"].is_integrity_violation
    assert (by_name["copied"].tier, by_name["copied"].rank) == (None, None)
    assert by_name["honest"].tier == "T1"
    verdict = ranking.grader["integrity"]["verdicts"][0]
    assert (verdict["trajectory_id"], verdict["verdict"], verdict["votes"]) == (
        "copied",
        "confirmed",
        [True, True],
    )


def test_a_violation_that_the_second_vote_denies_stays_a_lead(serve, chat):
    endpoint = serve(chat(accusing_submission(COPIED)), chat(submit(entry(vote_id(COPIED, 1)))))
    ranking = grade(endpoint, COPIED).ranking
    copied = next(one for one in ranking.candidates if one.trajectory_id == "copied")
    assert not copied.is_integrity_violation
    assert copied.tier == "T1"
    assert ranking.grader["integrity"]["verdicts"][0]["verdict"] == "disputed"
    assert ranking.grader["integrity"]["n_leads"] == {"copied": 1}


def test_a_vote_is_held_about_the_accused_alone_and_without_what_was_said_before(serve, chat):
    accused = vote_id(COPIED, 1)
    endpoint = serve(
        chat(accusing_submission(COPIED)),
        chat(("overview", {})),
        chat(submit(entry(accused, *proof(accused), accused=True))),
    )
    graded = grade(endpoint, COPIED)
    opening, follow_up = endpoint.requests[1], endpoint.requests[2]
    assert [message["role"] for message in opening["messages"]] == ["system", "user"]
    overview = follow_up["messages"][-1]["content"]
    others = set(shown_as(COPIED, -1_000_003).values()) - {accused}
    assert accused in overview
    assert not [name for name in others if name in overview]
    assert [message["role"] for message in graded.messages].count("system") == 2
    assert graded.ranking.grader["calls"] == 3


def test_a_vote_that_gives_no_usable_answer_is_a_no(serve, chat):
    endpoint = serve(chat(accusing_submission(COPIED)), chat(submit(entry("c99"))))
    verdict = grade(endpoint, COPIED).ranking.grader["integrity"]["verdicts"][0]
    assert (verdict["verdict"], verdict["votes"]) == ("disputed", [True, False])
    assert "no usable vote" in verdict["rationale"]


def test_one_vote_is_enough_where_one_is_asked_for(serve, chat):
    endpoint = serve(chat(accusing_submission(COPIED)))
    ranking = grade(endpoint, COPIED, integrity_votes=1).ranking
    assert [one.trajectory_id for one in ranking.candidates if one.is_integrity_violation] == ["copied"]
    assert len(endpoint.requests) == 1


def test_integrity_off_asks_nobody_and_accuses_nobody(serve, chat):
    endpoint = serve(chat(accusing_submission(COPIED)))
    ranking = grade(endpoint, COPIED, integrity="off").ranking
    assert not [one for one in ranking.candidates if one.is_integrity_violation]
    assert len(endpoint.requests) == 1


def test_an_endpoint_that_fails_in_a_vote_leaves_the_group_owed(serve, chat):
    endpoint = serve(chat(accusing_submission(COPIED)), (500, b"broken"))
    ranking = grade(endpoint, COPIED).ranking
    assert ranking.status == "ungraded"
    assert ranking.reason.startswith("endpoint")


def test_a_group_with_one_honest_pass_left_is_not_graded_but_keeps_its_verdict(serve, chat):
    group = group_of(
        attempt("honest", patch=OTHER_PATCH), attempt("copied", copied=True), attempt("f", passed=False)
    )
    accused = vote_id(group, 1)
    endpoint = serve(
        chat(accusing_submission(group)), chat(submit(entry(accused, *proof(accused), accused=True)))
    )
    ranking = grade(endpoint, group).ranking
    assert (ranking.status, ranking.reason) == ("skipped", "lone_pass")
    assert [one.trajectory_id for one in ranking.candidates if one.is_integrity_violation] == ["copied"]


LONE = group_of(attempt("copied", copied=True), attempt("failed", passed=False))


def test_a_lone_pass_without_a_lead_costs_nothing(serve):
    endpoint = serve()
    group = group_of(attempt("clean"), attempt("failed", passed=False))
    ranking = grade(endpoint, group).ranking
    assert (ranking.status, ranking.reason, ranking.candidates) == ("skipped", "lone_pass", ())
    assert endpoint.requests == []


def test_a_lone_pass_with_a_lead_is_put_to_the_vote(serve, chat):
    votes = [vote_id(LONE, n) for n in (0, 1)]
    endpoint = serve(*(chat(submit(entry(name, *proof(name), accused=True))) for name in votes))
    ranking = grade(endpoint, LONE).ranking
    assert (ranking.status, ranking.reason) == ("skipped", "all_fail")
    (copied,) = ranking.candidates
    assert copied.is_integrity_violation
    assert (copied.tier, copied.rank) == (None, None)
    assert {finding.kind for finding in copied.findings} == {"turn", "patch"}
    assert ranking.grader["integrity"]["verdicts"][0]["votes"] == [True, True]


def test_a_lead_without_a_yes_ends_the_asking(serve, chat):
    endpoint = serve(chat(submit(entry(vote_id(LONE, 0)))))
    ranking = grade(endpoint, LONE).ranking
    assert (ranking.status, ranking.reason, ranking.candidates) == ("skipped", "lone_pass", ())
    assert ranking.grader["integrity"]["verdicts"][0]["verdict"] == "unproven"


def test_an_accusation_that_code_cannot_confirm_is_no_vote(serve, chat):
    """The fix of a clean attempt stands in no turn before the patch."""
    clean = replace(COPIED.trajectories[2], model_patch=OTHER_PATCH)
    group = group_of(clean, attempt("failed", passed=False))
    name = vote_id(group, 0)
    endpoint = serve(chat(submit(entry(name, *proof(name), accused=True))))
    assert grade(endpoint, group).ranking.candidates == ()


def test_a_group_where_all_pass_is_ranked_once_a_violation_makes_it_mixed(serve, chat):
    group = group_of(
        attempt("honest", patch=OTHER_PATCH),
        attempt("second", patch=OTHER_PATCH),
        attempt("copied", copied=True),
    )
    votes = [vote_id(group, n) for n in (0, 1)]
    after = replace(
        group, trajectories=(*group.trajectories[:2], replace(group.trajectories[2], passed=False))
    )
    ids = shown_as(after)
    endpoint = serve(
        *(chat(submit(entry(name, *proof(name), accused=True))) for name in votes),
        chat(submit(entry(ids["honest"]), entry(ids["second"]))),
    )
    ranking = grade(endpoint, group, integrity="all").ranking
    assert ranking.status == "graded"
    by_name = {one.trajectory_id: one for one in ranking.candidates}
    assert by_name["copied"].is_integrity_violation
    assert (by_name["honest"].tier, by_name["honest"].rank) == ("T1", 1)
    assert {finding.at[:4] for finding in by_name["copied"].findings} == {f"{ids['copied']}:"}


PLAIN = group_of(attempt("a"), attempt("b", patch=OTHER_PATCH), attempt("failed", passed=False, patch=""))


def low(blind_id: str) -> dict[str, Any]:
    return {
        "kind": "patch",
        "at": f"{blind_id}:src/table.py:2",
        "anchor": "return sum(row.value",
        "claim": "too wide",
        "supports": ["minimality"],
    }


def test_a_static_judge_has_the_material_and_one_tool(serve, chat):
    ids = shown_as(PLAIN)
    endpoint = serve(chat(submit(entry(ids["a"], low(ids["a"]), minimality=2), entry(ids["b"]))))
    ranking = grade(endpoint, PLAIN, mode="groupwise-static").ranking
    (request,) = endpoint.requests
    material = request["messages"][1]["content"]
    assert tools_of(request) == ["submit_ranking"]
    assert f"## view_patch {ids['a']}" in material
    assert f"{ids['a']}:test_output:2│OK" in material
    assert "repository: not supplied" in material
    by_name = {one.trajectory_id: one for one in ranking.candidates}
    assert (by_name["a"].tier, by_name["b"].tier) == ("T2", "T1")
    assert by_name["a"].findings[0].quote == FIX
    assert ranking.grader["mode"] == "groupwise-static"


@pytest.mark.parametrize("mode", ["pointwise-static", "pointwise-agentic"])
def test_a_pointwise_judge_sees_one_attempt_and_code_makes_the_order(serve, chat, mode):
    ids = shown_as(PLAIN)
    by_id = {ids["a"]: entry(ids["a"], low(ids["a"]), minimality=2), ids["b"]: entry(ids["b"], consistency=4)}
    extra = [chat(("overview", {}))] if mode == "pointwise-agentic" else []
    endpoint = serve(*(reply for name in sorted(by_id) for reply in (*extra, chat(submit(by_id[name])))))
    ranking = grade(endpoint, PLAIN, mode=mode).ranking
    seen = [json.dumps(request["messages"], ensure_ascii=False) for request in endpoint.requests]
    halves = len(seen) // 2
    for texts, own, other in ((seen[:halves], "c01", "c02"), (seen[halves:], "c02", "c01")):
        assert own in texts[-1]
        # The prompt itself has c03 as its example.
        assert not [
            text for text in texts if f"{other} patch:" in text or f"{other}:src" in text or "f01" in text
        ]
    places = {one.trajectory_id: (one.tier, one.rank) for one in ranking.candidates}
    assert places == {"a": ("T2", 1), "b": ("T1", 1)}


def test_a_pointwise_judge_that_fails_on_one_attempt_leaves_the_group_ungraded(serve, chat):
    endpoint = serve(chat(submit(entry("c01"))), chat(submit(entry("c01"))))
    ranking = grade(endpoint, PLAIN, mode="pointwise-static").ranking
    assert ranking.status == "ungraded"
    assert ranking.reason.startswith("verdict: c02: invalid submission")


def test_twins_judged_apart_share_the_scores_of_the_first(serve, chat):
    group = group_of(attempt("a"), attempt("b"), attempt("failed", passed=False, patch=""))
    endpoint = serve(
        chat(submit(entry("c01", low("c01"), minimality=2))), chat(submit(entry("c02", consistency=4)))
    )
    ranking = grade(endpoint, group, mode="pointwise-static").ranking
    assert {(one.tier, one.rank, one.scores["minimality"]) for one in ranking.candidates} == {("T2", 1, 2)}


def test_leads_are_put_to_the_vote_where_the_judge_cannot_see_turns(serve, chat):
    ids = shown_as(COPIED)
    votes = [vote_id(COPIED, n) for n in (0, 1)]
    endpoint = serve(
        chat(submit(*(entry(ids[name]) for name in ("honest", "second", "copied")))),
        *(chat(submit(entry(name, *proof(name), accused=True))) for name in votes),
    )
    ranking = grade(endpoint, COPIED, mode="groupwise-static").ranking
    copied = next(one for one in ranking.candidates if one.trajectory_id == "copied")
    assert copied.is_integrity_violation
    assert {finding.at.partition(":")[0] for finding in copied.findings} == {ids["copied"]}
    assert "view_turns" in tools_of(endpoint.requests[1])


def seeds(n: int) -> list[int]:
    """The seeds of the gradings: two candidates have two orders, so the second differs from the first."""
    return repeat_seeds(PLAIN, 0, n)


def test_repeats_show_other_orders_and_the_median_counts(serve, chat):
    first, second, third = seeds(3)
    assert shown_as(PLAIN, first) != shown_as(PLAIN, second)
    replies = []
    for seed, minimality in ((first, 2), (second, 2), (third, 5)):
        ids = shown_as(PLAIN, seed)
        findings = [low(ids["a"])] if minimality < 4 else []
        replies.append(chat(submit(entry(ids["a"], *findings, minimality=minimality), entry(ids["b"]))))
    ranking = grade(serve(*replies), PLAIN, repeats=3).ranking
    by_name = {one.trajectory_id: one for one in ranking.candidates}
    assert (by_name["a"].scores["minimality"], by_name["a"].tier) == (2, "T2")
    # 5 − 0.2·(3 + 3 + 0)/3
    assert by_name["a"].weighted_score == pytest.approx(4.6)
    assert {finding.at for finding in by_name["a"].findings} == {
        f"{shown_as(PLAIN, first)['a']}:src/table.py:2"
    }
    repeats = ranking.grader["repeats"]
    assert [repeat["candidates"]["a"]["tier"] for repeat in repeats] == ["T2", "T2", "T1"]
    assert [repeat["candidates"]["a"]["blind_id"] for repeat in repeats] == [
        shown_as(PLAIN, seed)["a"] for seed in (first, second, third)
    ]


def test_a_repeat_without_a_usable_verdict_is_left_out(serve, chat):
    ids = shown_as(PLAIN, seeds(2)[1])
    endpoint = serve(chat(submit(entry("c01"))), chat(submit(entry(ids["a"]), entry(ids["b"]))))
    ranking = grade(endpoint, PLAIN, repeats=2).ranking
    assert ranking.status == "graded"
    assert len(ranking.grader["repeats"]) == 1


def test_a_budget_that_earlier_conversations_used_up_ends_the_group(serve, chat):
    endpoint = serve(chat(accusing_submission(COPIED)))
    ranking = grade(endpoint, COPIED, max_tokens=110).ranking
    assert (ranking.status, ranking.reason) == ("ungraded", "limit: no ranking within 110 tokens")
