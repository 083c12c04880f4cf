"""Tier tables by name: built in, or a TOML file."""

from pathlib import Path

from gagar_cli.core.tier_tables import BUILT_IN, TierTable, parse_tier_table
from gagar_cli.errors import UsageError
from gagar_cli.io.streams import show_path


def read_tier_table(name: str) -> TierTable:
    """A built-in table by its name, or one from a TOML file.

    Raises:
        UsageError: there is neither a table nor a file of that name, or the file is no tier table.
    """
    if name in BUILT_IN:
        return BUILT_IN[name]
    shown = show_path(name)
    try:
        text = Path(name).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{shown}: not UTF-8") from error
    except (OSError, ValueError) as error:
        detail = f"neither a built-in table ({', '.join(BUILT_IN)}) nor a readable file"
        raise UsageError(f"--tiers is {shown}: {detail}") from error
    return parse_tier_table(text, shown)
