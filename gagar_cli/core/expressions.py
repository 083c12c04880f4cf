"""Numbers worked out from columns, as text: a penalty such as `exp(-n_output_tokens / 20000)`.

    where(tool_misuse, 0.5, 1.0)
    clip(1 - 0.01 * (n_turns - 30), 0.2, 1)
    min(1, 4000 / n_output_tokens) * where(meta.kind == "refactor" and n_files > 9, 0.8, 1)

Arithmetic (`+ - * / **`), comparisons, `and`, `or`, `not`, `in`, and the functions of `FUNCTIONS`, over columns named as in conditions
(`core/conditions.py`). The text becomes a tree of these and nothing else, and the tree is worked out on arrays of
doubles: there is no attribute, no call of anything of Python's, and no integer that could grow. What is missing is NaN in
numbers and false in conditions; a number that is not finite is left to the reader to refuse.
"""

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gagar_cli.core.batches import BoolArray
from gagar_cli.core.conditions import MAX_DEPTH, WORDS, column_name, parse_text, show_text
from gagar_cli.core.double_double import FloatArray
from gagar_cli.errors import UsageError

Kind = Literal["numbers", "flags", "text"]
_HINT = "for example `--factor 'exp(-n_output_tokens / 20000)'` or `--factor 'where(tool_misuse, 0.5, 1)'`"


class Column(NamedTuple):
    """Values of one kind, one a row, or one for all rows."""

    kind: Kind
    values: NDArray[Any]
    """Doubles with NaN, bools with false, or text with None where a value is missing."""
    is_known: NDArray[np.bool_]


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
_ARITHMETIC: Mapping[str, Callable[..., Any]] = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide, "**": np.power, "negative": np.negative,
}  # fmt: skip
_COMPARISONS: Mapping[str, Callable[..., Any]] = {
    "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal,
}  # fmt: skip
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
    return _Parser(flag).expression(parse_text(text, flag, _HINT), 0)


def columns_in(expression: Expression) -> tuple[str, ...]:
    """The columns that an expression names, each once."""
    return tuple(dict.fromkeys(_columns(expression)))


def evaluate(expression: Expression, columns: Mapping[str, Column], n_rows: int, flag: str) -> FloatArray:
    """(n_rows,) the numbers; NaN where a value that is needed is missing.

    Raises:
        UsageError: text is calculated with, or the whole is no number.
    """
    with np.errstate(all="ignore"):
        made = _Evaluation(columns, flag).numbers(expression)
    return np.array(np.broadcast_to(made, (n_rows,)), dtype=np.float64)


class _Parser:
    """Turns the nodes of the little language into a tree and refuses all others."""

    def __init__(self, flag: str) -> None:
        self._flag = flag

    def expression(self, node: ast.expr, depth: int) -> Expression:
        if depth > MAX_DEPTH:
            raise UsageError(f"{self._flag} is nested more than {MAX_DEPTH} deep", _HINT)
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
                f"{self._flag}: {name} has {len(arguments)} arguments, expected {expected}", _HINT
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


class _Evaluation:
    """Works a tree out over the columns."""

    def __init__(self, columns: Mapping[str, Column], flag: str) -> None:
        self._columns = columns
        self._flag = flag

    def numbers(self, expression: Expression) -> FloatArray:
        """The expression as doubles; true is 1, false 0, and a missing value NaN."""
        made = self._value(expression)
        if made.kind == "text":
            raise UsageError(f"{self._flag}: {_told(expression)} is text, expected numbers", _HINT)
        return np.where(made.is_known, made.values, np.nan)

    def _flags(self, expression: Expression) -> BoolArray:
        """The expression as true and false; a missing value is false."""
        made = self._value(expression)
        if made.kind != "flags":
            raise UsageError(f"{self._flag}: {_told(expression)} is no condition", _HINT)
        return np.asarray(made.values & made.is_known)

    def _value(self, expression: Expression) -> Column:
        if isinstance(expression, Name):
            return self._columns[expression.column]
        if isinstance(expression, Constant):
            return _constant(expression.value)
        name, arguments = expression.name, expression.arguments
        if name in ("and", "or"):
            flags = [self._flags(each) for each in arguments]
            made = np.logical_and if name == "and" else np.logical_or
            return _known("flags", _fold(made, flags))
        if name == "not":
            return _known("flags", ~self._flags(arguments[0]))
        if name in ("==", "!="):
            is_equal = self._is_equal(*arguments)
            return _known("flags", is_equal if name == "==" else ~is_equal)
        if name == "where":
            chosen, others = self.numbers(arguments[1]), self.numbers(arguments[2])
            return _number(np.where(self._flags(arguments[0]), chosen, others))
        numbers = [self.numbers(each) for each in arguments]
        if name in _COMPARISONS:
            return _known("flags", _COMPARISONS[name](*numbers))
        if name in _ARITHMETIC:
            return _number(_ARITHMETIC[name](*numbers))
        run = FUNCTIONS[name].run
        return _number(
            _fold(run, numbers) if FUNCTIONS[name].n_most > FUNCTIONS[name].n_least else run(*numbers)
        )

    def _is_equal(self, left: Expression, right: Expression) -> BoolArray:
        """Whether both are known and the same; two missing values are equal only where None is written."""
        first, second = self._value(left), self._value(right)
        for one, other in ((left, second), (right, first)):
            if one == Constant(None):
                return ~other.is_known
        if first.kind != second.kind:
            raise UsageError(
                f"{self._flag} compares {_told(left)}, which holds {first.kind}, with {_told(right)}", _HINT
            )
        return np.asarray((first.values == second.values) & first.is_known & second.is_known, dtype=np.bool_)


def _constant(value: str | float | bool | None) -> Column:
    if value is None:
        return Column("numbers", np.array(np.nan), np.array(False))
    if isinstance(value, bool):
        return _known("flags", np.array(value))
    if isinstance(value, float):
        return _number(np.array(value))
    return _known("text", np.array(value, dtype=np.object_))


def _known(kind: Kind, values: NDArray[Any]) -> Column:
    return Column(kind, values, np.ones_like(values, dtype=np.bool_))


def _number(values: FloatArray) -> Column:
    return Column("numbers", values, ~np.isnan(values))


def _fold(run: Callable[..., Any], values: list[Any]) -> Any:
    made = values[0]
    for each in values[1:]:
        made = run(made, each)
    return made


def _columns(expression: Expression) -> Iterator[str]:
    if isinstance(expression, Name):
        yield expression.column
    elif isinstance(expression, Call):
        for each in expression.arguments:
            yield from _columns(each)


def _told(expression: Expression) -> str:
    if isinstance(expression, Name):
        return show_text(expression.column)
    return show_text(str(expression.value)) if isinstance(expression, Constant) else f"`{expression.name}`"
