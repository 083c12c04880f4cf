"""One ranking as the JSON object of a rankings file, and back, checked field by field.

Only `group_id` and each candidate's `trajectory_id`, `tier` and `rank` are needed. Unknown fields are ignored, known
ones with impossible values refused. Errors carry no place; the reader of the file adds it.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from typing import Any, cast, get_args

from gagar_cli.core.ranking import FLAGS, TIERS, Finding, FindingKind, GroupRanking, RankedCandidate, Status
from gagar_cli.core.rubric import DIMENSIONS
from gagar_cli.core.schema import GroupKey
from gagar_cli.errors import InputError
from gagar_cli.io.jsonl import show_value
from gagar_cli.io.mistaken import is_attempt, not_a_ranking
from gagar_cli.io.records import checked_identifier

_STATUSES = get_args(Status)
_KINDS = get_args(FindingKind)
_TEXT_OR_NONE = (str, type(None))


def ranking_to_record(ranking: GroupRanking) -> dict[str, object]:
    """The JSON form of a ranking; `ranking_from_record` is its inverse."""
    return {
        "step": ranking.key.step,
        "group_id": ranking.key.group_id,
        "status": ranking.status,
        "reason": ranking.reason,
        "candidates": [_candidate_to_record(candidate) for candidate in ranking.candidates],
        "grader": dict(ranking.grader),
        "input_digest": ranking.input_digest,
        "config_digest": ranking.config_digest,
    }


def ranking_from_record(record: Mapping[str, object]) -> GroupRanking:
    """A ranking from its JSON form.

    Raises:
        InputError: a field is missing, of a wrong type or out of range; the message has no place yet.
    """
    if is_attempt(record):
        raise not_a_ranking(record)
    step = record.get("step")
    if step is not None and not _is_integer(step):
        raise InputError(f"step is {show_value(step)}, expected an integer or null")
    status = record.get("status", "graded")
    if status not in _STATUSES:
        raise InputError(f"status is {show_value(status)}, expected {_choice(_STATUSES)}")
    grader = _object(record.get("grader"), "grader")
    dimensions = _dimensions(grader)
    candidates = tuple(
        _candidate_from_record(each, index, dimensions)
        for index, each in enumerate(_list(record.get("candidates"), "candidates"))
    )
    if status == "graded" and not candidates:
        raise InputError("candidates is empty, expected at least one in a graded group")
    ids = [candidate.trajectory_id for candidate in candidates]
    if len(set(ids)) != len(ids):
        twice = next(each for each in ids if ids.count(each) > 1)
        raise InputError(f"candidates names trajectory {show_value(twice)} twice")
    return GroupRanking(
        key=GroupKey(cast("int | None", step), checked_identifier(record.get("group_id"), "group_id")),
        status=cast("Status", status),
        reason=_text(record, "reason"),
        candidates=candidates,
        grader=grader,
        input_digest=_text(record, "input_digest"),
        config_digest=_text(record, "config_digest"),
    )


def _candidate_to_record(candidate: RankedCandidate) -> dict[str, object]:
    return {
        "trajectory_id": candidate.trajectory_id,
        "tier": candidate.tier,
        "rank": candidate.rank,
        "scores": dict(candidate.scores),
        "weighted_score": candidate.weighted_score,
        "flags": dict(candidate.flags),
        "findings": [
            {**asdict(finding), "supports": list(finding.supports)} for finding in candidate.findings
        ],
        "unproven": list(candidate.unproven),
        "rationale": candidate.rationale,
    }


def _dimensions(grader: Mapping[str, object]) -> tuple[str, ...]:
    """What was scored: the dimensions of the rubric that the grader names, else the paper's."""
    rubric = grader.get("rubric")
    named = rubric.get("dimensions") if isinstance(rubric, Mapping) else None
    if not isinstance(named, list) or not all(isinstance(name, str) for name in named):
        return DIMENSIONS
    return tuple(named)


def _candidate_from_record(record: object, index: int, dimensions: tuple[str, ...]) -> RankedCandidate:
    here = f"candidates[{index}]"
    fields = _object(record, here, may_be_missing=False)
    trajectory_id = checked_identifier(fields.get("trajectory_id"), f"{here}.trajectory_id")
    flags = _flags(fields.get("flags"), here)
    tier, rank = fields.get("tier"), fields.get("rank")
    is_violation = flags.get("integrity_violation", False)
    if tier not in TIERS and not (tier is None and is_violation):
        raise InputError(f"{here}.tier is {show_value(tier)}, expected {_choice(TIERS)}")
    if not (_is_integer(rank) and cast("int", rank) >= 0) and not (rank is None and is_violation):
        raise InputError(f"{here}.rank is {show_value(rank)}, expected an integer from 0")
    return RankedCandidate(
        trajectory_id=trajectory_id,
        tier=tier,
        rank=cast("int | None", rank),
        scores=_scores(fields.get("scores"), here, dimensions),
        weighted_score=_weighted_score(fields.get("weighted_score"), here),
        flags=flags,
        findings=tuple(
            _plain_finding(each) or _finding(each, f"{here}.findings[{number}]")
            for number, each in enumerate(_list(fields.get("findings"), here, "findings"))
        ),
        unproven=_texts(fields.get("unproven"), here, "unproven"),
        rationale=_text(fields, "rationale", here) or "",
    )


