"""From a submission to a ranking: what is proven counts, what is not does not, and tiers are computed.

Negative claims are scores of at most 2, scores of 3 (one claim a candidate), flags and integrity verdicts. Each needs
a finding that code has verified. An unproven claim's score becomes 4 and its flag false, and both are recorded; where
more than a fifth of a group's negative claims are unproven the grader's word is not usable and the group is ungraded.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from gagar_cli.core.evidence import LineLookup, check_finding
from gagar_cli.core.ranking import FLAGS, Finding, RankedCandidate
from gagar_cli.core.rubric import PAPER, Rubric, weighted_score
from gagar_cli.core.submission import Submission, SubmittedCandidate
from gagar_cli.core.tiers import assign_tier, rank_within_tiers

SCORE_WHEN_UNPROVEN = 4
MAX_UNPROVEN_SHARE = 0.2
_MIDDLING = "a score of 3"
_VIOLATION = "integrity_violation"

IntegrityCheck = Callable[[str, Sequence[Finding]], str | None]
"""Given a candidate and its verified findings: None where they prove the violation, else what is lacking."""


@dataclass(frozen=True, slots=True)
class ReviewedCandidate:
    """A candidate's claims after every finding was looked up."""

    submitted: SubmittedCandidate
    scores: Mapping[str, int]
    """Its own, or its twin's."""
    findings: tuple[Finding, ...]
    """Verified, with the text found."""
    rejected: tuple[str, ...]
    """Why the others were not."""
    unproven: tuple[str, ...]
    """Claims without a verified finding."""
    n_claims: int


def review(
    submission: Submission,
    lookup: LineLookup,
    twins: Mapping[str, str],
    is_violation_unproven: IntegrityCheck,
) -> tuple[ReviewedCandidate, ...]:
    """Every candidate's claims held against the workspace, in the order of the submission."""
    by_id = {candidate.candidate_id: candidate for candidate in submission.candidates}
    checked = {candidate_id: _check_findings(candidate, lookup) for candidate_id, candidate in by_id.items()}
    reviewed = []
    for candidate_id, candidate in by_id.items():
        scored_as = twins.get(candidate_id, candidate_id)
        scores = by_id[scored_as].scores or {}
        own, rejected = checked[candidate_id]
        shared = checked[scored_as][0] if scored_as != candidate_id else ()
        inherited = (_as_own(finding, scored_as, candidate_id) for finding in shared)
        findings = (*own, *(finding for finding in inherited if finding is not None and finding not in own))

        score_claims = _score_claims(scores)
        flag_claims = [name for name in FLAGS if candidate.flags.get(name)]
        unproven = [claim for claim in score_claims if not _is_supported(claim, (*shared, *findings), scores)]
        # What the base holds can show that something is missing, never that a candidate did something.
        own_places = [finding for finding in findings if not finding.at.startswith("base:")]
        unproven += [name for name in flag_claims if not _is_supported(name, own_places, scores)]
        if _VIOLATION in flag_claims and is_violation_unproven(candidate_id, findings):
            unproven = [*(name for name in unproven if name != _VIOLATION), _VIOLATION]
        n_claims = len(score_claims) + len(flag_claims)
        reviewed.append(ReviewedCandidate(candidate, scores, findings, rejected, tuple(unproven), n_claims))
    return tuple(reviewed)


def describe_unproven(reviewed: Sequence[ReviewedCandidate]) -> list[str]:
    """What the grader must prove or withdraw, one line a claim, followed by the findings that were not found."""
    lines = []
    for candidate in reviewed:
        if not candidate.unproven:
            continue
        candidate_id = candidate.submitted.candidate_id
        lines += [
            f"{candidate_id}: {claim} has no verified finding that supports it"
            for claim in candidate.unproven
        ]
        lines += [f"{candidate_id}: {reason}" for reason in candidate.rejected]
    return lines


def unproven_share(reviewed: Sequence[ReviewedCandidate]) -> float:
    """Unproven negative claims as a share of all negative claims of the group; 0 where there are none."""
    n_claims = sum(candidate.n_claims for candidate in reviewed)
    return sum(len(candidate.unproven) for candidate in reviewed) / n_claims if n_claims else 0.0


def proven_violations(reviewed: Sequence[ReviewedCandidate]) -> tuple[str, ...]:
    """The candidates whose integrity verdict code has confirmed, by blind id."""
    return tuple(
        candidate.submitted.candidate_id
        for candidate in reviewed
        if candidate.submitted.flags.get(_VIOLATION) and _VIOLATION not in candidate.unproven
    )


