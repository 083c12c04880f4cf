"""Several gradings of one group → one ranking.

Each dimension counts as the median of its scores (of the two middle ones the better), each flag as what more than half
of the gradings say. Tiers follow from these; within a tier the mean of the weighted scores orders, exactly. A median
is a score that at least half of the gradings gave or undercut, each with its proof, so what counts stays proven.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from statistics import median_high

from gagar_cli.core.ranking import Finding, RankedCandidate
from gagar_cli.core.rubric import Rubric, weighted_score
from gagar_cli.core.tiers import assign_tier, rank_within_tiers

Grading = Sequence[RankedCandidate]


def combine_gradings(gradings: Sequence[Grading], rubric: Rubric) -> tuple[RankedCandidate, ...]:
    """The ranking that the gradings make together, in the order of the first one.

    All of them hold the same trajectories and name the same integrity violations. A single one stays as it is.
    """
    if len(gradings) == 1:
        return tuple(gradings[0])
    by_id: dict[str, list[RankedCandidate]] = {one.trajectory_id: [] for one in gradings[0]}
    for grading in gradings:
        for candidate in grading:
            by_id[candidate.trajectory_id].append(candidate)
    merged = {name: _merge(opinions) for name, opinions in by_id.items()}
    means = {
        name: sum((weighted_score(one.scores, rubric) for one in opinions), Fraction(0)) / len(opinions)
        for name, opinions in by_id.items()
    }
    honest = [name for name, value in merged.items() if not value.is_integrity_violation]
    tiers = {name: assign_tier(merged[name].scores, merged[name].flags, rubric) for name in honest}
    ranks = rank_within_tiers(tiers, means)
    return tuple(
        replace(value, tier=tiers.get(name), rank=ranks.get(name), weighted_score=float(means[name]))
        for name, value in merged.items()
    )


def rename_owner(finding: Finding, names: Mapping[str, str]) -> Finding:
    """The finding with the blind ids of another grading in its coordinates."""
    compared = finding.compared_with
    return replace(
        finding, at=_renamed(finding.at, names), compared_with=compared and _renamed(compared, names)
    )


def _merge(opinions: Sequence[RankedCandidate]) -> RankedCandidate:
    first = opinions[0]
    n_gradings = len(opinions)
    scores = {name: median_high(one.scores[name] for one in opinions) for name in first.scores}
    flags = {
        name: 2 * sum(bool(one.flags.get(name)) for one in opinions) > n_gradings for name in first.flags
    }
    findings = {(one.kind, one.at, one.supports): one for each in reversed(opinions) for one in each.findings}
    unproven = dict.fromkeys(name for one in opinions for name in one.unproven)
    return replace(
        first, scores=scores, flags=flags, findings=tuple(findings.values()), unproven=tuple(unproven)
    )


def _renamed(at: str, names: Mapping[str, str]) -> str:
    owner, colon, place = at.partition(":")
    return f"{names.get(owner, owner)}{colon}{place}"
