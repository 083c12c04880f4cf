"""One dump's redistribution as pure arrays: factors placed, estimators run, effects measured, invariants checked.

One entry a trajectory, in any order; groups by dense code, as `core/judging.py` left them. Groups are sorted together
and handed to the estimator in batches of one size, so no loop runs over groups and what is worked out on the way
takes the memory of one batch.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from gagar_cli.core.alike import (
    Kinds,
    Run,
    describe_members,
    find_kinds,
    is_order_free,
    pass_sum_errors,
    share_out,
)
from gagar_cli.core.batches import Batch, BoolArray, Estimate, IntArray, centre
from gagar_cli.core.caps import PAPER_LIMIT
from gagar_cli.core.double_double import FloatArray
from gagar_cli.core.estimators import METHODS, Options, estimate
from gagar_cli.core.gagar import gagar, share
from gagar_cli.core.grouping import members_by_size
from gagar_cli.core.invariants import Breach, Effects, find_breaches, measure, total
from gagar_cli.core.judging import GRADINGS, Judged, Trajectories
from gagar_cli.core.placing import Columns, Placer, empty_columns
from gagar_cli.core.tier_tables import TierTable
from gagar_cli.core.turn_methods import TURN_METHODS, Attempts, TurnAdvantages, Turns, mean_by_trajectory

_Scalar = TypeVar("_Scalar", bound=np.generic)
_Integer = TypeVar("_Integer", bound=np.integer)
_MAX_BATCH_CELLS = 2**15
"""The working arrays of one batch stay in the processor's cache: a quarter less time than with 2**20."""


@dataclass(frozen=True, slots=True)
class Extras:
    """What single methods read beside rewards and ranks, one entry a trajectory; None where it is not read."""

    penalty: FloatArray | None = None
    """In (0, 1], of eligible valid passes; multiplied with the tier's factor where there is one."""
    process: FloatArray | None = None
    """NaN where there is none."""
    is_well_formed: BoolArray | None = None
    error_class: IntArray | None = None
    """Code of a failure's error, −1 where there is none."""
    turns: Turns | None = None


class Redistribution(NamedTuple):
    """The columns of every trajectory, and what they do."""

    columns: Columns
    effects: Effects
    paper_effects: Effects | None
    """What the paper's cap would have done; None for methods without factors."""
    breaches: list[Breach]
    """By group code; empty unless asked for."""
    by_turn: TurnAdvantages | None = None
    """For methods of turns."""


class _Taken(NamedTuple):
    """What one batch came to, beside the columns."""

    effects: Effects
    paper_effects: Effects | None
    breaches: list[Breach]
    paper_advantage: FloatArray | None
    """Where each group stands for many."""


def redistribute(
    rows: Trajectories,
    judged: Judged,
    table: TierTable,
    method: str,
    options: Options,
    *,
    extras: Extras | None = None,
    is_sampled: bool = False,
    is_checked: bool = False,
    run: Run = map,
) -> Redistribution:
    """The columns of every trajectory, what they do, and what the paper's cap would have done.

    `is_sampled`: groups that are not mixed get no advantage (dynamic sampling); `is_checked`: breaches are looked for.
    Groups of rewards of 0 and 1 that differ in the order of their members alone are worked out once, but where breaches are
    looked for. `run` applies a function to batches, like `map`, in any order or at once.
    """
    extras = extras or Extras()
    needs = METHODS[method].needs
    columns = empty_columns(rows.group, len(judged.status))
    placer = Placer(rows, judged, table, extras.penalty, columns, is_ordered="order" in needs)
    by_turn = turn_mean = None
    if extras.turns is not None and "turns" in needs:
        by_turn = _run_by_turn(rows, judged, extras.turns, method, options)
        turn_mean = mean_by_trajectory(extras.turns, by_turn.advantage, len(rows.group))
    job = _Job(
        rows,
        judged,
        method,
        options,
        extras,
        placer,
        columns,
        turn_mean,
        is_sampled=is_sampled,
        is_checked=is_checked,
        has_violations=bool(rows.is_violation.any()),
    )
    described = None
    if not is_checked and extras.penalty is None and is_order_free(method, options, table, 1):
        described = describe_members(rows, judged, run)
    taken: list[_Taken] = []
    for members in members_by_size(rows.group):
        kinds = None
        if described is not None and is_order_free(method, options, table, members.shape[1]):
            kinds = find_kinds(described, members, job.is_graded(members), table, run)
        if kinds is None:
            taken += run(job.take, _batches(members))
        else:
            taken += _take_kinds(job, kinds, run)
    papers = [each.paper_effects for each in taken if each.paper_effects is not None]
    breaches = sorted((breach for each in taken for breach in each.breaches), key=lambda breach: breach.group)
    effects = total([each.effects for each in taken])
    if by_turn is not None and turn_mean is not None and extras.turns is not None and job.has_violations:
        excess = np.where(rows.is_violation, columns.advantage - turn_mean, 0.0)
        by_turn = _lowered(by_turn, np.nan_to_num(excess)[extras.turns.trajectory])
    return Redistribution(columns, effects, total(papers) if papers else None, breaches, by_turn)


