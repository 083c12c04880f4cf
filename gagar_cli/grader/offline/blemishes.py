"""Blemishes: what a rule holds against a candidate, with the line that proves it and what it costs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from gagar_cli.core.ranking import FindingKind
from gagar_cli.core.text import fold_whitespace
from gagar_cli.grader.offline.facts import Candidate, Group, ShownLine

MIN_ANCHOR_CHARS = 8
MAX_ANCHOR_CHARS = 120
_NEAR_LINES = 3
_CUT_MARK = "… ["


class Evidence(NamedTuple):
    """A place and what stands there."""

    kind: FindingKind
    at: str
    anchor: str


@dataclass(frozen=True, slots=True)
class Blemish:
    """One negative claim. Without evidence it is never made."""

    rule: str
    evidence: tuple[Evidence, ...]
    """All of it is needed: an integrity violation has a turn and a patch line."""
    claim: str
    costs: Mapping[str, int] = field(default_factory=dict)
    """Dimension to points off its score."""
    flag: str | None = None
    compared_with: str | None = None


Rule = Callable[[Candidate, Group], Sequence[Blemish]]


def quote(line: ShownLine, lines: Sequence[ShownLine], *, kind: FindingKind = "patch") -> Evidence | None:
    """The line as evidence; where it is too short to quote, the nearest of its own sort that is not.

    None where nothing within three lines can be quoted.
    """
    place = next((position for position, other in enumerate(lines) if other.at == line.at), None)
    near = [line] if place is None else lines[max(0, place - _NEAR_LINES) : place + _NEAR_LINES + 1]
    near = [other for other in near if abs(other.number - line.number) <= _NEAR_LINES]
    for other in sorted(
        near, key=lambda other: (other.marker != line.marker, abs(other.number - line.number))
    ):
        anchor = fold_whitespace(other.text.partition(_CUT_MARK)[0])[:MAX_ANCHOR_CHARS].strip()
        if len(anchor) >= MIN_ANCHOR_CHARS:
            return Evidence(kind, other.at, anchor)
    return None


def blemish(
    rule: str,
    claim: str,
    *evidence: Evidence | None,
    costs: Mapping[str, int] | None = None,
    flag: str | None = None,
    compared_with: str | None = None,
) -> list[Blemish]:
    """A blemish as a list of one; an empty list where any of its evidence cannot be quoted."""
    proven = tuple(place for place in evidence if place is not None)
    if not proven or len(proven) < len(evidence):
        return []
    return [Blemish(rule, proven, claim, costs or {}, flag, compared_with)]


def count(number: int, noun: str) -> str:
    """`1 line`, `2 lines`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
