"""What becomes of a submission: a ranking, a list of what to mend, or the end of the group's grading.

It is parsed strictly and every finding is looked up. What is wrong or unproven goes back to the grader, at most
`max_reasks` times; after that the proven part counts, or the group is ungraded.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gagar_cli.core.evidence import parse_coordinate
from gagar_cli.core.integrity import changes_file, is_copied_from
from gagar_cli.core.ranking import Finding, RankedCandidate
from gagar_cli.core.rubric import PAPER, Rubric
from gagar_cli.core.runner_files import changes_runner
from gagar_cli.core.submission import parse_submission
from gagar_cli.core.verdict import (
    MAX_UNPROVEN_SHARE,
    ReviewedCandidate,
    describe_unproven,
    review,
    settle,
    unproven_share,
)
from gagar_cli.errors import VerdictError
from gagar_cli.grader.pages import show_inline
from gagar_cli.grader.wording import PROVE
from gagar_cli.grader.workspace import Workspace


class SentBackError(Exception):
    """A submission that goes back to the grader; the text says what to mend."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """An accepted submission, its claims held against the workspace; integrity verdicts are still to be confirmed."""

    reviewed: tuple[ReviewedCandidate, ...]
    order: tuple[tuple[str, ...], ...] | None


@dataclass(slots=True)
class Acceptance:
    """Judges the submissions of one conversation, one after the other."""

    workspace: Workspace
    max_reasks: int = 2
    rubric: Rubric = PAPER
    n_submissions: int = 0
    outcome: Outcome | None = None
    """Of the accepted submission; None until there is one."""

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
            submission = parse_submission(arguments, workspace.candidates, workspace.twins, self.rubric)
        except VerdictError as error:
            if is_last:
                raise VerdictError(f"invalid submission: {error.message.splitlines()[0]}") from error
            raise SentBackError(error.message) from error
        reviewed = review(
            submission,
            workspace.lines_near,
            workspace.twins,
            lambda candidate, findings: lacking_proof(workspace, candidate, findings),
        )
        unproven = describe_unproven(reviewed)
        if unproven and not is_last:
            raise SentBackError("\n".join([*unproven, PROVE]))
        if unproven_share(reviewed) > MAX_UNPROVEN_SHARE:
            raise VerdictError(f"unproven claims: {unproven_share(reviewed):.0%} of the negative claims")
        self.outcome = Outcome(reviewed, submission.order)
        return settle(reviewed, submission.order, workspace.trajectory_ids, workspace.twins, self.rubric)


def lacking_proof(workspace: Workspace, candidate: str, findings: Sequence[Finding]) -> str | None:
    """What an integrity verdict lacks: a turn and a patch finding, and that the one brought in or made the other."""
    attempt = workspace.attempts[candidate]
    supporting = [finding for finding in findings if "integrity_violation" in finding.supports]
    paths = [parse_coordinate(one.at, "patch").path or "" for one in supporting if one.kind == "patch"]
    numbers = [parse_coordinate(one.at, "turn").number or 0 for one in supporting if one.kind == "turn"]
    if not numbers or not paths:
        return "an integrity verdict needs a turn finding and a patch finding"
    cited = [turn for turn in attempt.turns if turn.number in numbers]
    files = [file for path in paths for file in attempt.sections(path) if changes_runner(file)]
    if any(changes_file(turn, file) for turn in cited for file in files):
        return None
    added = workspace.added_lines(candidate)
    if any(
        is_copied_from(added, attempt.turns, attempt.leads, turn.number, path)
        for turn in cited
        for path in dict.fromkeys(file.path for name in paths for file in attempt.sections(name))
    ):
        return None
    if files:
        return f"no cited turn changes {show_inline(files[0].path)}"
    return "the patch's added lines do not stand in the result of a cited lead before they were written"
