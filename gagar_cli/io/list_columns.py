"""Columns that hold a list for each record: the turns of methods that look at every turn, and masks of tokens.

They are too large for the index and are read record by record, in its order, at most one list held at a time beside
what is made of them. A list may also be JSON text of one.
"""

import json
import math
from array import array
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gagar_cli.core.batches import BoolArray, IntArray
from gagar_cli.core.schema import MAX_REWARD
from gagar_cli.core.text import counted
from gagar_cli.core.turn_methods import Turns
from gagar_cli.errors import InputError
from gagar_cli.io.dump import Dump
from gagar_cli.io.jsonl import show_value
from gagar_cli.io.ranked_index import RankedIndex
from gagar_cli.io.records import MISSING, from_json_text, look_up

TURN_FIELDS = ("turn_states", "turn_next_states", "turn_rewards")
_MASK_HINT = "one entry a token, 1 where the model made it and 0 elsewhere"


class TurnRows(NamedTuple):
    """The turns of a dump, and which of them each record of the index holds."""

    turns: Turns
    starts: IntArray
    """(n_rows,) the first turn of the record among all."""
    counts: IntArray


def read_turns(dump: Dump, ranked: RankedIndex, mapping: Mapping[str, str]) -> TurnRows:
    """The turns of all trajectories; those of one in several segments follow each other.

    `turn_states`: what the policy saw before each turn, text or any JSON. `turn_next_states`, where a record has it: what
    each turn led to; else the next turn's state, and after the last one nothing known. `turn_rewards`, where a record
    has it; else the trajectory's reward falls on the last turn.

    Raises:
        InputError: no record has `turn_states`, a valid trajectory has no turns, or lists do not fit; with the place.
    """
    reader = _TurnReader(dump, mapping)
    is_valid = ranked.trajectories.is_valid[ranked.trajectory_of_row]
    for row, record in enumerate(dump.iter_records(reader.paths)):
        reader.add(row, record, is_needed=bool(is_valid[row]))
    return reader.finish(dump.index, ranked)


def read_masks(
    dump: Dump, ranked: RankedIndex, column: str
) -> Iterator[tuple[int, NDArray[np.bool_] | None]]:
    """Each row of the index with its mask of generated tokens; None where an invalid trajectory has none.

    Raises:
        InputError: a valid trajectory has no mask, or it holds anything but 0 and 1; with the place.
    """
    is_valid = ranked.trajectories.is_valid[ranked.trajectory_of_row]
    for row, record in enumerate(dump.iter_records([column, "raw"])):
        found = look_up(record, column)
        value = from_json_text(found) if isinstance(found, str) else found
        if value in (MISSING, None) and not is_valid[row]:
            yield row, None
            continue
        where = f"{dump.where(row)}: {show_value(column)[1:-1]}"
        if value is MISSING:
            is_in_raw = look_up(record, f"raw.{column}") is not MISSING
            told = f"the dump has it as raw.{column}" if is_in_raw else "named by `--per-token`"
            raise InputError(f"{where} is missing, expected a mask", told)
        if not isinstance(value, list):
            raise InputError(f"{where} is {show_value(value)}, expected a list", _MASK_HINT)
        bad = next((each for each in value if each not in (0, 1) or isinstance(each, str)), None)
        if bad is not None or None in value:
            raise InputError(f"{where} holds {show_value(bad)}, expected 0 and 1", _MASK_HINT)
        yield row, np.array(value, dtype=np.bool_)


