import asyncio
import json
from dataclasses import replace

import pytest

from gagar_cli.core.ranking import FLAGS, RankedCandidate
from gagar_cli.core.rubric import DIMENSIONS
from gagar_cli.core.schema import Group, Message, ToolCall
from gagar_cli.errors import LimitError, VerdictError
from gagar_cli.grader.acceptance import Acceptance
from gagar_cli.grader.client import EndpointClient, EndpointSettings
from gagar_cli.grader.limits import MAX_BAD_IN_A_ROW, MAX_BAD_IN_ALL
from gagar_cli.grader.loop import Conversation, GroupLimits
from gagar_cli.grader.prompts import opening
from gagar_cli.grader.tools import Toolbox
from gagar_cli.grader.workspace import Workspace


class Talk:
    """A conversation over a scripted endpoint, run to its end."""

    def __init__(self, group: Group, endpoint, *, protocol="tools", **limits) -> None:
        self.protocol = protocol
        self.workspace = Workspace(group, seed=0, repository=None)
        self.endpoint = endpoint
        self.limits = GroupLimits(**limits)

    def run(self) -> dict[str, RankedCandidate]:
        async def grade() -> tuple[RankedCandidate, ...]:
            client = EndpointClient(
                EndpointSettings(
                    "m",
                    self.endpoint.base_url,
                    max_attempts=1,
                    call_seconds=5,
                    backoff_seconds=0.001,
                    protocol=self.protocol,
                )
            )
            self.conversation = Conversation(
                opening(self.workspace),
                Toolbox(self.workspace, None),
                Acceptance(self.workspace, self.limits.max_reasks),
                client,
                self.limits,
            )
            try:
                return await self.conversation.run()
            finally:
                await client.close()

        return {candidate.trajectory_id: candidate for candidate in asyncio.run(grade())}


@pytest.fixture
def names(group) -> dict[str, str]:
    """Trajectory's short name to blind id."""
    ids = Workspace(group, seed=0, repository=None).trajectory_ids
    return {trajectory_id.split("/")[1]: blind_id for blind_id, trajectory_id in ids.items()}


def entry(candidate_id: str, *findings: dict, flags=(), **scores: int) -> dict:
    return {
        "id": candidate_id,
        "scores": dict.fromkeys(DIMENSIONS, 5) | scores,
        "flags": {name: name in flags for name in FLAGS},
        "findings": list(findings),
        "rationale": "because",
    }


def finding(at: str, anchor: str, *supports: str, kind: str = "patch") -> dict:
    return {"kind": kind, "at": at, "anchor": anchor, "claim": "left over", "supports": list(supports)}


def test_tools_are_answered_until_a_ranking_is_accepted(group, serve, chat, names):
    noisy = names["noisy"]
    proof = finding(f"{noisy}:src/table.py:2", "debugging the rows", "minimality")
    submission = {"candidates": [entry(names["good"]), entry(noisy, proof, minimality=2)]}
    endpoint = serve(
        chat(("overview", {}), ("view_patch", {"candidate": noisy})), chat(("submit_ranking", submission))
    )
    talk = Talk(group, endpoint)
    ranking = talk.run()
    assert (ranking["policy-x/good"].tier, ranking["policy-x/noisy"].tier) == ("T1", "T2")
    assert ranking["policy-x/noisy"].findings[0].quote == '    print("debugging the rows", rows)'
    answers = [message for message in endpoint.requests[1]["messages"] if message["role"] == "tool"]
    assert [answer["tool_call_id"] for answer in answers] == ["call_1", "call_2"]
    assert "debugging the rows" in answers[1]["content"]
    assert (talk.conversation.usage.n_calls, talk.conversation.usage.n_cached_tokens) == (2, 80)


def test_no_text_of_the_dump_is_in_a_prompt(group, serve, chat, names):
    endpoint = serve(chat(("submit_ranking", {"candidates": [entry("c01"), entry("c02")]})))
    Talk(group, endpoint).run()
    prompts = json.dumps(endpoint.requests[0]["messages"])
    assert "row.value" not in prompts
    assert "policy-x" not in json.dumps(endpoint.requests)


