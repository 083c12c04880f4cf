"""Options of a method from text: presets of trainers, and `NAME=VALUE` over them, checked."""

import math
from collections.abc import Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import Any, Literal, NamedTuple, get_args

from gagar_cli.core.caps import MAX_LIMIT, PAPER_LIMIT, Cap
from gagar_cli.core.estimators import METHODS, PRESETS, Options
from gagar_cli.core.peers import Scale
from gagar_cli.core.text import escape_untrusted, shorten
from gagar_cli.core.tier_tables import TierTable
from gagar_cli.core.turn_methods import EpisodeOver
from gagar_cli.errors import UsageError

_CHOICES = {
    "scale": get_args(Scale),
    "process_over": ("passes", "group"),
    "episode_over": get_args(EpisodeOver),
}
_LEAST, _MOST = 1e-12, 1e6
"""Of settings that are numbers: beyond them rounding is amplified or the largest double is passed."""
_FLAGS = {"true": True, "false": False}
_FLAG_NAMES = ("leave_one_out", "is_distance_relative")


def read_options(
    method: str, *, cap: Cap, limit: float, preset: str | None = None, assignments: Sequence[str] = ()
) -> Options:
    """The options of a method: the defaults, then the preset's, then what is set one by one.

    Raises:
        UsageError: an unknown name, an option that the method does not have, or a value out of range.
    """
    if method not in METHODS:
        raise UsageError(f"--method is {_show(method)}, expected one of {', '.join(METHODS)}")
    if cap not in get_args(Cap):
        raise UsageError(f"--cap is {_show(cap)}, expected one of {', '.join(get_args(Cap))}")
    check_limit(limit)
    options = replace(Options(cap=cap, limit=limit), **METHODS[method].defaults)  # type: ignore[arg-type]
    if preset is not None:
        if preset not in PRESETS:
            raise UsageError(f"--like is {_show(preset)}, expected one of {', '.join(PRESETS)}")
        if method != "grpo":
            raise UsageError(f"--like is for --method grpo, and the method is {method}")
        options = replace(options, **PRESETS[preset])  # type: ignore[arg-type]
    settable = _settable(method)
    for text in assignments:
        name, equals, value = text.partition("=")
        if not equals:
            raise UsageError(f"--set is {_show(text)}, expected NAME=VALUE", "for example `--set alpha=0.4`")
        if name not in settable:
            raise _unknown(name, method, settable)
        options = replace(options, **{name: _read(name, value)})
    return options


def check_limit(limit: float) -> None:
    """Refuse a `--limit` that bounds nothing, or nothing can meet.

    Raises:
        UsageError: it is not more than 1, or absurdly large.
    """
    if not limit > 1:
        raise UsageError(f"--limit is {limit:g}, expected more than 1", "--method dr-grpo moves nothing")
    if limit > MAX_LIMIT:
        raise UsageError(f"--limit is {limit:g}, expected at most {MAX_LIMIT:g}", "--cap none bounds nothing")


class SettledCap(NamedTuple):
    """What bounds amplification, and who says so."""

    cap: Cap
    limit: float
    source: Literal["flag", "table", "default"]
    overruled: str | None = None
    """What the table says instead, where a flag wins over it."""


def settle_cap(table: TierTable, *, cap: Cap | None, limit: float | None) -> SettledCap:
    """The flags where they are given, else the tier table, else `bounded` at 1.5.

    Raises:
        UsageError: a limit is given, and the cap has none.
    """
    kind = cap or table.cap or "bounded"
    if limit is not None and kind == "none":
        said = "--cap none" if cap else "the tier table's cap, none,"
        raise UsageError(
            f"--limit is {limit:g}, and {said} bounds nothing",
            "--limit is for the other caps, such as bounded",
        )
    bound = limit or table.limit or PAPER_LIMIT
    is_flagged, is_tabled = cap is not None or limit is not None, (table.cap, table.limit) != (None, None)
    by_table = (table.cap or kind, table.limit or bound)
    if is_flagged and is_tabled and by_table != (kind, bound):
        return SettledCap(kind, bound, "flag", f"{by_table[0]} at {by_table[1]:g}")
    return SettledCap(kind, bound, "flag" if is_flagged else "table" if is_tabled else "default")


def shown_options(method: str, options: Options) -> dict[str, object]:
    """The options that the method has, with their values."""
    return {name: getattr(options, name) for name in METHODS[method].options}


def _read(name: str, text: str) -> Any:
    if name in _CHOICES:
        if text not in _CHOICES[name]:
            raise UsageError(f"--set {name} is {_show(text)}, expected one of {', '.join(_CHOICES[name])}")
        return text
    if name in _FLAG_NAMES:
        if text not in _FLAGS:
            raise UsageError(f"--set {name} is {_show(text)}, expected true or false")
        return _FLAGS[text]
    if name == "ddof":
        if text not in ("0", "1"):
            raise UsageError(f"--set {name} is {_show(text)}, expected 0 or 1")
        return int(text)
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    # κ divides, and ε keeps groups whose rewards differ by rounding alone from having advantages of size 1.
    is_positive = name in ("kappa", "epsilon", "success_value")
    least, most = (_LEAST, 1.0) if name == "discount" else (_LEAST if is_positive else 0.0, _MOST)
    is_fit, expected = least <= value <= most, f"a number from {least:g} to {most:g}"
    if not is_fit:
        raise UsageError(f"--set {name} is {_show(text)}, expected {expected}")
    return value


def _settable(method: str) -> tuple[str, ...]:
    """The options that have no flag of their own."""
    return tuple(name for name in METHODS[method].options if name not in ("cap", "limit"))


def _unknown(name: str, method: str, settable: Sequence[str]) -> UsageError:
    if not settable:
        owners = [other for other, known in METHODS.items() if name in _settable(other)]
        hint = f"{name} is an option of {', '.join(owners)}" if owners else "leave --set out"
        return UsageError(f"--set {_show(name)}: method {method} has no options to set", hint)
    nearest = get_close_matches(name, settable, n=1, cutoff=0.0)[0]
    hint = f"its options are {', '.join(settable)}"
    return UsageError(f"--set {_show(name)}: no option of method {method}, the nearest is {nearest}", hint)


def _show(text: str) -> str:
    return repr(shorten(escape_untrusted(text, keep_newlines=False), 80))
