r"""Evidence: a negative claim counts when code finds what it quotes where it says.

A coordinate names one line of one thing: `c03:src/a.py:17` a patch or patched file, `c03:src/a.py:-12` a removed line,
`c03:src/a.py:0` the file as a whole,
`base:src/a.py:17` the repository, `c03:turn:4` or `c03:turn:4:2` a turn, `c03:test_output:9`, `c03:exec:1:5`.
The anchor is matched after white-space folding within three lines of it; text as it is and text as it is shown (with
`\u{hex}` for what is escaped) count as the same. What is kept is the line where it was found and what stands there.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from gagar_cli.core.ranking import Finding, FindingKind
from gagar_cli.core.text import escape_untrusted, mend_escapes, quotable, shorten, unescape_shown

MIN_ANCHOR_CHARS = 8
WINDOW_LINES = 3
MAX_QUOTE_CHARS = 500
_TOLD_CHARS = 200

_OWNER = re.compile(r"(?:base|[cf]\d{2,}):")
_GUTTER = re.compile(r"^(?:base|task|[cf]\d{2,})(?::[^│\n]*)?│", re.MULTILINE)
_MARKER = re.compile(r"^[+-]", re.MULTILINE)
"""Of a diff line: quoted or not, the text is the same."""
_CUT = re.compile(r"^\[\d+ characters before\] …|… ?\[\d+ more characters[^\]\n]*\]\s*$", re.MULTILINE)
"""Where a page cut a long line."""
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


class NumberedLine(str):
    """A line that knows where it stands: its number in the file, turn or output; negative for a removed line."""

    __slots__ = ("number",)
    number: int

    @classmethod
    def of(cls, number: int, text: str) -> "NumberedLine":
        """The text of one line with its number."""
        line = cls(text)
        line.number = number
        return line


LineLookup = Callable[[Coordinate], Sequence[str] | None]
"""The lines within `WINDOW_LINES` of a coordinate, numbered where they have a number; None where there is no such place."""


def parse_coordinate(at: str, kind: FindingKind) -> Coordinate:
    """The coordinate that a text names.

    Raises:
        ValueError: the text is not of the form that this kind of finding has.
    """
    owner, _, place = at.partition(":")
    if not _OWNER.match(at):
        raise ValueError(f"'{_told(at)}' does not start with a candidate's id or `base`")
    if kind in ("patch", "repo"):
        path, _, line = place.rpartition(":")
        if not path or not re.fullmatch(r"0|-?[1-9]\d*", line):
            raise ValueError(f"'{_told(at)}' is not of the form {owner}:PATH:LINE")
        return Coordinate(kind, owner, path=path, line=int(line))
    section = _SECTIONS[kind]
    match = _NUMBERED.fullmatch(place.removeprefix(section)) if place.startswith(section) else None
    if match is None:
        raise ValueError(f"'{_told(at)}' is not of the form {owner}:{section}NUMBER")
    first, second = int(match[1]), int(match[2]) if match[2] else None
    if kind == "test_output":
        return Coordinate(kind, owner, line=first)
    return Coordinate(kind, owner, number=first, line=second)


def _told(text: str) -> str:
    """What a finding says, in an answer about it: harmless and short, however long it is."""
    return escape_untrusted(shorten(text, _TOLD_CHARS), keep_newlines=False)


def check_finding(finding: Finding, candidate_id: str, lookup: LineLookup) -> Finding:
    """The finding with the text that was found at its coordinate.

    Raises:
        ValueError: what is wrong with it, in words for the grader.
    """
    coordinate = parse_coordinate(finding.at, finding.kind)
    _check_owner(coordinate, candidate_id)
    if finding.compared_with is not None:
        _check_comparison(finding.compared_with, candidate_id, lookup)
    anchor = _strip_page(finding.anchor)
    if len(quotable(anchor)) < MIN_ANCHOR_CHARS:
        raise ValueError(
            f"the anchor '{_told(finding.anchor)}' is shorter than {MIN_ANCHOR_CHARS} characters"
        )
    lines = lookup(coordinate)
    if lines is None:
        raise ValueError(f"{_told(finding.at)} does not exist{_kind_hint(coordinate)}")
    found = _find_anchor(anchor, lines, coordinate.line)
    if found is None:
        raise ValueError(
            f"the anchor '{_told(finding.anchor)}' is not within {WINDOW_LINES} lines of {_told(finding.at)}"
        )
    line, quote = found
    number = line.number if isinstance(line, NumberedLine) else None
    return replace(finding, at=_at_line(finding.at, coordinate, number), quote=quote)


def _kind_hint(coordinate: Coordinate) -> str:
    """What to mend where a coordinate was most likely given with the wrong kind."""
    if coordinate.kind not in ("patch", "repo"):
        return ""
    for kind, section in _SECTIONS.items():
        if f"{coordinate.path}:{coordinate.line}".startswith(section):
            return f" as a {coordinate.kind} coordinate: its kind is {kind}"
    if coordinate.kind == "patch":
        return " in the patch: a line of the patched file outside of it is cited with kind repo"
    return ""


def _at_line(at: str, coordinate: Coordinate, number: int | None) -> str:
    """The coordinate of the line where the anchor stands."""
    if number is None or number == coordinate.line:
        return at
    return f"{at if coordinate.line is None else at.rpartition(':')[0]}:{number}"


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
    raise ValueError(f"compared_with '{_told(at)}' is not a place of another candidate")


def _strip_page(anchor: str) -> str:
    """An anchor copied with its coordinate column, or to the end of a line that the page cut, quotes the text itself."""
    return _CUT.sub("", _GUTTER.sub("", anchor))


def _find_anchor(anchor: str, lines: Sequence[str], near: int | None) -> tuple[str, str] | None:
    """The first line that holds the anchor, with what to quote; the fewest lines together for one that spans some."""
    plain = _MARKER.sub("", anchor)
    forms = {quotable(form) for form in (anchor, plain, mend_escapes(anchor), mend_escapes(plain))}
    wanted = [form for form in forms if len(form) >= MIN_ANCHOR_CHARS]
    for line in _nearest_first(lines, near):
        if (form := _form_in(wanted, line)) is not None:
            return line, _quote(line, form)
    if len(lines) <= 2 * WINDOW_LINES + 1:
        for n_lines in range(2, len(lines)):
            for start in range(len(lines) - n_lines + 1):
                text = "\n".join(lines[start : start + n_lines])
                if (form := _form_in(wanted, text)) is not None:
                    return lines[start], _quote(text, form)
    # Line by line: the words of a long log all at once would take many times its memory.
    folded = " ".join(filter(None, map(quotable, lines)))
    form = next((form for form in wanted if form in folded), None)
    return None if form is None else (lines[0], _quote("\n".join(lines), form))


def _nearest_first(lines: Sequence[str], near: int | None) -> Sequence[str]:
    """Numbered lines by their distance from the cited one; others in their order."""
    if near is None:
        return lines
    return sorted(lines, key=lambda line: abs(line.number - near) if isinstance(line, NumberedLine) else 0)


def _form_in(forms: Sequence[str], text: str) -> str | None:
    folded = quotable(text)
    return next((form for form in forms if form in folded), None)


def _quote(text: str, form: str) -> str:
    """The text, or of a long one the part that holds the anchor."""
    if len(text) <= MAX_QUOTE_CHARS:
        return str(text)  # without its number
    plain = unescape_shown(text)
    match = re.search(r"\s+".join(map(re.escape, form.split(" "))), plain)
    start = match.start() if match else 0
    return plain[start : start + MAX_QUOTE_CHARS]
