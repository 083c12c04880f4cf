"""Rubric files: a team's own dimensions, weights, questions and tier rules, in TOML.

Everything is checked before the first paid call, and every complaint names file and line. What a file leaves out of
`[tiers]` is as in the built-in rubric; score rules, which name dimensions, must be given where the dimensions differ.
"""

import re
import tomllib
from collections.abc import Collection, Mapping
from decimal import Decimal
from difflib import get_close_matches
from fractions import Fraction
from pathlib import Path
from typing import Any, NoReturn

from gagar_cli.core.ranking import FLAGS
from gagar_cli.core.rubric import MAX_SCORE, MIN_SCORE, PAPER, Limits, Rubric
from gagar_cli.core.text import escape_untrusted, shorten
from gagar_cli.errors import UsageError
from gagar_cli.io.streams import show_path

MAX_DIMENSIONS = 12
MAX_QUESTION_CHARS = 1_000
MIN_WEIGHT, MAX_DECIMALS = Decimal("0.001"), 12
_RANKED_FLAGS = tuple(name for name in FLAGS if name != "integrity_violation")
"""A violation has no tier, so no tier rule can name it."""
_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")


def read_rubric(path: str) -> Rubric:
    """The rubric of a TOML file.

    Raises:
        UsageError: it cannot be read, is no TOML, or is no rubric; with file and line.
    """
    shown = show_path(path)
    try:
        text = Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"{shown}: not UTF-8") from error
    except (OSError, ValueError) as error:
        raise UsageError(f"--rubric is {shown}: not a readable file") from error
    return parse_rubric(text, shown, name=Path(path).stem)


def parse_rubric(text: str, path: str, *, name: str = "rubric") -> Rubric:
    """The rubric of a TOML text; `path` is for messages, `name` for a file that does not give its own.

    Raises:
        UsageError: no TOML, or no rubric; with file and line.
    """
    try:
        values = tomllib.loads(text, parse_float=Decimal)
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"at line (\d+)", str(error))
        place = f"{path}:{line[1]}" if line else path
        raise UsageError(f"{place}: not TOML: {_show(str(error))}") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: not TOML: {_show(str(error))}") from error
    return _Parser(text, path).rubric(values, name)


