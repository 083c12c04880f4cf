"""What grading a dump would take, before the first call: groups, calls, tokens, cost, time.

Prompts and material are measured on groups spread over the dump: rules, task and tool schemas as they would be sent,
and of every attempt the patch, its share of the log and the test output as the tools would page them. How the grader
goes through the material is a guess, unless the ledger has graded groups: then their calls and tokens are the measure.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from gagar_cli.core.ranking import GroupRanking
from gagar_cli.core.schema import Group, GroupKey
from gagar_cli.core.spending import Spending, spending_of
from gagar_cli.grade import GradeSettings, check_settings, wanted_columns
from gagar_cli.grader.prompts import opening
from gagar_cli.grader.tools import Toolbox
from gagar_cli.grader.workspace import Workspace
from gagar_cli.grading_plan import Job, plan_groups
from gagar_cli.grading_record import digest_group, is_owed
from gagar_cli.io.dump import Dump, open_dump
from gagar_cli.io.rankings import latest_rankings, read_rankings

MAX_MEASURED_GROUPS = 50
CHARS_PER_TOKEN = 3.5
"""Of code and logs; prose has about 4."""
_PATCH_CHARS, _LOG_CHARS, _TEST_CHARS = 12_000, 6_000, 4_000
"""What a grader is assumed to read of one attempt: at most a page or so of each."""
_REFERENCE_SHARE = 0.25
"""Failing attempts are context, read less."""
_SUBMISSION_TOKENS, _CALL_TOKENS = 250, 120
"""Written for each candidate in the submission, and in each call before it."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a run would take."""

    model: str
    n_trajectories: int
    n_groups: int
    n_eligible: int
    n_settled: int
    """Of the eligible, those that the ledger has already."""
    n_to_grade: int
    skipped: dict[str, int]
    n_candidates: int
    """Of the groups to grade."""
    basis: str
    """`measured`: from groups that the ledger has; `guessed`: from the sizes of prompts and material."""
    n_measured: int
    """Groups whose sizes, or whose calls and tokens, the estimate rests on."""
    prompt_tokens: int
    """Of the first call of a group, on average."""
    n_calls: int
    n_input_tokens: int
    n_output_tokens: int
    cost: float | None
    """With nothing read from a cache; None where no prices were given."""
    notes: tuple[str, ...]

    def to_record(self) -> dict[str, object]:
        """The estimate as one JSON object."""
        return {"dry_run": True, **asdict(self), "notes": list(self.notes)}


@dataclass(frozen=True, slots=True)
class GroupSize:
    """What a group's grading works with, in tokens."""

    prompt_tokens: float
    material_tokens: float
    n_candidates: int


def estimate(settings: GradeSettings) -> Estimate:
    """The estimate; nothing is written and no endpoint asked.

    Raises:
        UsageError: settings that cannot be carried out.
        InputError: bad data in the dump.
        OutputError: the output could not be written.
    """
    condition, shard = check_settings(settings)
    with open_dump(settings.dumps, wanted_columns(settings, condition)) as dump:
        plan = plan_groups(dump, condition=condition, shard=shard)
        earlier = _earlier_rankings(settings)
        wanted = plan.jobs[: settings.max_groups]
        jobs = [job for job in wanted if not _is_settled(job, dump, earlier)]
        sizes = [measure(job.read(dump), seed=settings.seed) for job in _spread(jobs)]
        passed = dump.index["passed"]
        n_candidates = sum(int(passed[list(job.rows)].sum()) for job in jobs)
        notes = dump.report.notes
    graded = [ranking for ranking in earlier.values() if ranking.status == "graded" and _has_usage(ranking)]
    spending = _measured(graded, len(jobs)) if graded else guess(sizes, len(jobs))
    return Estimate(
        model=settings.endpoint.model,
        n_trajectories=plan.n_trajectories,
        n_groups=plan.n_groups,
        n_eligible=len(plan.jobs),
        n_settled=len(wanted) - len(jobs),
        n_to_grade=len(jobs),
        skipped=dict(Counter(ranking.reason or "" for ranking in plan.skipped).most_common()),
        n_candidates=n_candidates,
        basis="measured" if graded else "guessed",
        n_measured=len(graded) if graded else len(sizes),
        prompt_tokens=round(sum(size.prompt_tokens for size in sizes) / len(sizes)) if sizes else 0,
        n_calls=spending.n_calls,
        n_input_tokens=spending.n_input_tokens,
        n_output_tokens=spending.n_output_tokens,
        cost=None if settings.prices is None else round(spending.cost(settings.prices), 6),
        notes=tuple(notes),
    )


