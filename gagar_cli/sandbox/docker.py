"""Sandboxes by a docker engine: a container for each command, over an image that is here already.

Holds: files, network, other processes, capabilities, memory, processors, processes, scratch space, output, time
(`docker_options.py` has the arguments). The engine cannot end a command, only a container, and what a command leaves
behind (a process, a file, a System V segment) must not meet the next one: so the container goes with the command. It
shares the kernel with the host: a kernel or runc bug ends it, unless another runtime stands between (`--runtime`).
Images are pulled only where that was asked for.

A container lives as long as its owner holds its stdin. What an owner that is killed was just making, and copies of
repositories out of images, its guard removes (`docker_guard.py`), or else `reap_orphans` of a later run.
"""

import asyncio
import contextlib
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from gagar_cli.errors import CheckoutError, SandboxError
from gagar_cli.sandbox.base import Checkout, Command, ExecResult, SandboxLimits
from gagar_cli.sandbox.docker_engine import (
    MAX_COMMANDS,
    Image,
    check_directory,
    connect,
    engine_address,
    find_image,
    held_container,
    is_running,
    mapped_errors,
    pull_image,
    read_exit_code,
    reap_orphans,
    started_exec,
    was_out_of_memory,
)
from gagar_cli.sandbox.docker_features import EngineFeatures
from gagar_cli.sandbox.docker_guard import guarded_engine
from gagar_cli.sandbox.docker_images import ImageTree, ImageTrees
from gagar_cli.sandbox.docker_options import container_config, place_checkout
from gagar_cli.sandbox.docker_patch import PatchDelivery
from gagar_cli.sandbox.docker_stream import End, ExecStream, Reading
from gagar_cli.sandbox.launcher import BASE, describe_failure, read_launch
from gagar_cli.sandbox.output import FileOutput
from gagar_cli.sandbox.owner import current_owner
from gagar_cli.sandbox.versions import EngineFacts, check_runtime, needs_own_filter

_MAX_STARTS = 3


async def open_backend(
    image: str | None, *, runtime: str | None = None, pull: bool = False
) -> "DockerBackend":
    """The engine that the environment names, or the local one, after orphans of earlier runs are removed.

    `image` is for checkouts that name none. `runtime` is one of the engine's, None its default. With `pull`, images
    that are not on this machine are fetched.

    Raises:
        SandboxError: no engine answers, it has no such runtime, or `image` cannot be had.
    """
    return await asyncio.to_thread(_open_backend, image, runtime, pull)


class DockerBackend:
    """Makes sandboxes with one engine."""

    name = "docker"

    def __init__(
        self, client: Any, image: str | None, facts: EngineFacts, *, runtime: str | None, pull: bool
    ) -> None:
        self.description = f"{facts.engine}, {runtime or facts.default_runtime}"
        self.client = client
        self.facts = facts
        self.features = EngineFeatures(needs_own_filter(facts), runtime, states_all_limits=facts.is_podman)
        self.warnings: list[str] = []
        """What this engine cannot do, as it was found out."""
        self.trees = ImageTrees(client)
        self.without_git: set[str] = set()
        """Images that were found to have none."""
        # Threads of our own: those that wait for output would use up the few that all of asyncio shares.
        self.threads = ThreadPoolExecutor(MAX_COMMANDS, thread_name_prefix="gagar-docker")
        self.guard = contextlib.ExitStack()
        """Holds what cleans up behind us, should we be killed."""
        self._image = image
        self._pull = pull
        self._lock = threading.Lock()

    def find_image(self, name: str) -> Image:
        """The image of that name, fetched first where that was asked for and is needed.

        Raises:
            SandboxError: it cannot be had.
        """
        try:
            return find_image(self.client, name)
        except SandboxError:
            if not self._pull:
                raise
        # One at a time: many candidates may want the same one.
        with self._lock:
            return pull_image(self.client, name)

    def leave_out(self, features: EngineFeatures, complaint: str) -> bool:
        """Make do without what the engine complains about; whether it may be tried again."""
        with self._lock:
            if self.features != features:
                return True
            less = features.without_refused(complaint)
            if less is None:
                return False
            self.features, warning = less
            self.warnings += [warning] if warning else []
            return True

    async def open(self, checkout: Checkout, patch: str, limits: SandboxLimits) -> "DockerSandbox":
        """A sandbox over `checkout.tree`, or over the repository in the image.

        Raises:
            SandboxError: the image is not on this machine, or has no repository at `workdir`.
        """
        name = checkout.image or self._image
        if name is None:
            raise SandboxError("docker needs an image", "give one with `--sandbox-image`")
        if checkout.tree is None and checkout.workdir is None:
            raise SandboxError(
                "there is neither a repository nor its place in the image", "supply it with `--repos`"
            )
        place_checkout(checkout.workdir)
        image = await asyncio.to_thread(self.find_image, name)
        if checkout.tree is None:
            await asyncio.to_thread(check_directory, self.client, image, str(checkout.workdir))
        return DockerSandbox(self, image, checkout, patch, limits)

    def close(self) -> None:
        """Hang up on the engine, once every sandbox is closed."""
        self.threads.shutdown()
        self.client.close()
        self.guard.close()