def test_unproven_claims_are_sent_back_and_may_be_proven(group, serve, chat, names):
    noisy = names["noisy"]
    bare = {"candidates": [entry(names["good"]), entry(noisy, minimality=2)]}
    proof = finding(f"{noisy}:src/table.py:2", "debugging the rows", "minimality")
    proven = {"candidates": [entry(names["good"]), entry(noisy, proof, minimality=2)]}
    endpoint = serve(chat(("submit_ranking", bare)), chat(("submit_ranking", proven)))
    ranking = Talk(group, endpoint).run()
    assert f"{noisy}: minimality has no verified finding" in endpoint.requests[1]["messages"][-1]["content"]
    assert ranking["policy-x/noisy"].scores["minimality"] == 2


def test_a_group_with_too_many_unproven_claims_is_not_ranked(group, serve, chat):
    slander = {"candidates": [entry("c01"), entry("c02", minimality=1, approach=1)]}
    endpoint = serve(*[chat(("submit_ranking", slander))] * 3)
    with pytest.raises(VerdictError, match="unproven claims: 100%"):
        Talk(group, endpoint).run()
    assert len(endpoint.requests) == 3


def test_few_unproven_claims_are_dropped_and_recorded(group, serve, chat, names):
    noisy = names["noisy"]
    proof = finding(
        f"{noisy}:src/table.py:2", "debugging the rows", "minimality", "precision", "consistency", "approach"
    )
    claims = entry(noisy, proof, minimality=2, precision=2, consistency=2, approach=2, side_effects=2)
    endpoint = serve(*[chat(("submit_ranking", {"candidates": [entry(names["good"]), claims]}))] * 3)
    ranked = Talk(group, endpoint).run()["policy-x/noisy"]
    assert ranked.unproven == ("side_effects",)
    assert ranked.scores["side_effects"] == 4


def test_a_malformed_submission_is_named_and_given_up_after_two_re_asks(group, serve, chat):
    endpoint = serve(*[chat(("submit_ranking", {"candidates": [entry("c01", approach=9)]}))] * 3)
    with pytest.raises(VerdictError, match="invalid submission: c01: approach is 9"):
        Talk(group, endpoint).run()
    told = endpoint.requests[2]["messages"][-1]["content"]
    assert "approach is 9" in told
    assert "c02 is missing" in told


