"""The grading run: a dump in, one ranking a group out, each on disk the moment it is done.

Groups are graded side by side; a group's heavy columns are read when a worker takes it and dropped when it is done.
Killed at any moment, the same command goes on: a group whose input is unchanged is not graded twice, and one that
failed for a passing reason (endpoint, sandbox, a budget) is tried again.
"""

import asyncio
import hashlib
import json
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl

from gagar_cli import __version__
from gagar_cli.core.grouping import REASONS, GroupOutlines, outline_groups
from gagar_cli.core.ranking import GroupRanking
from gagar_cli.core.schema import Group, GroupKey, Task
from gagar_cli.errors import UsageError
from gagar_cli.grader.client import EndpointClient, EndpointSettings
from gagar_cli.grader.loop import GroupLimits
from gagar_cli.grader.prompts import prompt_version
from gagar_cli.grader.session import OWED_REASONS, GroupMeans, grade_group
from gagar_cli.grading_summary import GradeResult, summarise
from gagar_cli.interrupts import run_interruptibly
from gagar_cli.io.conversations import ConversationLog
from gagar_cli.io.dump import Dump, ReadOptions, open_dump
from gagar_cli.io.ledger import Ledger
from gagar_cli.io.rankings import ranking_from_record, ranking_to_record, write_rankings_parquet
from gagar_cli.io.writers import StdoutRecords, refuse_existing
from gagar_cli.progress import ProgressCallback, no_progress
from gagar_cli.sandbox.base import Checkout, Sandbox, SandboxBackend, SandboxLimits
from gagar_cli.sandbox.leftovers import reap_directories, removed_after_death
from gagar_cli.sandbox.limited import LimitedSandbox, default_n_commands
from gagar_cli.sandbox.owner import current_owner, owned_name
from gagar_cli.sandbox.select import ChosenBackend, SandboxRequest, choose_backend
from gagar_cli.sandbox.tree import RepositoryStore, RepositoryTree


@dataclass(frozen=True, slots=True)
class GradeSettings:
    """What `gagar grade` was asked to do."""

    dumps: tuple[str, ...]
    output: str
    """`.jsonl` (which is the ledger), `.parquet` (with a ledger beside it), or `-`."""
    endpoint: EndpointSettings
    read: ReadOptions = field(default_factory=ReadOptions)
    limits: GroupLimits = field(default_factory=GroupLimits)
    ledger: str | None = None
    """Only with output `-`: where to keep the ledger, so that the run can go on after a stop."""
    concurrency: int = 8
    """Groups that are graded side by side."""
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
    overwrite: bool = False

    @property
    def ledger_path(self) -> str | None:
        """Where finished groups are kept; None where nothing can be resumed."""
        if self.output == "-":
            return self.ledger
        is_table = Path(self.output).suffix.lower() in (".parquet", ".pq")
        return f"{self.output}.ledger.jsonl" if is_table else self.output

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
            "extra_body": dict(endpoint.extra_body),
            "prompt_version": prompt_version(),
            "seed": self.seed,
            "sandbox": sandbox,
            "sandbox_image": self.sandbox_image,
            "runtime": self.runtime,
            "has_environment": self.environment is not None,
            "has_repos": self.repos is not None,
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
    _check_outputs(settings)
    with ExitStack() as stack:
        reap_directories()
        stack.enter_context(removed_after_death())
        dump = stack.enter_context(open_dump(settings.dumps, settings.read))
        prefix = owned_name(current_owner(), "")
        run_directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=prefix)))
        # The sandbox's unprivileged user must be able to walk through, and not to list.
        run_directory.chmod(0o711)
        return run_interruptibly(_Run(settings, dump, run_directory, progress, stack).grade_all())


def _check_outputs(settings: GradeSettings) -> None:
    if settings.ledger is not None and settings.output != "-":
        raise UsageError("--ledger is only for `-o -`", "other outputs keep their own ledger")
    is_table = settings.ledger_path not in (None, settings.output)
    if is_table and settings.output != "-":
        # With its ledger beside it, the table is this run's own and is made anew from it.
        is_ours = Path(settings.ledger_path or "").exists()
        refuse_existing(settings.output, overwrite=settings.overwrite or is_ours)
    elif settings.ledger_path is not None:
        refuse_existing(settings.ledger_path, overwrite=True)