class DockerSandbox:
    """One candidate's checkout."""

    def __init__(
        self, backend: DockerBackend, image: Image, checkout: Checkout, patch: str, limits: SandboxLimits
    ) -> None:
        self._backend = backend
        self._client = backend.client
        self._image = image
        self._checkout = checkout
        self._limits = limits
        self._place = place_checkout(checkout.workdir)
        self._delivery = PatchDelivery(
            backend.client, image, checkout, patch, place=self._place, without_git=backend.without_git
        )
        self._volume: str | None = None
        self._lock = threading.Lock()
        self._is_closed = threading.Event()
        self._jobs: set[asyncio.Future[ExecResult]] = set()

    async def run(
        self, command: Command, *, timeout_seconds: float, cwd: str = ".", stdout: FileOutput | None = None
    ) -> ExecResult:
        """Run a command in a new container, in a fresh copy of the patched checkout.

        Raises:
            SandboxError: the engine failed, the checkout cannot be made, the patch does not apply.
        """
        if self._is_closed.is_set():
            raise SandboxError("the sandbox is closed")
        cancelled = threading.Event()
        job = asyncio.get_running_loop().run_in_executor(
            self._backend.threads, self._run, command, cwd, Reading(timeout_seconds, cancelled, stdout)
        )
        self._jobs.add(job)
        try:
            return await asyncio.shield(job)
        except asyncio.CancelledError:
            cancelled.set()
            await asyncio.wait([job])
            raise
        finally:
            self._jobs.discard(job)

    async def close(self) -> None:
        """End what still runs and give back the image's repository."""
        self._is_closed.set()
        if self._jobs:
            await asyncio.wait(self._jobs)
        with contextlib.suppress(SandboxError):
            await asyncio.to_thread(self._release)

    def _run(self, command: Command, cwd: str, reading: Reading) -> ExecResult:
        for _ in range(_MAX_STARTS):
            arguments, stdin = self._delivery.prepare(command, cwd)
            try:
                result = self._run_once(arguments, stdin, reading)
            except CheckoutError as error:
                self._delivery.learn(error)
            else:
                if result is not None:
                    return result
        raise SandboxError(f"the engine has not started a command in {_MAX_STARTS} containers")

    def _run_once(self, arguments: list[str], stdin: bytes, reading: Reading) -> ExecResult | None:
        """The result; None where not even the launcher has spoken: a busy engine fails to start some commands."""
        stream = ExecStream(self._limits.output_bytes, reading.stdout)
        with mapped_errors("the docker engine failed"), self._container() as container:
            started = time.monotonic()
            with started_exec(self._client, container, arguments, stdin) as (execution, connection):
                end = stream.pump(
                    connection,
                    deadline=started + reading.timeout_seconds,
                    is_cancelled=lambda: reading.cancelled.is_set() or self._is_closed.is_set(),
                    has_exited=lambda: not is_running(self._client, execution),
                )
            seconds = time.monotonic() - started
            exit_code = read_exit_code(self._client, execution) if end is End.CLOSED else None
            out_of_memory = was_out_of_memory(self._client, container, is_likely=exit_code != 0)
        launch = read_launch(stream.stderr.content)
        if not launch.is_ready and end is End.CLOSED and not out_of_memory:
            if not stream.stdout.n_bytes and not stream.stderr.n_bytes:
                return None
            # The engine itself complains on stdout.
            why = describe_failure(launch.stderr or stream.stdout.text.encode())
            raise SandboxError(f"a container cannot run the checkout: {why}")
        return ExecResult(
            exit_code,
            stream.stdout.text,
            launch.stderr.decode("utf-8", "replace"),
            seconds,
            timed_out=end is End.TIMED_OUT,
            out_of_memory=out_of_memory,
            truncated=end is End.FLOODED or stream.stdout.is_truncated or stream.stderr.is_truncated,
        )

    @contextlib.contextmanager
    def _container(self) -> Iterator[str]:
        """A container that waits for one command, and is removed behind it whatever happens."""
        with contextlib.ExitStack() as stack:
            while True:
                features = self._backend.features
                try:
                    container = self._start_container(features, stack)
                    break
                except OSError as error:
                    if not self._backend.leave_out(features, str(error)):
                        raise
            yield container

    def _start_container(self, features: EngineFeatures, stack: contextlib.ExitStack) -> str:
        config = container_config(
            self._image.id,
            self._base(),
            self._limits,
            checkout=self._place,
            volumes=self._image.volumes,
            labels=current_owner().labels(),
            features=features,
            has_search_path=self._image.has_search_path,
        )
        return stack.enter_context(held_container(self._client, config))

    def _base(self) -> dict[str, Any]:
        """The mount of the base tree."""
        if self._checkout.tree is not None:
            source = str(self._checkout.tree.resolve())
            return {"Type": "bind", "Source": source, "Target": BASE, "ReadOnly": True}
        with self._lock:
            if self._volume is None:
                self._volume = self._backend.trees.acquire(ImageTree(self._image.id, self._place))
        return {"Type": "volume", "Source": self._volume, "Target": BASE, "ReadOnly": True}

    def _release(self) -> None:
        with self._lock, mapped_errors("the docker engine failed"):
            if self._volume is not None:
                self._volume = None
                self._backend.trees.release(ImageTree(self._image.id, self._place))


def _open_backend(image: str | None, runtime: str | None, pull: bool) -> DockerBackend:
    client, facts = connect()
    backend = DockerBackend(client, image, facts, runtime=runtime, pull=pull)
    try:
        check_runtime(facts, runtime)
        backend.guard.enter_context(guarded_engine(engine_address(), current_owner().labels()))
        with mapped_errors("the docker engine failed"):
            reap_orphans(client)
        if image is not None:
            backend.find_image(image)
    except SandboxError:
        backend.close()
        raise
    return backend
