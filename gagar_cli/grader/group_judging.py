"""One group judged: which of its attempts are checked and ranked, how often, and what the parts come to.

A mixed group with two passing attempts is ranked in the mode of the rules, as often as they say; the integrity flags
that the judge proved are put to the vote, and so are the leads of attempts whose turns the judge could not see. In a
group that cannot be ranked (one passing attempt; all passing, where the rules ask for it) only leads are put to the
vote: without any, nothing is asked. Confirmed violations are failures; what is left decides whether the group is graded.
"""

import asyncio
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial

from gagar_cli.core.aggregate import combine_gradings, rename_owner
from gagar_cli.core.grouping import reason_of
from gagar_cli.core.ranking import Finding, RankedCandidate, Status
from gagar_cli.core.schema import Group
from gagar_cli.core.tiers import assign_tier
from gagar_cli.errors import VerdictError
from gagar_cli.grader.checks import CheckRunner, OpenSandbox
from gagar_cli.grader.modes import judge, show_only
from gagar_cli.grader.rounds import SEED_STRIDE, Round, by_trajectory, repeat_seeds
from gagar_cli.grader.rules import GradingRules
from gagar_cli.grader.talks import Talks
from gagar_cli.grader.turns import GroupTurn, call_apart
from gagar_cli.grader.votes import FLAG, Vote, ask_vote
from gagar_cli.grader.workspace import Repository, Workspace
from gagar_cli.sandbox.base import Sandbox

NO_EVIDENCE = "no_evidence"
"""No passing attempt of the group has a patch, messages or a test output."""


@dataclass(frozen=True, slots=True)
class GroupMeans:
    """What one group's grading may use, apart from the endpoint."""

    repository: Repository | None = None
    sandbox_name: str = "inspect-only"
    open_sandbox: OpenSandbox | None = None
    check_seconds: float = 300.0
    sandbox_turns: asyncio.Semaphore | None = None
    """Groups of the run that may have sandboxes at a time; None: all."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What becomes of a group."""

    status: Status
    reason: str | None = None
    candidates: tuple[RankedCandidate, ...] = ()