def _scores(value: object, here: str, dimensions: tuple[str, ...]) -> dict[str, int]:
    scores = {}
    for name, score in _object(value, here, "scores").items():
        if name not in dimensions:
            raise InputError(f"{here}.scores has {show_value(name)}, expected {_choice(dimensions)}")
        if score is None:
            continue
        if type(score) is not int or not 1 <= score <= 5:
            raise InputError(f"{here}.scores.{name} is {show_value(score)}, expected an integer from 1 to 5")
        scores[name] = score
    return scores


def _flags(value: object, here: str) -> dict[str, bool]:
    flags = {}
    for name, flag in _object(value, here, "flags").items():
        if name not in FLAGS:
            raise InputError(f"{here}.flags has {show_value(name)}, expected {_choice(FLAGS)}")
        if flag is None:
            continue
        if not isinstance(flag, bool):
            raise InputError(f"{here}.flags.{name} is {show_value(flag)}, expected true or false")
        flags[name] = flag
    return flags


def _weighted_score(value: object, here: str) -> float | None:
    if value is None:
        return None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not math.isfinite(number := float(cast("float", value))) or not 1 <= number <= 5:
        raise InputError(f"{here}.weighted_score is {show_value(value)}, expected a number from 1 to 5")
    return number


def _plain_finding(value: object) -> Finding | None:
    """A finding that is in order; None for one that `_finding` is to look at. There are several to a candidate."""
    if type(value) is not dict:
        return None
    get: Callable[[str], Any] = value.get
    kind, supports = get("kind"), get("supports")
    at, anchor, claim = get("at"), get("anchor"), get("claim")
    compared_with, quote = get("compared_with"), get("quote")
    if kind not in _KINDS or type(supports) is not list:
        return None
    for text in (at, anchor, claim, *supports):
        if type(text) is not str:
            return None
    if type(compared_with) not in _TEXT_OR_NONE or type(quote) not in _TEXT_OR_NONE:
        return None
    return Finding(kind, at, anchor, claim, tuple(supports), compared_with, quote)


def _finding(value: object, here: str) -> Finding:
    fields = _object(value, here, may_be_missing=False)
    kind = fields.get("kind")
    if kind not in _KINDS:
        raise InputError(f"{here}.kind is {show_value(kind)}, expected {_choice(_KINDS)}")
    needed = {}
    for name in ("at", "anchor", "claim"):
        text = fields.get(name)
        if not isinstance(text, str):
            raise InputError(f"{here}.{name} is {show_value(text)}, expected text")
        needed[name] = text
    return Finding(
        kind=cast("FindingKind", kind),
        supports=_texts(fields.get("supports"), here, "supports"),
        compared_with=_text(fields, "compared_with", here),
        quote=_text(fields, "quote", here),
        **needed,
    )


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63


def _choice(names: Iterable[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} or {last}"


def _list(value: object, here: str, name: str = "") -> list[object]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise InputError(f"{_place(here, name)} is {show_value(value)}, expected a list")
    return value


def _object(value: object, here: str, name: str = "", *, may_be_missing: bool = True) -> dict[str, object]:
    if value is None and may_be_missing:
        return {}
    # An abstract class is slow to ask, and a ranking has dozens of objects.
    if type(value) is not dict and not isinstance(value, Mapping):
        raise InputError(f"{_place(here, name)} is {show_value(value)}, expected an object")
    return dict(value)


def _texts(value: object, here: str, name: str) -> tuple[str, ...]:
    texts = _list(value, here, name)
    for text in texts:
        if not isinstance(text, str):
            raise InputError(f"{_place(here, name)} holds {show_value(text)}, expected text")
    return tuple(cast("list[str]", texts))


def _place(here: str, name: str) -> str:
    return f"{here}.{name}" if name else here


def _text(fields: Mapping[str, object], name: str, here: str = "") -> str | None:
    value = fields.get(name)
    if value is not None and not isinstance(value, str):
        raise InputError(f"{here}.{name}".lstrip(".") + f" is {show_value(value)}, expected text or null")
    return value
