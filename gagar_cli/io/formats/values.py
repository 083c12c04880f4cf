"""Rewards and verdicts as trainers and harnesses write them: numbers, flags, and the text of either.

What is there and cannot be read is an error: a reward that vanishes would make its attempt invalid, and nobody would know.
"""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from gagar_cli.errors import InputError
from gagar_cli.io.jsonl import show_value
from gagar_cli.io.lookups import MISSING

_TENSOR = re.compile(r"tensor\(([^,()]*)(?:, [^()]*)?\)")
_MAX_NUMBER_CHARS = 100
_MAX_DIGITS = 19


class RewardError(InputError):
    """What a record has under a reward's name is none; `name` says which."""

    def __init__(self, value: object, name: str) -> None:
        super().__init__(f"{name} is {show_value(value)}, expected a number")
        self.name = name


def reward_of(value: Any, name: str = "reward") -> float | None:
    """The reward that a record has under a name: a number, a flag as 1.0 or 0.0, or a list of one; None where there is none.

    Raises:
        RewardError: it is something else.
    """
    if value is MISSING or value is None:
        return None
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    number = number_or_none(value)
    if number is None and value is not None:
        raise RewardError(value, name)
    return number


def flag_of(value: Any, name: str) -> bool | None:
    """The verdict that a record has under a name: a flag, or 1 or 0; None where there is none.

    Raises:
        InputError: it is something else.
    """
    if value is MISSING or value is None:
        return None
    flag = flag_or_none(value)
    if flag is None:
        raise InputError(f"{name} is {show_value(value)}, expected true, false or null")
    return flag


def flag_or_none(value: Any) -> bool | None:
    """A flag, also as 1 or 0, which is what reward functions return; None for anything else."""
    return bool(value) if isinstance(value, int | float) and value in (0, 1) else None


def text_of(value: Any, name: str) -> str | None:
    """The text that a record has under a name; None where there is none.

    Raises:
        InputError: it is something else.
    """
    if value is None or isinstance(value, str):
        return value
    raise InputError(f"{name} is {show_value(value)}, expected text or null")


def integer_of(value: Any, name: str) -> int | None:
    """The integer that a record has under a name, also one written as text; None where there is none.

    Raises:
        InputError: it is something else.
    """
    if isinstance(value, str) and value.isdecimal() and len(value) < _MAX_DIGITS:
        return int(value)
    if value is None or type(value) is int:
        return value
    raise InputError(f"{name} is {show_value(value)}, expected an integer")


def as_written(value: Any) -> Any:
    """What a writer that makes text of whatever JSON does not know meant by it: a number or a flag of numpy or torch.

    >>> as_written("0.5"), as_written("True"), as_written("tensor(1.)"), as_written("nan"), as_written("done")
    (0.5, True, 1.0, None, 'done')
    """
    if not isinstance(value, str) or len(value) > _MAX_NUMBER_CHARS:
        return value
    found = _TENSOR.fullmatch(value)
    text = found[1] if found else value
    if text in ("True", "False"):
        return text == "True"
    try:
        number = float(text)
    except ValueError:
        return value
    return None if math.isnan(number) else number


def named_rewards(values: Mapping[str, Any]) -> dict[str, float]:
    """The numbers among named values; where there is none, the flags: beside numbers a flag is a remark."""
    are_flags = not any(
        isinstance(each, int | float) and not isinstance(each, bool) for each in values.values()
    )
    return {
        str(name): number
        for name, each in values.items()
        if isinstance(each, bool) is are_flags and (number := number_or_none(each)) is not None
    }


def number_or_none(value: Any) -> float | None:
    """A number, or a flag as 1.0 or 0.0; an integer that no float can hold stays one, and is refused where rewards are checked."""
    if not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return value


def total(numbers: Sequence[float]) -> float | None:
    """The sum; None of nothing. One that no float can hold is the largest part."""
    try:
        return sum(numbers) if numbers else None
    except OverflowError:
        return max(numbers, key=abs)
