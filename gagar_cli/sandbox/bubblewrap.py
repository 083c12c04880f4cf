"""Sandboxes by bubblewrap: namespaces without an engine, for machines that let users make them.

Holds: files (nothing but `/usr` and the candidate's own checkout exists), network, other processes, capabilities,
system calls (`seccomp.py`), time, output, number of processes, size of files. Every command gets a new sandbox over
the untouched base tree, in its own PID namespace, which ends as a whole and with its owner.

Where control groups can be made (`bubblewrap_groups.py`) they hold memory and the rate of CPU use. In any case there
are limits and a watchdog that looks 20 times a second (`watchdog.py`); with these alone a command can overshoot between
two looks, and only each process's CPU seconds and the wall time are held. Which of them is in force stands in the
backend's description. Shares the kernel with the host: a kernel bug ends it.

Never runs as root: then the whole of it runs as nobody. The limits are set by the shell inside, as `prlimit` may be
missing. Only what is under `/usr` is visible, the machine's Python and git among it, and a virtual environment that
was asked for (`environment.py`).
"""

import asyncio
import contextlib
import os
import shutil
import tempfile
import time
from pathlib import Path
from subprocess import PIPE, Popen

from gagar_cli.errors import SandboxError
from gagar_cli.sandbox.base import Checkout, Command, ExecResult, SandboxLimits, sandbox_user
from gagar_cli.sandbox.bubblewrap_args import SEARCH_PATH, HandedIn, sandbox_arguments, shell_limits
from gagar_cli.sandbox.bubblewrap_groups import (
    ControlGroup,
    Gate,
    GroupMaker,
    find_group_maker,
    make_gated_group,
    reap_groups,
)
from gagar_cli.sandbox.bubblewrap_needs import check_readable, find_program
from gagar_cli.sandbox.bubblewrap_program import Program
from gagar_cli.sandbox.bubblewrap_run import CommandRun
from gagar_cli.sandbox.environment import Environment, read_environment
from gagar_cli.sandbox.launcher import (
    BASE,
    PATCH_FILE,
    describe_failure,
    encode_patch,
    launch_arguments,
    read_launch,
)
from gagar_cli.sandbox.output import FileOutput
from gagar_cli.sandbox.watchdog import Watchdog

_PROBE_SECONDS = 20.0
_PROBE_PATCH = "--- /dev/null\n+++ b/probe\n@@ -0,0 +1 @@\n+held\n"


async def open_backend(environment: Path | None = None) -> "BubblewrapBackend":
    """The backend, after a command has really run in it. The programs of a virtual `environment` go first.

    Raises:
        SandboxError: no program, no git under `/usr`, the machine forbids user namespaces, a bad environment.
    """
    path = find_program()
    if shutil.which("git", path=SEARCH_PATH) is None:
        raise SandboxError(
            "bubblewrap sandboxes need git under /usr", "install git with the system's packages"
        )
    if not Path("/proc/thread-self/children").exists():
        raise SandboxError(
            "this kernel does not list a process's children, so memory cannot be watched", "use docker"
        )
    visible = None if environment is None else read_environment(environment)
    for place in visible.places if visible else ():
        check_readable(
            place, "the environment", "make one of the system's Python where all users can reach it"
        )
    reap_groups()
    program = Program(path)
    groups = find_group_maker()
    # An overlay needs 0.11 and a file system that can be a lower layer; groups need a kernel that lets us use them.
    ways = [
        (has_overlay, maker)
        for maker in ([groups, None] if groups else [None])
        for has_overlay in (True, False)
    ]
    refusals: list[SandboxError] = []
    for has_overlay, maker in ways:
        backend = BubblewrapBackend(program, has_overlay=has_overlay, groups=maker, environment=visible)
        try:
            await backend.probe()
        except SandboxError as error:
            refusals.append(error)
        else:
            return backend
    program.close()
    # The way with everything says best what is missing.
    raise refusals[0]


