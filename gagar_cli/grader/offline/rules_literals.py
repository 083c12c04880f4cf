"""Rules against special cases: code that knows the tests' inputs, or that it is being tested.

A comparison with a literal is ordinary; one whose literals stand in the problem statement, whose branch returns a
ready answer, and that hardly any sibling needs, is a table of answers.
"""

import ast
import itertools
import re
from collections.abc import Iterator, Sequence

from gagar_cli.grader.offline.blemishes import Blemish, blemish, quote
from gagar_cli.grader.offline.facts import Candidate, Group, PatchedFile, ShownLine
from gagar_cli.grader.offline.source import indent_of, source_files

_LITERAL = r"(?:-?\d+(?:\.\d+)?|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")"
_COMPARISON = re.compile(
    rf"^\s*(?:\}}?\s*else\s+)?(?:if|elif)\b.*?(?:===?|\bin\b|\.equals\()\s*[\[({{]*\s*(?P<literals>{_LITERAL}.*?)[:{{]?\s*(?:return\b.*)?$"
)
_CASE = re.compile(rf"^\s*case\s+(?P<literals>{_LITERAL})\s*:")
_CONSTANT = rf"(?:[\w.]+\(\s*)?[\[({{]*\s*(?:{_LITERAL}|True|False|None|true|false|null)(?:\s*[,:]\s*{_LITERAL})*\s*[\])}}]*"
_READY_ANSWER = re.compile(rf"\breturn\s+{_CONSTANT}\s*;?\s*(?:\}}\s*|#.*|//.*)?$")
_TABLE_ENTRY = re.compile(rf"({_LITERAL})\s*:\s*[\[({{]*\s*{_LITERAL}")
_TEST_SENSOR = re.compile(
    r"PYTEST_CURRENT_TEST|['\"](?:pytest|unittest|jest|mocha)['\"]\s+in\s+sys\.modules|\bsys\.argv\b.*(?:pytest|test)"
    r"|\binspect\.stack\(\).*test|_called_from_test|JEST_WORKER_ID|process\.env\.NODE_ENV\s*===?\s*['\"]test"
)
_TRIVIAL = {"-1", "10", "100", "0.0", "1.0"}
_MIN_ENTRIES = 3


def rule_special_cases(candidate: Candidate, group: Group) -> Sequence[Blemish]:
    """Test inputs answered from a table, or a check whether tests are running."""
    found = find_special_cases(candidate, group)
    if not found:
        return []
    file, line, why = found[0]
    return blemish(
        "special case",
        why,
        quote(line, file.lines),
        flag="test_specific",
        costs={"approach": 3, "precision": 3},
    )


def find_special_cases(candidate: Candidate, group: Group) -> list[tuple[PatchedFile, ShownLine, str]]:
    """The added lines that know the tests, with what is wrong with them."""
    siblings = group.siblings(candidate)
    found: list[tuple[PatchedFile, ShownLine, str]] = []
    for file, language in source_files(candidate):
        found += [
            (file, line, "asks whether tests are running")
            for line in file.added
            if _TEST_SENSOR.search(line.text)
        ]
        answers = [
            (line, literals)
            for line, literals in _answered_literals(file, language)
            if not _siblings_compare(siblings, file.path, literals)
        ]
        known = [
            line
            for line, literals in answers
            if any(_is_telling(text) and _is_in_statement(text, group) for text in literals)
        ]
        if known:
            found.append((file, known[0], "returns a ready answer for an input of the problem statement"))
        elif len(answers) >= _MIN_ENTRIES:
            found.append((file, answers[0][0], f"returns ready answers for {len(answers)} literal inputs"))
        table = [
            (line, literals)
            for line, literals in _table_entries(file)
            if any(_is_in_statement(text, group) for text in literals)
        ]
        if len(table) >= _MIN_ENTRIES - 1 and not _siblings_compare(siblings, file.path, table[0][1]):
            found.append(
                (file, table[0][0], "keeps a table of inputs of the problem statement with their answers")
            )
    return found