def decide_violations(
    reviewed: Sequence[ReviewedCandidate], confirmed: Collection[str]
) -> tuple[ReviewedCandidate, ...]:
    """The same review with these candidates, by blind id, as the integrity violations, and no others."""
    return tuple(_with_violation(one, one.submitted.candidate_id in confirmed) for one in reviewed)


def _with_violation(candidate: ReviewedCandidate, is_violation: bool) -> ReviewedCandidate:
    flags = candidate.submitted.flags
    unproven = tuple(name for name in candidate.unproven if not (is_violation and name == _VIOLATION))
    raised = is_violation or (bool(flags.get(_VIOLATION)) and _VIOLATION in unproven)
    submitted = replace(candidate.submitted, flags={**flags, _VIOLATION: raised})
    return replace(candidate, submitted=submitted, unproven=unproven)


def settle(
    reviewed: Sequence[ReviewedCandidate],
    order: Sequence[Sequence[str]] | None,
    trajectory_ids: Mapping[str, str],
    twins: Mapping[str, str],
    rubric: Rubric = PAPER,
) -> tuple[RankedCandidate, ...]:
    """The ranking that the proven claims make, by trajectory id, in the order of `reviewed`."""
    settled = {candidate.submitted.candidate_id: _withdraw_unproven(candidate) for candidate in reviewed}
    ranked = {name: value for name, value in settled.items() if not value.is_integrity_violation}
    tiers = {name: assign_tier(value.scores, value.flags, rubric) for name, value in ranked.items()}
    weights = {name: weighted_score(value.scores, rubric) for name, value in ranked.items()}
    ranks = rank_within_tiers(tiers, weights, _join_twins(order, twins))
    return tuple(
        replace(
            value,
            trajectory_id=trajectory_ids[name],
            tier=tiers.get(name),
            rank=ranks.get(name),
            weighted_score=float(weighted_score(value.scores, rubric)),
        )
        for name, value in settled.items()
    )


def _join_twins(order: Sequence[Sequence[str]] | None, twins: Mapping[str, str]) -> list[list[str]] | None:
    """The order with byte-identical candidates in one tie group, at the better of their places."""
    if order is None:
        return None
    names = [name for tied in order for name in tied]
    joined: list[list[str]] = []
    placed: set[str] = set()
    for tied in order:
        scored = {twins.get(name, name) for name in tied}
        joined.append([name for name in names if twins.get(name, name) in scored and name not in placed])
        placed.update(joined[-1])
    return joined


def _check_findings(
    candidate: SubmittedCandidate, lookup: LineLookup
) -> tuple[tuple[Finding, ...], tuple[str, ...]]:
    verified, rejected = [], []
    for finding in candidate.findings:
        try:
            verified.append(check_finding(finding, candidate.candidate_id, lookup))
        except ValueError as error:
            rejected.append(str(error))
    return tuple(verified), tuple(rejected)


def _as_own(finding: Finding, owner: str, candidate_id: str) -> Finding | None:
    """A twin's patch finding as this candidate's: the patches are the same bytes."""
    if finding.kind != "patch":
        return None
    supports = tuple(name for name in finding.supports if name not in FLAGS)
    at = candidate_id + finding.at.removeprefix(owner)
    return replace(finding, at=at, supports=supports, compared_with=None) if supports else None


def _score_claims(scores: Mapping[str, int]) -> list[str]:
    low = [name for name, score in scores.items() if score <= 2]
    return [*low, _MIDDLING] if any(score == 3 for score in scores.values()) else low


def _is_supported(claim: str, findings: Sequence[Finding], scores: Mapping[str, int]) -> bool:
    if claim == _MIDDLING:
        middling = {name for name, score in scores.items() if score <= 3}
        return any(middling.intersection(finding.supports) for finding in findings)
    return any(claim in finding.supports for finding in findings)


def _withdraw_unproven(candidate: ReviewedCandidate) -> RankedCandidate:
    withdrawn = set(candidate.unproven)
    middling = (
        {name for name, score in candidate.scores.items() if score == 3} if _MIDDLING in withdrawn else set()
    )
    scores = {
        name: SCORE_WHEN_UNPROVEN if name in withdrawn or name in middling else score
        for name, score in candidate.scores.items()
    }
    flags = {name: value and name not in withdrawn for name, value in candidate.submitted.flags.items()}
    unproven = [*(name for name in candidate.unproven if name != _MIDDLING), *sorted(middling)]
    return RankedCandidate(
        trajectory_id="",
        tier=None,
        rank=None,
        scores=scores,
        flags=flags,
        findings=candidate.findings,
        unproven=tuple(unproven),
        rationale=candidate.submitted.rationale,
    )