class BubblewrapBackend:
    """Makes sandboxes with one `bwrap` program."""

    name = "bubblewrap"

    def __init__(
        self,
        program: Program,
        *,
        has_overlay: bool,
        groups: GroupMaker | None = None,
        environment: Environment | None = None,
    ) -> None:
        tree = "an overlay" if has_overlay else "a copy"
        held = groups.description if groups else "a watchdog alone"
        self.description = f"bubblewrap with {tree} of the repository, limits by {held}"
        self.groups = groups
        self.program = program
        self._has_overlay = has_overlay
        self.environment = environment

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
        check_readable(
            checkout.tree, "the repository", "set TMPDIR to a directory that all users can pass through"
        )
        # Writing to an overlay wants the rights to the layer below.
        has_overlay = self._has_overlay and checkout.is_copied
        use_overlay = has_overlay and checkout.tree.stat().st_uid == sandbox_user().uid
        return BubblewrapSandbox(self, checkout, encode_patch(patch), limits, use_overlay=use_overlay)

    def close(self) -> None:
        """Close the program, once every sandbox is closed."""
        self.program.close()

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
        self,
        backend: BubblewrapBackend,
        checkout: Checkout,
        patch: bytes,
        limits: SandboxLimits,
        *,
        use_overlay: bool,
    ) -> None:
        self._backend = backend
        self._checkout = checkout
        self._patch = patch
        self._limits = limits
        self._use_overlay = use_overlay
        self._running: set[CommandRun] = set()

    async def run(
        self, command: Command, *, timeout_seconds: float, cwd: str = ".", stdout: FileOutput | None = None
    ) -> ExecResult:
        """Run a command in a new sandbox over the patched checkout.

        Raises:
            SandboxError: the sandbox cannot be set up, or the patch does not apply.
        """
        started = time.monotonic()
        launch = launch_arguments(
            command,
            source=BASE if self._checkout.is_copied and not self._use_overlay else "",
            has_patch=bool(self._patch),
            limits=shell_limits(self._limits, timeout_seconds),
            cwd=cwd,
            waits=True,
        )
        group, gate = make_gated_group(self._backend.groups, self._limits)
        try:
            run = self._start(launch, gate, stdout)
            return await self._attend(run, started + timeout_seconds, group, gate)
        finally:
            if group is not None and gate is not None:
                gate.close()
                if not group.is_removed():
                    await asyncio.to_thread(group.remove)

    async def _attend(
        self, run: CommandRun, deadline: float, group: ControlGroup | None, gate: Gate | None
    ) -> ExecResult:
        """Watch and end a command that was started."""
        self._running.add(run)
        watchdog = Watchdog(run.process.pid, self._limits, run.kill)
        watchdog.start()
        started = time.monotonic()
        try:
            if group is not None and gate is not None:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(deadline - time.monotonic()):
                        await gate.admit(group)
            await run.let_go(deadline - time.monotonic())
            timed_out = not await run.wait(deadline - time.monotonic())
            seconds = time.monotonic() - started
        except OSError as error:
            raise SandboxError(f"the sandbox cannot be put into its control group: {error}") from error
        finally:
            # Takes no longer than one look at the processes.
            watchdog.stop()
            if gate is not None:
                gate.turn_away()
            self._running.discard(run)
            await run.finish()
        was_killed = group is not None and group.has_killed()
        return self._result(
            run, seconds=seconds, timed_out=timed_out, was_ended=watchdog.has_ended, was_killed=was_killed
        )

    async def close(self) -> None:
        """End the commands that still run."""
        for run in list(self._running):
            run.kill()

    def _start(self, launch: list[str], gate: Gate | None, stdout: FileOutput | None) -> CommandRun:
        try:
            return CommandRun(self._open(launch, gate), self._limits.output_bytes, stdout)
        except (OSError, ValueError) as error:
            raise SandboxError(f"bubblewrap cannot be started: {error}") from error
        finally:
            if gate is not None:
                gate.hand_over()

    def _open(self, launch: list[str], gate: Gate | None) -> Popen[bytes]:
        user = sandbox_user()
        with HandedIn() as files:
            start = self._backend.program.start(files)
            options = sandbox_arguments(
                self._checkout,
                self._limits,
                use_overlay=self._use_overlay,
                files=files,
                environment=self._backend.environment,
            )
            options += gate.arguments if gate else []
            options += ["--file", str(files.add(self._patch)), PATCH_FILE] if self._patch else []
            arguments = ["bwrap", "--args", str(files.add_arguments(options)), "--", *launch]
            return Popen(  # noqa: S603 - a program of ours; what is untrusted goes to the sandbox's shell as words
                arguments,
                bufsize=0,
                executable=start.executable,
                pass_fds=(*start.descriptors, *files.descriptors, *(gate.descriptors if gate else ())),
                stdin=PIPE,
                stdout=PIPE,
                stderr=PIPE,
                env=start.environment,
                cwd="/",
                start_new_session=True,
                user=user.uid if user.must_switch else None,
                group=user.gid if user.must_switch else None,
                extra_groups=[] if user.must_switch else None,
            )

    def _result(
        self, run: CommandRun, *, seconds: float, timed_out: bool, was_ended: bool, was_killed: bool
    ) -> ExecResult:
        """`was_ended`: by the watchdog, as a whole; `was_killed`: one process or more, by the kernel, for memory."""
        code = run.process.returncode
        # A negative code is a signal to bubblewrap itself, which only we can send.
        is_ended = timed_out or was_ended or code is None or code < 0
        report = read_launch(run.stderr.content)
        if not report.is_ready and not is_ended and not was_killed:
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
            out_of_memory=was_ended or was_killed,
            truncated=run.stdout.is_truncated or run.stderr.is_truncated,
        )