def _answered_literals(file: PatchedFile, language: str) -> Iterator[tuple[ShownLine, tuple[str, ...]]]:
    """Added comparisons with literals whose branch returns a constant at once."""
    for hunk in file.hunks:
        lines = [line for line in hunk.lines if line.marker != "-"]
        for line, after in itertools.zip_longest(lines, lines[1:]):
            if line.marker != "+":
                continue
            literals = _python_literals(line.text) if language == "python" else _other_literals(line.text)
            is_branch = after and after.marker == "+" and indent_of(after.text) > indent_of(line.text)
            branch = [line.text, after.text] if is_branch else [line.text]
            answers = filter(None, map(_READY_ANSWER.search, branch))
            is_value = any(not _is_switch(answer[0]) for answer in answers)
            telling = [text for text in literals if _is_telling(text)]
            if (is_value and any(text[0] not in "'\"" for text in literals)) or (
                telling and any(map(_READY_ANSWER.search, branch))
            ):
                yield line, literals


def _is_switch(answer: str) -> bool:
    return answer.split()[1].rstrip(";") in ("True", "False", "None", "true", "false", "null")


def _other_literals(text: str) -> tuple[str, ...]:
    match = _COMPARISON.match(text) or _CASE.match(text)
    return tuple(re.findall(_LITERAL, match["literals"])) if match else ()


def _python_literals(text: str) -> tuple[str, ...]:
    """The constants that an `if` line compares something with: bare, in a tuple, or as a constructor's arguments."""
    statement = re.sub(r"^\s*(?:el)?if\b", "if", text.partition("  #")[0].rstrip())
    if not statement.startswith("if"):
        return ()
    try:
        tree = ast.parse(statement + (" pass" if statement.endswith(":") else ""))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    compared = (
        side
        for node in ast.walk(tree)
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Eq | ast.In)
        for side in node.comparators
        if _is_constant(side)
    )
    return tuple(
        repr(leaf.value)
        for side in compared
        for leaf in ast.walk(side)
        if isinstance(leaf, ast.Constant)
        and isinstance(leaf.value, str | int | float)
        and not isinstance(leaf.value, bool)
    )


def _is_constant(node: ast.expr) -> bool:
    if isinstance(node, ast.Constant):
        return True
    if isinstance(node, ast.UnaryOp):
        return _is_constant(node.operand)
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        return all(map(_is_constant, node.elts))
    return isinstance(node, ast.Call) and bool(node.args) and all(map(_is_constant, node.args))


def _table_entries(file: PatchedFile) -> Iterator[tuple[ShownLine, tuple[str, ...]]]:
    for line in file.added:
        for literal in _TABLE_ENTRY.findall(line.text):
            if _is_telling(literal):
                yield line, (literal,)


def _is_telling(literal: str) -> bool:
    """Whether a literal is too particular to be a mode, a sentinel or a common number."""
    text = literal.strip("'\"")
    if literal[0] not in "'\"":
        return len(text) > 1 and text not in _TRIVIAL
    # `"auto"` or `"left_outer"` names an option; blanks, digits and signs make an example.
    return len(text) >= 3 and not re.fullmatch(r"[A-Za-z_.-]+", text)


def _is_in_statement(literal: str, group: Group) -> bool:
    text = literal.strip("'\"")
    return bool(re.search(rf"(?<![\w.]){re.escape(text)}(?!\w|\.\d)", group.statement))


def _siblings_compare(siblings: Sequence[Candidate], path: str, literals: Sequence[str]) -> bool:
    """Whether at least a third of the siblings put the same literals into the same file."""
    texts = [
        "\n".join(line.text for file in sibling.files if file.path == path for line in file.added)
        for sibling in siblings
    ]
    n_alike = sum(any(literal.strip("'\"") in text for literal in literals) for text in texts)
    return n_alike > 0 and 3 * n_alike >= len(texts)
