"""A ranked candidate in the form that the templates take."""

from typing import Any

from gagar_cli.core.ranking import RankedCandidate


def describe_attempt(
    candidate: RankedCandidate, *, name: str, detail: str, advantage: str = ""
) -> dict[str, Any]:
    """What a page tells of one candidate: its place, its scores, and each finding with the text that code found."""
    score = candidate.weighted_score
    return {
        "name": name,
        "tier": candidate.tier,
        "rank": candidate.rank,
        "tier_class": f"tier{candidate.tier[-1]}" if candidate.tier else "",
        "is_violation": candidate.is_integrity_violation,
        "flags": [
            flag for flag, is_set in candidate.flags.items() if is_set and flag != "integrity_violation"
        ],
        "detail": detail if score is None else f"{detail}, weighted score {score:.2f}",
        "advantage": advantage,
        "scores": [(dimension, value) for dimension, value in candidate.scores.items()],
        "rationale": candidate.rationale,
        "findings": candidate.findings,
        "unproven": list(candidate.unproven),
    }
