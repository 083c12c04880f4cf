"""Blemishes → scores, flags and findings, in the form that `submit_ranking` takes.

Every dimension starts at 5 and loses what the blemishes cost; 1 is never given, for a rule cannot know that an
approach is hopeless. What a submission could not prove is withdrawn: the blemish goes, and its dimensions stay at 4,
which is what an unproven claim is worth.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gagar_cli.core.ranking import FLAGS
from gagar_cli.core.rubric import DIMENSIONS
from gagar_cli.grader.offline.blemishes import Blemish, Evidence
from gagar_cli.grader.offline.facts import Candidate, Group
from gagar_cli.grader.offline.reading import Exchange
from gagar_cli.grader.offline.rules import find_blemishes

BEST, LOWEST, UNPROVEN = 5, 2, 4
ALL = "all"


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the rules say of one candidate."""

    candidate: Candidate
    scores: Mapping[str, int]
    flags: Mapping[str, bool]
    blemishes: tuple[Blemish, ...]


def judge(
    candidate: Candidate,
    group: Group,
    withdrawn: frozenset[str] = frozenset(),
    dimensions: Sequence[str] = DIMENSIONS,
) -> Judgement:
    """Scores and flags of one candidate; blemishes with a withdrawn place count as unproven.

    A dimension that no rule knows is unproven too: neither a flaw nor a merit of that kind can be shown.
    """
    found = find_blemishes(candidate, group)
    standing = tuple(entry for entry in found if not _is_withdrawn(entry, withdrawn))
    scores = {name: BEST - sum(entry.costs.get(name, 0) for entry in standing) for name in dimensions}
    unproven = {name for entry in found if entry not in standing for name in entry.costs}
    unproven |= set(dimensions).difference(DIMENSIONS)
    if candidate.patch_state != "known" or not candidate.files:
        # Nothing was seen: neither a flaw nor a merit can be shown.
        unproven = set(dimensions)
    scores = {
        name: max(LOWEST, min(score, UNPROVEN) if name in unproven else score)
        for name, score in scores.items()
    }
    raised = {entry.flag for entry in standing}
    return Judgement(candidate, scores, {name: name in raised for name in FLAGS}, standing)


def compose_submission(
    group: Group, submissions: Sequence[Exchange], dimensions: Sequence[str] = DIMENSIONS
) -> dict[str, Any]:
    """The arguments of the next `submit_ranking`, after the refusals so far."""
    withdrawn = _read_refusals(submissions)
    judgements = [judge(candidate, group, withdrawn, dimensions) for candidate in group.candidates]
    return {"candidates": [_entry(judgement) for judgement in judgements]}


def _is_withdrawn(entry: Blemish, withdrawn: frozenset[str]) -> bool:
    owner = entry.evidence[0].at.partition(":")[0]
    places = [place.at for place in entry.evidence] + [entry.compared_with or ""]
    names = {*entry.costs, entry.flag}
    keys = {ALL, owner, *(f"{owner} {name}" for name in names), *map(_without_owner, places)}
    return not withdrawn.isdisjoint(keys)


def _without_owner(at: str) -> str:
    """Identical patches must keep identical scores, so a place is withdrawn for all of them."""
    return at.partition(":")[2] or "-"


def _read_refusals(submissions: Sequence[Exchange]) -> frozenset[str]:
    """What to withdraw: places, `c01 minimality`, whole candidates, or all from the third refusal on."""
    refused = [exchange for exchange in submissions if exchange.result.startswith("error:")]
    withdrawn: set[str] = {ALL} if len(refused) > 2 else set()
    for exchange in refused:
        findings = [
            finding
            for entry in _dicts(exchange.arguments.get("candidates"))
            for finding in _dicts(entry.get("findings"))
        ]
        named = {key for line in exchange.result.split("\n") for key in _named_in(line, findings)}
        withdrawn |= named or {ALL}
    return frozenset(withdrawn)


def _named_in(line: str, findings: Sequence[Mapping[str, Any]]) -> set[str]:
    places = {_without_owner(str(finding.get("at"))) for finding in findings if _is_cited(finding, line)}
    match = re.match(r"(?:error:\s*)?(c\d+)\b", line)
    if places or not match:
        return places
    names = {name for name in (*DIMENSIONS, *FLAGS) if re.search(rf"\b{name}\b", line)}
    return {f"{match[1]} {name}" for name in names} or {match[1]}


def _is_cited(finding: Mapping[str, Any], line: str) -> bool:
    places = (finding.get("at"), finding.get("compared_with"))
    return any(isinstance(at, str) and re.search(rf"(?<!\w){re.escape(at)}(?!\d|:\d)", line) for at in places)


def _dicts(value: object) -> list[dict[str, Any]]:
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def _entry(judgement: Judgement) -> dict[str, Any]:
    claims = [entry.claim for entry in judgement.blemishes]
    state = judgement.candidate.patch_state
    nothing = "no flaw found by the rules" if state == "known" else f"the patch is {state}"
    return {
        "id": judgement.candidate.id,
        "scores": dict(judgement.scores),
        "flags": dict(judgement.flags),
        "findings": [
            finding
            for entry in judgement.blemishes
            for place in entry.evidence
            if (finding := _finding(entry, place, judgement.scores))["supports"]
        ],
        "rationale": ("; ".join(claims) or nothing)[:1000],
    }


def _finding(entry: Blemish, place: Evidence, scored: Collection[str]) -> dict[str, Any]:
    finding = {
        "kind": place.kind,
        "at": place.at,
        "anchor": place.anchor,
        "claim": f"{entry.rule}: {entry.claim}",
        "supports": [
            *(name for name in entry.costs if name in scored),
            *([entry.flag] if entry.flag else []),
        ],
    }
    return finding | ({"compared_with": entry.compared_with} if entry.compared_with else {})
