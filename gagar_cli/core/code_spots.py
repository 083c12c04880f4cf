"""Places in a patch's Python where a line can be put, or be replaced, without breaking what is around it.

A patch shows only parts of a file, so nothing here parses the whole: a spot is a line that is a statement of its own, in
a hunk whose triple quotes and brackets are balanced, between lines that are statements or block openers themselves.
"""

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

from gagar_cli.core.patch_editing import EditableHunk, EditablePatch

_TEST_PATH = re.compile(r"(^|/)(tests?|testing)(/|$)|(^|/)(test_[^/]*|[^/]*_test|conftest)\.\w+$")
_DEF = re.compile(r"^(\s*)(?:async )?def (\w+)\(")


class Spot(NamedTuple):
    """One line that is a statement."""

    piece: int
    """Place of its hunk in the patch's pieces."""
    line: int
    """Place in the hunk's lines."""
    path: str
    indent: str
    text: str
    """Without indentation."""
    kind: str
    """`assignment`, `expression`, `return`, `assert` or `other`."""
    name: str
    """What is assigned, or returned where that is a plain name; else empty."""


class AddedFunction(NamedTuple):
    """A function that a patch adds whole."""

    piece: int
    start: int
    end: int
    """Lines `start` to `end` (not included) of its hunk."""
    path: str
    name: str


def is_test_path(path: str) -> bool:
    """Whether a path looks like a test's."""
    return _TEST_PATH.search(path) is not None


def find_spots(editable: EditablePatch, marker: str = "+") -> list[Spot]:
    """The spots among the added lines of Python files, or with marker " " among those that stay."""
    return [spot for piece, hunk in editable.hunks for spot in _spots(piece, hunk, marker)]


def is_in_function(editable: EditablePatch, spot: Spot) -> bool:
    """Whether a spot is known to stand in a function: by the lines above it, or by what its hunk's header names."""
    hunk = editable.pieces[spot.piece]
    assert isinstance(hunk, EditableHunk)  # noqa: S101 - spots are in hunks
    width = len(spot.indent)
    above = [text for place, text in hunk.new_side if place < spot.line and text.strip()]
    for text in reversed(above):
        if _width(text) < width:
            width = _width(text)
            if text.strip().startswith(("def ", "async def ", "class ")):
                return not text.strip().startswith("class ")
    return width > 0 and hunk.section.strip().startswith(("def ", "async def "))


def find_functions(editable: EditablePatch) -> list[AddedFunction]:
    """Functions without decorators, every line of which is added, and that end inside their hunk."""
    return [one for piece, hunk in editable.hunks for one in _functions(piece, hunk)]


def _spots(piece: int, hunk: EditableHunk, marker: str) -> Iterator[Spot]:
    if not hunk.path.endswith(".py") or not _is_balanced(hunk):
        return
    side = [(place, text) for place, text in hunk.new_side if text.strip()]
    for number, (place, text) in enumerate(side):
        if hunk.lines[place][:1] != marker:
            continue
        statement = _statement(text.strip())
        if statement is None:
            continue
        before = side[number - 1][1] if number else None
        after = side[number + 1][1] if number + 1 < len(side) else None
        if before is None or after is None or not _follows(before, text) or not _goes_on(after, text):
            continue
        kind, name = statement
        indent = text[: len(text) - len(text.lstrip())]
        yield Spot(piece, place, hunk.path, indent, text.strip(), kind, name)


def _statement(text: str) -> tuple[str, str] | None:
    """Kind and name of a line that is one whole simple statement; None for anything else."""
    try:
        body = ast.parse(text if not text.startswith("return") else f"def _():\n    {text}").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    if len(body) != 1:
        return None
    found: ast.stmt = body[0]
    if text.startswith("return") and isinstance(found, ast.FunctionDef):
        found = found.body[0]
    if isinstance(found, ast.Return):
        return "return", found.value.id if isinstance(found.value, ast.Name) else ""
    if isinstance(found, ast.Assign):
        target = found.targets[0]
        is_plain = len(found.targets) == 1 and isinstance(target, ast.Name)
        return ("assignment", target.id) if is_plain and isinstance(target, ast.Name) else ("other", "")
    if isinstance(found, ast.Assert):
        return "assert", ""
    if isinstance(found, ast.Expr):
        # A string on its own is a docstring, and may be the first thing that a block needs.
        return None if isinstance(found.value, ast.Constant) else ("expression", "")
    return (
        ("other", "") if isinstance(found, ast.AugAssign | ast.AnnAssign | ast.Raise | ast.Delete) else None
    )


def _follows(before: str, text: str) -> bool:
    """Whether a statement may stand between these lines."""
    stripped = before.strip()
    if stripped.startswith(("@", "#")) or stripped.endswith(("\\", ",", "(", "[", "{")):
        return False
    if stripped.endswith(":"):
        return _width(before) < _width(text)
    return _width(before) >= _width(text) and (
        _statement(stripped) is not None or _width(before) > _width(text)
    )


def _goes_on(after: str, text: str) -> bool:
    """Whether the line after begins something of its own."""
    stripped = after.strip()
    return _width(after) <= _width(text) and not stripped.startswith((")", "]", "}", ".", "and ", "or "))


def _is_balanced(hunk: EditableHunk) -> bool:
    text = "\n".join(line for _, line in hunk.new_side)
    if text.count('"""') % 2 or text.count("'''") % 2:
        return False
    return all(text.count(opening) == text.count(closing) for opening, closing in ("()", "[]", "{}"))


def _functions(piece: int, hunk: EditableHunk) -> Iterator[AddedFunction]:
    if not hunk.path.endswith(".py"):
        return
    for start, line in enumerate(hunk.lines):
        found = _DEF.match(line[1:]) if line[:1] == "+" else None
        if found is None or (start and hunk.lines[start - 1][1:].strip().startswith("@")):
            continue
        end = start + 1
        while end < len(hunk.lines) and _is_inside(hunk.lines[end], len(found[1])):
            end += 1
        while end > start and not hunk.lines[end - 1][1:].strip():
            end -= 1
        body = hunk.lines[start:end]
        if end - start < 2 or end == len(hunk.lines) or any(one[:1] != "+" for one in body):
            continue
        try:
            ast.parse("\n".join(one[1 + len(found[1]) :] for one in body))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        yield AddedFunction(piece, start, end, hunk.path, found[2])


def _is_inside(line: str, width: int) -> bool:
    return line[:1] == "+" and (not line[1:].strip() or _width(line[1:]) > width)


def _width(line: str) -> int:
    return len(line) - len(line.lstrip())
