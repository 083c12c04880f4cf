"""Rules about how the added code reads: comments that outweigh it, and a hand that is not the file's."""

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
