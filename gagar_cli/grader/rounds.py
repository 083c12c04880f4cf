"""Gradings of one group under several blind orders: which seeds, and what each one says."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from gagar_cli.core.aggregate import rename_owner
from gagar_cli.core.blinding import permute
from gagar_cli.core.ranking import RankedCandidate
from gagar_cli.core.rubric import Rubric
from gagar_cli.core.schema import Group
from gagar_cli.core.verdict import decide_violations, proven_violations, settle
from gagar_cli.grader.acceptance import Outcome
from gagar_cli.grader.workspace import Workspace

SEED_STRIDE = 1_000_003
"""Between the seeds of one group's gradings and votes; seeds that people choose are closer."""
_MAX_SEED_TRIES = 64


def repeat_seeds(group: Group, seed: int, n: int) -> list[int]:
    """A seed for each grading; their orders of the candidates differ as long as there are other orders."""
    passing = [trajectory.trajectory_id for trajectory in group.passing]
    seeds: list[int] = []
    orders: set[tuple[str, ...]] = set()
    for number in range(n):
        tries = [seed + SEED_STRIDE * number + offset for offset in range(_MAX_SEED_TRIES if number else 1)]
        by_seed = {one: tuple(permute(passing, one, group.key)) for one in tries}
        chosen = next((one for one in tries if by_seed[one] not in orders), tries[0])
        seeds.append(chosen)
        orders.add(by_seed[chosen])
    return seeds


@dataclass(frozen=True, slots=True)
class Round:
    """One grading of the whole group."""

    seed: int
    workspace: Workspace
    outcome: Outcome

    @property
    def suspects(self) -> tuple[str, ...]:
        """The trajectories whose integrity flag the judge proved."""
        return tuple(self.workspace.trajectory_ids[name] for name in proven_violations(self.outcome.reviewed))

    def settle(self, confirmed: Collection[str], rubric: Rubric) -> tuple[RankedCandidate, ...]:
        """Its ranking with these trajectories, and no others, as integrity violations."""
        names = self.workspace.trajectory_ids
        violations = [blind_id for blind_id, name in names.items() if name in confirmed]
        reviewed = decide_violations(self.outcome.reviewed, violations)
        return settle(reviewed, self.outcome.order, names, self.workspace.twins, rubric)

    def record(self, ranking: Sequence[RankedCandidate]) -> dict[str, object]:
        """The grading as `grader.repeats` keeps it."""
        shown_as = by_trajectory(self.workspace)
        candidates = {
            one.trajectory_id: {
                "blind_id": shown_as[one.trajectory_id],
                "tier": one.tier,
                "rank": one.rank,
                "weighted_score": one.weighted_score,
            }
            for one in ranking
        }
        return {"seed": self.seed, "candidates": candidates}

    def rename(
        self, ranking: Sequence[RankedCandidate], shown_as: Mapping[str, str]
    ) -> tuple[RankedCandidate, ...]:
        """The ranking with the blind ids of another grading in its findings."""
        names = {blind_id: shown_as[name] for blind_id, name in self.workspace.trajectory_ids.items()}
        return tuple(
            replace(one, findings=tuple(rename_owner(finding, names) for finding in one.findings))
            for one in ranking
        )


def by_trajectory(workspace: Workspace) -> dict[str, str]:
    """Trajectory id to blind id."""
    return {name: blind_id for blind_id, name in workspace.trajectory_ids.items()}
