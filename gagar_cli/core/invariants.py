"""What advantages keep and change, measured against r − mean r, and the groups where an invariant does not hold.

The invariants are those of sum-preserving redistribution: the passes' total, every bit of a failure, the order of the
factors, a sum of 0, and no failure above a pass. Methods that promise less break them by design. No method pays an
integrity violation more than an honest failure.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from gagar_cli.core.batches import Batch, BoolArray, Estimate, IntArray
from gagar_cli.core.double_double import FloatArray
from gagar_cli.core.text import counted

TOLERANCE = 1e-12
"""Of the sum of the group's |advantages|: far above rounding, far below anything that training would notice."""

_LARGEST = 1e300


class Effects(NamedTuple):
    """What a set of advantages does to the groups, against the base."""

    n_capped: int
    n_changed_groups: int
    """Groups with at least one advantage that is not bit for bit its base."""
    n_changed_failures: int
    """Failing trajectories whose advantage is not bit for bit its base."""
    pass_sum_error: float
    """Largest |Σ passes' advantage − Σ passes' base| of a group."""
    max_amplification: float
    """Largest advantage over base of a pass, in groups with a change; where none tells, NaN of a batch and 1 of all."""
    n_low_passes: int = 0
    """Passes of graded groups whose base is 0 or less: there is nothing that a factor could share out."""


class Breach(NamedTuple):
    """One invariant that one group breaks."""

    group: int
    """Dense code."""
    detail: str
    """What is broken and by how much, for a message."""


def measure(batch: Batch, estimate: Estimate, n_alike: IntArray | None = None) -> Effects:
    """The effects on one batch; rows without an advantage are left out. `n_alike`: for how many groups each counts."""
    times = np.ones(len(batch.is_graded), dtype=np.int64) if n_alike is None else n_alike
    is_kept = batch.is_valid & ~np.isnan(estimate.advantage)
    is_pass = is_kept & batch.is_passed
    is_changed = is_kept & (estimate.advantage != estimate.base)
    drift = _sum(estimate.advantage, is_pass) - _sum(estimate.base, is_pass)
    is_told = is_pass & (estimate.base > 0) & is_changed.any(axis=1, keepdims=True)
    amplification = _over_base(estimate.advantage, estimate.base, is_told, -np.inf)
    return Effects(
        n_capped=int(times[estimate.is_capped].sum()),
        n_changed_groups=int(times[is_changed.any(axis=1)].sum()),
        n_changed_failures=int(((is_changed & ~batch.is_passed).sum(axis=1) * times).sum()),
        pass_sum_error=float(np.abs(drift).max(initial=0.0)),
        max_amplification=float(amplification.max()) if is_told.any() else math.nan,
        n_low_passes=int(((batch.is_candidate & (estimate.base <= 0)).sum(axis=1) * times).sum()),
    )


def total(effects: list[Effects]) -> Effects:
    """The effects on all batches."""
    amplifications = [each.max_amplification for each in effects if not math.isnan(each.max_amplification)]
    return Effects(
        n_capped=sum(each.n_capped for each in effects),
        n_changed_groups=sum(each.n_changed_groups for each in effects),
        n_changed_failures=sum(each.n_changed_failures for each in effects),
        pass_sum_error=max((each.pass_sum_error for each in effects), default=0.0),
        max_amplification=max(amplifications, default=1.0),
        n_low_passes=sum(each.n_low_passes for each in effects),
    )


