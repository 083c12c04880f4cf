"""Rewards that contradict `resolved`: who passed is told by one, what it is worth by the other, and they do not agree.

Where some reward lies between those of all failures and those of all passes there is no contradiction, whatever the
threshold: the rewards are shaped. Else the rows are named that lie on the wrong side of the threshold.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from gagar_cli.core.batches import BoolArray
from gagar_cli.core.double_double import FloatArray
from gagar_cli.core.text import counted

if TYPE_CHECKING:
    from gagar_cli.io.dump import Dump

_MAX_NAMED = 3


def note_contradictions(dump: "Dump", pass_threshold: float) -> None:
    """Sets their number in the report of a dump, and where there are any adds a note with the first of them."""
    reward, passed = dump.column("reward"), dump.column("passed")
    if not dump.report.n_disagree or reward is None or passed is None:
        return
    rewards = reward.fill_null(float("nan")).to_numpy()
    rows = rows_that_contradict(rewards, passed.to_numpy(), pass_threshold)
    note = _note_of(rows, rewards, passed.to_numpy(), dump.where)
    notes = dump.report.notes if note is None else (*dump.report.notes, note)
    dump.report = replace(dump.report, n_disagree=len(rows), notes=notes)


def note_of_contradictions(
    rewards: FloatArray, is_passed: BoolArray, pass_threshold: float, where: Callable[[int], str]
) -> str | None:
    """What is told of rows that contradict each other; None where no row does.

    `rewards`: (n_rows,) NaN where invalid. `is_passed`: (n_rows,). `where`: the place of a row as messages tell it.
    """
    rows = rows_that_contradict(rewards, is_passed, pass_threshold)
    return _note_of(rows, rewards, is_passed, where)


def rows_that_contradict(
    rewards: FloatArray, is_passed: BoolArray, pass_threshold: float
) -> "np.ndarray[tuple[int], np.dtype[np.intp]]":
    """The rows whose reward contradicts the verdict, ascending; `rewards` and `is_passed` as above."""
    is_valid = ~np.isnan(rewards)
    is_pass, is_failure = is_valid & is_passed, is_valid & ~is_passed
    is_low = rewards < pass_threshold
    least = rewards[is_pass].min(initial=np.inf)
    if least > rewards[is_failure].max(initial=-np.inf):
        return np.array([], dtype=np.intp)
    # A pass that is shaped down a little is none of them, where one failure has the reward of a pass.
    most = rewards[is_failure & is_low].max(initial=-np.inf)
    return np.flatnonzero((is_failure & ~is_low) | (is_pass & is_low & (rewards <= most)))


def _note_of(
    rows: "np.ndarray[tuple[int], np.dtype[np.intp]]",
    rewards: FloatArray,
    is_passed: BoolArray,
    where: Callable[[int], str],
) -> str | None:
    if not len(rows):
        return None
    named = [
        f"{where(int(row))} {'passed' if is_passed[row] else 'failed'} with reward {rewards[row]:g}"
        for row in rows[:_MAX_NAMED]
    ]
    others = f" and {len(rows) - len(named):,} more" if len(rows) > len(named) else ""
    what = counted(len(rows), "reward contradicts", "rewards contradict")
    return f"{what} resolved, by which an attempt passed or failed: {', '.join(named)}{others}"
