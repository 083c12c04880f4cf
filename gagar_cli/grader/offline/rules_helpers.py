"""The rule against a helper that the repository has already: by its name, a line of it, or the calls it is made of.

What it looks for must be searched before (`helper_questions`); without a repository nothing is held against anyone.
"""

import re
from collections.abc import Sequence

from gagar_cli.core.text import fold_whitespace
from gagar_cli.grader.offline.blemishes import Blemish, blemish, quote
from gagar_cli.grader.offline.facts import Candidate, Group, ShownLine
from gagar_cli.grader.offline.source import (
    Function,
    added_functions,
    code_lines,
    indent_of,
    is_test_path,
    source_files,
)

_MIN_BODY_LINES = 3
_MIN_NAME_CHARS = 6
_MIN_LINE_CHARS = 30
_MIN_CALL_CHARS = 12
_MIN_CALLS = 2
_MAX_CALLS = 5
_MAX_HITS = 20
"""A call that stands in more places says nothing about any of them."""
_SPAN_LINES = 12
_CALL = re.compile(r"\b[A-Za-z_]\w*(?:\.\w+)+\(")
_HEAD = re.compile(r"^(?:(?:async\s+)?def|func|(?:export\s+)?function|(?:pub\s+)?fn)\s")


def name_question(function: Function) -> str | None:
    """The text that finds definition and calls of a free function of that name."""
    is_free = indent_of(function.line.text) == 0 and not function.name.startswith(("__", "test", "pytest_"))
    return f"{function.name}(" if is_free and len(function.name) >= _MIN_NAME_CHARS else None


def helper_questions(function: Function, language: str) -> tuple[str, ...]:
    """The texts to search the repository for."""
    texts = (name_question(function), _telling_line(function, language), *_telling_calls(function, language))
    return tuple(text for text in texts if text)


def _telling_line(function: Function, language: str) -> str | None:
    lines = code_lines(function.body, language)
    longest = max((line.text.strip() for line in lines), key=len, default="")
    return longest if len(lines) >= _MIN_BODY_LINES and len(longest) >= _MIN_LINE_CHARS else None


def _telling_calls(function: Function, language: str) -> tuple[str, ...]:
    lines = code_lines(function.body, language)
    calls = dict.fromkeys(
        call for line in lines for call in _CALL.findall(line.text) if not call.startswith("self.")
    )
    telling = [call for call in calls if len(call) >= _MIN_CALL_CHARS]
    is_enough = len(lines) >= _MIN_BODY_LINES and len(telling) >= _MIN_CALLS
    return tuple(telling[:_MAX_CALLS]) if is_enough else ()


def rule_existing_helper(candidate: Candidate, group: Group) -> Sequence[Blemish]:
    """A function added that the repository could have lent."""
    for file, language in source_files(candidate):
        for function in added_functions(file):
            twin = _find_in_base(function, language, candidate, group)
            if twin:
                path = twin.at.removeprefix("base:").rpartition(":")[0]
                claim = f"adds {function.name} although {path} line {twin.number} has the like"
                costs = {"approach": 1, "consistency": 2}
                return blemish("duplicated helper", claim, quote(function.line, file.lines), costs=costs)
    return []


def _find_in_base(function: Function, language: str, candidate: Candidate, group: Group) -> ShownLine | None:
    name, telling = name_question(function), _telling_line(function, language)
    removed = {line.text for file in candidate.files for line in file.removed}

    def hits(text: str | None) -> list[ShownLine]:
        found = group.found(text, "repo") if text else None
        return [line for line in found or () if line.text not in removed and not is_test_path(_path(line))]

    for line in hits(name):
        if _HEAD.match(line.text):
            return line
    for line in hits(telling):
        if fold_whitespace(line.text) == fold_whitespace(telling or ""):
            return line
    return _find_together([hits(call) for call in _telling_calls(function, language)])


def _find_together(hits: Sequence[Sequence[ShownLine]]) -> ShownLine | None:
    """A place where all of the calls stand close together."""
    if not hits or any(not 0 < len(lines) <= _MAX_HITS for lines in hits):
        return None
    for line in hits[0]:
        if all(any(_is_near(line, other) for other in others) for others in hits[1:]):
            return line
    return None


def _is_near(line: ShownLine, other: ShownLine) -> bool:
    return _path(line) == _path(other) and abs(line.number - other.number) <= _SPAN_LINES


def _path(line: ShownLine) -> str:
    return line.at.partition(":")[2].rpartition(":")[0]
