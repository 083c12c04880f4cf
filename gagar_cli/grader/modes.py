"""The ways to judge a group: which attempts a judge sees, with which tools, and how the parts become one ranking.

All modes share rubric, evidence rules and rankings file. A judge of one attempt sees neither the others nor the failing
ones; code puts its scores beside theirs, so the order is that of the weighted scores, with ties where they are equal.
A static judge has the patches and test outputs in its first message and only one tool, which submits: what is not in
the message (turns, the repository, runs) cannot be looked up, so the overview's leads are all it knows of them.
"""

import asyncio
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any

from gagar_cli.core.submission import Submission
from gagar_cli.core.verdict import MAX_UNPROVEN_SHARE, review, unproven_share
from gagar_cli.errors import LimitError, VerdictError, WindowError
from gagar_cli.grader.acceptance import Acceptance, Outcome, lacking_proof
from gagar_cli.grader.checks import CheckRunner
from gagar_cli.grader.client import CHARS_PER_TOKEN
from gagar_cli.grader.context import count_chars
from gagar_cli.grader.material import MAX_MATERIAL_CHARS, compose_material
from gagar_cli.grader.prompts import opening
from gagar_cli.grader.rules import GradingRules
from gagar_cli.grader.talks import Talks
from gagar_cli.grader.tool_schemas import SUBMIT, submit_schema
from gagar_cli.grader.tools import Toolbox
from gagar_cli.grader.workspace import Workspace

MIN_MATERIAL_CHARS = 2_000
_MATERIAL_SHARE = 0.75
"""Of the room in the window; the rest is for the reply and for what is sent back."""


async def judge(
    workspace: Workspace, checks: CheckRunner | None, talks: Talks, rules: GradingRules
) -> Outcome:
    """The candidates of a workspace, judged in the mode of the rules.

    Raises:
        VerdictError: a judge gave no usable verdict.
        LimitError: a budget is used up.
        EndpointError: the endpoint failed.
        SandboxError: a sandbox failed.
    """
    if not rules.is_pointwise:
        return await _converse(workspace, checks, talks, rules)
    alone = []
    for candidate in workspace.candidates:
        try:
            outcome = await _converse(show_only(workspace, candidate), checks, talks, rules)
        except (VerdictError, LimitError) as error:
            raise type(error)(f"{candidate}: {error.message}") from error
        alone.append(outcome.reviewed[0].submitted)
    # Every finding is looked up again, in logs of any size: not on the event loop, which serves the other groups.
    return await asyncio.to_thread(_put_together, workspace, Submission(tuple(alone), None))


def show_only(workspace: Workspace, candidate: str) -> Workspace:
    """The workspace with one candidate, under the id that it has in the group; outputs of commands are shared."""
    alone = copy(workspace)
    alone.attempts = {candidate: workspace.attempts[candidate]}
    alone.candidates = (candidate,)
    alone.references = ()
    alone.twins = {}
    return alone


async def _converse(
    workspace: Workspace, checks: CheckRunner | None, talks: Talks, rules: GradingRules
) -> Outcome:
    submit = submit_schema(rules.rubric)
    if rules.is_static:
        return await _converse_statically(workspace, talks, rules, submit)
    toolbox = Toolbox(workspace, checks, submit=submit)
    return await _hold(opening(workspace, rules.mode, rules.rubric), toolbox, talks, rules)


async def _converse_statically(
    workspace: Workspace, talks: Talks, rules: GradingRules, submit: Mapping[str, Any]
) -> Outcome:
    """With as much material as the window holds: less each time that the endpoint says it is too long."""
    workspace = copy(workspace)
    workspace.repository = None
    toolbox = Toolbox(workspace, None, only=(SUBMIT,), submit=submit)
    max_chars = material_chars(workspace, toolbox, rules, talks.limits.max_context_tokens)
    while True:
        if max_chars < MIN_MATERIAL_CHARS:
            raise WindowError("the model's window is too small for the material of a static judge")
        material = await asyncio.to_thread(compose_material, workspace, max_chars)
        try:
            return await _hold(opening(workspace, rules.mode, rules.rubric, material), toolbox, talks, rules)
        except WindowError:
            max_chars = min(max_chars, len(material)) // 2


def material_chars(
    workspace: Workspace, toolbox: Toolbox, rules: GradingRules, max_context_tokens: int
) -> int:
    """How much material a judge without tools is given at first."""
    window = int(max_context_tokens * CHARS_PER_TOKEN)
    room = window - count_chars(opening(workspace, rules.mode, rules.rubric)) - count_chars(toolbox.schemas)
    return min(MAX_MATERIAL_CHARS, int(room * _MATERIAL_SHARE))


async def _hold(
    messages: Sequence[dict[str, str]], toolbox: Toolbox, talks: Talks, rules: GradingRules
) -> Outcome:
    acceptance = Acceptance(toolbox.workspace, talks.limits.max_reasks, rules.rubric)
    await talks.hold(messages, toolbox, acceptance)
    if acceptance.outcome is None:
        raise VerdictError("the conversation ended without an accepted submission")
    return acceptance.outcome


def _put_together(workspace: Workspace, submission: Submission) -> Outcome:
    """Judgements of single attempts as one of the group: twins share the scores of the first, as everywhere.

    Raises:
        VerdictError: too many claims of the group are unproven.
    """
    shared = Submission(
        tuple(
            one if one.candidate_id not in workspace.twins else replace(one, scores=None)
            for one in submission.candidates
        ),
        None,
    )
    reviewed = review(
        shared,
        workspace.lines_near,
        workspace.twins,
        lambda candidate, findings: lacking_proof(workspace, candidate, findings),
    )
    share = unproven_share(reviewed)
    if share > MAX_UNPROVEN_SHARE:
        raise VerdictError(f"unproven claims: {share:.0%} of the negative claims")
    return Outcome(reviewed, None)
