"""The grader of groups: endpoint, repositories and sandboxes of a run, opened once, shared by all of its groups.

It knows neither dumps nor ledgers: whoever has a `Group` gets its ranking, and keeps it where he likes. Groups may be
graded side by side. On leaving, connections, the engine and the temporary directory are given back.
"""

import asyncio
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from gagar_cli.collecting import rare_collections
from gagar_cli.core.schema import Group, Task
from gagar_cli.errors import CheckoutError, SandboxError
from gagar_cli.grader.client import EndpointClient, EndpointSettings
from gagar_cli.grader.guessing import Guess, ask_guess
from gagar_cli.grader.loop import GroupLimits, Usage
from gagar_cli.grader.refusals import RefusedGroups
from gagar_cli.grader.rules import GradingRules
from gagar_cli.grader.session import GradedGroup, GroupMeans, grade_group
from gagar_cli.grader.talks import Talks
from gagar_cli.grader.workspace import Workspace
from gagar_cli.grading_kept import KeptRanking
from gagar_cli.sandbox.archiving import Archiver
from gagar_cli.sandbox.base import Checkout, Sandbox, SandboxBackend, SandboxLimits
from gagar_cli.sandbox.leftovers import reap_directories, removed_after_death
from gagar_cli.sandbox.limited import LimitedSandbox, default_n_commands
from gagar_cli.sandbox.owner import current_owner, owned_name
from gagar_cli.sandbox.select import INSPECT_ONLY, ChosenBackend, SandboxRequest, choose_backend
from gagar_cli.sandbox.tree import RepositoryStore, RepositoryTree

_NOTHING_TO_RUN = ChosenBackend(
    None, "inspect-only", "no repository or image is supplied, so nothing can be run"
)


@dataclass(frozen=True, slots=True)
class GroupGraderSettings:
    """How groups are graded, whatever they come from."""

    endpoint: EndpointSettings
    limits: GroupLimits = field(default_factory=GroupLimits)
    rules: GradingRules = field(default_factory=GradingRules)
    """Mode, rubric, repeats and integrity votes."""
    seed: int = 0
    """Of the blind order of the candidates."""
    repos: str | None = None
    """A directory of repositories, by `instance_id` or `repo@base_commit`."""
    sandbox: SandboxRequest = field(default_factory=SandboxRequest)
    sandbox_limits: SandboxLimits = field(default_factory=SandboxLimits)
    check_seconds: float = 300.0
    """Longest command in a sandbox."""


