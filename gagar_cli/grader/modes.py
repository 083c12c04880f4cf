"""The ways to judge a group: which attempts a judge sees, with which tools, and how the parts become one ranking.

All modes share rubric, evidence rules and rankings file. A judge of one attempt sees neither the others nor the failing
ones; code puts its scores beside theirs, so the order is that of the weighted scores, with ties where they are equal.
A static judge has the patches and test outputs in its first message and only one tool, which submits: what is not in
the message (turns, the repository, runs) cannot be looked up, so the overview's leads are all it knows of them.
"""

import asyncio
from copy import copy
from dataclasses import replace

from gagar_cli.core.submission import Submission
from gagar_cli.core.verdict import MAX_UNPROVEN_SHARE, review, unproven_share
from gagar_cli.errors import LimitError, VerdictError
from gagar_cli.grader.acceptance import Acceptance, Outcome, lacking_proof
from gagar_cli.grader.checks import CheckRunner
from gagar_cli.grader.material import compose_material
from gagar_cli.grader.prompts import opening
from gagar_cli.grader.rules import GradingRules
from gagar_cli.grader.talks import Talks
from gagar_cli.grader.tool_schemas import SUBMIT, submit_schema
from gagar_cli.grader.tools import Toolbox
from gagar_cli.grader.workspace import Workspace


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
    return _put_together(workspace, Submission(tuple(alone), None))


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
        workspace = copy(workspace)
        workspace.repository = None
        toolbox = Toolbox(workspace, None, only=(SUBMIT,), submit=submit)
        material = await asyncio.to_thread(compose_material, workspace)
        messages = opening(workspace, rules.mode, rules.rubric, material)
    else:
        toolbox = Toolbox(workspace, checks, submit=submit)
        messages = opening(workspace, rules.mode, rules.rubric)
    acceptance = Acceptance(workspace, talks.limits.max_reasks, rules.rubric)
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
