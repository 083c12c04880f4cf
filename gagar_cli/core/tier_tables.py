"""Tier tables: a rule a tier for the quality factor q in (0, 1], what ties count for, and a cap, written in TOML.

`flash` is the paper's published one (METHODS 1.3). Whatever the rules, a better place has no smaller factor, and no
candidate of a lower tier a larger one than any of a higher tier.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from decimal import Decimal
from difflib import get_close_matches
from fractions import Fraction
from itertools import pairwise
from typing import Any, ClassVar, Literal, cast, get_args

from gagar_cli.core.caps import MAX_LIMIT, Cap
from gagar_cli.core.ranking import TIERS
from gagar_cli.core.text import escape_untrusted, shorten
from gagar_cli.errors import UsageError

Ties = Literal["dense", "competition", "average"]


@dataclass(frozen=True, slots=True)
class Flat:
    """One factor for the whole tier."""

    name: ClassVar[str] = "flat"
    factor: Fraction

    def at(self, place: Fraction, n_places: int) -> Fraction:  # noqa: ARG002 - the rules share a signature
        """The factor of a 0-based place."""
        return self.factor


@dataclass(frozen=True, slots=True)
class TopRest:
    """One factor for every member of the best tie, one for all others."""

    name: ClassVar[str] = "top-rest"
    top: Fraction
    rest: Fraction

    def at(self, place: Fraction, n_places: int) -> Fraction:  # noqa: ARG002 - the rules share a signature
        """The factor of a 0-based place."""
        return self.top if place == 0 else self.rest


@dataclass(frozen=True, slots=True)
class Linear:
    """Even steps from the first place down to the last."""

    name: ClassVar[str] = "linear"
    first: Fraction
    lone: Fraction
    """When the tier has one place only; `first` unless told otherwise."""
    last: Fraction

    def at(self, place: Fraction, n_places: int) -> Fraction:
        """The factor of a 0-based place."""
        if n_places == 1:
            return self.lone
        return self.first - (self.first - self.last) * place / (n_places - 1)


Rule = Flat | TopRest | Linear
RULES: Mapping[str, type[Flat] | type[TopRest] | type[Linear]] = {
    rule.name: rule for rule in (Flat, TopRest, Linear)
}


@dataclass(frozen=True, slots=True)
class TierTable:
    """A rule for each of T1, T2, T3."""

    t1: Rule
    t2: Rule
    t3: Rule
    ties: Ties = "dense"
    """How a tie in a linear tier counts for the places below it: as one place (`dense`, the paper's), as many places as
    it has members and the best of them for each (`competition`), or their mean (`average`)."""
    cap: Cap | None = None
    """What bounds amplification where the command line does not say; None leaves it to the program's default."""
    limit: float | None = None

    def __post_init__(self) -> None:
        """Refuse a table whose factors leave (0, 1] or rank a lower tier or place above a higher one."""
        if self.ties not in get_args(Ties):
            raise ValueError(f"ties is {self.ties!r}, expected {_one_of(get_args(Ties))}")
        if self.cap is not None and self.cap not in get_args(Cap):
            raise ValueError(f"cap kind is {self.cap!r}, expected {_one_of(get_args(Cap))}")
        if self.limit is not None and not 1 < self.limit <= MAX_LIMIT:
            raise ValueError(f"cap limit is {self.limit:g}, expected more than 1, at most {MAX_LIMIT:g}")
        named = list(self.named_factors())
        for name, value in named:
            if not 0 < value <= 1:
                raise ValueError(f"{name} is {float(value):.15g}, expected more than 0 and at most 1")
        for (upper, higher), (lower, value) in pairwise(named):
            if value > higher:
                raise ValueError(
                    f"{lower} is {float(value):.15g}, expected at most {upper} ({float(higher):.15g})"
                )

    @property
    def rules(self) -> tuple[Rule, Rule, Rule]:
        """By tier, in the order of `TIERS`."""
        return self.t1, self.t2, self.t3

    def named_factors(self) -> Iterator[tuple[str, Fraction]]:
        """Every factor as `T2 first`, in the order in which they have to descend."""
        for tier, rule in zip(TIERS, self.rules, strict=True):
            for entry in fields(rule):
                yield f"{tier} {entry.name}", getattr(rule, entry.name)

    def factor(self, tier: str, place: int | Fraction, n_places: int) -> Fraction:
        """The factor of the 0-based `place` among `n_places` of a tier.

        >>> BUILT_IN["flash"].factor("T2", 1, 3)
        Fraction(5, 8)
        """
        return self.rules[TIERS.index(tier)].at(Fraction(place), n_places)

    def to_record(self) -> dict[str, object]:
        """The table as a JSON object, by the keys of its TOML."""
        record: dict[str, object] = {}
        for tier, rule in zip(TIERS, self.rules, strict=True):
            factors = {entry.name: float(getattr(rule, entry.name)) for entry in fields(rule)}
            record[tier] = {"rule": rule.name, **factors}
        return {**record, "ties": self.ties, "cap": {"kind": self.cap, "limit": self.limit}}


def _table(top: str, rest: str, first: str, last: str, flat: str) -> TierTable:
    return TierTable(
        TopRest(Fraction(top), Fraction(rest)),
        Linear(Fraction(first), Fraction(first), Fraction(last)),
        Flat(Fraction(flat)),
    )


BUILT_IN = {
    "flash": _table("1.0", "0.9", "0.85", "0.4", "0.2"),
    "gentle": _table("1.0", "0.95", "0.9", "0.7", "0.5"),
    "strict": _table("1.0", "0.8", "0.7", "0.2", "0.05"),
    "none": _table("1", "1", "1", "1", "1"),
}
"""`flash` is the paper's; `gentle` and `strict` are half and about twice as far from 1; `none` moves nothing."""


def parse_tier_table(text: str, path: str) -> TierTable:
    """The table of a TOML text: `[T1]`, `[T2]`, `[T3]` with a rule each, and maybe `ties` and `[cap]`; `path` is for messages.

    Raises:
        UsageError: no TOML, an unknown or missing key, a value out of range or out of order; with the line.
    """
    import tomllib  # nobody who takes a built-in table waits for it

    try:
        values = tomllib.loads(text, parse_float=Decimal)
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"at line (\d+)", str(error))
        place = f"{path}:{line[1]}" if line else path
        raise UsageError(f"{place}: not TOML: {escape_untrusted(str(error), keep_newlines=False)}") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: not TOML: {escape_untrusted(str(error), keep_newlines=False)}") from error
    return _Reader(text, path).table(values)


