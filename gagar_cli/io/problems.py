"""What is wrong with a record, apart from where it lies: problems are counted by kind."""

import re
from collections.abc import Sequence

from gagar_cli.errors import InputError

_PLACE = re.compile(r"^.*?:\d+(\[\d+\])?(:\d+)*: ")
_VALUE = re.compile(r'"(?:[^"\\]|\\.)*…?"?|-?\d[\d.e+-]*(?:,\d+)*|\{.*|\[.*')


def kind_of_problem(message: str) -> str:
    """A message without its place and values: what is wrong, not where.

    >>> kind_of_problem('dump.jsonl:12: reward is "high", expected a number')
    'reward is …, expected a number'
    """
    return _VALUE.sub("…", _PLACE.sub("", message.split("\n")[0]))


def hint_of(problems: Sequence[InputError]) -> str | None:
    """What helps with the first problem for which anything does."""
    return next((problem.hint for problem in problems if problem.hint), None)
