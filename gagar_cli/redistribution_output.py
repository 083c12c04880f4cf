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
        from gagar_cli.io.parquet_texts import as_texts

        added = as_texts(added_columns(outcome.made.columns, outcome.judged, outcome.rows))
        of_rows = added if outcome.ranked.segments is None else added[outcome.ranked.trajectory_of_row]
        return write_full_copy(settings.output, dump, settings.dumps, of_rows, report=progress)
    write_frames(settings.output, _sidecar(dump, outcome, progress))
    return ()


def _sidecar(dump: Dump, outcome: Outcome, progress: ProgressCallback) -> Iterator[pl.DataFrame]:
    """The rows of a sidecar, part by part: all at once they would take as much memory as everything else."""
    ranked = outcome.ranked
    rows = None if ranked.segments is None else ranked.segments.primary_rows
    former = dump.column("advantage")
    if former is not None and rows is not None and not former.gather(rows).count():
        former = None
    for start in range(0, ranked.n_trajectories, _PART_ROWS):
        stop = min(start + _PART_ROWS, ranked.n_trajectories)
        added = added_columns(outcome.made.columns, outcome.judged, outcome.rows, slice(start, stop))
        keys = _keys(dump, start, stop) if rows is None else dump.keys()[rows[start:stop]]
        frame = pl.concat((keys, added), how="horizontal")
        if former is not None:
            own = former[start:stop] if rows is None else former.gather(rows[start:stop])
            frame = frame.with_columns(own.alias("advantage_input"))
        yield frame
        progress(stop, ranked.n_trajectories, "rows written")


def _keys(dump: Dump, start: int, stop: int) -> pl.DataFrame:
    """As `Dump.keys`, but group ids as categories where they are such."""
    apart = dump.rows_apart
    if apart is None:
        return dump.keys(start, stop)
    of_group = apart.groups[apart.frame["group"][start:stop]].select("step", "group_id")
    return of_group.with_columns(trajectory_id=apart.ids.texts(start, stop))


def _write_lists(settings: RedistributeSettings, dump: Dump, outcome: Outcome) -> None:
    """One row a turn, or one list a record."""
    from gagar_cli.redistribution_lists import write_by_token, write_by_turn

    ranked, made, turns = outcome.ranked, outcome.made, outcome.turns
    if settings.per_turn and turns is not None:
        write_by_turn(settings.output, dump, ranked, made, turns)
    elif settings.per_token:
        write_by_token(settings.output, dump, ranked, made, mask_column=settings.per_token, rows=turns)