@dataclass(slots=True)
class GroupJudging:
    """Judges one group; what it found out stands also after it failed."""

    group: Group
    means: GroupMeans
    talks: Talks
    seed: int
    rules: GradingRules
    workspace: Workspace = field(init=False)
    """The one whose blind ids the findings of the ranking cite."""
    n_leads: dict[str, int] = field(default_factory=dict)
    """By trajectory id, of the passing attempts that have any."""
    verdicts: list[dict[str, object]] = field(default_factory=list)
    """What the votes came to, one a suspected trajectory."""
    repeats: list[dict[str, object]] = field(default_factory=list)
    """Each grading's own ranking, where there is more than one."""
    _runners: list[CheckRunner] = field(default_factory=list)
    _confirmed: dict[str, Vote] = field(default_factory=dict)
    _voted_as: dict[str, str] = field(default_factory=dict)
    """The blind ids in the findings of the confirmed votes."""

    _parsed: Workspace = field(init=False)
    _turn: GroupTurn = field(init=False)

    def __post_init__(self) -> None:
        self._turn = GroupTurn(self.means.sandbox_turns)
        self.workspace = Workspace(self.group, seed=self.seed, repository=self.means.repository)
        self._parsed = self.workspace

    @property
    def n_checks(self) -> int:
        """Commands that were run in sandboxes."""
        return sum(runner.n_checks for runner in self._runners)

    async def run(self) -> Judgement:
        """Check and rank.

        Raises:
            VerdictError: no usable ranking came of it.
            LimitError: a budget is used up.
            EndpointError: the endpoint failed.
            SandboxError: a sandbox failed.
        """
        try:
            return await self._judge()
        finally:
            self._turn.give_back()

    async def _judge(self) -> Judgement:
        # Every turn of every attempt is read.
        await call_apart(self._count_leads, is_quick=self.workspace.is_quick)
        if _reason(self.group, self.rules) == "eligible":
            if not self.group.has_evidence:
                # Every answer would be the same, and paid for.
                return Judgement("ungraded", NO_EVIDENCE)
            return await self._rank(self.group)
        if self.rules.integrity != "off":
            for name in self.n_leads:
                await self._put_to_vote(name, [])
        after = _without(self.group, self._confirmed)
        caught = tuple(self._confirmed)
        if not caught or _reason(after, self.rules) != "eligible":
            return Judgement("skipped", _reason(after, self.rules), tuple(map(self._caught, caught)))
        ranked = await self._rank(after)
        return replace(ranked, candidates=(*ranked.candidates, *map(self._caught, caught)))

    async def _rank(self, group: Group) -> Judgement:
        """Grade an eligible group, as often as the rules say, and confirm what was flagged."""
        rounds = [
            await self._grade_once(group, seed) for seed in repeat_seeds(group, self.seed, self.rules.repeats)
        ]
        graded = [one for one in rounds if isinstance(one, Round)]
        if not graded:
            raise next(one for one in rounds if isinstance(one, VerdictError))
        self.workspace = graded[0].workspace
        if self.rules.integrity != "off":
            suspects = dict.fromkeys(name for one in graded for name in one.suspects)
            if self.rules.is_static:
                suspects |= dict.fromkeys(self.n_leads)
            settled = {one["trajectory_id"] for one in self.verdicts}
            for name in (name for name in suspects if name not in settled):
                is_proven = any(name in one.suspects for one in graded)
                await self._put_to_vote(name, [True] if is_proven else [])
        rankings = [one.settle(self._confirmed, self.rules.rubric) for one in graded]
        if self.rules.repeats > 1:
            self.repeats = [one.record(ranking) for one, ranking in zip(graded, rankings, strict=True)]
        shown_as = by_trajectory(self.workspace)
        aligned = [one.rename(ranking, shown_as) for one, ranking in zip(graded, rankings, strict=True)]
        candidates = tuple(
            self._with_vote_findings(one) for one in combine_gradings(aligned, self.rules.rubric)
        )
        self._tell_tiers_if_kept(candidates)
        reason = _reason(_without(group, self._confirmed), self.rules)
        return Judgement(
            "graded" if reason == "eligible" else "skipped",
            None if reason == "eligible" else reason,
            candidates,
        )

    async def _grade_once(self, group: Group, seed: int) -> Round | VerdictError:
        """One grading; a bad verdict is a result, for the other gradings may still make a ranking."""
        workspace, checks = self._open(group, seed)
        try:
            outcome = await judge(workspace, checks, self.talks, self.rules)
        except VerdictError as error:
            # Its frames hold the group, and one of them would hold the error.
            return error.with_traceback(None)
        finally:
            await _close(checks)
        return Round(seed, workspace, outcome)

    async def _put_to_vote(self, name: str, votes: list[bool]) -> None:
        """Ask until one says no or enough have said yes; `votes` are those that were given already."""
        vote: Vote | None = None
        while len(votes) < self.rules.integrity_votes and all(votes):
            workspace, checks = self._open(self.group, self.seed - SEED_STRIDE * len(votes))
            blind_id = by_trajectory(workspace)[name]
            alone = show_only(workspace, blind_id)
            try:
                cast = await ask_vote(alone, checks, self.talks)
            finally:
                await _close(checks)
            votes.append(cast.is_violation)
            if vote is None:
                vote, self._voted_as[name] = cast, blind_id
        is_confirmed = all(votes)
        if is_confirmed:
            self._confirmed[name] = vote or Vote(is_violation=True)
        self.verdicts.append(
            {
                "trajectory_id": name,
                "verdict": "confirmed" if is_confirmed else "disputed" if any(votes) else "unproven",
                "votes": votes,
                "rationale": vote.rationale if vote else "",
            }
        )

    def _tell_tiers_if_kept(self, candidates: Sequence[RankedCandidate]) -> None:
        """Beside each confirmed verdict: the tier of its scores, for those who do not want to act on it."""
        tiers = {
            one.trajectory_id: assign_tier(one.scores, one.flags, self.rules.rubric)
            for one in candidates
            if one.is_integrity_violation
        }
        for verdict in self.verdicts:
            if verdict["trajectory_id"] in tiers:
                verdict["tier_if_kept"] = tiers[str(verdict["trajectory_id"])]

    def _caught(self, name: str) -> RankedCandidate:
        """A violation that was never ranked."""
        vote = self._confirmed[name]
        flags, findings = {FLAG: True}, self._vote_findings(name)
        return RankedCandidate(name, None, None, flags=flags, findings=findings, rationale=vote.rationale)

    def _with_vote_findings(self, candidate: RankedCandidate) -> RankedCandidate:
        """A violation that only votes have shown carries their findings."""
        if any(FLAG in finding.supports for finding in candidate.findings):
            return candidate
        return replace(
            candidate, findings=(*candidate.findings, *self._vote_findings(candidate.trajectory_id))
        )

    def _vote_findings(self, name: str) -> tuple[Finding, ...]:
        """What the first vote on a violation found, under the blind ids of the ranking."""
        if name not in self._confirmed:
            return ()
        names = {self._voted_as.get(name, ""): by_trajectory(self.workspace)[name]}
        return tuple(rename_owner(finding, names) for finding in self._confirmed[name].findings)

    def _open(self, group: Group, seed: int) -> tuple[Workspace, CheckRunner | None]:
        means = self.means
        if group is self.group and seed == self.seed:
            # The same blind ids: what was parsed to count leads is not parsed again.
            workspace = copy(self._parsed)
            workspace.executions = {}
        else:
            workspace = Workspace(group, seed=seed, repository=means.repository)
        if means.open_sandbox is None:
            return workspace, None
        opener = partial(self._open_sandbox, means.open_sandbox)
        runner = CheckRunner(workspace, means.sandbox_name, opener, max_seconds=means.check_seconds)
        self._runners.append(runner)
        return workspace, runner

    async def _open_sandbox(self, opener: OpenSandbox, patch: str) -> Sandbox:
        await self._turn.take(self.talks.take_turn)
        return await opener(patch)

    def _count_leads(self) -> None:
        for blind_id in self.workspace.candidates:
            attempt = self.workspace.attempts[blind_id]
            n_leads = len(attempt.leads) + len(attempt.tampering)
            if n_leads:
                self.n_leads[attempt.trajectory.trajectory_id] = n_leads


async def _close(checks: CheckRunner | None) -> None:
    """Give the sandboxes of a finished conversation back; what was printed in them stays in its workspace."""
    if checks is not None:
        await checks.close()


def _reason(group: Group, rules: GradingRules) -> str:
    """`eligible`, or why the group is not ranked."""
    if rules.ranks_all_pass and len(group.passing) >= 2:
        return "eligible"
    return reason_of(len(group.trajectories), len(group.passing))


def _without(group: Group, violations: Mapping[str, Vote]) -> Group:
    """The group with its violations as failures."""
    return replace(
        group,
        trajectories=tuple(
            replace(one, passed=False) if one.trajectory_id in violations else one
            for one in group.trajectories
        ),
    )
