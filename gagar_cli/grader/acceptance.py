"""What becomes of a submission: a ranking, a list of what to mend, or the end of the group's grading.

It is parsed strictly and every finding is looked up. What is wrong or unproven goes back to the grader, at most
`max_reasks` times; after that the proven part counts, or the group is ungraded.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gagar_cli.core.evidence import parse_coordinate
from gagar_cli.core.integrity import is_copied_from, is_runner_file
from gagar_cli.core.ranking import Finding, RankedCandidate
from gagar_cli.core.submission import parse_submission
from gagar_cli.core.verdict import MAX_UNPROVEN_SHARE, describe_unproven, review, settle, unproven_share
from gagar_cli.errors import VerdictError
from gagar_cli.grader.workspace import Workspace


class SentBackError(Exception):
    """A submission that goes back to the grader; the text says what to mend."""


@dataclass(slots=True)
class Acceptance:
    """Judges the submissions of one group's grading, one after the other."""

    workspace: Workspace
    max_reasks: int = 2
    n_submissions: int = 0

    def accept(self, arguments: Mapping[str, Any]) -> tuple[RankedCandidate, ...]:
        """The ranking that a submission makes.

        Raises:
            SentBackError: something is wrong with it, and the grader may try again.
            VerdictError: something is wrong with it, and it may not.
        """
        self.n_submissions += 1
        is_last = self.n_submissions > self.max_reasks
        workspace = self.workspace
        try:
            submission = parse_submission(arguments, workspace.candidates, workspace.twins)
        except VerdictError as error:
            if is_last:
                raise VerdictError(f"invalid submission: {error.message.splitlines()[0]}") from error
            raise SentBackError(error.message) from error
        reviewed = review(submission, workspace.lines_near, workspace.twins, self._lacking_proof)
        unproven = describe_unproven(reviewed)
        if unproven and not is_last:
            raise SentBackError("\n".join([*unproven, "prove each with a finding, or withdraw it"]))
        if unproven_share(reviewed) > MAX_UNPROVEN_SHARE:
            raise VerdictError(f"unproven claims: {unproven_share(reviewed):.0%} of the negative claims")
        return settle(reviewed, submission.order, workspace.trajectory_ids, workspace.twins)

    def _lacking_proof(self, candidate: str, findings: Sequence[Finding]) -> str | None:
        """What an integrity verdict lacks: a lead's turn and a patch finding, and that the one brought in the other."""
        attempt = self.workspace.attempts[candidate]
        supporting = [finding for finding in findings if "integrity_violation" in finding.supports]
        patches = [parse_coordinate(one.at, "patch") for one in supporting if one.kind == "patch"]
        turns = [parse_coordinate(one.at, "turn").number or 0 for one in supporting if one.kind == "turn"]
        if not turns or not patches:
            return "an integrity verdict needs a turn finding and a patch finding"
        if any(is_runner_file(place.path or "") for place in patches):
            return None
        leads = {lead.turn for lead in attempt.leads}
        added, known = self.workspace.patch_texts(candidate)
        if any(is_copied_from(added, known, attempt.turns, number) for number in leads.intersection(turns)):
            return None
        return "the patch's added lines do not stand in the result of a cited lead before they were written"
