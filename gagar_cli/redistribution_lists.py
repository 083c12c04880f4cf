"""Outputs with more than one advantage a trajectory: one row a turn, or one list of numbers a record for its tokens.

Both are sidecars. Tokens that the policy did not make get 0; where a method has an advantage for every turn, each run
of generated tokens is one turn's.
"""

from collections.abc import Iterator
from itertools import chain

import numpy as np
import polars as pl

from gagar_cli.core.batches import BoolArray
from gagar_cli.core.double_double import FloatArray
from gagar_cli.core.redistribution import Redistribution, spread_over_turns
from gagar_cli.core.text import counted
from gagar_cli.errors import InputError
from gagar_cli.io.dump import Dump
from gagar_cli.io.list_columns import TurnRows, read_masks
from gagar_cli.io.ranked_index import RankedIndex
from gagar_cli.io.token_lists import write_token_lists
from gagar_cli.io.writers import write_frame

_PART_ROWS = 65_536


def write_by_turn(path: str, dump: Dump, ranked: RankedIndex, made: Redistribution, rows: TurnRows) -> None:
    """One row a turn: the key, `turn` (from 1), its advantage, its parts, and what it was compared with.

    Raises:
        OutputError: it cannot be written.
    """
    turns, by_turn = rows.turns, made.by_turn
    if by_turn is None:
        raise ValueError("the method has no advantage for every turn")
    keys = dump.keys()[ranked.primary_rows[turns.trajectory]]
    n_before = np.searchsorted(turns.trajectory, turns.trajectory, side="left")
    values = pl.DataFrame(
        {
            "turn": np.arange(len(turns.trajectory)) - n_before + 1,
            "advantage": spread_over_turns(made.columns, by_turn, turns),
            "advantage_episode": by_turn.episode,
            "advantage_state": by_turn.state,
            "turn_return": by_turn.returns,
            "n_in_state": by_turn.n_in_state,
        }
    ).with_columns(pl.selectors.float().fill_nan(None))
    write_frame(path, pl.concat((keys, values), how="horizontal"))


def write_by_token(
    path: str,
    dump: Dump,
    ranked: RankedIndex,
    made: Redistribution,
    *,
    mask_column: str,
    rows: TurnRows | None = None,
) -> None:
    """One row a record: the key, the advantage, and `token_advantages` as long as the mask, 0 where the mask is 0.

    Raises:
        InputError: a mask is missing or no mask, or its runs are not the record's turns.
        OutputError: it cannot be written.
    """
    records = _token_records(dump, ranked, made, mask_column, rows)
    # What is wrong with the first mask is told before a file is begun.
    first = next(records, None)
    records = chain([first] if first else [], records)
    write_token_lists(path, records)


def _token_records(
    dump: Dump, ranked: RankedIndex, made: Redistribution, mask_column: str, rows: TurnRows | None
) -> Iterator[dict[str, object]]:
    whole = made.columns.advantage[ranked.trajectory_of_row]
    by_turn = None
    if rows is not None and made.by_turn is not None:
        by_turn = spread_over_turns(made.columns, made.by_turn, rows.turns)
    for key, (row, mask) in zip(_keys(dump), read_masks(dump, ranked, mask_column), strict=True):
        tokens = None
        if mask is not None and not np.isnan(whole[row]):
            tokens = np.where(mask, whole[row], 0.0)
            if by_turn is not None and rows is not None:
                begin = int(rows.starts[row])
                own = by_turn[begin : begin + int(rows.counts[row])]
                tokens = _spread(own, mask, f"{dump.where(row)}: {mask_column}")
        yield {
            **key,
            "advantage": None if np.isnan(whole[row]) else float(whole[row]),
            "token_advantages": None if tokens is None else tokens.tolist(),
        }


def _keys(dump: Dump) -> Iterator[dict[str, object]]:
    """The key of every record, and which segment it is."""
    segments = dump.column("segment")
    for start in range(0, dump.n_rows, _PART_ROWS):
        stop = min(start + _PART_ROWS, dump.n_rows)
        segment = pl.lit(None, dtype=pl.Int32) if segments is None else segments[start:stop]
        yield from dump.keys(start, stop).with_columns(segment=segment).iter_rows(named=True)


def _spread(by_turn: FloatArray, mask: BoolArray, where: str) -> FloatArray:
    """Each run of ones has its turn's advantage."""
    opens = mask & ~np.concatenate(([False], mask[:-1]))
    n_runs = int(opens.sum())
    if n_runs != len(by_turn):
        raise InputError(
            f"{where} has {counted(n_runs, 'run')} of generated tokens, expected one for each of {counted(len(by_turn), 'turn')}",
            "tokens of other turns in between have 0 in the mask",
        )
    if not n_runs:
        return np.zeros(len(mask))
    return np.where(mask, by_turn[np.maximum(np.cumsum(opens) - 1, 0)], 0.0)
