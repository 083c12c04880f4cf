"""The grading run: a dump in, one ranking a group out, each on disk the moment it is done.

Groups are graded side by side, more of them than calls may be on their way, so that the endpoint is never waiting for
tools. A group's heavy columns are read when a worker takes it and dropped when it is done.
Killed at any moment, the same command goes on: a group whose input is unchanged is not graded twice, and one that
failed for a passing reason (endpoint, sandbox, a budget) is tried again.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from gagar_cli import __version__
from gagar_cli.core.conditions import Condition, columns_of, parse_condition
from gagar_cli.core.schema import Group
from gagar_cli.core.sharding import Shard, parse_shard
from gagar_cli.core.spending import Budget, Prices
from gagar_cli.errors import InputError, UsageError
from gagar_cli.grader.client import EndpointSettings
from gagar_cli.grader.loop import GroupLimits
from gagar_cli.grader.prompts import prompt_version
from gagar_cli.grader.rules import GradingRules
from gagar_cli.grading_digest import digest_group
from gagar_cli.grading_kept import KeptRanking
from gagar_cli.grading_plan import Job, Plan, plan_groups
from gagar_cli.grading_reading import reading_record
from gagar_cli.grading_record import RunRecord, left_out
from gagar_cli.grading_settling import Settling
from gagar_cli.grading_summary import GradeResult, summarise
from gagar_cli.group_grading import GroupGrader, GroupGraderSettings
from gagar_cli.interrupts import run_interruptibly
from gagar_cli.io.dump import Dump, ReadOptions, open_dump
from gagar_cli.io.rankings import write_rankings_parquet
from gagar_cli.io.writers import refuse_existing, refuse_other_ending
from gagar_cli.own_inputs import refuse_own_inputs
from gagar_cli.progress import ProgressCallback, no_progress
from gagar_cli.sandbox.base import SandboxLimits
from gagar_cli.sandbox.select import SandboxRequest
from gagar_cli.side_by_side import count_open, run_side_by_side


@dataclass(frozen=True, slots=True)
class GradeSettings:
    """What `gagar grade` was asked to do."""

    dumps: tuple[str, ...]
    output: str
    """`.jsonl` (which is the ledger), `.parquet` (with a ledger beside it), or `-`."""
    endpoint: EndpointSettings
    read: ReadOptions = field(default_factory=ReadOptions)
    limits: GroupLimits = field(default_factory=GroupLimits)
    rules: GradingRules = field(default_factory=GradingRules)
    """Mode, rubric, repeats and integrity votes."""
    ledger: str | None = None
    """Only with output `-`: where to keep the ledger, so that the run can go on after a stop."""
    concurrency: int = 8
    """Calls on their way at the endpoint at a time; up to twice as many groups are open, unless a budget is set."""
    seed: int = 0
    """Of the blind order of the candidates."""
    repos: str | None = None
    sandbox: str = "auto"
    sandbox_image: str | None = None
    runtime: str | None = None
    """Of the docker engine; None: its default."""
    pull: bool = False
    """Fetch images that are not on this machine."""
    environment: str | None = None
    """A virtual environment that bubblewrap sandboxes see."""
    sandbox_limits: SandboxLimits = field(default_factory=SandboxLimits)
    check_seconds: float = 300.0
    max_groups: int | None = None
    """Grade at most this many eligible groups, in the order of the dump."""
    eligible: str | None = None
    """A condition on columns: passing trajectories that do not meet it are not ranked."""
    shard: str | None = None
    """`I/N`: only the groups of this shard."""
    budget: Budget = field(default_factory=Budget)
    """Of the whole run, earlier parts of its ledger included."""
    prices: Prices | None = None
    overwrite: bool = False

    @property
    def ledger_path(self) -> str | None:
        """Where finished groups are kept; None where nothing can be resumed."""
        if self.output == "-":
            return self.ledger
        is_table = Path(self.output).suffix.lower() in (".parquet", ".pq")
        return f"{self.output}.ledger.jsonl" if is_table else self.output

    @property
    def grader(self) -> GroupGraderSettings:
        """How groups are graded."""
        request = SandboxRequest(
            self.sandbox,
            self.sandbox_image,
            runtime=self.runtime,
            pull=self.pull,
            environment=Path(self.environment) if self.environment else None,
        )
        n_calls = min(self.concurrency, self.endpoint.max_connections)
        return GroupGraderSettings(
            endpoint=replace(self.endpoint, max_connections=n_calls),
            limits=self.limits,
            rules=self.rules,
            seed=self.seed,
            repos=self.repos,
            sandbox=request,
            sandbox_limits=self.sandbox_limits,
            check_seconds=self.check_seconds,
        )

    def record(self, sandbox: str) -> dict[str, object]:
        """The settings that a ranking depends on: a ledger goes on only under the same ones.

        Budgets are not among them: a group that a budget failed can be tried again with a larger one.
        """
        endpoint = self.endpoint
        return {
            "gagar": __version__,
            "model": endpoint.model,
            "temperature": endpoint.temperature,
            "model_seed": endpoint.seed,
            "max_output_tokens": endpoint.max_output_tokens,
            "protocol": endpoint.protocol,
            "extra_body": dict(endpoint.extra_body),
            "prompt_version": prompt_version(self.rules.mode, self.rules.rubric),
            **self.rules.record(),
            "seed": self.seed,
            "sandbox": sandbox,
            "sandbox_image": self.sandbox_image,
            "runtime": self.runtime,
            "has_environment": self.environment is not None,
            "has_repos": self.repos is not None,
            "eligible": self.eligible,
        }


def run(settings: GradeSettings, progress: ProgressCallback = no_progress) -> GradeResult:
    """Grade every eligible group of a dump that is not graded yet.

    Raises:
        UsageError: settings that cannot be carried out, or a ledger that was written under other ones.
        InputError: bad data in the dump.
        OutputError: the output exists, is locked, or cannot be written.
        SandboxError: the sandbox that was named is not available.
        EndpointError: the endpoint refuses every call, or an accident that all groups would meet.
    """
    condition, shard = check_settings(settings)
    with ExitStack() as stack:
        dump = stack.enter_context(open_dump(settings.dumps, wanted_columns(settings, condition)))
        plan = plan_groups(dump, condition=condition, shard=shard, integrity=settings.rules.integrity)
        record = stack.enter_context(
            RunRecord(settings.output, settings.ledger_path, overwrite=settings.overwrite)
        )
        return run_interruptibly(_Run(settings, dump, plan, record, progress).grade_all())


def check_settings(settings: GradeSettings) -> tuple[Condition | None, Shard | None]:
    """What `--eligible` and `--shard` stand for, after the outputs were looked at.

    Raises:
        UsageError: settings that cannot be carried out, or an output that is read.
        OutputError: the output exists, or cannot be written.
    """
    refuse_other_ending(settings.output, (".jsonl", ".parquet", ".pq"))
    if settings.ledger is not None and settings.output != "-":
        raise UsageError("--ledger is only for `-o -`", "other outputs keep their own ledger")
    if settings.budget.max_cost is not None and settings.prices is None:
        raise UsageError(
            "--max-cost needs prices", "give `--price-in` and `--price-out`, or a table with `--prices`"
        )
    condition = parse_condition(settings.eligible, "--eligible") if settings.eligible is not None else None
    shard = parse_shard(settings.shard) if settings.shard is not None else None
    for path in {settings.output, settings.ledger_path or "-"}:
        refuse_own_inputs(path, (*settings.dumps, *settings.read.joins))
    is_table = settings.ledger_path not in (None, settings.output)
    if is_table and settings.output != "-":
        # With its ledger beside it, the table is this run's own and is made anew from it.
        is_ours = Path(settings.ledger_path or "").exists()
        refuse_existing(settings.output, overwrite=settings.overwrite or is_ours)
    elif settings.ledger_path is not None:
        refuse_existing(settings.ledger_path, overwrite=True)
    return condition, shard


def wanted_columns(settings: GradeSettings, condition: Condition | None) -> ReadOptions:
    """How the dump is read, with the columns that the condition names."""
    return replace(settings.read, extras=columns_of(condition)) if condition is not None else settings.read


class _Run:
    """One run over an open dump."""

    def __init__(
        self, settings: GradeSettings, dump: Dump, plan: Plan, record: RunRecord, progress: ProgressCallback
    ) -> None:
        self._settings = settings
        self._dump = dump
        self._plan = plan
        self._record = record
        self._progress = progress
        # The dump is read by one at a time; always the same thread, for each that ever read keeps memory of its own.
        self._reader = ThreadPoolExecutor(max_workers=1)
        self._settling = Settling(record, settings.budget, settings.prices)

    async def grade_all(self) -> GradeResult:
        """Grade, record and summarise."""
        settings, record = self._settings, self._record
        ranked = self._plan.jobs[: settings.max_groups]
        image = await asyncio.to_thread(self._first_image, (*ranked, *self._plan.checks))
        async with GroupGrader(settings.grader, dump_image=image) as grader:
            record.open(settings.record(grader.backend.name), reading_record(settings.read))
            grader.tell_earlier(record.done.values())
            checks = self._checks()
            checked = {job.key for job in checks}
            await record.keep_all(one for one in self._plan.skipped if one.key not in checked)
            await self._grade_jobs((*ranked, *checks), grader)
        if record.ledger_path not in (None, settings.output) and settings.output != "-":
            write_rankings_parquet(settings.output, record.read_done())
        return summarise(
            record.rankings.values(),
            self._plan,
            settings.endpoint.model,
            backend=grader.backend,
            n_resumed=self._settling.n_resumed,
            n_late=self._settling.n_late,
            prices=settings.prices,
            stopped=self._settling.stopped,
            notes=[
                *self._dump.report.notes,
                *self._settling.patch_notes(self._dump.report.missing_columns),
                *record.notes,
                *grader.notes,
            ],
        )

    def _first_image(self, jobs: tuple[Job, ...]) -> str | None:
        for job in jobs:
            try:
                return job.read(self._dump).task.docker_image
            except InputError:
                if self._settings.read.on_bad_record == "fail":
                    raise
        return None

    def _checks(self) -> tuple[Job, ...]:
        """Skipped groups to be checked: with a limit only those that have been, for what was found there holds."""
        if self._settings.max_groups is None:
            return self._plan.checks
        done = self._record.done
        return tuple(job for job in self._plan.checks if job.key in done and done[job.key].has_grader)

    async def _grade_jobs(self, jobs: tuple[Job, ...], grader: GroupGrader) -> None:
        waiting = iter(jobs)
        n_done = n_ungraded = 0

        async def work() -> None:
            nonlocal n_done, n_ungraded
            for job in waiting:
                ranking = await self._grade_job(job, grader)
                if ranking is None:
                    continue
                n_done += 1
                n_ungraded += ranking.status == "ungraded"
                self._progress(n_done, len(jobs), f"{n_ungraded} ungraded" if n_ungraded else "")

        self._progress(0, len(jobs), "")
        n_turns = self._settings.concurrency
        # A group that is open is finished: with a budget no more of them go beyond it than must.
        is_bounded = self._settings.budget != Budget()
        n_open = min(n_turns, len(jobs)) if is_bounded else count_open(len(jobs), n_turns)
        try:
            await run_side_by_side(work() for _ in range(n_open))
        finally:
            self._reader.shutdown(cancel_futures=True)

    async def _grade_job(self, job: Job, grader: GroupGrader) -> KeptRanking | None:
        """The ranking of one group; None where the run's budget left no room for it."""
        loop, record = asyncio.get_running_loop(), self._record
        try:
            group, input_digest = await loop.run_in_executor(self._reader, _read_group, job, self._dump)
        except InputError as error:
            return await record.keep(left_out(job.key, error, self._settings.read, record.config_digest))
        return await self._settling.settle(group, input_digest, grader)


def _read_group(job: Job, dump: Dump) -> tuple[Group, str]:
    group = job.read(dump)
    return group, digest_group(group)
