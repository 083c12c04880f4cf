"""What a growing dump asks of each record: that no trajectory occurs twice; and what it tells of those that came."""

from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter

import numpy as np
import polars as pl

from gagar_cli.core.schema import GroupKey
from gagar_cli.core.text import escape_untrusted, shorten
from gagar_cli.errors import InputError
from gagar_cli.io.arrived import Event, Row
from gagar_cli.io.contradictions import note_of_contradictions
from gagar_cli.io.formats.facts import is_inferred
from gagar_cli.io.read_options import ReadOptions
from gagar_cli.io.reading_notes import note_of_shaped_rewards
from gagar_cli.io.records import MISSING, Fields
from gagar_cli.io.tails import Tail


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


def has_own_verdict(record: Mapping[str, object], fields: Fields, tail: Tail) -> bool:
    """Whether a record says itself, be it null, who passed; what its format infers is not said."""
    is_there = fields.find(record, "resolved") is not MISSING
    return is_there and not is_inferred(record, is_native=tail.run is not None)


def give_up(groups: Mapping[GroupKey, list[Row]]) -> Iterator[Event]:
    """Takes what awaits a verdict as it is: none comes any more."""
    for key, rows in groups.items():
        for number, row in enumerate(rows):
            if row.is_awaited:
                rows[number] = row.as_inferred()
                yield Event("record", key, rows[number])


def notes_of_rewards(groups: Mapping[GroupKey, Sequence[Row]], options: ReadOptions) -> Iterator[str]:
    """What is told of rewards that contradict verdicts; without any verdict, of those that are neither nothing nor a pass."""
    valid = [
        row
        for rows in groups.values()
        for row in rows
        if not (row.scalars.infra_failure or row.scalars.mask_sample)
    ]
    both = [row for row in valid if row.scalars.resolved is not None and row.scalars.reward is not None]
    both.sort(key=attrgetter("order"))
    note = note_of_contradictions(
        np.array([row.scalars.reward for row in both], dtype=np.float64),
        np.array([row.scalars.resolved for row in both], dtype=bool),
        options.pass_threshold,
        lambda place: both[place].where,
    )
    yield from () if note is None else (note,)
    if all(row.scalars.resolved is None for rows in groups.values() for row in rows):
        rewards = [row.scalars.reward for row in valid]
        yield from note_of_shaped_rewards(pl.Series(rewards, dtype=pl.Float64), options.pass_threshold)


def quote(text: str) -> str:
    """Text of a dump as messages show it."""
    return f'"{shorten(escape_untrusted(text, keep_newlines=False), 80)}"'