class _Job(NamedTuple):
    """What every batch needs."""

    rows: Trajectories
    judged: Judged
    method: str
    options: Options
    extras: Extras
    placer: Placer
    columns: Columns
    turn_mean: FloatArray | None
    is_sampled: bool
    is_checked: bool
    has_violations: bool

    @property
    def is_paper(self) -> bool:
        """Whether the advantages are those of the paper's cap."""
        return (self.method, self.options.cap, self.options.limit) == ("gagar", "paper", PAPER_LIMIT)

    def is_graded(self, members: NDArray[np.integer]) -> BoolArray:
        """(n_groups,) whether the factors of the group may be used."""
        return np.asarray(self.judged.status[self.rows.group[members[:, 0]]] == GRADINGS.index("graded"))

    def take(self, positions: NDArray[np.integer], n_alike: IntArray | None = None) -> _Taken:
        """One batch, its columns filled in; `n_alike`: (n_groups,) for how many groups each counts."""
        members = positions.astype(np.int64)
        rows, extras = self.rows, self.extras
        codes = rows.group[members[:, 0]]
        factors, standing = self.placer.place(members, codes)
        rewards, is_valid = self.judged.reward[members], rows.is_valid[members]
        batch = Batch(
            rewards=rewards,
            is_valid=is_valid,
            is_passed=self.judged.is_passed[members],
            is_graded=self.is_graded(members),
            factors=factors,
            is_eligible=_chosen(rows.is_eligible, members),
            standing=standing,
            process=_chosen(extras.process, members),
            is_well_formed=_chosen(extras.is_well_formed, members),
            error_class=_chosen(extras.error_class, members),
            turn_mean=_chosen(self.turn_mean, members),
            centred=centre(rewards, is_valid),
            is_violation=rows.is_violation[members] if self.has_violations else None,
        )
        has_factors = "factors" in METHODS[self.method].needs
        if has_factors:
            batch = replace(batch, shares=share(batch))
        made = estimate(self.method, batch, self.options)
        if self.is_sampled:
            made = _drop(made, ~self.judged.is_mixed[codes])
        _store(self.columns, members, codes, made)
        effects = measure(batch, made, n_alike)
        paper, paper_effects = None, None
        if has_factors:
            paper = made if self.is_paper else gagar(batch, "paper", PAPER_LIMIT)
            paper_effects = effects if self.is_paper else measure(batch, paper, n_alike)
        return _Taken(
            effects,
            paper_effects,
            list(find_breaches(batch, made, codes)) if self.is_checked else [],
            paper.advantage if paper is not None and n_alike is not None else None,
        )