class _Parser:
    """Turns the values of one file into a rubric, with the place of whatever is wrong."""

    def __init__(self, text: str, path: str) -> None:
        self._lines = text.splitlines()
        self._path = path

    def rubric(self, values: Mapping[str, Any], name: str) -> Rubric:
        self._refuse_unknown(values, ("name", "dimensions", "tiers"), "")
        told = values.get("name", name)
        if not isinstance(told, str) or not 0 < len(told) <= 80 or not told.isprintable():
            self._fail("", "name", f"name is {_show(repr(told))}, expected a text of at most 80 characters")
        tables = self._table(values, "dimensions", "")
        if not 1 <= len(tables) <= MAX_DIMENSIONS:
            self._fail(
                "", "dimensions", f"there are {len(tables)} dimensions, expected 1 to {MAX_DIMENSIONS}"
            )
        shares, questions = [], []
        for dimension in tables:
            share, question = self._dimension(dimension, self._table(tables, dimension, "dimensions"))
            shares.append(share)
            questions.append(question)
        if sum(shares) != 1:
            total = float(sum(shares))
            self._fail("dimensions", "", f"the weights sum to {total:.10g}, expected 1")
        tiers = self._table(values, "tiers", "") if "tiers" in values else {}
        self._refuse_unknown(tiers, ("T1", "T3"), "tiers")
        return Rubric(
            told, tuple(tables), tuple(shares), tuple(questions), **self._rules(tiers, tuple(tables))
        )

    def _dimension(self, name: str, table: Mapping[str, Any]) -> tuple[Fraction, str]:
        here = f"dimensions.{name}"
        if not _NAME.fullmatch(name) or name in FLAGS:
            reason = "a flag has that name" if name in FLAGS else "expected a-z, digits and _, at most 40"
            self._fail(here, "", f"{_show(name)} cannot name a dimension: {reason}")
        self._refuse_unknown(table, ("weight", "question"), here)
        weight, question = table.get("weight"), table.get("question")
        if not _is_weight(weight):
            told = f"weight is {_show(str(weight))}, expected {MIN_WEIGHT} to 1 with at most {MAX_DECIMALS} decimals"
            self._fail(here, "weight", told)
        if not isinstance(question, str) or not 0 < len(question.strip()) <= MAX_QUESTION_CHARS:
            self._fail(
                here,
                "question",
                f"question is {_show(repr(question))}, expected a text of at most {MAX_QUESTION_CHARS} characters",
            )
        return Fraction(str(weight)), " ".join(question.split())

    def _rules(self, tiers: Mapping[str, Any], dimensions: tuple[str, ...]) -> dict[str, Any]:
        first = self._table(tiers, "T1", "tiers") if "T1" in tiers else {}
        third = self._table(tiers, "T3", "tiers") if "T3" in tiers else {}
        self._refuse_unknown(first, ("scores_at_least", "without_flags"), "tiers.T1")
        self._refuse_unknown(third, ("scores_at_most", "flags"), "tiers.T3")
        rules: dict[str, Any] = {}
        if "scores_at_least" in first:
            rules["t1_min_score"] = self._score(first["scores_at_least"], "tiers.T1", "scores_at_least")
        if "without_flags" in first:
            rules["t1_barring_flags"] = self._flags(first["without_flags"], "tiers.T1", "without_flags")
        if "flags" in third:
            rules["t3_flags"] = self._flags(third["flags"], "tiers.T3", "flags")
        if "scores_at_most" in third:
            rules["t3_scores"] = self._conditions(third["scores_at_most"], dimensions)
        else:
            named = {name for limits in PAPER.t3_scores for name, _ in limits}
            missing = [name for name in PAPER.dimensions if name in named and name not in dimensions]
            if missing:
                self._fail(
                    "tiers.T3",
                    "",
                    f"scores_at_most is missing, and the built-in rule names {missing[0]}, which is no dimension here",
                    "give `scores_at_most` under [tiers.T3], `[]` for none",
                )
        return rules

    def _conditions(self, value: object, dimensions: tuple[str, ...]) -> tuple[Limits, ...]:
        here, key = "tiers.T3", "scores_at_most"
        if not isinstance(value, list) or not all(isinstance(limits, dict) and limits for limits in value):
            self._fail(
                here, key, f"{key} is {_show(str(value))}, expected a list such as [{{ approach = 1 }}]"
            )
        for limits in value:
            self._refuse_unknown(limits, dimensions, f"{here}.{key}")
        return tuple(
            tuple((name, self._score(score, here, key)) for name, score in limits.items()) for limits in value
        )

    def _score(self, value: object, here: str, key: str) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not MIN_SCORE <= value <= MAX_SCORE:
            told = f"{key} has {_show(str(value))}, expected an integer from {MIN_SCORE} to {MAX_SCORE}"
            self._fail(here, key, told)
        return value

    def _flags(self, value: object, here: str, key: str) -> tuple[str, ...]:
        if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
            self._fail(here, key, f"{key} is {_show(str(value))}, expected a list of flags")
        for name in value:
            if name not in _RANKED_FLAGS:
                self._fail(
                    here, key, f"{key} has {_show(name)}, the nearest is {_nearest(name, _RANKED_FLAGS)}"
                )
        return tuple(value)

    def _table(self, values: Mapping[str, Any], key: str, here: str) -> Mapping[str, Any]:
        value = values.get(key)
        if not isinstance(value, dict):
            told = "is missing" if value is None else f"is {_show(str(value))}, expected a table"
            self._fail(f"{here}.{key}".lstrip("."), "", f"{key} {told}")
        return value

    def _refuse_unknown(self, values: Mapping[str, Any], known: Collection[str], here: str) -> None:
        for key in values:
            if key not in known:
                hint = f"the keys {f'of {here} ' if here else ''}are {', '.join(known)}"
                self._fail(
                    here, key, f"unknown key {_show(key)}, the nearest is {_nearest(key, known)}", hint
                )

    def _fail(self, table: str, key: str, message: str, hint: str | None = None) -> NoReturn:
        line = self._find_line(table, key)
        raise UsageError(f"{self._path}:{line}: {message}" if line else f"{self._path}: {message}", hint)

    def _find_line(self, table: str, key: str) -> int | None:
        """The line of a key within a table, of the table where the key is not found, of neither: none."""
        start = 0
        header = re.compile(rf"\s*\[\s*{re.escape(table)}\b")
        for number, line in enumerate(self._lines, 1):
            if table and header.match(line):
                start = number
                break
        if not key:
            return start or None
        assignment = re.compile(
            rf"\s*(?:\[\s*)?[\"']?{re.escape(key)}[\"']?\s*[=.\]]|.*[{{,]\s*{re.escape(key)}\s*="
        )
        for number, line in enumerate(self._lines[start:], start + 1):
            if assignment.match(line):
                return number
            if start and line.lstrip().startswith("[") and not line.rstrip().endswith(("],", ",")):
                break
        return start or None


def _is_weight(value: object) -> bool:
    """Whether it is a number in range; an exponent of millions would be a fraction of millions of digits."""
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        return False
    weight = Decimal(value) if isinstance(value, int) and 0 <= value <= 1 else value
    return (
        isinstance(weight, Decimal)
        and weight.is_finite()
        and MIN_WEIGHT <= weight <= 1
        and -int(weight.as_tuple().exponent) <= MAX_DECIMALS
    )


def _nearest(word: str, known: Collection[str]) -> str:
    return get_close_matches(word, known, n=1, cutoff=0.0)[0]


def _show(text: str) -> str:
    return shorten(escape_untrusted(text, keep_newlines=False), 80)