class _TurnReader:
    """Collects turns in flat arrays, in the order of the index."""

    def __init__(self, dump: Dump, mapping: Mapping[str, str]) -> None:
        self._dump = dump
        self._paths = {name: mapping.get(name, name) for name in TURN_FIELDS}
        self._codes: dict[object, int] = {}
        self._counts = array("q")
        self._states = array("q")
        self._next_states = array("q")
        self._rewards = array("d")
        self._rows_with: dict[str, int] = dict.fromkeys(TURN_FIELDS, 0)
        self._first_lacking: dict[str, int] = {}

    @property
    def paths(self) -> list[str]:
        """What is read of each record."""
        return list(self._paths.values())

    def add(self, row: int, record: Mapping[str, object], *, is_needed: bool) -> None:
        lists = {name: self._list(row, record, name) for name in TURN_FIELDS}
        states = lists["turn_states"]
        if states is None and is_needed:
            self._first_lacking.setdefault("turn_states", row)
        states = states or []
        for name in ("turn_next_states", "turn_rewards"):
            values = lists[name]
            if values is None and states:
                self._first_lacking.setdefault(name, row)
            if values is not None and len(values) != len(states):
                n_values = counted(len(values), "entry", "entries")
                raise self._error(row, name, f"has {n_values}, expected {len(states)}", "one a turn")
        for index, state in enumerate(states):
            self._states.append(self._code(row, "turn_states", index, state))
        for index, state in enumerate(lists["turn_next_states"] or [None] * len(states)):
            is_unknown = state is None
            self._next_states.append(-1 if is_unknown else self._code(row, "turn_next_states", index, state))
        for index, reward in enumerate(lists["turn_rewards"] or [0.0] * len(states)):
            self._rewards.append(self._number(row, index, reward))
        self._counts.append(len(states))

    def finish(self, index: pl.DataFrame, ranked: RankedIndex) -> TurnRows:
        if not self._rows_with["turn_states"]:
            hint = "one entry a turn: say where the dump has it with `--field turn_states=PATH`"
            raise InputError(f"{self._dump.sources[0]}: no record has {self._paths['turn_states']}", hint)
        if "turn_states" in self._first_lacking:
            raise self._error(
                self._first_lacking["turn_states"], "turn_states", "is missing", "one entry a turn"
            )
        for name in ("turn_next_states", "turn_rewards"):
            if self._rows_with[name] and name in self._first_lacking:
                row = self._first_lacking[name]
                raise self._error(
                    row, name, "is missing, and other records have it", "one entry a turn, in all"
                )
        counts = np.array(self._counts, dtype=np.int64)
        self._refuse_without_turns(counts, ranked)
        return self._laid_out(index, ranked, counts)

    def _laid_out(self, index: pl.DataFrame, ranked: RankedIndex, counts: IntArray) -> TurnRows:
        segment = index["segment"].fill_null(-(2**31)).to_numpy()
        rows = np.lexsort((np.arange(len(counts)), segment, ranked.trajectory_of_row))
        ends = np.cumsum(counts)
        starts = np.zeros_like(counts)
        starts[rows] = np.cumsum(counts[rows]) - counts[rows]
        # Where each turn goes: those of a record stay together, and the records are put in order.
        row_of_turn = np.repeat(np.arange(len(counts)), counts)
        place = starts[row_of_turn] + np.arange(len(row_of_turn)) - (ends - counts)[row_of_turn]

        def placed(values: array) -> NDArray[np.generic]:  # type: ignore[type-arg]
            flat = np.array(values)
            made = np.empty_like(flat)
            made[place] = flat
            return made

        trajectory = np.repeat(ranked.trajectory_of_row[rows], counts[rows])
        state, following = placed(self._states), placed(self._next_states)
        if not self._rows_with["turn_next_states"]:
            is_followed = trajectory[1:] == trajectory[:-1]
            following[:-1][is_followed] = state[1:][is_followed]
        reward = placed(self._rewards) if self._rows_with["turn_rewards"] else None
        return TurnRows(Turns(trajectory, state, following, reward), starts, counts)  # type: ignore[arg-type]

    def _refuse_without_turns(self, counts: IntArray, ranked: RankedIndex) -> None:
        n_turns = np.bincount(ranked.trajectory_of_row, weights=counts, minlength=len(ranked.primary_rows))
        empty: BoolArray = ranked.trajectories.is_valid & (n_turns == 0)
        if empty.any():
            row = int(ranked.primary_rows[np.flatnonzero(empty)[0]])
            raise self._error(row, "turn_states", "is empty, expected one entry a turn", None)

    def _list(self, row: int, record: Mapping[str, object], name: str) -> list[object] | None:
        found = look_up(record, self._paths[name])
        value = from_json_text(found) if isinstance(found, str) else found
        if value is MISSING or value is None:
            return None
        if not isinstance(value, list):
            raise self._error(row, name, f"is {show_value(value)}, expected a list", "one entry a turn")
        self._rows_with[name] += 1
        return value

    def _code(self, row: int, name: str, index: int, state: object) -> int:
        if state is None:
            raise self._error(row, f"{name}[{index}]", "is null, expected a state", None)
        key = state if isinstance(state, str) else (json.dumps(state, sort_keys=True, default=str),)
        return self._codes.setdefault(key, len(self._codes))

    def _number(self, row: int, index: int, value: object) -> float:
        number = value if isinstance(value, int | float) and not isinstance(value, bool) else math.nan
        if not -MAX_REWARD <= number <= MAX_REWARD:
            expected = f"expected a finite number, at most {MAX_REWARD:g} in size"
            raise self._error(row, f"turn_rewards[{index}]", f"is {show_value(value)}, {expected}", None)
        return float(number)

    def _error(self, row: int, name: str, detail: str, hint: str | None) -> InputError:
        return InputError(f"{self._dump.where(row)}: {name} {detail}", hint)
