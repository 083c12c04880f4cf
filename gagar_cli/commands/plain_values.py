"""Values of the command line that are plainly right, taken without the library that typer has check them.

Importing that library takes as long as half of importing polars, and a short command is little more than its imports.
A text where a text is wanted, one of the words of a choice, a decimal number in its range: these need no check. Whatever
is anything else, wrong values included, typer handles as ever, so that what is accepted and every message stay its own.
"""

import re
from collections.abc import Callable, Iterable
from typing import Any, get_args

_NUMBERS = {
    int: re.compile(r"-?(?:0|[1-9][0-9]{0,17})", re.ASCII),
    float: re.compile(r"-?(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,20})?", re.ASCII),
}


def take_plain_values(parameters: Iterable[Any]) -> None:
    """Have the plain values of a command's parameters taken as they are."""
    for parameter in parameters:
        make_own = getattr(parameter, "get_runtime_param", None)
        # Both are inner parts of typer: without them it does all of it, which only takes longer.
        if make_own is None or isinstance(make_own, _PlainFirst) or not hasattr(parameter, "type_descriptor"):
            continue
        parameter.get_runtime_param = _PlainFirst(make_own)


class _PlainFirst:
    """Stands where typer looks for the check of a value; makes typer's own only for a value that is not plain."""

    def __init__(self, make_own: Callable[[], Any]) -> None:
        self._make_own = make_own

    def __call__(self) -> "_PlainFirst":
        return self

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """The value as its type; typer asks by these names."""
        is_list = param.multiple or param.nargs == -1
        if value is None:
            return () if is_list else None
        descriptor = param.type_descriptor
        taken = None
        if descriptor.parameter_info.parser is None:
            taken = _take_list(value, descriptor) if is_list else _take(value, descriptor, ctx)
        return self._make_own().coerce(value, param=param, ctx=ctx) if taken is None else taken


def _take_list(values: Any, descriptor: Any) -> list[str] | None:
    """Texts; None for anything else."""
    if get_args(descriptor.annotation) != (str,) or not isinstance(values, list | tuple):
        return None
    return list(values) if all(type(value) is str for value in values) else None


def _take(value: Any, descriptor: Any, ctx: Any) -> str | int | float | None:
    """A plain text, word or number; None for anything else."""
    wanted = descriptor.annotation
    if wanted in _NUMBERS:
        return _take_number(value, wanted, descriptor.parameter_info)
    if type(value) is not str:
        return None
    if wanted is str:
        return value
    is_literal = descriptor.is_choice and descriptor.case_sensitive and ctx.token_normalize_func is None
    return value if is_literal and value in descriptor.choices else None


def _take_number(value: Any, wanted: type[int | float], limits: Any) -> int | float | None:
    """A number within its limits; None for anything else."""
    if type(value) is str and _NUMBERS[wanted].fullmatch(value):
        value = wanted(value)
    is_in_range = (
        type(value) is wanted
        and not limits.clamp
        and (limits.min is None or value >= limits.min)
        and (limits.max is None or value <= limits.max)
    )
    return value if is_in_range else None
