"""What a growing dump asks of each record: that no trajectory occurs twice."""

from collections.abc import Sequence

from gagar_cli.core.text import escape_untrusted, shorten
from gagar_cli.errors import InputError
from gagar_cli.io.arrived import Row


def refuse_copy(row: Row, others: Sequence[Row]) -> None:
    """Compare a row with the others of its group.

    Raises:
        InputError: another one is the same part of the same trajectory, or of another verdict.
    """
    for other in others:
        if other.trajectory_id != row.trajectory_id:
            continue
        if other.scalars.segment == row.scalars.segment:
            raise InputError(
                f"trajectory {quote(row.trajectory_id)} occurs twice in its group: see {other.where}",
                "parts of one trajectory differ in `segment`; separate attempts need separate ids",
            )
        if other.verdict != row.verdict:
            raise InputError(
                f"a segment of trajectory {quote(row.trajectory_id)} disagrees: see {other.where}",
                "segments of one trajectory share its reward",
            )


def quote(text: str) -> str:
    """Text of a dump as messages show it."""
    return f'"{shorten(escape_untrusted(text, keep_newlines=False), 80)}"'
