"""Votes on one candidate's integrity: fresh conversations about that candidate alone.

A vote is yes only where code confirms its proof, as for every integrity verdict. All votes must be yes: the first no
ends the asking, and the suspicion stays a lead. A vote without a usable answer is a no.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gagar_cli.core.ranking import Finding, RankedCandidate
from gagar_cli.core.submission import Submission, parse_submission
from gagar_cli.core.verdict import describe_unproven, proven_violations, review
from gagar_cli.errors import VerdictError
from gagar_cli.grader.acceptance import Acceptance, SentBackError, lacking_proof
from gagar_cli.grader.checks import CheckRunner
from gagar_cli.grader.prompts import VOTE, opening
from gagar_cli.grader.talks import Talks
from gagar_cli.grader.tool_schemas import vote_schema
from gagar_cli.grader.tools import Toolbox
from gagar_cli.grader.workspace import Workspace

FLAG = "integrity_violation"


@dataclass(frozen=True, slots=True)
class Vote:
    """What one conversation says."""

    is_violation: bool
    findings: tuple[Finding, ...] = ()
    rationale: str = ""


@dataclass(slots=True)
class VoteAcceptance(Acceptance):
    """Judges the submissions of a vote: scores and other flags in them are left unread."""

    vote: Vote | None = None

    def accept(self, arguments: Mapping[str, Any]) -> tuple[RankedCandidate, ...]:
        """The vote as a ranking of one candidate without a place.

        Raises:
            SentBackError: something is wrong with it, and the grader may try again.
            VerdictError: something is wrong with it, and it may not.
        """
        self.n_submissions += 1
        is_last = self.n_submissions > self.max_reasks
        workspace = self.workspace
        own = {name: name for name in workspace.candidates}
        try:
            accused = parse_submission(_without_the_rest(arguments), workspace.candidates, own).candidates[0]
        except VerdictError as error:
            if is_last:
                raise VerdictError(f"invalid submission: {error.message.splitlines()[0]}") from error
            raise SentBackError(error.message) from error
        lacking: list[str] = []

        def is_unproven(candidate: str, findings: Sequence[Finding]) -> str | None:
            lacking.extend(reason for reason in (lacking_proof(workspace, candidate, findings),) if reason)
            return lacking[-1] if lacking else None

        reviewed = review(Submission((accused,), None), workspace.lines_near, {}, is_unproven)
        unproven = describe_unproven(reviewed)
        if unproven and not is_last:
            raise SentBackError("\n".join([*unproven, *lacking, "prove it, or withdraw it"]))
        is_violation = bool(proven_violations(reviewed))
        self.vote = Vote(is_violation, reviewed[0].findings, accused.rationale)
        return (
            RankedCandidate(
                workspace.trajectory_ids[accused.candidate_id], None, None, flags={FLAG: is_violation}
            ),
        )


def _without_the_rest(arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """The submission without scores, other flags, and findings that support only those."""
    entries = arguments.get("candidates")
    if not isinstance(entries, list):
        return arguments
    return {"candidates": [_mere_verdict(entry) if isinstance(entry, dict) else entry for entry in entries]}


def _mere_verdict(entry: Mapping[str, Any]) -> dict[str, Any]:
    flags, findings = entry.get("flags"), entry.get("findings")
    if isinstance(flags, dict):
        flags = {FLAG: flags.get(FLAG, False)}
    if isinstance(findings, list):
        findings = [{**one, "supports": [FLAG]} for one in findings if _is_about_integrity(one)]
    kept = {name: entry[name] for name in ("id", "rationale") if name in entry}
    return {**kept, "flags": flags, "findings": findings}


def _is_about_integrity(finding: object) -> bool:
    supports = finding.get("supports") if isinstance(finding, dict) else None
    return isinstance(supports, list) and FLAG in supports


async def ask_vote(workspace: Workspace, checks: CheckRunner | None, talks: Talks) -> Vote:
    """One vote on the one candidate of a workspace.

    Raises:
        LimitError: a budget is used up.
        EndpointError: the endpoint failed.
        SandboxError: a sandbox failed.
    """
    acceptance = VoteAcceptance(workspace, talks.limits.max_reasks)
    toolbox = Toolbox(workspace, checks, submit=vote_schema())
    try:
        await talks.hold(opening(workspace, VOTE), toolbox, acceptance)
    except VerdictError as error:
        return Vote(is_violation=False, rationale=f"no usable vote: {error.message}")
    return acceptance.vote or Vote(is_violation=False)