def find_breaches(batch: Batch, estimate: Estimate, codes: IntArray) -> Iterator[Breach]:
    """Every invariant that a group of the batch breaks; `codes`: (n_groups,) what to call the groups."""
    is_kept = batch.is_valid & ~np.isnan(estimate.advantage)
    is_pass = is_kept & batch.is_passed
    advantage = np.where(is_kept, estimate.advantage, 0.0)
    base = np.where(is_kept, estimate.base, 0.0)
    allowed = TOLERANCE * np.maximum(np.abs(advantage).sum(axis=1), np.abs(base).sum(axis=1))
    # Advantages next to the smallest double cannot be rounded any finer.
    allowed += advantage.shape[1] * np.finfo(np.float64).smallest_subnormal

    drift = _sum(advantage, is_pass) - _sum(base, is_pass)
    for row in np.flatnonzero(np.abs(drift) > allowed):
        yield Breach(int(codes[row]), f"the passing advantages' sum moved by {drift[row]:+.3g}")
    n_changed = (is_kept & ~is_pass & (advantage != base)).sum(axis=1)
    for row in np.flatnonzero(n_changed):
        yield Breach(int(codes[row]), f"{counted(int(n_changed[row]), 'failing advantage')} changed")
    for row in np.flatnonzero(_is_disordered(batch, advantage, base, is_pass)):
        yield Breach(int(codes[row]), "a better factor or rank does not get more")
    yield from _misplaced(batch, advantage, is_kept, codes, allowed)
    residue = advantage.sum(axis=1)
    for row in np.flatnonzero(np.abs(residue) > allowed):
        yield Breach(int(codes[row]), f"the advantages' sum is {residue[row]:+.3g}, expected 0")


def _misplaced(
    batch: Batch, advantage: FloatArray, is_kept: BoolArray, codes: IntArray, allowed: FloatArray
) -> Iterator[Breach]:
    """Failures that are paid more than a pass of their group, and violations that are paid more than a failure."""
    is_pass, is_failure = is_kept & batch.is_passed, is_kept & batch.is_honest_failure
    least_pass = np.where(is_pass, advantage, np.inf).min(axis=1, initial=np.inf)
    excess = np.where(is_failure, advantage, -np.inf).max(axis=1, initial=-np.inf) - least_pass
    for row in np.flatnonzero(excess > allowed):
        yield Breach(int(codes[row]), f"a failing attempt gets {excess[row]:.3g} more than a passing one")
    if batch.is_violation is None:
        return
    is_violation = is_kept & batch.is_violation
    for what, values in (("a violation's advantage", advantage), ("a violation's reward", batch.rewards)):
        most = np.where(is_failure, values, 0.0).min(axis=1, initial=0.0)
        above = np.where(is_violation, values, -np.inf).max(axis=1, initial=-np.inf) - most
        for row in np.flatnonzero(above > allowed):
            yield Breach(int(codes[row]), f"{what} is {above[row]:.3g} above what an honest failure may get")


def _is_disordered(batch: Batch, advantage: FloatArray, base: FloatArray, is_pass: BoolArray) -> BoolArray:
    """(n_groups,) whether a pass with the better factor, or rank where the method has no factors, gets less.

    Advantages are compared relative to the base, for rewards that are not binary.
    """
    if batch.standing is not None:
        is_compared = is_pass & batch.is_subject & (batch.standing >= 0)
        worth = -batch.standing.astype(np.float64)
    else:
        is_compared = is_pass & batch.is_candidate
        worth = batch.factors.high
    is_compared &= base > 0
    worth = np.where(is_compared, worth, -np.inf)
    gain = _over_base(advantage, base, is_compared, -np.inf)
    order = np.argsort(-worth, axis=1, kind="stable")
    worth, gain = np.take_along_axis(worth, order, 1), np.take_along_axis(gain, order, 1)
    is_next = np.isfinite(worth[:, 1:])
    least = np.minimum.accumulate(gain, axis=1)[:, :-1]
    allowed = TOLERANCE * (1 + np.abs(np.where(is_next, least, 0.0)))
    rise = np.subtract(gain[:, 1:], least, out=np.zeros_like(least), where=is_next)
    is_better_before = worth[:, 1:] < worth[:, :-1]
    return np.asarray((is_next & is_better_before & (rise > allowed)).any(axis=1))


def _over_base(
    advantage: FloatArray, base: FloatArray, is_counted: BoolArray, otherwise: float
) -> FloatArray:
    """Advantage over base; methods that add something to a base of nearly nothing stay within the doubles."""
    with np.errstate(over="ignore"):
        ratio = np.divide(advantage, base, out=np.full_like(base, otherwise), where=is_counted)
    return np.where(is_counted, np.clip(ratio, -_LARGEST, _LARGEST), otherwise)


def _sum(values: FloatArray, is_counted: BoolArray) -> FloatArray:
    return np.asarray(np.where(is_counted, values, 0.0).sum(axis=1))
