"""The strict parse of a submitted ranking: what a grader claims, before anything of it is believed.

Nothing is coerced: a score is an integer from 1 to 5, a flag is a boolean, an id is one of the candidates', each once.
All problems are collected, so that one re-ask can mend them together. Byte-identical patches (twins) share the scores
of the one that is scored; flags and integrity belong to each.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast, get_args

from gagar_cli.core.ranking import FLAGS, Finding, FindingKind
from gagar_cli.core.rubric import MAX_SCORE, MIN_SCORE, PAPER, Rubric
from gagar_cli.errors import VerdictError

_CANDIDATE_KEYS = {"id", "scores", "flags", "findings", "rationale"}
_FINDING_KEYS = {"kind", "at", "anchor", "claim", "supports", "compared_with"}
MAX_FINDINGS = 40
"""Of one candidate; more than this is noise."""
MAX_TEXT_CHARS = 4000


@dataclass(frozen=True, slots=True)
class SubmittedCandidate:
    """What the grader says of one candidate."""

    candidate_id: str
    scores: Mapping[str, int] | None
    """None for a twin whose scores are its sibling's."""
    flags: Mapping[str, bool]
    findings: tuple[Finding, ...]
    rationale: str


@dataclass(frozen=True, slots=True)
class Submission:
    """A well-formed submission: every candidate once, every value in range."""

    candidates: tuple[SubmittedCandidate, ...]
    order: tuple[tuple[str, ...], ...] | None
    """Tie groups of blind ids, best first; None where the grader leaves the order to the scores."""


def parse_submission(
    arguments: Mapping[str, Any],
    candidate_ids: Sequence[str],
    twins: Mapping[str, str],
    rubric: Rubric = PAPER,
) -> Submission:
    """The submission that a tool call's arguments hold.

    `twins` maps a candidate with a byte-identical patch to the one whose scores it shares; one that is its own twin
    needs no scores at all.

    Raises:
        VerdictError: everything that is wrong with it, one problem a line.
    """
    problems: list[str] = []
    entries = arguments.get("candidates")
    if not isinstance(entries, list):
        raise VerdictError("candidates must be a list with one entry for each candidate")
    candidates: dict[str, SubmittedCandidate] = {}
    for position, entry in enumerate(entries, 1):
        candidate = _parse_candidate(
            entry, f"candidates[{position}]", candidate_ids, rubric=rubric, problems=problems
        )
        if candidate is None:
            continue
        if candidate.candidate_id in candidates:
            problems.append(f"{candidate.candidate_id} appears twice, expected once")
        candidates[candidate.candidate_id] = candidate
    problems += [f"{missing} is missing" for missing in candidate_ids if missing not in candidates]
    problems += [
        f"{candidate.candidate_id}: scores are missing"
        for candidate in candidates.values()
        if candidate.scores is None and candidate.candidate_id not in twins
    ]
    order = _parse_order(arguments.get("order"), candidate_ids, problems)
    if order is not None and not arguments.get("order_reason"):
        problems.append("order needs an order_reason")
    if problems:
        raise VerdictError("\n".join(problems))
    return Submission(tuple(candidates[candidate_id] for candidate_id in candidate_ids), order)


def _parse_candidate(
    entry: object, place: str, candidate_ids: Sequence[str], *, rubric: Rubric, problems: list[str]
) -> SubmittedCandidate | None:
    if not isinstance(entry, dict):
        problems.append(f"{place} must be an object")
        return None
    candidate_id = entry.get("id")
    if candidate_id not in candidate_ids:
        problems.append(f"{place}: id is {candidate_id!r}, expected one of {', '.join(candidate_ids)}")
        return None
    problems += [f"{candidate_id}: unknown key {key!r}" for key in entry if key not in _CANDIDATE_KEYS]
    return SubmittedCandidate(
        candidate_id=cast("str", candidate_id),
        scores=_parse_scores(entry.get("scores"), cast("str", candidate_id), rubric, problems),
        flags=_parse_flags(entry.get("flags"), cast("str", candidate_id), problems),
        findings=_parse_findings(entry.get("findings"), cast("str", candidate_id), rubric, problems),
        rationale=str(entry.get("rationale") or "")[:MAX_TEXT_CHARS],
    )


