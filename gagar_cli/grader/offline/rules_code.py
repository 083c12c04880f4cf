"""Rules about the added code itself: swallowed exceptions, dead code, silenced checkers."""

import re
from collections.abc import Sequence

from gagar_cli.grader.offline.blemishes import Blemish, blemish, quote
from gagar_cli.grader.offline.facts import Candidate, Group, ShownLine
from gagar_cli.grader.offline.source import (
    code_lines,
    indent_of,
    is_comment,
    source_files,
)

_BROAD_EXCEPT = re.compile(r"^\s*except\s*(?:\(?\s*(?:Base)?Exception\b[^:]*)?:\s*(?P<rest>.*)$")
_EMPTY_CATCH = re.compile(r"\bcatch\s*(?:\([^)]*\))?\s*\{\s*\}")
_OPEN_CATCH = re.compile(r"\bcatch\s*(?:\([^)]*\))?\s*\{\s*$")
_GIVES_UP = re.compile(
    r"^\s*(?:pass|continue|break|\.\.\.|return(?:\s+(?:None|False|True|\[\]|\{\}|''|\"\"|self|0|-1))?)\s*(?:#.*)?$"
)
_FORGETS = re.compile(r"^\s*[\w.]+\s*=\s*(?:None|False|True|\[\]|\{\}|''|\"\"|0|-1)\s*(?:#.*)?$")
_SILENCERS = re.compile(
    r"#\s*type:\s*ignore|#\s*noqa|#\s*pylint:\s*disable|eslint-disable|@ts-(?:ignore|nocheck)|@SuppressWarnings|//\s*nolint"
)


def rule_swallowed_exceptions(candidate: Candidate, _group: Group) -> Sequence[Blemish]:
    """Any error caught and dropped."""
    for file, language in source_files(candidate):
        moved = {line.text.strip() for line in file.removed}
        for hunk in file.hunks:
            lines = [line for line in hunk.lines if line.marker != "-"]
            for position, line in enumerate(lines):
                if line.marker != "+" or line.text.strip() in moved:
                    continue
                if _swallows(line.text, lines[position + 1 : position + 4], language):
                    claim = "catches every error and goes on as if nothing had happened"
                    return blemish(
                        "swallowed exception",
                        claim,
                        quote(line, hunk.lines),
                        costs={"approach": 2, "precision": 2, "side_effects": 1},
                    )
    return []


def _swallows(text: str, following: Sequence[ShownLine], language: str) -> bool:
    body = [line.text for line in following if line.text.strip() and not is_comment(line.text, language)]
    if language == "python":
        match = _BROAD_EXCEPT.match(text)
        first = match["rest"].partition("#")[0].strip() or next(iter(body), "") if match else ""
        return bool(_GIVES_UP.match(first) or (_FORGETS.match(first) and _is_whole(body, first)))
    if language in ("javascript", "java"):
        return bool(
            _EMPTY_CATCH.search(text)
            or (_OPEN_CATCH.search(text) and body and body[0].strip().startswith("}"))
        )
    return False


def _is_whole(body: Sequence[str], first: str) -> bool:
    """Whether the handler's block is this one line, as far as the following lines show."""
    return len(body) < 2 or body[0] != first or indent_of(body[1]) < indent_of(first)


def rule_silenced_checkers(candidate: Candidate, _group: Group) -> Sequence[Blemish]:
    """Linters or type checkers told to look away."""
    for file, language in source_files(candidate):
        kept = "\n".join(line.text for line in file.removed)
        for line in code_lines(file.added, language):
            match = _SILENCERS.search(line.text)
            if match and match[0] not in kept:
                return blemish(
                    "silenced checker",
                    "tells a checker to look away",
                    quote(line, file.lines),
                    costs={"consistency": 1},
                )
    return []
