"""Expressions worked out on columns: every step on arrays of doubles, with what is missing NaN in numbers and false in conditions."""

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gagar_cli.core.batches import BoolArray
from gagar_cli.core.conditions import show_text
from gagar_cli.core.double_double import FloatArray
from gagar_cli.core.expressions import FUNCTIONS, HINT, Constant, Expression, Name
from gagar_cli.errors import UsageError

Kind = Literal["numbers", "flags", "text"]
_ARITHMETIC: Mapping[str, Callable[..., Any]] = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide, "**": np.power, "negative": np.negative,
}  # fmt: skip
_COMPARISONS: Mapping[str, Callable[..., Any]] = {
    "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal,
}  # fmt: skip


class Column(NamedTuple):
    """Values of one kind, one a row, or one for all rows."""

    kind: Kind
    values: NDArray[Any]
    """Doubles with NaN, bools with false, or text with None where a value is missing."""
    is_known: NDArray[np.bool_]


def evaluate(expression: Expression, columns: Mapping[str, Column], n_rows: int, flag: str) -> FloatArray:
    """(n_rows,) the numbers; NaN where a value that is needed is missing.

    Raises:
        UsageError: text is calculated with, or the whole is no number.
    """
    with np.errstate(all="ignore"):
        made = _Evaluation(columns, flag).numbers(expression)
    return np.array(np.broadcast_to(made, (n_rows,)), dtype=np.float64)


class _Evaluation:
    """Works a tree out over the columns."""

    def __init__(self, columns: Mapping[str, Column], flag: str) -> None:
        self._columns = columns
        self._flag = flag

    def numbers(self, expression: Expression) -> FloatArray:
        """The expression as doubles; true is 1, false 0, and a missing value NaN."""
        made = self._value(expression)
        if made.kind == "text":
            raise UsageError(f"{self._flag}: {_told(expression)} is text, expected numbers", HINT)
        return np.where(made.is_known, made.values, np.nan)

    def _flags(self, expression: Expression) -> BoolArray:
        """The expression as true and false; a missing value is false."""
        made = self._value(expression)
        if made.kind != "flags":
            raise UsageError(f"{self._flag}: {_told(expression)} is no condition", HINT)
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
                f"{self._flag} compares {_told(left)}, which holds {first.kind}, with {_told(right)}", HINT
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


def _told(expression: Expression) -> str:
    if isinstance(expression, Name):
        return show_text(expression.column)
    return show_text(str(expression.value)) if isinstance(expression, Constant) else f"`{expression.name}`"
