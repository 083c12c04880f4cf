"""What files beside a dump say about its attempts, before it is known which attempts those are."""

from collections.abc import Mapping
from dataclasses import dataclass, field

INFERRED = "resolved_from"
"""Names in a native record the column that its verdict was inferred from: what is joined goes before that."""


def is_inferred(record: Mapping[str, object], *, is_native: bool) -> bool:
    """Whether a record's verdict is what its format made of another column; a canonical one may have that name for its own."""
    return is_native and INFERRED in record


@dataclass(slots=True)
class Fact:
    """What one file says about one attempt, or about the one attempt at an instance in a run."""

    resolved: bool | None = None
    reward: float | None = None
    infra_failure_reason: str | None = None
    """Why it was not evaluated."""
    model_patch: str | None = None
    test_output_path: str | None = None
    test_output: str | None = None
    tests_status: str | None = None
    trajectory_id: str | None = None
    attempt: int | None = None
    group_id: str | None = None
    step: int | None = None
    is_by_trajectory: bool = False
    """It names no instance: its `trajectory_id` alone leads to the attempt."""
    is_of_one: bool = True
    """False where it follows, for any attempt, from what a report leaves out."""


@dataclass(slots=True)
class Unit:
    """Facts about instances of one run."""

    source: str
    """The file, safe to show."""
    path: str
    run: str | None = None
    """The run as the file itself names it."""
    facts: dict[str, list[Fact]] = field(default_factory=dict)
    """By instance_id."""
    attempts: dict[str, list[Fact]] = field(default_factory=dict)
    """By trajectory_id, of rows without instance_id."""
    are_others_unresolved: bool = False
    """The report names only what is resolved, and all of the run was evaluated."""

    @property
    def has_verdicts(self) -> bool:
        """Whether anything here says who passed."""
        facts = (fact for each in [*self.facts.values(), *self.attempts.values()] for fact in each)
        return self.are_others_unresolved or any(
            (fact.resolved, fact.reward) != (None, None) for fact in facts
        )

    def add(self, instance_id: str, fact: Fact) -> None:
        """Append a fact."""
        self.facts.setdefault(instance_id, []).append(fact)