def _take_kinds(job: _Job, kinds: Kinds, run: Run) -> list[_Taken]:
    """A group of each kind worked out, and shared out among those that are like it."""
    firsts, n_alike = kinds.members[kinds.first], kinds.n_alike
    taken = list(run(job.take, _batches(firsts), _batches(n_alike, firsts.shape[1])))
    columns, codes = job.columns, job.rows.group[kinds.members[:, 0]]
    of_first = codes[kinds.first]
    for values in (columns.factor_shift, columns.multiplier, columns.is_capped):
        values[codes] = values[of_first][kinds.which]
    by_trajectory = (
        columns.advantage,
        columns.base,
        columns.reward_equivalent,
        columns.quality_factor,
        columns.tier,
        columns.is_graded,
    )
    share_out(kinds, by_trajectory, columns.rank, job.is_graded(kinds.members), run)

    advantages = [columns.advantage[firsts]]
    papers = [each.paper_advantage for each in taken if each.paper_advantage is not None]
    if papers and not job.is_paper:
        advantages.append(np.concatenate(papers))
    errors = pass_sum_errors(kinds, job.judged.is_passed[firsts], columns.base[firsts], advantages, run)
    return [
        each._replace(
            effects=each.effects._replace(pass_sum_error=errors[0]),
            paper_effects=each.paper_effects and each.paper_effects._replace(pass_sum_error=errors[-1]),
        )
        for each in taken
    ]


def spread_over_turns(columns: Columns, made: TurnAdvantages, turns: Turns) -> FloatArray:
    """(n_turns,) the advantage of every turn; a trajectory outside, or without an advantage, has one for all its turns."""
    whole = columns.advantage[turns.trajectory]
    return np.where(np.isnan(made.advantage) | np.isnan(whole), whole, made.advantage)


def _lowered(made: TurnAdvantages, excess: FloatArray) -> TurnAdvantages:
    """The turns of a violation brought down with it: its mean is not to be above that of a failure."""
    return made._replace(advantage=made.advantage + excess, episode=made.episode + excess)


def _run_by_turn(
    rows: Trajectories, judged: Judged, turns: Turns, method: str, options: Options
) -> TurnAdvantages:
    is_eligible = np.ones_like(rows.is_valid) if rows.is_eligible is None else rows.is_eligible
    attempts = Attempts(
        rows.group.astype(np.int64), judged.reward, judged.is_passed, rows.is_valid & is_eligible
    )
    if turns.reward is not None:
        turns = replace(turns, reward=_without_winnings(turns, turns.reward, rows, judged))
    chosen = {name: getattr(options, name) for name in METHODS[method].options}
    return TURN_METHODS[method](turns, attempts, chosen)


def _without_winnings(turns: Turns, reward: FloatArray, rows: Trajectories, judged: Judged) -> FloatArray:
    """The rewards of turns; what a violation won counts for nothing in any turn, and on its last one it has failed."""
    is_violation = rows.is_violation[turns.trajectory]
    is_last = np.append(turns.trajectory[1:] != turns.trajectory[:-1], True)[: len(reward)]
    most = np.where(is_last, np.minimum(np.nan_to_num(judged.reward[turns.trajectory]), 0.0), 0.0)
    return np.where(is_violation, np.minimum(reward, most), reward)


def _chosen(values: NDArray[_Scalar] | None, members: IntArray) -> NDArray[_Scalar] | None:
    return None if values is None else values[members]


def _drop(made: Estimate, is_dropped: BoolArray) -> Estimate:
    """Groups without an advantage; their base stands for comparison."""
    is_dropped = is_dropped[:, None]
    return replace(
        made,
        advantage=np.where(is_dropped, np.nan, made.advantage),
        reward_equivalent=np.where(is_dropped, np.nan, made.reward_equivalent),
    )


def _batches(values: NDArray[_Integer], size: int | None = None) -> Iterator[NDArray[_Integer]]:
    """Rows of `values`, as many at once as a batch of groups of that size has."""
    n_at_once = max(1, _MAX_BATCH_CELLS // (size or values.shape[1]))
    return (values[start : start + n_at_once] for start in range(0, len(values), n_at_once))


def _store(columns: Columns, members: IntArray, codes: IntArray, estimate: Estimate) -> None:
    columns.advantage[members] = estimate.advantage
    columns.base[members] = estimate.base
    columns.reward_equivalent[members] = estimate.reward_equivalent
    columns.multiplier[codes] = estimate.multiplier
    columns.factor_shift[codes] = estimate.factor_shift
    columns.is_capped[codes] = estimate.is_capped
