"""Comparisons that answer the same whatever they are asked: found in a patch, and taken out of it for a probe.

An object whose `__eq__` is always true equals what the tests expect without being it. The tests are honest then, and so
is their runner: no second run with the base's files tells. A run without that comparison does: where the tests pass only
with it, the pass rests on it. So what is found here may be found too often; what counts is what the probe says.

A comparison is found where its body answers with a constant, or where it never names the other operand. One that names
it and heeds it not (`other is other`) is not found.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from gagar_cli.core.patch import Hunk, PatchFile, PatchLine, parse_patch

_METHOD = re.compile(r"\bdef __(eq|ne|bool|contains)__\s*\(|\b__(eq|ne)__\s*=\s*lambda\b")
_OPERAND = re.compile(r"\b(?:def __(?:eq|ne|contains)__\s*\(|lambda\s)\s*\w+\s*,\s*(\w+)")
_CONSTANT = re.compile(
    r"(?:\breturn|\blambda[^:\n]{0,200}:|->\s*\w+\s*:)\s*\(?\s*(?:True|False|1|0|not False|not True)\b"
)
_DECIDES = re.compile(r"\breturn\b|\blambda\b|^\s*(?:if|for|while|try|with|match)\b")
"""The first line of a body that answers, or that looks at what is asked."""
_ANSWER = re.compile(r"\breturn\b(?!\s+NotImplemented\b).*")
_QUOTE = re.compile(r"[rRuU]?(\"\"\"|''')")
_COMMENT = re.compile(r"#.*")
_BODY_LINES = 6
"""A docstring and a comment may stand between the header and its `return`."""
_MAX_BODY_LINES = 40


class ConstantComparison(NamedTuple):
    """A method that answers the same whatever it is asked, by a patch's doing."""

    path: str
    line: int
    """Of its header, in the patched file."""
    text: str
    """The header."""
    method: str
    changed: tuple[int, ...]
    """Lines of the patched file whose change takes it out: the header or the answers; empty where none does."""


class WithoutComparisons(NamedTuple):
    """A patch whose constant comparisons are taken out."""

    text: str
    left_out: tuple[ConstantComparison, ...]


def find_comparisons(path: str, hunk: Hunk) -> Iterator[ConstantComparison]:
    """The constant comparisons of a hunk, in order, where the patch adds the header or the answer."""
    present = [line for line in hunk.lines if line.marker != "-"]
    for place, header in enumerate(present):
        found = _METHOD.search(header.text)
        if not found:
            continue
        start = _code([header, *present[place + 1 : place + 1 + _BODY_LINES]])
        end = next((line for line in start if _DECIDES.search(line.text)), header)
        answers = [end] if _CONSTANT.search(end.text) else _heedless_answers(header, present[place + 1 :])
        if any(line.marker == "+" for line in (header, *answers)) and answers:
            method = found[1] or found[2]
            yield ConstantComparison(
                path, header.new_line or 1, header.text, method, _changed(method, header, answers)
            )


def leave_out_comparisons(text: str) -> WithoutComparisons:
    r"""Take the constant comparisons of a patch out of it, line for line: a method that is not there answers nothing.

    >>> patch = "--- a/a.py\n+++ b/a.py\n@@ -1 +1,3 @@\n class A:\n+  def __eq__(self, other):\n+    return True\n"
    >>> print(leave_out_comparisons(patch).text.splitlines()[4])
    +  def _left_out_eq(self, other):
    """
    files = parse_patch(text).files
    lines = re.findall(r"[^\n]*\n|[^\n]+\Z", text)
    ends = [file.line - 1 for file in files[1:]] + [len(lines)]
    left_out = []
    for file, end in zip(files, ends, strict=True) if files else ():
        places = _added_places(lines, file.line - 1, end)
        for comparison in _comparisons(file):
            wanted = [places[line] for line in comparison.changed if line in places]
            for place in wanted:
                lines[place] = _take_out(lines[place], comparison.method)
            if wanted:
                left_out.append(comparison)
    return WithoutComparisons("".join(lines), tuple(left_out))


def _comparisons(file: PatchFile) -> Iterator[ConstantComparison]:
    for hunk in file.hunks:
        yield from find_comparisons(file.path, hunk)


def _heedless_answers(header: PatchLine, after: list[PatchLine]) -> list[PatchLine]:
    """The answers of a body that never names the other operand; none where it does, or is not all there."""
    operand = _OPERAND.search(header.text)
    if not operand or ":" not in header.text:
        return []
    names = re.compile(rf"\b{re.escape(operand[1])}\b")
    rest = header.text[operand.end() :]
    if "lambda" in header.text or _ANSWER.search(header.text):
        return [] if names.search(rest) else [header]
    depth = _indent(header.text)
    body = []
    for line in after[:_MAX_BODY_LINES]:
        if line.text.strip() and _indent(line.text) <= depth:
            break
        body.append(line)
    else:
        # The hunk ends in the body: only an added line is the file's last.
        if not body or body[-1].marker != "+" or len(after) > _MAX_BODY_LINES:
            return []
    code = _code(body)
    if any(names.search(_COMMENT.sub("", line.text)) for line in code):
        return []
    return [line for line in code if _ANSWER.search(line.text)]


def _code(lines: list[PatchLine]) -> list[PatchLine]:
    """Without comments and documentation, which say what they like of answers and operands."""
    kept = []
    quote = ""
    for line in lines:
        text = line.text.strip()
        opened = _QUOTE.match(text)
        if quote:
            quote = "" if quote in text else quote
        elif opened:
            quote = "" if text.count(opened[1]) > 1 else opened[1]
        elif not text.startswith("#"):
            kept.append(line)
    return kept


def _changed(method: str, header: PatchLine, answers: list[PatchLine]) -> tuple[int, ...]:
    if header.marker == "+":
        return (header.new_line or 0,)
    # What `bool` and `in` want is an answer: without one of theirs there is nothing to compare with.
    can_decline = method in ("eq", "ne") and all(line.marker == "+" for line in answers)
    return tuple(line.new_line or 0 for line in answers) if can_decline else ()


def _take_out(line: str, method: str) -> str:
    renamed = line.replace(f"__{method}__", f"_left_out_{method}", 1)
    return renamed if renamed != line else _ANSWER.sub("return NotImplemented", line, count=1)


def _added_places(lines: list[str], start: int, end: int) -> dict[int, int]:
    """Where the added lines of a file's section stand in the patch, by their number in the patched file."""
    places = {}
    new_line = 0
    for place in range(start, end):
        if header := re.match(r"@@ -\d+(?:,\d+)? \+(\d+)", lines[place]):
            new_line = int(header[1])
        elif new_line and lines[place][:1] in ("+", " ", "\n"):
            if lines[place].startswith("+"):
                places[new_line] = place
            new_line += 1
    return places


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip())
