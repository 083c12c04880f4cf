"""Rules about how the added code reads: comments that outweigh it, a hand that is not the file's, and what it knows.

Each was held against 749 passing patches of real systems: those about literals accuse none of them.
"""

import ast
import re
from collections.abc import Sequence
from itertools import pairwise

from gagar_cli.grader.offline.blemishes import Blemish, blemish, count, quote
from gagar_cli.grader.offline.facts import Candidate, Group, PatchedFile, ShownLine
from gagar_cli.grader.offline.source import code_lines, is_comment, source_files

_MIN_COMMENTS = 4
_TIGHT = re.compile(r"^\s*[A-Za-z_]\w*=[^=\s]")
_CAPITALS = re.compile(r"^\s+[A-Z][a-z0-9]+[A-Z_]\w*\s*=(?!=)")
_BLANK_INSIDE = re.compile(r"[=(]\(\s+\S.*\S\s+\)\s*$")

_TEXT_COMPARED = re.compile(
    r"^\s*(?:el)?if\s+(?:str|repr|format)\(\s*[\w.\[\]]+\s*\)\s*==\s*(?P<quote>['\"]).*\s.*(?P=quote)\s*:"
)
_NAMED = re.compile(r"^\s*(?P<name>[A-Za-z_]\w*) = (?P<value>\S.*)$")
_MACHINE_PATH = re.compile(r"['\"](?:/home/|/Users/|/root/|[A-Za-z]:\\+Users\\+)\w")


def rule_text_compared(candidate: Candidate, _group: Group) -> Sequence[Blemish]:
    """A branch for one value, known by the whole text that it prints as."""
    for file, language in source_files(candidate):
        for line in file.added if language == "python" else ():
            if _TEXT_COMPARED.search(line.text):
                return blemish(
                    "special case",
                    "takes a branch for one value that it knows by its printed text",
                    quote(line, file.lines),
                    flag="test_specific",
                    costs={"approach": 3, "precision": 3},
                )
    return []


def rule_detour(candidate: Candidate, _group: Group) -> Sequence[Blemish]:
    """A line that worked, taken apart into a name and the same line with that name."""
    for file in candidate.files:
        removed = {line.text.strip() for line in file.removed}
        for hunk in file.hunks:
            added = [line for line in hunk.lines if line.marker == "+"]
            for line, following in pairwise(added):
                named = _NAMED.match(line.text)
                if named is None or following.number != line.number + 1:
                    continue
                text, name = following.text.strip(), named["name"]
                if re.search(rf"\b{name}$", text) and text.removesuffix(name) + named["value"] in removed:
                    return blemish(
                        "detour",
                        "rewrites a line that worked by way of one more name",
                        quote(line, file.lines),
                        costs={"minimality": 1},
                    )
    return []


def rule_machine_path(candidate: Candidate, _group: Group) -> Sequence[Blemish]:
    """A path in somebody's home directory, written into the code."""
    for file, language in source_files(candidate):
        known = [line.text for line in file.lines if line.marker != "+"]
        for line in file.added:
            is_new = not any(_MACHINE_PATH.search(text) for text in known)
            if is_new and not is_comment(line.text, language) and _MACHINE_PATH.search(line.text):
                return blemish(
                    "path of a machine",
                    "has a path of one machine in the code",
                    quote(line, file.lines),
                    costs={"approach": 1, "side_effects": 1},
                )
    return []


def rule_comment_noise(candidate: Candidate, _group: Group) -> Sequence[Blemish]:
    """A run of comment lines that is longer than the code it comes with."""
    for file, language in source_files(candidate):
        comments = [line for line in file.added if is_comment(line.text, language)]
        n_code = len(code_lines(file.added, language))
        run = _longest_run(file, language)
        if file.change != "added" and len(run) >= _MIN_COMMENTS and len(comments) > n_code:
            claim = f"has {count(len(run), 'line')} of comment over {count(n_code, 'line')} of code"
            return blemish(
                "comment noise", claim, quote(run[0], file.lines), costs={"minimality": 1, "consistency": 1}
            )
    return []


def _longest_run(file: PatchedFile, language: str) -> list[ShownLine]:
    longest: list[ShownLine] = []
    for hunk in file.hunks:
        run: list[ShownLine] = []
        for line in hunk.lines:
            run = [*run, line] if line.marker == "+" and is_comment(line.text, language) else []
            longest = max(longest, run, key=len)
    return longest


def rule_style(candidate: Candidate, _group: Group) -> Sequence[Blemish]:
    """Python assignments that are spaced or named as nowhere else in what the patch shows of the file."""
    for file, language in source_files(candidate):
        if language != "python":
            continue
        others = [line.text for line in file.lines if line.marker != "+"]
        for hunk in file.hunks:
            lines = [line for line in hunk.lines if line.marker != "-" and line.text.strip()]
            for line, following in pairwise(lines):
                if (
                    line.marker != "+"
                    or following.text.strip().startswith(")")
                    or not _is_assignment(line.text)
                ):
                    continue
                for pattern, claim in (
                    (_TIGHT, "an assignment without blanks around ="),
                    (_BLANK_INSIDE, "blanks inside brackets"),
                    (_CAPITALS, "a local name in capitals"),
                ):
                    if pattern.search(line.text) and not any(pattern.search(text) for text in others):
                        return blemish(
                            "style",
                            f"has {claim}, against the file's habits",
                            quote(line, file.lines),
                            costs={"consistency": 1},
                        )
    return []


def _is_assignment(text: str) -> bool:
    try:
        body = ast.parse(text.strip()).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return len(body) == 1 and isinstance(body[0], ast.Assign)
