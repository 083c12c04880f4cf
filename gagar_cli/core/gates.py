"""Gates: `win_rate.ci_low>0.5` against a summary, so that a pipeline stops where quality did not hold.

The name is a dotted path into the summary's record; a part that is a number counts into a list. A value that is null or
absent does not meet any gate: what was not measured is not proven. A value that is the bound but for rounding is the
bound.
"""

import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gagar_cli.errors import UsageError

_OPERATORS: Mapping[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "==": operator.eq,
    "!=": operator.ne,
}
_RELATIVE, _ABSOLUTE = 1e-9, 1e-12
"""Closer than this a value is the bound: far above rounding, far below what a figure over tasks can tell apart."""
_DIGITS = range(6, 18)
_FORM = re.compile(
    r"\s*([^\s<>=!](?:[^<>=!]*[^\s<>=!])?)\s*(>=|<=|==|!=|>|<)\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*"
)


@dataclass(frozen=True, slots=True)
class Gate:
    """One condition on a summary."""

    text: str
    path: tuple[str, ...]
    operator: str
    bound: float


@dataclass(frozen=True, slots=True)
class GateResult:
    """A gate and what it met."""

    gate: Gate
    value: float | None
    is_met: bool

    def describe(self) -> str:
        """The gate with the value that was found."""
        found = "not measured" if self.value is None else _explain(self.gate, self.value)
        return f"{self.gate.text}: {'.'.join(self.gate.path)} is {found}"


def parse_gate(text: str) -> Gate:
    """A gate from its text.

    Raises:
        UsageError: it is not of the form NAME OPERATOR NUMBER.

    >>> parse_gate("win_rate.ci_low > 0.5").bound
    0.5
    """
    found = _FORM.fullmatch(text)
    if found is None:
        raise UsageError(
            f"--gate is {text!r}, expected a name of the summary, one of {' '.join(_OPERATORS)}, and a number",
            "for example `--gate 'win_rate.ci_low>0.5'`",
        )
    name, sign, bound = found.groups()
    return Gate(text, tuple(name.split(".")), sign, float(bound))


def check_gate(gate: Gate, summary: Mapping[str, object]) -> GateResult:
    """Whether the summary meets the gate.

    Raises:
        UsageError: the summary has no such name, or it stands for no number.
    """
    value = _look_up(summary, gate)
    return GateResult(gate, value, value is not None and _meets(gate, value))


def _meets(gate: Gate, value: float) -> bool:
    is_bound = math.isclose(value, gate.bound, rel_tol=_RELATIVE, abs_tol=_ABSOLUTE)
    return _OPERATORS[gate.operator](gate.bound if is_bound else value, gate.bound)


def _explain(gate: Gate, value: float) -> str:
    """The value with as many digits as it takes to see why the gate is met or not."""
    texts = [f"{value:.{n_digits}g}" for n_digits in _DIGITS]
    return next(text for text in texts if _meets(gate, float(text)) == _meets(gate, value))


def _look_up(summary: Mapping[str, object], gate: Gate) -> float | None:
    found: object = summary
    rest = gate.path
    while rest and found is not None:
        # Names of policies may have dots themselves: the longest name that is there is meant.
        size = next((n for n in range(len(rest), 0, -1) if _has(found, ".".join(rest[:n]))), None)
        if size is None:
            raise _unknown(gate, len(gate.path) - len(rest), found)
        name = ".".join(rest[:size])
        found = (
            found[int(name)]
            if isinstance(found, list)
            else found[name]
            if isinstance(found, Mapping)
            else None
        )
        rest = rest[size:]
    if found is None or isinstance(found, bool | int | float):
        return None if found is None else float(found)
    raise UsageError(
        f"--gate {gate.text!r}: {'.'.join(gate.path)} is no number", _names_hint(gate.path, found)
    )


def _has(value: object, name: str) -> bool:
    if isinstance(value, list):
        return name.isascii() and name.isdigit() and int(name) < len(value)
    return isinstance(value, Mapping) and name in value


def _unknown(gate: Gate, depth: int, found: object) -> UsageError:
    return UsageError(
        f"--gate {gate.text!r}: the summary has no {'.'.join(gate.path[: depth + 1])}",
        _names_hint(gate.path[:depth], found),
    )


def _names_hint(path: tuple[str, ...], found: object) -> str | None:
    if not isinstance(found, Mapping):
        return None
    where = ".".join(path) or "it"
    return f"{where} has {', '.join(str(name) for name in list(found)[:30])}"
