"""Rules against dead code: unreachable, commented out, or never used.

A patch shows fragments, so a name counts as unused only where it is new and nothing in the patch mentions it again.
"""

import ast
import itertools
import re
from collections.abc import Iterator, Sequence
from textwrap import dedent

from gagar_cli.grader.offline.blemishes import Blemish, blemish, count, quote
from gagar_cli.grader.offline.facts import Candidate, Group, Hunk, PatchedFile, ShownLine
from gagar_cli.grader.offline.rules_helpers import name_question
from gagar_cli.grader.offline.source import (
    added_functions,
    indent_of,
    is_comment,
    is_prose,
    source_files,
)

_NEVER = re.compile(r"^\s*(?:if|while)\s*\(?\s*(?:False|0|false|None)\s*\)?\s*[:{]")
_OFF = re.compile(r"^(\w+)\s*(?::\s*bool\s*)?=\s*(?:False|0)\s*(?:#.*)?$")
_CONDITION = re.compile(r"^\s*(?:if|elif|while)\s+(\w+)\s*:")
_LEAVES = re.compile(r"^\s*(?:return|raise|continue|break)\b")
_CONTINUES = re.compile(r"^\s*(?:def|class|async|elif|else|except|finally|case|@|[\])}])")
_IMPORT = re.compile(
    r"^\s*(?:from\s+[\w.]+\s+)?import\s+(?P<names>[\w.,\s]+?)(?:\s+as\s+(?P<alias>\w+))?\s*(?P<note>#.*)?$"
)
_CODE_NODES = (
    ast.Assign,
    ast.AugAssign,
    ast.AnnAssign,
    ast.Return,
    ast.If,
    ast.For,
    ast.While,
    ast.Raise,
    ast.With,
    ast.Import,
    ast.ImportFrom,
    ast.FunctionDef,
    ast.Delete,
)


def rule_unreachable(candidate: Candidate, _group: Group) -> Sequence[Blemish]:
    """Code behind a return, or under a condition that never holds."""
    for file, language in source_files(candidate):
        switched_off = _switched_off(file) if language == "python" else None
        for hunk in file.hunks:
            for line in hunk.lines:
                if line.marker == "+" and (_NEVER.match(line.text) or line == switched_off):
                    return blemish(
                        "dead code",
                        "adds a branch that can never run",
                        quote(line, hunk.lines),
                        costs={"minimality": 2, "consistency": 1},
                    )
            dead = _behind_exit(hunk) if language == "python" else None
            if dead:
                return blemish(
                    "dead code",
                    "leaves code behind a statement that always leaves",
                    quote(dead, hunk.lines),
                    costs={"minimality": 2, "consistency": 1},
                )
    return []


def _switched_off(file: PatchedFile) -> ShownLine | None:
    """An added condition on a name that the patch sets to False, once and for all."""
    names = {match[1] for line in file.added if (match := _OFF.match(line.text))}
    for line in file.added:
        match = _CONDITION.match(line.text)
        name = match[1] if match else ""
        if name in names and len(re.findall(rf"\b{name}\b\s*=[^=]", "\n".join(_present(file)))) == 1:
            return line
    return None


def _present(file: PatchedFile) -> Iterator[str]:
    return (line.text for line in file.lines if line.marker != "-")


def _behind_exit(hunk: Hunk) -> ShownLine | None:
    lines = [line for line in hunk.lines if line.marker != "-" and line.text.strip()]
    for line, after in itertools.pairwise(lines):
        if after.marker != "+" or not _LEAVES.match(line.text) or is_prose(line.text.strip()):
            continue
        is_whole = all(line.text.count(left) == line.text.count(right) for left, right in ("()", "[]", "{}"))
        is_whole = is_whole and not line.text.rstrip().endswith(("\\", ",", '"""', "'''"))
        is_behind = indent_of(after.text) == indent_of(line.text) > 0 and not _CONTINUES.match(after.text)
        is_code = not is_comment(after.text, "python") and not is_prose(after.text.strip())
        if is_whole and is_behind and is_code:
            return after
    return None


def rule_commented_code(candidate: Candidate, _group: Group) -> Sequence[Blemish]:
    """Code commented out instead of removed."""
    for file, language in source_files(candidate):
        removed = {line.text.strip() for line in file.removed if len(line.text.strip()) >= 8}
        run: list[ShownLine] = []
        for line in (*file.lines, None):
            if line and line.marker == "+" and is_comment(line.text, language):
                run.append(line)
                continue
            stripped = [other.text.strip().lstrip("#/* ").strip() for other in run]
            is_kept_code = any(text in removed for text in stripped)
            if run and (is_kept_code or (language == "python" and _is_python([other.text for other in run]))):
                return blemish(
                    "commented code",
                    f"leaves {count(len(run), 'line')} of code commented out",
                    quote(run[0], file.lines),
                    costs={"minimality": 1, "consistency": 1},
                )
            run = []
    return []


def _is_python(comments: Sequence[str]) -> bool:
    text = dedent("\n".join(re.sub(r"^\s*#\s?", "", comment) for comment in comments))
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return any(isinstance(node, _CODE_NODES) for node in tree.body)


def rule_unused_names(candidate: Candidate, group: Group) -> Sequence[Blemish]:
    """Imports and module-level functions that nothing in the patch uses."""
    for file, language in source_files(candidate):
        if language != "python" or file.path.endswith("__init__.py") or file.change == "added":
            continue
        for hunk in file.hunks:
            unused = _unused_import(file, hunk)
            if unused:
                name, line = unused
                return blemish(
                    "unused import",
                    f"imports {name} and does not use it",
                    quote(line, file.lines),
                    costs={"minimality": 1, "consistency": 1},
                )
        everything = "\n".join(
            line.text for other in candidate.files for line in other.lines if line.marker != "-"
        )
        for function in added_functions(file):
            question = name_question(function)
            is_hook = question is None or function.is_decorated or function.name in group.statement
            is_used = len(re.findall(rf"\b{function.name}\b", everything)) > 1
            if not is_hook and not is_used and not group.found(question or "", "repo"):
                return blemish(
                    "unused function",
                    f"adds {function.name} and does not call it",
                    quote(function.line, file.lines),
                    costs={"minimality": 2},
                )
    return []


def _unused_import(file: PatchedFile, hunk: Hunk) -> tuple[str, ShownLine] | None:
    present = "\n".join(_present(file))
    removed = "\n".join(line.text for line in file.removed)
    lines = [line for line in hunk.lines if line.marker != "-"]
    for before, line in zip((None, *lines), lines, strict=False):
        match = _IMPORT.match(line.text) if line.marker == "+" else None
        if not match or match["note"] or (before and before.text.strip() == "try:"):
            continue
        names = [match["alias"]] if match["alias"] else [name.strip() for name in match["names"].split(",")]
        for name in names:
            top = (name or "").partition(".")[0].split(" as ")[-1].strip()
            if top and len(re.findall(rf"\b{top}\b", present)) == 1 and not re.search(rf"\b{top}\b", removed):
                return top, line
    return None
