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
    """Adds a note to the report of a dump that has such rows, with their number and the first of them."""
    reward, passed = dump.column("reward"), dump.column("passed")
    if not dump.report.n_disagree or reward is None or passed is None:
        return
    rewards = reward.fill_null(float("nan")).to_numpy()
    note = note_of_contradictions(rewards, passed.to_numpy(), pass_threshold, dump.where)
    if note is not None:
        dump.report = replace(dump.report, notes=(*dump.report.notes, note))


def note_of_contradictions(
    rewards: FloatArray, is_passed: BoolArray, pass_threshold: float, where: Callable[[int], str]
) -> str | None:
    """What is told of rows that contradict each other; None where no row does.

    `rewards`: (n_rows,) NaN where invalid. `is_passed`: (n_rows,). `where`: the place of a row as messages tell it.
    """
    is_valid = ~np.isnan(rewards)
    is_pass, is_failure = is_valid & is_passed, is_valid & ~is_passed
    is_low = rewards < pass_threshold
    least = rewards[is_pass].min(initial=np.inf)
    if least > rewards[is_failure].max(initial=-np.inf):
        return None
    # A pass that is shaped down a little is none of them, where one failure has the reward of a pass.
    most = rewards[is_failure & is_low].max(initial=-np.inf)
    rows = np.flatnonzero((is_failure & ~is_low) | (is_pass & is_low & (rewards <= most)))
    if not len(rows):
        return None
    named = [
        f"{where(int(row))} {'passed' if is_pass[row] else 'failed'} with reward {rewards[row]:g}"
        for row in rows[:_MAX_NAMED]
    ]
    others = f" and {len(rows) - len(named):,} more" if len(rows) > len(named) else ""
    what = counted(len(rows), "reward contradicts", "rewards contradict")
    return f"{what} resolved, by which an attempt passed or failed: {', '.join(named)}{others}"
