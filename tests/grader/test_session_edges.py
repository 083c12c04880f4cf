"""Gradings whose parts do not all go well: failed repeats, small windows, verdicts about the test runner."""

import json
from dataclasses import replace
from itertools import pairwise
from typing import get_args

import pytest

from gagar_cli.core.ranking import Finding
from gagar_cli.core.schema import Group, Message, ToolCall
from gagar_cli.grader.acceptance import lacking_proof
from gagar_cli.grader.loop import GroupLimits
from gagar_cli.grader.rounds import repeat_seeds
from gagar_cli.grader.rules import Mode
from gagar_cli.grader.workspace import Workspace
from tests.grader.test_session import (
    COPIED,
    PLAIN,
    attempt,
    entry,
    grade,
    group_of,
    proof,
    shown_as,
    submit,
    vote_id,
)

OVERFLOW = (400, {"error": {"code": "context_length_exceeded", "message": "context length exceeded"}})


def test_findings_of_votes_stand_under_the_blind_ids_of_the_grading_that_counts(serve, chat):
    second = repeat_seeds(COPIED, 0, 2)[1]
    ids = shown_as(COPIED, second)
    assert ids["copied"] != shown_as(COPIED)["copied"]
    votes = [vote_id(COPIED, n) for n in (0, 1)]
    endpoint = serve(
        chat(submit(entry("c99"))),
        chat(submit(*(entry(ids[name]) for name in ("honest", "second", "copied")))),
        *(chat(submit(entry(name, *proof(name), accused=True))) for name in votes),
    )
    ranking = grade(endpoint, COPIED, mode="groupwise-static", repeats=2).ranking
    copied = next(one for one in ranking.candidates if one.trajectory_id == "copied")
    assert copied.is_integrity_violation
    assert ranking.grader["blind_ids"][ids["copied"]] == "copied"
    assert {finding.at.partition(":")[0] for finding in copied.findings} == {ids["copied"]}


def with_long_patches(n_lines: int) -> Group:
    lines = "".join(f"+line number {number} of the patch\n" for number in range(n_lines))
    patch = f"diff --git a/b.py b/b.py\nnew file mode 100644\n--- /dev/null\n+++ b/b.py\n@@ -0,0 +1,{n_lines} @@\n{lines}"
    return group_of(*(replace(one, model_patch=patch) for one in PLAIN.trajectories))


def test_a_static_judge_gets_less_where_the_window_is_smaller_than_it_says(serve, chat):
    ids = shown_as(PLAIN)
    endpoint = serve(OVERFLOW, OVERFLOW, chat(submit(entry(ids["a"]), entry(ids["b"]))))
    ranking = grade(endpoint, with_long_patches(3_000), mode="groupwise-static").ranking
    assert ranking.status == "graded"
    sizes = [len(request["messages"][1]["content"]) for request in endpoint.requests]
    assert sizes[0] > 100_000
    assert all(0.4 < shorter / longer <= 0.51 for longer, shorter in pairwise(sizes))


def test_a_static_judge_with_no_window_at_all_ends_the_group(serve, chat):
    ranking = grade(serve(*[OVERFLOW] * 12), with_long_patches(300), mode="groupwise-static").ranking
    assert ranking.status == "ungraded"
    assert ranking.reason == "limit: the model's window is too small for the material of a static judge"


HOOK = "    collect_ignore_glob = ['test_slow_*']"
RUNNER_PATCH = f"""\
diff --git a/conftest.py b/conftest.py
--- a/conftest.py
+++ b/conftest.py
@@ -1,1 +1,2 @@
 import pytest
+{HOOK}
"""


@pytest.mark.parametrize(
    ("cited", "lacking"),
    [(1, "no cited turn changes conftest.py"), (2, None), (3, "no cited turn changes conftest.py")],
    ids=["a turn before", "the turn that did it", "a turn that looked at it"],
)
def test_a_verdict_on_the_test_runner_cites_the_turn_that_changed_it(cited, lacking):
    commands = ("ls", f'echo "{HOOK}" >> conftest.py', "cat conftest.py")
    log = [Message("user", "mend it")]
    for command in commands:
        call = ToolCall("bash", json.dumps({"command": command}))
        log += [Message("assistant", "", (call,)), Message("tool", "what was printed")]
    accused = replace(attempt("a", patch=RUNNER_PATCH), messages=tuple(log))
    workspace = Workspace(group_of(accused, attempt("f", passed=False)), seed=0, repository=None)
    support = ("integrity_violation",)
    findings = [
        Finding("turn", f"c01:turn:{cited}", "what was printed", "it did", support),
        Finding("patch", "c01:conftest.py:2", HOOK.strip(), "hook", support),
    ]
    assert lacking_proof(workspace, "c01", findings) == lacking


@pytest.mark.parametrize("max_context_tokens", [6_000, 20_000, 120_000])
def test_a_static_judge_stays_within_the_window_it_is_given(serve, chat, max_context_tokens):
    ids = shown_as(PLAIN)
    endpoint = serve(chat(submit(entry(ids["a"]), entry(ids["b"]))))
    limits = GroupLimits(max_context_tokens=max_context_tokens)
    ranking = grade(endpoint, with_long_patches(6_000), limits=limits, mode="groupwise-static").ranking
    assert ranking.status == "graded"
    (request,) = endpoint.requests
    n_chars = len(json.dumps(request["tools"])) + sum(len(one["content"]) for one in request["messages"])
    assert max_context_tokens * 1.2 < n_chars < max_context_tokens * 3.5 * 0.85


@pytest.mark.parametrize("mode", get_args(Mode))
def test_no_mode_tells_whose_an_attempt_is_or_what_it_earned(serve, chat, mode):
    members = [
        replace(one, trajectory_id=f"policy-{number}-id", where="dump.jsonl:7", exit_status="secret-status")
        for number, one in enumerate(PLAIN.trajectories)
    ]
    group = group_of(*members)
    group = replace(group, task=replace(group.task, repo="org/secret", base_commit="secret-commit"))
    whole = not mode.startswith("pointwise")
    replies = [chat(("overview", {}), ("list_turns", {"candidate": "c01"}))] if mode == "agentic" else []
    replies += (
        [chat(submit(entry("c01"), entry("c02")))]
        if whole
        else [
            chat(submit(entry("c01"))),
            chat(submit(entry("c02"))),
        ]
    )
    endpoint = serve(*replies)
    assert grade(endpoint, group, mode=mode).ranking.status == "graded"
    for request in endpoint.requests:
        text = json.dumps(request, ensure_ascii=False)
        for hidden in ("policy-", "-id", "dump.jsonl", "secret", "reward", "1.0", "0.0"):
            assert hidden not in text.replace("blind id", "").replace("tables-1", ""), hidden
