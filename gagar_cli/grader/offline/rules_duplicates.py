"""Rules against duplication within a patch: the same function or the same block added twice."""

from collections import defaultdict
from collections.abc import Sequence
from difflib import SequenceMatcher

from gagar_cli.core.text import fold_whitespace
from gagar_cli.grader.offline.blemishes import Blemish, blemish, count, quote
from gagar_cli.grader.offline.facts import Candidate, Group, PatchedFile, ShownLine
from gagar_cli.grader.offline.source import (
    Function,
    added_functions,
    code_lines,
    language_of,
    source_files,
)

_MIN_BODY_LINES = 3
_MIN_BLOCK_LINES = 4
_MIN_BLOCK_CHARS = 100
_MIN_ALIKE = 0.85


def rule_twin_functions(candidate: Candidate, _group: Group) -> Sequence[Blemish]:
    """A function added twice under two names."""
    seen: list[tuple[PatchedFile, Function, str]] = []
    for file, _ in source_files(candidate):
        for function in added_functions(file):
            body = _body_text(function, language_of(file.path))
            for _, earlier, text in seen:
                if body and text and SequenceMatcher(None, body, text, autojunk=False).ratio() >= _MIN_ALIKE:
                    return blemish(
                        "duplicated helper",
                        f"adds {function.name} with the body of {earlier.name}",
                        quote(function.line, file.lines),
                        costs={"approach": 1, "consistency": 2, "minimality": 1},
                    )
            seen.append((file, function, body))
    return []


def _body_text(function: Function, language: str) -> str:
    lines = code_lines(function.body, language)
    return "\n".join(fold_whitespace(line.text) for line in lines) if len(lines) >= _MIN_BODY_LINES else ""


def rule_repeated_block(candidate: Candidate, _group: Group) -> Sequence[Blemish]:
    """The same block of added lines twice in one patch."""
    places: dict[tuple[str, ...], list[tuple[PatchedFile, ShownLine]]] = defaultdict(list)
    for file, _ in source_files(candidate):
        lines = [line for line in file.added if line.text.strip()]
        for start in range(len(lines) - _MIN_BLOCK_LINES + 1):
            block = tuple(fold_whitespace(line.text) for line in lines[start : start + _MIN_BLOCK_LINES])
            if sum(map(len, block)) >= _MIN_BLOCK_CHARS:
                places[block].append((file, lines[start]))
    repeated = [where for where in places.values() if len(where) > 1]
    if not repeated:
        return []
    file, line = repeated[0][1]
    n_lines = len(repeated) + _MIN_BLOCK_LINES - 1
    return blemish(
        "repeated block",
        f"repeats {count(n_lines, 'line')} that it adds elsewhere too",
        quote(line, file.lines),
        costs={"minimality": 1, "consistency": 1},
    )
