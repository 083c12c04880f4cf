"""Conditions on columns, as text: comparisons of a column with literals, joined by `and`, `or`, `not`.

    task_type == "code" and n_turns < 50
    repo in ["a/b", "c/d"] or not is_synthetic
    0.5 <= meta.difficulty < 1 and column("patch-kind") is not None

The text is parsed, checked against this little language, and never evaluated as Python. A value that is missing or null
equals nothing but None, and is neither less nor more than anything.
"""

import ast
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from gagar_cli.core.text import escape_untrusted, shorten
from gagar_cli.errors import UsageError

MAX_CHARS = 2000
MAX_DEPTH = 50
Literal = str | float | bool | None

_OPERATORS = {
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
    ast.In: "in", ast.NotIn: "not in", ast.Is: "==", ast.IsNot: "!=",
}  # fmt: skip
WORDS = {"true": True, "false": False, "null": None}
"""JSON's words beside Python's."""
_FLIPPED = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True, slots=True)
class Comparison:
    """A column against a literal, or for `in` and `not in` against several."""

    column: str
    operator: str
    values: tuple[Literal, ...]


@dataclass(frozen=True, slots=True)
class Flag:
    """A column that is true or false by itself."""

    column: str


@dataclass(frozen=True, slots=True)
class Negation:
    """The opposite of a condition."""

    condition: "Condition"


@dataclass(frozen=True, slots=True)
class Junction:
    """Conditions of which all hold, or any."""

    is_all: bool
    conditions: tuple["Condition", ...]


Condition = Comparison | Flag | Negation | Junction


def parse_condition(text: str, flag: str) -> Condition:
    """The condition that a text says; `flag` is for messages.

    >>> parse_condition('task_type == "code"', "--eligible")
    Comparison(column='task_type', operator='==', values=('code',))

    Raises:
        UsageError: it is no such condition, with what does not belong in one.
    """
    body = parse_text(text, flag, _HINT)
    return _Parser(flag).condition(body, 0)


def parse_text(text: str, flag: str, hint: str) -> ast.expr:
    """One Python expression as a tree that nothing has looked at yet.

    Raises:
        UsageError: it is too long, or no expression.
    """
    if len(text) > MAX_CHARS:
        raise UsageError(f"{flag} has {len(text):,} characters, expected at most {MAX_CHARS:,}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of odd escapes in strings: they are the user's to mean
            return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        detail = error.msg if isinstance(error, SyntaxError) else "it cannot be parsed"
        raise UsageError(f"{flag} is {show_text(text)}: {detail}", hint) from error


def columns_of(condition: Condition) -> tuple[str, ...]:
    """The columns that a condition names, each once."""
    return tuple(dict.fromkeys(_columns(condition)))


def _columns(condition: Condition) -> Iterator[str]:
    if isinstance(condition, Comparison | Flag):
        yield condition.column
    elif isinstance(condition, Negation):
        yield from _columns(condition.condition)
    else:
        for part in condition.conditions:
            yield from _columns(part)


_HINT = "for example `--eligible 'task_type == \"code\"'`: columns against literals, with and, or, not, in"


class _Parser:
    """Turns the nodes of the little language into conditions and refuses all others."""

    def __init__(self, flag: str) -> None:
        self._flag = flag

    def condition(self, node: ast.expr, depth: int) -> Condition:
        if depth > MAX_DEPTH:
            raise UsageError(f"{self._flag} is nested more than {MAX_DEPTH} deep", _HINT)
        if isinstance(node, ast.BoolOp):
            parts = tuple(self.condition(value, depth + 1) for value in node.values)
            return Junction(isinstance(node.op, ast.And), parts)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return Negation(self.condition(node.operand, depth + 1))
        if isinstance(node, ast.Compare):
            return self._comparison(node)
        name = column_name(node)
        if name is None:
            raise self._refusal(node)
        return Flag(name)

    def _comparison(self, node: ast.Compare) -> Condition:
        sides = list(pairwise([node.left, *node.comparators]))
        parts = tuple(self._pair(left, op, right) for (left, right), op in zip(sides, node.ops, strict=True))
        return parts[0] if len(parts) == 1 else Junction(is_all=True, conditions=parts)

    def _pair(self, left: ast.expr, op: ast.cmpop, right: ast.expr) -> Condition:
        operator = _OPERATORS[type(op)]
        name = column_name(left)
        if name is None:
            flipped, name = _FLIPPED.get(operator), column_name(right)
            if flipped is None or name is None:
                raise self._refusal(left)
            operator, right = flipped, left
        if operator in ("in", "not in"):
            if not isinstance(right, ast.List | ast.Tuple | ast.Set):
                raise self._refusal(right)
            return Comparison(name, operator, tuple(self._literal(each) for each in right.elts))
        value = self._literal(right)
        is_ordered = operator in ("<", "<=", ">", ">=")
        if (isinstance(op, ast.Is | ast.IsNot) and not isinstance(value, bool | None)) or (
            is_ordered and (value is None or isinstance(value, bool))
        ):
            raise self._refusal(right)
        return Comparison(name, operator, (value,))

    def _literal(self, node: ast.expr) -> Literal:
        sign = 1
        value: ast.expr = node
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            sign, value = -1, node.operand
        if isinstance(value, ast.Name) and value.id in WORDS:
            value = ast.Constant(WORDS[value.id])
        if not isinstance(value, ast.Constant):
            raise self._refusal(node)
        found = value.value
        if isinstance(found, int | float) and not isinstance(found, bool) and abs(found) < 1e300:
            return float(sign * found)
        if sign == 1 and (found is None or isinstance(found, str | bool)):
            return found
        raise self._refusal(node)

    def _refusal(self, node: ast.expr) -> UsageError:
        return UsageError(
            f"{self._flag}: {show_text(ast.unparse(node))} does not belong in a condition", _HINT
        )


def column_name(node: ast.expr) -> str | None:
    """A name, a dotted path, or `column("any name")`; None for anything else."""
    if isinstance(node, ast.Name):
        return None if node.id in WORDS else node.id
    if isinstance(node, ast.Attribute):
        parent = column_name(node.value)
        return None if parent is None else f"{parent}.{node.attr}"
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "column"
        and len(node.args) == 1
        and not node.keywords
        and isinstance(node.args[0], ast.Constant)
        and isinstance(node.args[0].value, str)
    ):
        return node.args[0].value
    return None


def show_text(text: str) -> str:
    """A text as messages quote it."""
    return f'"{shorten(escape_untrusted(text, keep_newlines=False), 80)}"'
