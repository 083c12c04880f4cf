"""Evidence: a negative claim counts when code finds what it quotes where it says.

A coordinate names one line of one thing: `c03:src/a.py:17` a patch or patched file, `c03:src/a.py:-12` a removed line,
`c03:src/a.py:0` the file as a whole,
`base:src/a.py:17` the repository, `c03:turn:4` or `c03:turn:4:2` a turn, `c03:test_output:9`, `c03:exec:1:5`.
The anchor is matched after white-space folding within three lines of it, against the text as it is and as it is shown.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from gagar_cli.core.ranking import Finding, FindingKind
from gagar_cli.core.text import escape_untrusted, fold_whitespace

MIN_ANCHOR_CHARS = 8
WINDOW_LINES = 3
MAX_QUOTE_CHARS = 500

_OWNER = re.compile(r"(?:base|[cf]\d{2,}):")
_GUTTER = re.compile(r"^(?:base|task|[cf]\d{2,})(?::[^│\n]*)?│", re.MULTILINE)
_MARKER = re.compile(r"^[+-]", re.MULTILINE)
"""Of a diff line: quoted or not, the text is the same."""
_NUMBERED = re.compile(r"(\d+)(?::(\d+))?")
_SECTIONS: dict[FindingKind, str] = {"turn": "turn:", "exec": "exec:", "test_output": "test_output:"}


@dataclass(frozen=True, slots=True)
class Coordinate:
    """A place that a finding cites."""

    kind: FindingKind
    owner: str
    """A blind id, or `base`."""
    path: str | None = None
    number: int | None = None
    """The turn or the command."""
    line: int | None = None
    """1-based; negative for a removed line of a patch; None for a whole turn or command."""


LineLookup = Callable[[Coordinate], Sequence[str] | None]
"""The lines within `WINDOW_LINES` of a coordinate; None where there is no such place."""


def parse_coordinate(at: str, kind: FindingKind) -> Coordinate:
    """The coordinate that a text names.

    Raises:
        ValueError: the text is not of the form that this kind of finding has.
    """
    owner, _, place = at.partition(":")
    if not _OWNER.match(at):
        raise ValueError(f"{at!r} does not start with a candidate's id or `base`")
    if kind in ("patch", "repo"):
        path, _, line = place.rpartition(":")
        if not path or not re.fullmatch(r"0|-?[1-9]\d*", line):
            raise ValueError(f"{at!r} is not of the form {owner}:PATH:LINE")
        return Coordinate(kind, owner, path=path, line=int(line))
    section = _SECTIONS[kind]
    match = _NUMBERED.fullmatch(place.removeprefix(section)) if place.startswith(section) else None
    if match is None:
        raise ValueError(f"{at!r} is not of the form {owner}:{section}NUMBER")
    first, second = int(match[1]), int(match[2]) if match[2] else None
    if kind == "test_output":
        return Coordinate(kind, owner, line=first)
    return Coordinate(kind, owner, number=first, line=second)


def check_finding(finding: Finding, candidate_id: str, lookup: LineLookup) -> Finding:
    """The finding with the text that was found at its coordinate.

    Raises:
        ValueError: what is wrong with it, in words for the grader.
    """
    coordinate = parse_coordinate(finding.at, finding.kind)
    _check_owner(coordinate, candidate_id)
    if finding.compared_with is not None:
        _check_comparison(finding.compared_with, candidate_id, lookup)
    anchor = _strip_gutter(finding.anchor)
    if len(fold_whitespace(anchor)) < MIN_ANCHOR_CHARS:
        raise ValueError(f"the anchor {finding.anchor!r} is shorter than {MIN_ANCHOR_CHARS} characters")
    lines = lookup(coordinate)
    if lines is None:
        raise ValueError(f"{finding.at} does not exist")
    quote = _find_anchor(anchor, lines)
    if quote is None:
        raise ValueError(f"the anchor {finding.anchor!r} is not within {WINDOW_LINES} lines of {finding.at}")
    return replace(finding, quote=quote[:MAX_QUOTE_CHARS])


def _check_owner(coordinate: Coordinate, candidate_id: str) -> None:
    """Text of one candidate is never evidence against another; only `repo` may cite the base."""
    if coordinate.owner == candidate_id or (coordinate.kind == "repo" and coordinate.owner == "base"):
        return
    raise ValueError(
        f"a {coordinate.kind} finding on {candidate_id} cites {coordinate.owner}, expected {candidate_id}"
    )


def _check_comparison(at: str, candidate_id: str, lookup: LineLookup) -> None:
    for kind in ("patch", "repo", "turn", "test_output", "exec"):
        try:
            coordinate = parse_coordinate(at, kind)
        except ValueError:
            continue
        if coordinate.owner != candidate_id and lookup(coordinate) is not None:
            return
    raise ValueError(f"compared_with {at!r} is not a place of another candidate")


def _strip_gutter(anchor: str) -> str:
    """An anchor copied with its coordinate column quotes what stands behind the column."""
    return _GUTTER.sub("", anchor)


def _find_anchor(anchor: str, lines: Sequence[str]) -> str | None:
    """The line that holds the anchor, or the lines together for an anchor that spans some."""
    forms = {fold_whitespace(form) for form in (anchor, _MARKER.sub("", anchor))}
    wanted = {form for form in forms if len(form) >= MIN_ANCHOR_CHARS} or {fold_whitespace(anchor)}
    for text in [*lines, "\n".join(lines)]:
        shown = {fold_whitespace(text), fold_whitespace(escape_untrusted(text))}
        if any(form in whole for form in wanted for whole in shown):
            return text
    return None
