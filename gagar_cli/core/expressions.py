"""Numbers worked out from columns, as text: a penalty such as `exp(-n_output_tokens / 20000)`.

    where(tool_misuse, 0.5, 1.0)
    clip(1 - 0.01 * (n_turns - 30), 0.2, 1)
    min(1, 4000 / n_output_tokens) * where(meta.kind == "refactor" and n_files > 9, 0.8, 1)

Arithmetic (`+ - * / **`), comparisons, `and`, `or`, `not`, `in`, and the functions of `FUNCTIONS`, over columns named as in conditions
(`core/conditions.py`). The text becomes a tree of these and nothing else, and the tree is worked out on arrays of
doubles (`core/expression_values.py`): there is no attribute, no call of anything of Python's, and no integer that could grow.
A number that is not finite is left to the reader to refuse.
"""

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from gagar_cli.core.conditions import MAX_DEPTH, WORDS, column_name, parse_text, show_text
from gagar_cli.core.double_double import FloatArray
from gagar_cli.errors import UsageError

HINT = "for example `--factor 'exp(-n_output_tokens / 20000)'` or `--factor 'where(tool_misuse, 0.5, 1)'`"


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal; None has a kind of its own."""

    value: str | float | bool | None


@dataclass(frozen=True, slots=True)
class Name:
    """A column."""

    column: str


@dataclass(frozen=True, slots=True)
class Call:
    """An operator or a function with what it is applied to."""

    name: str
    arguments: tuple["Expression", ...]


Expression = Constant | Name | Call


class _Function(NamedTuple):
    """What a name stands for: how many numbers it takes, and the ufunc that takes them, two by two where there are more."""

    n_least: int
    n_most: int
    run: Callable[..., FloatArray]


FUNCTIONS: Mapping[str, _Function] = {
    "exp": _Function(1, 1, np.exp),
    "log": _Function(1, 1, np.log),
    "sqrt": _Function(1, 1, np.sqrt),
    "abs": _Function(1, 1, np.abs),
    "min": _Function(2, 20, np.minimum),
    "max": _Function(2, 20, np.maximum),
    "clip": _Function(3, 3, lambda values, low, high: np.minimum(np.maximum(values, low), high)),
}
"""Beside them `where(condition, then, else)`, and `column("any name")` for columns whose name is no word."""
_BINARY = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Pow: "**"}
_COMPARED = {
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Is: "==", ast.IsNot: "!=",
}  # fmt: skip


def parse_expression(text: str, flag: str) -> Expression:
    """The expression that a text says; `flag` is for messages.

    >>> parse_expression("n_turns + 1", "--factor")
    Call(name='+', arguments=(Name(column='n_turns'), Constant(value=1.0)))

    Raises:
        UsageError: it is no such expression, with what does not belong in one.
    """
    return _Parser(flag).expression(parse_text(text, flag, HINT), 0)


def columns_in(expression: Expression) -> tuple[str, ...]:
    """The columns that an expression names, each once."""
    return tuple(dict.fromkeys(_columns(expression)))


class _Parser:
    """Turns the nodes of the little language into a tree and refuses all others."""

    def __init__(self, flag: str) -> None:
        self._flag = flag

    def expression(self, node: ast.expr, depth: int) -> Expression:
        if depth > MAX_DEPTH:
            raise UsageError(f"{self._flag} is nested more than {MAX_DEPTH} deep", HINT)
        name = column_name(node)
        if name is not None:
            return Name(name)

        def inner(*nodes: ast.expr) -> tuple[Expression, ...]:
            return tuple(self.expression(each, depth + 1) for each in nodes)

        if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
            return Call(_BINARY[type(node.op)], inner(node.left, node.right))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return Call("negative", inner(node.operand))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return Call("not", inner(node.operand))
        if isinstance(node, ast.BoolOp):
            return Call("and" if isinstance(node.op, ast.And) else "or", inner(*node.values))
        if isinstance(node, ast.Compare):
            return self._comparison(node, depth)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
            return self._call(node, node.func.id, inner(*node.args))
        return Constant(self._literal(node))

    def _comparison(self, node: ast.Compare, depth: int) -> Expression:
        parts: list[Expression] = []
        for (left, right), op in zip(pairwise([node.left, *node.comparators]), node.ops, strict=True):
            first = self.expression(left, depth + 1)
            if isinstance(op, ast.In | ast.NotIn):
                if not isinstance(right, ast.List | ast.Tuple | ast.Set) or not right.elts:
                    raise self._refusal(right)
                each = tuple(Call("==", (first, self.expression(item, depth + 1))) for item in right.elts)
                is_one = Call("or", each)
                parts.append(is_one if isinstance(op, ast.In) else Call("not", (is_one,)))
                continue
            second = self.expression(right, depth + 1)
            is_null = isinstance(second, Constant) and second.value is None
            if isinstance(op, ast.Is | ast.IsNot) and not is_null:
                raise self._refusal(right)
            parts.append(Call(_COMPARED[type(op)], (first, second)))
        return parts[0] if len(parts) == 1 else Call("and", tuple(parts))

    def _call(self, node: ast.Call, name: str, arguments: tuple[Expression, ...]) -> Expression:
        if name == "where":
            n_least, n_most = 3, 3
        elif name in FUNCTIONS:
            n_least, n_most, _ = FUNCTIONS[name]
        else:
            raise self._refusal(node)
        if not n_least <= len(arguments) <= n_most:
            expected = str(n_least) if n_least == n_most else f"{n_least} to {n_most}"
            raise UsageError(
                f"{self._flag}: {name} has {len(arguments)} arguments, expected {expected}", HINT
            )
        return Call(name, arguments)

    def _literal(self, node: ast.expr) -> str | float | bool | None:
        if isinstance(node, ast.Name) and node.id in WORDS:
            return WORDS[node.id]
        if not isinstance(node, ast.Constant):
            raise self._refusal(node)
        found = node.value
        if isinstance(found, int | float) and not isinstance(found, bool) and abs(found) < 1e300:
            return float(found)
        if found is None or isinstance(found, str | bool):
            return found
        raise self._refusal(node)

    def _refusal(self, node: ast.expr) -> UsageError:
        allowed = f"+ - * / **, comparisons, and, or, not, where, {', '.join(FUNCTIONS)}"
        return UsageError(
            f"{self._flag}: {show_text(ast.unparse(node))} does not belong in an expression",
            f"there are columns, numbers, text, {allowed}",
        )


def _columns(expression: Expression) -> Iterator[str]:
    if isinstance(expression, Name):
        yield expression.column
    elif isinstance(expression, Call):
        for each in expression.arguments:
            yield from _columns(each)