class _Reader:
    """Builds a table and knows the line of every key."""

    def __init__(self, text: str, path: str) -> None:
        self._lines = text.splitlines()
        self._path = path

    def table(self, values: Mapping[str, Any]) -> TierTable:
        self._refuse_unknown(values, "", (*TIERS, "ties", "cap"))
        for tier in TIERS:
            if tier not in values:
                raise UsageError(f"{self._path}: [{tier}] is missing", f"a tier table has {', '.join(TIERS)}")
        t1, t2, t3 = (self._rule(tier, self._section(values, tier)) for tier in TIERS)
        cap = self._section(values, "cap") if "cap" in values else {}
        self._refuse_unknown(cap, "cap", ("kind", "limit"))
        kind, limit = cap.get("kind"), cap.get("limit")
        for section, key, value, choices in (
            ("", "ties", values.get("ties", "dense"), get_args(Ties)),
            ("cap", "kind", kind if "kind" in cap else get_args(Cap)[0], get_args(Cap)),
        ):
            if value not in choices:
                name = f"{section} {key}".strip()
                raise UsageError(
                    f"{self._locate(section, key)}: {name} is {_show(value)}, expected {_one_of(choices)}"
                )
        if limit is not None:
            limit = float(self._number("cap", "limit", limit))
        try:
            return TierTable(t1, t2, t3, values.get("ties", "dense"), cast("Cap | None", kind), limit)
        except ValueError as error:
            section, key, *_ = str(error).split()
            raise UsageError(f"{self._locate(section, key)}: {error}") from error

    def _rule(self, tier: str, values: Mapping[str, Any]) -> Rule:
        name = values.get("rule")
        if not isinstance(name, str) or name not in RULES:
            found = "missing" if "rule" not in values else _show(name)
            raise UsageError(
                f"{self._locate(tier, 'rule')}: {tier} rule is {found}, expected {_one_of(tuple(RULES))}"
            )
        made = RULES[name]
        keys = tuple(entry.name for entry in fields(made))
        self._refuse_unknown(values, tier, ("rule", *keys))
        given = dict(values)
        if made is Linear:
            given.setdefault("lone", given.get("first"))
        factors = {}
        for key in keys:
            if given.get(key) is None:
                hint = f"the rule {name} has {', '.join(keys)}"
                raise UsageError(f"{self._locate(tier, 'rule')}: {tier} {key} is missing", hint)
            factors[key] = self._number(tier, key, given[key])
        return made(**factors)

    def _section(self, values: Mapping[str, Any], name: str) -> Mapping[str, Any]:
        found = values[name]
        if not isinstance(found, dict):
            hint = f"under [{name}], {'kind and limit' if name == 'cap' else 'a rule and its factors'}"
            raise UsageError(f"{self._locate('', name)}: {name} is {_show(found)}, expected a table", hint)
        return found

    def _refuse_unknown(self, values: Mapping[str, Any], section: str, known: tuple[str, ...]) -> None:
        for name in values:
            if name not in known:
                nearest = get_close_matches(name, known, n=1, cutoff=0.0)[0]
                shown = shorten(escape_untrusted(name, keep_newlines=False), 80)
                within = f" in [{section}]" if section else ""
                raise UsageError(
                    f"{self._locate(section, name)}: unknown key {shown}{within}, the nearest is {nearest}",
                    f"the keys are {', '.join(known)}",
                )

    def _number(self, section: str, name: str, value: object) -> Fraction:
        place = self._locate(section, name)
        if isinstance(value, bool) or not isinstance(value, int | Decimal):
            raise UsageError(f"{place}: {section} {name} is {_show(value)}, expected a number")
        # An exponent such as 1e-999999999 would make the fraction's integers as long as memory.
        if isinstance(value, Decimal) and not (value.is_finite() and -30 < value.adjusted() < 30):
            raise UsageError(f"{place}: {section} {name} is {value}, number out of range")
        return Fraction(value)

    def _locate(self, section: str, name: str) -> str:
        """`path:line` of a key of a section, else of the section, else the path alone."""
        key = re.compile(rf"""\s*\[*\s*["']?{re.escape(name)}["']?\s*[=.\]]""")
        header = re.compile(rf"""\s*\[*\s*["']?{re.escape(section)}["']?\s*[=.\]]""")
        current, of_section = "", None
        for number, line in enumerate(self._lines, 1):
            if opened := re.match(r"""\s*\[\s*["']?([^\]"']*)""", line):
                current = opened[1].strip()
            if section and of_section is None and header.match(line):
                of_section = number
            if key.match(line) and (current == section or (not section and current == name)):
                return f"{self._path}:{number}"
        return self._path if of_section is None else f"{self._path}:{of_section}"


def _show(value: object) -> str:
    return shorten(escape_untrusted(repr(value), keep_newlines=False), 80)


def _one_of(names: tuple[str, ...]) -> str:
    return f"one of {', '.join(names)}"