class GroupGrader:
    """Grades groups until it is closed. An async context manager."""

    backend: ChosenBackend
    """The sandbox of all groups, chosen on entering."""
    client: EndpointClient

    def __init__(self, settings: GroupGraderSettings, *, dump_image: str | None = None) -> None:
        """`dump_image` is the image that the first group names, and stands for all of them."""
        self.settings = settings
        self._dump_image = dump_image
        self._stack = ExitStack()
        self._turns = asyncio.Semaphore(default_n_commands())
        # More groups may be open than the endpoint is asked by: their sandboxes are not to be as many.
        self._sandbox_turns = asyncio.Semaphore(settings.endpoint.max_connections)
        self._store: RepositoryStore | None = None
        self._refused = RefusedGroups()

    async def __aenter__(self) -> Self:
        """Choose the sandbox.

        Raises:
            UsageError: the sandbox's options exclude each other.
            SandboxError: the sandbox that was named is not available.
        """
        settings = self.settings
        try:
            reap_directories()
            self._stack.enter_context(removed_after_death())
            self._stack.enter_context(rare_collections())
            prefix = owned_name(current_owner(), "")
            run_directory = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix=prefix)))
            # The sandbox's unprivileged user must be able to walk through, and not to list.
            run_directory.chmod(0o711)
            if settings.repos:
                self._store = RepositoryStore(Path(settings.repos), run_directory)
            self.backend = await self._choose_backend()
            self.client = EndpointClient(settings.endpoint)
        except BaseException:
            self._stack.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._stack:
            await self.client.close()

    @property
    def notes(self) -> tuple[str, ...]:
        """What endpoint, sandbox and repositories could not do as it was asked, as far as it came up."""
        return self.notes_of("")

    def notes_of(self, endpoint: str) -> tuple[str, ...]:
        """The notes; those of the endpoint start with this name of it, where there is more than one."""
        warnings: Sequence[str] = getattr(self.backend.backend, "warnings", ())
        learnt = (f"{endpoint}: {note}" if endpoint else note for note in self.client.notes)
        return (*learnt, *warnings, *(self._store.notes if self._store is not None else ()))

    def tell_earlier(self, rankings: Iterable[KeptRanking]) -> None:
        """Note what earlier parts of this run came to: an endpoint that graded some does not refuse them all."""
        if any(one.spending.n_calls and (one.status != "ungraded" or one.late) for one in rankings):
            self._refused.tell_graded()

    async def grade(self, group: Group) -> GradedGroup:
        """The ranking of a group that can be ranked, and the conversation that it took.

        Raises:
            EndpointError: only one that every other group would meet too.
        """
        self._refused.raise_if_all()
        means = self._means(group.task) if self._store is None else await self._found_means(group.task)
        settings = self.settings
        graded = await grade_group(
            group, self.client, means, limits=settings.limits, seed=settings.seed, rules=settings.rules
        )
        self._refused.count(graded.ranking)
        return graded

    async def guess(self, group: Group, graded: GradedGroup, policies: Sequence[str]) -> Guess:
        """Which policy the judge of a ranking thinks each trajectory is of.

        Raises:
            EndpointError: only one that every other group would meet too.
        """
        settings = self.settings
        if settings.rules.is_pointwise or settings.rules.repeats > 1:
            # It never saw the attempts in one conversation.
            return Guess(None, Usage())
        workspace = Workspace(group, seed=settings.seed, repository=None)
        return await ask_guess(workspace, graded.messages, Talks(self.client, settings.limits), policies)

    async def passes_tests(self, task: Task, patch: str) -> bool | None:
        """Whether a patch passes the task's own tests here; None where they cannot be run, or do not end in time."""
        means = await self._found_means(task)
        if means.open_sandbox is None or not task.test_command:
            return None
        try:
            sandbox = await means.open_sandbox(patch)
        except SandboxError:
            return None
        try:
            result = await sandbox.run(task.test_command, timeout_seconds=means.check_seconds)
        except CheckoutError:
            return False
        except SandboxError:
            return None
        finally:
            await sandbox.close()
        return None if result.timed_out else result.exit_code == 0

    async def _choose_backend(self) -> ChosenBackend:
        request, has_repos = self.settings.sandbox, self._store is not None
        if not has_repos and self._dump_image is None and request.name == "auto":
            return _NOTHING_TO_RUN
        chosen = await choose_backend(request, dump_image=self._dump_image, has_repos=has_repos)
        close = getattr(chosen.backend, "close", None)
        if close is not None:
            self._stack.callback(close)
        if self._store is not None and request.name != INSPECT_ONLY:
            self._store.archiver = Archiver(chosen.backend)
            self._stack.callback(self._store.archiver.stop)
        return chosen

    async def _found_means(self, task: Task) -> GroupMeans:
        # Finding a repository may unpack it.
        return await asyncio.to_thread(self._means, task)

    def _means(self, task: Task) -> GroupMeans:
        """The repository and the way to run things in it, as far as this task has them."""
        tree: RepositoryTree | None = None
        image = task.docker_image or self.settings.sandbox.image
        if self._store is not None:
            tree = self._store.find(task.instance_id, task.repo, task.base_commit, image)
        backend = self.backend
        has_checkout = tree is not None or (task.docker_image is not None and backend.name == "docker")
        if backend.backend is None or not has_checkout:
            return GroupMeans(repository=tree)
        checkout = Checkout(tree=tree.path if tree else None, image=image, workdir=task.workdir)
        opener = partial(_open_sandbox, backend.backend, checkout, self.settings.sandbox_limits, self._turns)
        return GroupMeans(
            tree, backend.name, opener, self.settings.check_seconds, sandbox_turns=self._sandbox_turns
        )


async def _open_sandbox(
    backend: SandboxBackend, checkout: Checkout, limits: SandboxLimits, turns: asyncio.Semaphore, patch: str
) -> Sandbox:
    return LimitedSandbox(await backend.open(checkout, patch, limits), turns)