def _parse_scores(
    value: object, candidate_id: str, rubric: Rubric, problems: list[str]
) -> Mapping[str, int] | None:
    if value is None:
        return None
    if not isinstance(value, dict) or set(value) != set(rubric.dimensions):
        problems.append(f"{candidate_id}: scores must hold exactly {', '.join(rubric.dimensions)}")
        return None
    for name, score in value.items():
        if type(score) is not int or not MIN_SCORE <= score <= MAX_SCORE:
            problems.append(
                f"{candidate_id}: {name} is {score!r}, expected an integer from {MIN_SCORE} to {MAX_SCORE}"
            )
    return {name: value[name] for name in rubric.dimensions}


def _parse_flags(value: object, candidate_id: str, problems: list[str]) -> Mapping[str, bool]:
    if value is None:
        value = {}
    if not isinstance(value, dict):
        problems.append(f"{candidate_id}: flags must be an object of booleans")
        return {}
    for name, flag in value.items():
        if name not in FLAGS:
            problems.append(f"{candidate_id}: unknown flag {name!r}, expected one of {', '.join(FLAGS)}")
        elif type(flag) is not bool:
            problems.append(f"{candidate_id}: flag {name} is {flag!r}, expected true or false")
    return {name: value.get(name) is True for name in FLAGS}


def _parse_findings(
    value: object, candidate_id: str, rubric: Rubric, problems: list[str]
) -> tuple[Finding, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or len(value) > MAX_FINDINGS:
        problems.append(f"{candidate_id}: findings must be a list of at most {MAX_FINDINGS}")
        return ()
    claims = (*rubric.dimensions, *FLAGS)
    findings = [
        _parse_finding(entry, f"{candidate_id} finding {n}", claims, problems)
        for n, entry in enumerate(value, 1)
    ]
    return tuple(finding for finding in findings if finding is not None)


def _parse_finding(entry: object, place: str, claims: Sequence[str], problems: list[str]) -> Finding | None:
    if not isinstance(entry, dict):
        problems.append(f"{place} must be an object")
        return None
    n_before = len(problems)
    problems += [f"{place}: unknown key {key!r}" for key in entry if key not in _FINDING_KEYS]
    if entry.get("kind") not in get_args(FindingKind):
        problems.append(
            f"{place}: kind is {entry.get('kind')!r}, expected one of {', '.join(get_args(FindingKind))}"
        )
    for key in ("at", "anchor", "claim"):
        if not isinstance(entry.get(key), str) or not 0 < len(entry[key]) <= MAX_TEXT_CHARS:
            problems.append(f"{place}: {key} must be a text of at most {MAX_TEXT_CHARS} characters")
    supports = entry.get("supports")
    if not isinstance(supports, list) or not supports or not all(name in claims for name in supports):
        problems.append(f"{place}: supports is {supports!r}, expected a list of dimensions and flags")
    compared_with = entry.get("compared_with")
    if compared_with is not None and not isinstance(compared_with, str):
        problems.append(f"{place}: compared_with must be a coordinate or null")
    if len(problems) > n_before:
        return None
    return Finding(
        entry["kind"], entry["at"], entry["anchor"], entry["claim"], tuple(entry["supports"]), compared_with
    )


def _parse_order(
    value: object, candidate_ids: Sequence[str], problems: list[str]
) -> tuple[tuple[str, ...], ...] | None:
    if value is None or value == []:
        return None
    is_nested = isinstance(value, list) and all(
        isinstance(tied, list) and all(isinstance(name, str) for name in tied) for tied in value
    )
    if not is_nested:
        problems.append("order must be a list of lists of ids, best first")
        return None
    order = tuple(tuple(tied) for tied in cast("list[list[str]]", value) if tied)
    names = [name for tied in order for name in tied]
    if sorted(names) != sorted(candidate_ids):
        problems.append("order must name every candidate exactly once")
        return None
    return order
