"""Agreement between rankings files: judges, repeats, modes, people, on the groups that they share."""

from dataclasses import dataclass
from typing import Any

from gagar_cli.core.ranking_agreement import CLASSES, Agreement, PairAgreement, Reliability, agree
from gagar_cli.core.statistics import estimate_record
from gagar_cli.errors import InputError, UsageError
from gagar_cli.io.rankings import latest_rankings, read_rankings


@dataclass(frozen=True, slots=True)
class AgreeSettings:
    """What `gagar agree` was asked to do."""

    rankings: tuple[tuple[str, str], ...]
    """(name, file) of each."""
    seed: int = 0
    n_disputes: int = 10


def run(settings: AgreeSettings) -> Agreement:
    """Read and compare.

    Raises:
        UsageError: fewer than two rankings.
        InputError: a file cannot be read, or the rankings share no graded group.
    """
    if len(settings.rankings) < 2:
        raise UsageError("one ranking agrees with itself", "give at least two rankings files")
    read = {name: latest_rankings(read_rankings(path)) for name, path in settings.rankings}
    found = agree(read, seed=settings.seed, n_disputes=settings.n_disputes)
    if not any(pair.n_groups for pair in found.pairs):
        told = ", ".join(f"{name} has {n}" for name, n in found.n_groups.items())
        raise InputError(
            f"the rankings share no graded group ({told} graded)",
            "they must be of the same dump: keys are compared",
        )
    return found


def to_record(found: Agreement) -> dict[str, Any]:
    """The agreement as one JSON object."""
    return {
        "n_groups_by_ranking": dict(found.n_groups),
        "pairs": [_pair_record(pair) for pair in found.pairs],
        "alpha_tiers": _alpha_record(found.tiers),
        "alpha_scores": _alpha_record(found.scores),
        "disputes": [
            {
                "step": one.key.step,
                "group_id": one.key.group_id,
                "distance": one.distance,
                "says": {name: dict(said) for name, said in one.says.items()},
            }
            for one in found.disputes
        ],
    }


def _pair_record(pair: PairAgreement) -> dict[str, Any]:
    return {
        "first": pair.first,
        "second": pair.second,
        "n_groups": pair.n_groups,
        "n_candidates": pair.n_candidates,
        "tau_b": estimate_record(pair.tau_b, "n_groups"),
        "top1": estimate_record(pair.top1, "n_groups"),
        "same_tier": estimate_record(pair.same_tier, "n_groups"),
        "confusion": {
            row: dict(zip(CLASSES, counts, strict=True))
            for row, counts in zip(CLASSES, pair.confusion, strict=True)
        },
    }


def _alpha_record(one: Reliability) -> dict[str, Any]:
    low, high = one.interval or (None, None)
    return {"value": one.alpha, "ci_low": low, "ci_high": high, "n_candidates": one.n_units}