@dataclass(frozen=True, slots=True)
class _Job:
    """A group to grade: its place in the index, nothing heavy."""

    key: GroupKey
    rows: tuple[int, ...]


class _Run:
    """One run over an open dump."""

    def __init__(
        self,
        settings: GradeSettings,
        dump: Dump,
        run_directory: Path,
        progress: ProgressCallback,
        stack: ExitStack,
    ) -> None:
        self._settings = settings
        self._dump = dump
        self._progress = progress
        self._stack = stack
        self._reading = asyncio.Lock()
        self._turns = asyncio.Semaphore(default_n_commands())
        self._done: dict[GroupKey, GroupRanking] = {}
        self._rankings: dict[GroupKey, GroupRanking] = {}
        self._store = RepositoryStore(Path(settings.repos), run_directory) if settings.repos else None
        self._config_digest = ""
        self._n_resumed = 0
        self._ledger: Ledger | None = None
        self._stdout = StdoutRecords() if settings.output == "-" else None
        self._conversations: ConversationLog | None = None

    async def grade_all(self) -> GradeResult:
        """Grade, record and summarise."""
        settings = self._settings
        outlines, jobs, skipped = self._plan()
        backend = await self._choose_backend(jobs)
        config = settings.record(backend.name)
        self._config_digest = _digest(config)
        self._open_ledger(config)
        for ranking in skipped:
            self._record(ranking)
        client = EndpointClient(settings.endpoint)
        try:
            await self._grade_jobs(jobs, client, backend)
        finally:
            await client.close()
        if self._ledger is not None and self._ledger.path != settings.output and settings.output != "-":
            write_rankings_parquet(settings.output, self._rankings.values())
        notes = [
            *self._dump.report.notes,
            *(self._ledger.notes if self._ledger else ()),
            *getattr(backend.backend, "warnings", ()),
        ]
        return summarise(
            self._rankings,
            outlines,
            settings.endpoint.model,
            backend=backend,
            n_resumed=self._n_resumed,
            notes=notes,
        )

    async def _choose_backend(self, jobs: list[_Job]) -> ChosenBackend:
        """The sandbox of the whole run; which images the dump names is read off its first eligible group."""
        settings = self._settings
        image = (await asyncio.to_thread(self._read_group, jobs[0])).task.docker_image if jobs else None
        request = SandboxRequest(
            settings.sandbox,
            settings.sandbox_image,
            runtime=settings.runtime,
            pull=settings.pull,
            environment=Path(settings.environment) if settings.environment else None,
        )
        if self._store is None and image is None and settings.sandbox == "auto":
            return ChosenBackend(
                None, "inspect-only", "no repository or image is supplied, so nothing can be run"
            )
        return await choose_backend(request, dump_image=image, has_repos=self._store is not None)

    def _open_ledger(self, config: Mapping[str, object]) -> None:
        path = self._settings.ledger_path
        if path is None:
            return
        self._ledger = self._stack.enter_context(
            Ledger.open(path, config=config, overwrite=self._settings.overwrite)
        )
        self._conversations = self._stack.enter_context(
            ConversationLog(f"{path}.conversations.jsonl.zst", overwrite=self._settings.overwrite)
        )
        for record in self._ledger.records:
            ranking = ranking_from_record(record)
            self._done[ranking.key] = ranking

    def _plan(self) -> tuple[GroupOutlines, list[_Job], list[GroupRanking]]:
        """The eligible groups as jobs, in the order of the dump, and the others with their reason."""
        index = self._dump.index.with_row_index("row").filter(pl.col("row") == pl.col("primary_row"))
        n_groups = int(index["group"].max() or 0) + 1  # type: ignore[arg-type] # a maximum of unsigned integers
        outlines = outline_groups(
            index["group"].to_numpy(), index["passed"].to_numpy(), index["invalid"].to_numpy(), n_groups
        )
        heads = index.group_by("group", maintain_order=True).agg("step", "group_id", "row", "invalid")
        jobs, skipped = [], []
        for code, steps, names, rows, invalid in heads.iter_rows():
            key = GroupKey(steps[0], names[0])
            if outlines.is_eligible[code]:
                jobs.append(_Job(key, tuple(np.asarray(rows)[~np.asarray(invalid)].tolist())))
            else:
                skipped.append(GroupRanking(key, "skipped", REASONS[outlines.reason[code]]))
        return outlines, jobs[: self._settings.max_groups], skipped

    async def _grade_jobs(self, jobs: list[_Job], client: EndpointClient, backend: ChosenBackend) -> None:
        waiting = iter(jobs)
        n_done = n_ungraded = 0

        async def work() -> None:
            nonlocal n_done, n_ungraded
            for job in waiting:
                ranking = await self._grade_job(job, client, backend)
                n_done += 1
                n_ungraded += ranking.status == "ungraded"
                self._progress(n_done, len(jobs), f"{n_ungraded} ungraded" if n_ungraded else "")

        self._progress(0, len(jobs), "")
        try:
            async with asyncio.TaskGroup() as workers:
                for _ in range(min(self._settings.concurrency, len(jobs))):
                    workers.create_task(work())
        except BaseExceptionGroup as group:
            # The first accident stops the run; what others met while they were stopped adds nothing.
            raise group.exceptions[0] from None

    async def _grade_job(self, job: _Job, client: EndpointClient, backend: ChosenBackend) -> GroupRanking:
        async with self._reading:
            group = await asyncio.to_thread(self._read_group, job)
            input_digest = await asyncio.to_thread(_digest_group, group)
        earlier = self._done.get(job.key)
        if earlier is not None and self._is_final(job.key) and earlier.input_digest == input_digest:
            self._n_resumed += 1
            self._record(earlier)
            return earlier
        settings = self._settings
        means = await asyncio.to_thread(self._means, group.task, backend)
        graded = await grade_group(group, client, means, limits=settings.limits, seed=settings.seed)
        ranking = replace(graded.ranking, input_digest=input_digest, config_digest=self._config_digest)
        if self._conversations is not None:
            self._conversations.append(job.key, graded.messages)
        self._record(ranking)
        return ranking

    def _read_group(self, job: _Job) -> Group:
        pairs = self._dump.read_trajectories(job.rows)
        return Group(job.key, pairs[0][0], tuple(trajectory for _, trajectory in pairs))

    def _means(self, task: Task, backend: ChosenBackend) -> GroupMeans:
        """The repository and the way to run things in it, as far as this task has them."""
        tree: RepositoryTree | None = None
        if self._store is not None:
            tree = self._store.find(task.instance_id, task.repo, task.base_commit)
        image = task.docker_image or self._settings.sandbox_image
        has_checkout = tree is not None or (task.docker_image is not None and backend.name == "docker")
        if backend.backend is None or not has_checkout:
            return GroupMeans(repository=tree)
        checkout = Checkout(tree=tree.path if tree else None, image=image, workdir=task.workdir)
        opener = partial(_open_sandbox, backend.backend, checkout, self._settings.sandbox_limits, self._turns)
        return GroupMeans(tree, backend.name, opener, self._settings.check_seconds)

    def _is_final(self, key: GroupKey) -> bool:
        """Whether an earlier run settled this group under these settings."""
        earlier = self._done.get(key)
        if earlier is None or earlier.config_digest != self._config_digest:
            return False
        return earlier.status == "graded" or (
            earlier.status == "ungraded" and not (earlier.reason or "").startswith(OWED_REASONS)
        )

    def _record(self, ranking: GroupRanking) -> None:
        """Put a ranking where it belongs, once."""
        self._rankings[ranking.key] = ranking
        record = ranking_to_record(ranking)
        earlier = self._done.get(ranking.key)
        if self._ledger is not None and (earlier is None or ranking_to_record(earlier) != record):
            self._ledger.append(record)
        if self._stdout is not None and not self._stdout.write(record):
            raise BrokenPipeError


async def _open_sandbox(
    backend: SandboxBackend, checkout: Checkout, limits: SandboxLimits, turns: asyncio.Semaphore, patch: str
) -> Sandbox:
    return LimitedSandbox(await backend.open(checkout, patch, limits), turns)


def _digest_group(group: Group) -> str:
    """A digest of what is graded; where the records lie does not matter."""
    return _digest(
        asdict(replace(group, trajectories=tuple(replace(one, where="") for one in group.trajectories)))
    )


def _digest(value: object) -> str:
    """Sixteen hex digits of a value's canonical JSON."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