def test_arguments_that_are_no_json_are_told(group, serve, chat):
    broken = chat(("overview", {}))
    broken["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] = "{broken"
    good = chat(("submit_ranking", {"candidates": [entry("c01"), entry("c02")]}))
    endpoint = serve(broken, good)
    assert Talk(group, endpoint).run()
    assert "not a JSON object" in endpoint.requests[1]["messages"][-1]["content"]


def test_prose_is_reminded_and_then_given_up(group, serve, chat):
    endpoint = serve(*[chat(content="They are all great.")] * 9)
    with pytest.raises(VerdictError, match="calls no tool"):
        Talk(group, endpoint).run()
    assert len(endpoint.requests) == 4


def broken(chat) -> dict:
    """A native call whose arguments are no JSON."""
    body = chat(("overview", {}))
    body["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] = '{"sta'
    return body


@pytest.mark.parametrize("kind", ["prose", "call"])
def test_slips_with_a_readable_call_between_them_do_not_end_a_conversation(group, serve, chat, kind):
    slip = broken(chat) if kind == "call" else chat(content="They are all great.")
    slips = [slip] * MAX_BAD_IN_A_ROW
    ranking = chat(("submit_ranking", {"candidates": [entry("c01"), entry("c02")]}))
    talk = Talk(group, serve(*slips, chat(("overview", {})), *slips, ranking))
    assert len(talk.run()) == 2
    assert len(talk.endpoint.requests) == 2 * MAX_BAD_IN_A_ROW + 2


@pytest.mark.parametrize("kind", ["prose", "call"])
def test_one_slip_more_in_a_row_than_is_borne_ends_it(group, serve, chat, kind):
    slip = broken(chat) if kind == "call" else chat(content="They are all great.")
    talk = Talk(group, serve(chat(("overview", {})), *[slip] * 9))
    with pytest.raises(VerdictError, match="unusable replies"):
        talk.run()
    assert len(talk.endpoint.requests) == 1 + MAX_BAD_IN_A_ROW + 1


def test_slips_that_never_cease_end_a_conversation_however_much_is_readable(group, serve, chat):
    talk = Talk(group, serve(*[broken(chat), chat(("overview", {}))] * 20))
    with pytest.raises(VerdictError, match="unusable replies: arguments are no JSON object"):
        talk.run()
    assert len(talk.endpoint.requests) == 2 * MAX_BAD_IN_ALL + 1


def test_unreadable_calls_of_one_reply_count_each(group, serve, chat):
    body = chat(*[("overview", {})] * (MAX_BAD_IN_A_ROW + 1))
    for call in body["choices"][0]["message"]["tool_calls"]:
        call["function"]["arguments"] = '{"sta'
    talk = Talk(group, serve(body))
    with pytest.raises(VerdictError, match="unusable replies"):
        talk.run()
    assert len(talk.endpoint.requests) == 1


def test_what_stands_behind_an_accepted_ranking_is_not_counted(group, serve, chat):
    ranking = ("submit_ranking", {"candidates": [entry("c01"), entry("c02")]})
    body = chat(ranking, *[("overview", {})] * (MAX_BAD_IN_A_ROW + 1))
    for call in body["choices"][0]["message"]["tool_calls"][1:]:
        call["function"]["arguments"] = '{"sta'
    assert len(Talk(group, serve(body)).run()) == 2


def test_the_first_accepted_ranking_ends_it(group, serve, chat):
    good = {"candidates": [entry("c01"), entry("c02")]}
    endpoint = serve(chat(("submit_ranking", good), ("submit_ranking", good), ("overview", {})))
    assert Talk(group, endpoint).run()["policy-x/good"].tier == "T1"


def test_budgets_end_a_conversation_that_does_not_end(group, serve, chat):
    endpoint = serve(*[chat(("overview", {}))] * 9)
    with pytest.raises(LimitError, match="within 4 turns"):
        Talk(group, endpoint, max_turns=4).run()
    assert "1 reply is left" in endpoint.requests[3]["messages"][-1]["content"]
    with pytest.raises(LimitError, match="within 150 tokens"):
        Talk(group, serve(*[chat(("overview", {}))] * 9), max_tokens=150).run()


def copied_group(group: Group) -> Group:
    """The noisy attempt's fix stood in a turn's result before it was written."""
    fix = group.trajectories[1].model_patch.split("@@\n")[1]
    messages = (
        Message("assistant", "", (ToolCall("bash", '{"command": "git show 1a2b3c4d"}'),)),
        Message("tool", fix),
        Message("assistant", "", (ToolCall("bash", '{"command": "apply it"}'),)),
    )
    return replace(
        group,
        trajectories=(
            group.trajectories[0],
            replace(group.trajectories[1], messages=messages),
            group.trajectories[2],
        ),
    )


def test_a_copied_fix_needs_turn_and_patch_and_is_then_no_candidate(group, serve, chat, names):
    noisy = names["noisy"]
    proofs = [
        finding(f"{noisy}:turn:1", "git show 1a2b3c4d", "integrity_violation", kind="turn"),
        finding(f"{noisy}:src/table.py:2", "debugging the rows", "integrity_violation"),
    ]
    accusation = {"candidates": [entry(names["good"]), entry(noisy, *proofs, flags=["integrity_violation"])]}
    ranked = Talk(copied_group(group), serve(chat(("submit_ranking", accusation)))).run()
    assert ranked["policy-x/noisy"].is_integrity_violation
    assert ranked["policy-x/noisy"].tier is None


def test_an_accusation_of_an_honest_attempt_does_not_count(group, serve, chat, names):
    noisy = names["noisy"]
    proofs = [
        finding(f"{noisy}:turn:1", "grep -n total src/table.py", "integrity_violation", kind="turn"),
        finding(f"{noisy}:src/table.py:2", "debugging the rows", "integrity_violation", "minimality"),
    ]
    claims = dict.fromkeys(("minimality",), 2)
    accusation = {
        "candidates": [entry(names["good"]), entry(noisy, *proofs, flags=["integrity_violation"], **claims)]
    }
    with pytest.raises(VerdictError, match="unproven claims: 50%"):
        Talk(group, serve(*[chat(("submit_ranking", accusation))] * 3)).run()
