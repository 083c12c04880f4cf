"""Writes what a redistribution made: a sidecar of one row a trajectory, a full copy of the dump, or lists."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import polars as pl

from gagar_cli.core.judging import Judged, Trajectories
from gagar_cli.core.redistribution import Redistribution
from gagar_cli.io.dump import Dump
from gagar_cli.io.ranked_index import RankedIndex
from gagar_cli.io.writers import write_frames
from gagar_cli.progress import ProgressCallback
from gagar_cli.redistribution_columns import added_columns
from gagar_cli.redistribution_settings import RedistributeSettings

if TYPE_CHECKING:
    from gagar_cli.io.list_columns import TurnRows

_PART_ROWS = 262_144


class Outcome(NamedTuple):
    """The trajectories, and what became of them."""

    ranked: RankedIndex
    rows: Trajectories
    judged: Judged
    made: Redistribution
    turns: "TurnRows | None"
    """For methods of turns."""


def write_rows(
    settings: RedistributeSettings, dump: Dump, outcome: Outcome, progress: ProgressCallback
) -> tuple[str, ...]:
    """Write the output; the columns of the dump that it has with new values come back.

    Raises:
        InputError: a record that is read again changed, or has no mask where one is asked for.
        OutputError: it cannot be written.
    """
    if settings.per_turn or settings.per_token:
        _write_lists(settings, dump, outcome)
        return ()
    if settings.full_copy:
        from gagar_cli.io.full_copy import write_full_copy

        added = added_columns(outcome.made.columns, outcome.judged, outcome.rows)
        of_rows = added[outcome.ranked.trajectory_of_row]
        return write_full_copy(settings.output, dump, settings.dumps, of_rows, report=progress)
    write_frames(settings.output, _sidecar(dump.index, outcome))
    return ()


def _sidecar(index: pl.DataFrame, outcome: Outcome) -> Iterator[pl.DataFrame]:
    """The rows of a sidecar, part by part: all at once they would take as much memory as everything else."""
    keys = index.select("step", "group_id", "trajectory_id", "advantage")
    primary = outcome.ranked.primary_rows
    is_told = keys["advantage"].null_count() < keys.height and keys["advantage"][primary].count() > 0
    for start in range(0, len(primary), _PART_ROWS):
        part = slice(start, start + _PART_ROWS)
        added = added_columns(outcome.made.columns, outcome.judged, outcome.rows, part)
        key = keys[primary[part]]
        frame = pl.concat((key.drop("advantage"), added), how="horizontal")
        yield frame.with_columns(key["advantage"].alias("advantage_input")) if is_told else frame


def _write_lists(settings: RedistributeSettings, dump: Dump, outcome: Outcome) -> None:
    """One row a turn, or one list a record."""
    from gagar_cli.redistribution_lists import write_by_token, write_by_turn

    ranked, made, turns = outcome.ranked, outcome.made, outcome.turns
    if settings.per_turn and turns is not None:
        write_by_turn(settings.output, dump, ranked, made, turns)
    elif settings.per_token:
        write_by_token(settings.output, dump, ranked, made, mask_column=settings.per_token, rows=turns)