def measure(group: Group, *, seed: int = 0) -> GroupSize:
    """The size of a group's first prompt and of what a grader would read."""
    workspace = Workspace(group, seed=seed, repository=None)
    schemas = Toolbox(workspace, None).schemas
    prompt = sum(len(message["content"]) for message in opening(workspace)) + len(json.dumps(list(schemas)))
    material = float(min(len(workspace.problem_statement), _PATCH_CHARS))
    for trajectory in group.trajectories:
        log = sum(len(message.content) for message in trajectory.messages)
        read = (
            min(len(trajectory.model_patch or ""), _PATCH_CHARS)
            + min(log, _LOG_CHARS)
            + min(len(trajectory.test_output or ""), _TEST_CHARS)
        )
        material += read if trajectory.passed else read * _REFERENCE_SHARE
    return GroupSize(prompt / CHARS_PER_TOKEN, material / CHARS_PER_TOKEN, len(group.passing))


def guess(sizes: Sequence[GroupSize], n_groups: int) -> Spending:
    """What `n_groups` like these would take, where every call sends the whole conversation again.

    A group of n candidates takes 4 + n calls, over which the material comes in evenly.
    """
    if not sizes:
        return Spending()
    n_calls = n_input = n_output = 0.0
    for size in sizes:
        calls = 4 + size.n_candidates
        written = _CALL_TOKENS * calls
        n_calls += calls
        n_input += calls * size.prompt_tokens + (size.material_tokens + written) * (calls - 1) / 2
        n_output += written + _SUBMISSION_TOKENS * size.n_candidates
    share = n_groups / len(sizes)
    return Spending(
        n_calls=round(n_calls * share),
        n_input_tokens=round(n_input * share),
        n_output_tokens=round(n_output * share),
    )


def _measured(graded: Sequence[GroupRanking], n_groups: int) -> Spending:
    total = sum((spending_of(ranking.grader) for ranking in graded), Spending())
    share = n_groups / len(graded)
    return Spending(
        n_calls=round(total.n_calls * share),
        n_input_tokens=round(total.n_input_tokens * share),
        n_cached_tokens=round(total.n_cached_tokens * share),
        n_output_tokens=round(total.n_output_tokens * share),
    )


def _earlier_rankings(settings: GradeSettings) -> dict[GroupKey, GroupRanking]:
    """What a ledger has already; nothing where there is none, or it will be replaced."""
    path = settings.ledger_path
    if path is None or settings.overwrite or not Path(path).exists():
        return {}
    return latest_rankings(read_rankings(path))


def _is_settled(job: Job, dump: Dump, earlier: Mapping[GroupKey, GroupRanking]) -> bool:
    ranking = earlier.get(job.key)
    if ranking is None or is_owed(ranking):
        return False
    return ranking.input_digest == digest_group(job.read(dump))


def _has_usage(ranking: GroupRanking) -> bool:
    return spending_of(ranking.grader).n_tokens > 0


def _spread(jobs: Sequence[Job]) -> Sequence[Job]:
    """At most `MAX_MEASURED_GROUPS` jobs, evenly from first to last."""
    n_jobs = len(jobs)
    if n_jobs <= MAX_MEASURED_GROUPS:
        return jobs
    return [jobs[number * n_jobs // MAX_MEASURED_GROUPS] for number in range(MAX_MEASURED_GROUPS)]
