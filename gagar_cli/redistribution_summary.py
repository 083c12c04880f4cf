"""What a redistribution did: counts of groups and trajectories, and what the advantages kept and changed.

One value makes both the JSON object and the table of the command line.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from gagar_cli.core.integrity_action import IntegrityAction
from gagar_cli.core.invariants import Effects
from gagar_cli.core.judging import Basis
from gagar_cli.core.method_options import SettledCap
from gagar_cli.core.summaries import by_start, renamed
from gagar_cli.core.text import counted, told_counts
from gagar_cli.io.dump import DumpReport
from gagar_cli.io.ranked_records import THRESHOLD_HINT


@dataclass(frozen=True, slots=True)
class Losses:
    """Expected policy loss at ratio 1 over all valid trajectories, before and after."""

    base: float
    redistributed: float


class Sampling(NamedTuple):
    """Groups that dynamic sampling kept and dropped, by what they are after integrity."""

    n_kept: int
    n_all_pass: int
    n_all_fail: int
    n_too_small: int
    """One valid trajectory."""
    n_invalid: int
    """None valid."""


@dataclass(frozen=True, slots=True)
class RedistributeResult:
    """What was done: counts of groups and trajectories, and the invariants."""

    output: str
    method: str
    basis: Basis
    options: dict[str, object]
    """Those of the method."""
    cap: SettledCap
    """Which of the flags, the tier table and the default says what bounds amplification."""
    tiers: str
    factor_column: str | None
    factor: str | None
    process_from: str | None
    """`column` or `rankings`; None for methods without process scores."""
    eligible: str | None
    n_outside: int
    """Trajectories that are not eligible."""
    sampling: Sampling | None
    """None without dynamic sampling."""
    report: DumpReport
    n_trajectories: int
    n_invalid: int
    n_groups: dict[str, int]
    """By grading."""
    n_by_reason: dict[str, dict[str, int]]
    """Skipped and ungraded groups by reason."""
    n_eligible: int
    n_integrity_violations: int
    integrity_action: IntegrityAction
    """What was done about them."""
    n_unknown_groups: int
    """Lines of the rankings for groups that the dump does not have."""
    n_superseded: int
    """Lines that a later line of the same group replaced."""
    n_overridden: int
    """Groups whose ranking a person corrected."""
    effects: Effects
    paper_effects: Effects | None
    """What the paper's cap would have done; None for methods without factors."""
    n_broken_groups: int | None
    """Groups that break an invariant; None where it was not checked."""
    breaches: tuple[str, ...]
    """The first of those groups, each with what it breaks."""
    sequence_mean: Losses
    token_mean: Losses | None
    """None where a valid trajectory has no `n_output_tokens`."""
    replaced_columns: tuple[str, ...] = ()
    """Columns of the dump that a full copy has with new values."""
    n_left: dict[str, int] = field(default_factory=dict)
    """Groups that could be ranked and are not graded, by reason."""
    n_unread_rewards: int = 0
    """Rewards of valid trajectories that a method which sees passes and failures alone takes for another value."""

    @property
    def ungraded_rate(self) -> float | None:
        """Ungraded groups as a share of those that should have been graded; None where there are none."""
        n_owed = self.n_groups["graded"] + self.n_groups["ungraded"]
        return self.n_groups["ungraded"] / n_owed if n_owed else None

    @property
    def cap_rate(self) -> float | None:
        """Capped groups as a share of the graded ones; None where there are none."""
        return self.effects.n_capped / self.n_groups["graded"] if self.n_groups["graded"] else None

    @property
    def shortfalls(self) -> tuple[str, ...]:
        """What is to be said of rewards that the method does not read, and of groups that rankings did not move."""
        told = []
        if self.n_unread_rewards:
            which = counted(
                self.n_unread_rewards, "attempt has another reward", "attempts have other rewards"
            )
            told.append(
                f"{self.method} counts a pass as 1 and a failure as 0: {which}, which it does not read"
            )
        if self.basis != "rankings":
            return tuple(told)
        n_left = sum(self.n_left.values())
        if not self.n_eligible and not self.n_groups["graded"]:
            why = told_counts(self.n_by_reason["skipped"])
            told.append(
                f"no group can be ranked, so rankings move nothing ({why}): it takes two passes and a failure"
            )
        elif 2 * n_left > self.n_eligible:
            of_all = f"{n_left:,} of {counted(self.n_eligible, 'group')} that can be ranked"
            told.append(f"{of_all} keep their base advantages: {told_counts(self.n_left)}")
        if "missing_candidate" in self.n_left:
            what = counted(
                self.n_left["missing_candidate"],
                "ranking lacks a passing attempt of the dump and moves nothing",
                "rankings lack a passing attempt of the dump and move nothing",
            )
            hint = f": {THRESHOLD_HINT}" if self.report.passes_by_reward else ""
            told.append(f"{what}{hint}")
        if "late" in self.n_left:
            what = counted(
                self.n_left["late"],
                "group has got an attempt since it was graded and moves nothing",
                "groups have got attempts since they were graded and move nothing",
            )
            told.append(f"{what}: grade again")
        return tuple(told)

    def to_record(self) -> dict[str, object]:
        """The result as one JSON object."""
        return {
            "output": self.output,
            "method": self.method,
            "basis": self.basis,
            "options": dict(self.options),
            "cap_from": self.cap.source if "cap" in self.options else None,
            "tiers": self.tiers if self.basis == "rankings" else None,
            "factor_column": self.factor_column,
            "factor": self.factor,
            "process_from": self.process_from,
            "eligible": self.eligible,
            "n_outside": self.n_outside,
            "dynamic_sampling": None if self.sampling is None else self.sampling._asdict(),
            "n_records": self.report.n_records,
            "n_bad_records": self.report.n_bad_records,
            "n_disagree": self.report.n_disagree,
            "group_id_source": self.report.group_id_source,
            "n_trajectories": self.n_trajectories,
            "n_invalid": self.n_invalid,
            **{f"n_{status}": n for status, n in self.n_groups.items()},
            **{f"n_{status}_by_reason": by_start(counts) for status, counts in self.n_by_reason.items()},
            "n_eligible": self.n_eligible,
            "n_left_by_reason": self.n_left,
            "ungraded_share": self.ungraded_rate,
            "n_integrity_violations": self.n_integrity_violations,
            "integrity_action": self.integrity_action,
            "n_unknown_groups": self.n_unknown_groups,
            "n_superseded": self.n_superseded,
            "n_overridden": self.n_overridden,
            "capped_share": self.cap_rate,
            "effects": effects_record(self.effects),
            "paper_effects": None if self.paper_effects is None else effects_record(self.paper_effects),
            "n_broken_groups": self.n_broken_groups,
            "breaches": list(self.breaches),
            "loss_at_ratio_1": {
                "sequence_mean": _losses_record(self.sequence_mean),
                "token_mean": _losses_record(self.token_mean),
            },
            "replaced_columns": list(self.replaced_columns),
            "notes": [*self.report.notes, *self.shortfalls],
        }


def effects_record(effects: Effects) -> dict[str, object]:
    """What advantages do to the groups, as JSON."""
    return renamed(effects._asdict(), {"n_capped": "n_capped_groups"})


def _losses_record(losses: Losses | None) -> dict[str, float] | None:
    return None if losses is None else {"base": losses.base, "redistributed": losses.redistributed}
