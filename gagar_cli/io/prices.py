"""Price tables: TOML, one table a model, money for a million tokens.

["my-org/my-model"]
in = 0.5
cached = 0.05
out = 2.0
"""

import difflib
import math
import tomllib
from pathlib import Path

from gagar_cli.core.spending import Prices
from gagar_cli.errors import UsageError
from gagar_cli.io.jsonl import show_value
from gagar_cli.io.streams import show_path

_KEYS = ("in", "cached", "out")


def read_prices(path: str, model: str) -> Prices:
    """The prices of a model.

    Raises:
        UsageError: the file cannot be read, is no price table, or does not have the model.
    """
    shown = show_path(path)
    try:
        tables = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{shown}: not TOML: {error}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{shown}: not UTF-8") from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"--prices is {shown}: {reason.lower()}") from error
    if model not in tables:
        near = difflib.get_close_matches(model, tables, n=1)
        hint = f"the nearest is {show_value(near[0])}" if near else f"a table is headed [{show_value(model)}]"
        raise UsageError(f"{shown}: no prices of {show_value(model)}", hint)
    return _prices(tables[model], f"{shown}: {show_value(model)}")


def _prices(table: object, here: str) -> Prices:
    if not isinstance(table, dict):
        raise UsageError(f"{here} is {show_value(table)}, expected a table of in, cached and out")
    for key in table:
        if key not in _KEYS:
            raise UsageError(f"{here} has {show_value(key)}, expected {', '.join(_KEYS)}")
    for key in ("in", "out"):
        if key not in table:
            raise UsageError(f"{here} has no {key}, expected money for a million tokens")
    values = {key: _price(value, f"{here}.{key}") for key, value in table.items()}
    return Prices(values["in"], values["out"], values.get("cached"))


def _price(value: object, here: str) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    try:
        price = float(value) if is_number else math.nan  # type: ignore[arg-type]
    except OverflowError:
        price = math.inf
    if not math.isfinite(price) or price < 0:
        raise UsageError(f"{here} is {show_value(value)}, expected a number from 0")
    return price
