"""What this machine can hold hostile code with: versions, known holes, each backend tried, what `auto` takes.

Every backend that can be had really runs commands over a patched checkout. Nothing is fetched, nothing is left. Attacks
are not tried here, only in the tests of a release: what a backend holds is told as its design, and not at all where the
program under it is known to be broken.
"""

import asyncio
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from gagar_cli import __version__
from gagar_cli.core.summaries import renamed
from gagar_cli.errors import SandboxError
from gagar_cli.sandbox import bubblewrap, docker
from gagar_cli.sandbox.base import Checkout, SandboxBackend, SandboxLimits, sandbox_user
from gagar_cli.sandbox.bubblewrap_groups import HELD_BY_GROUPS
from gagar_cli.sandbox.bubblewrap_needs import find_program
from gagar_cli.sandbox.promises import ATTACKS, open_attacks
from gagar_cli.sandbox.select import SandboxRequest, choose_backend
from gagar_cli.sandbox.versions import engine_problem, runc_problem

_N_RUNS = 3
_COMMAND_SECONDS = 60.0
_OTHER_RUNTIMES = ("runsc", "kata", "crun", "youki")
"""Parts of names of runtimes that start a container without runc."""
_PATCH = "--- /dev/null\n+++ b/probe\n@@ -0,0 +1 @@\n+held\n"


@dataclass(frozen=True, slots=True)
class BackendReport:
    """One backend as it is here."""

    name: str
    state: str
    """`works`, `answers` (an engine, but no image to run anything in) or `not available`."""
    detail: str
    latency_ms: float | None
    """The median of a few commands, each in a new sandbox with a patch; None where none ran."""
    n_held_by_design: int | None
    """Of the attacks that a release's tests try, not of any tried here; None where it cannot be had, or `in_doubt` says why."""
    opens: tuple[tuple[str, str], ...]
    """What is tried and not held in full, and what is true instead."""
    in_doubt: str | None = None
    """What is known against the program under it: then its design promises nothing."""

    def to_record(self) -> dict[str, object]:
        """As JSON."""
        record = renamed(asdict(self), {"latency_ms": "latency_seconds"})
        record["latency_seconds"] = None if self.latency_ms is None else self.latency_ms / 1000
        record["opens"] = [{"attack": what, "instead": truth} for what, truth in self.opens]
        return record


@dataclass(frozen=True, slots=True)
class Examination:
    """What `gagar doctor` found."""

    versions: Mapping[str, str]
    warnings: tuple[str, ...]
    backends: tuple[BackendReport, ...]
    choices: tuple[tuple[str, str, str], ...]
    """What `--sandbox auto` takes: for which dumps, which backend, and why."""
    n_attacks: int = len(ATTACKS)

    def to_record(self) -> dict[str, object]:
        """The result as one JSON object."""
        auto = [{"with": case, "sandbox": name, "reason": reason} for case, name, reason in self.choices]
        backends = [report.to_record() for report in self.backends]
        return {
            "versions": dict(self.versions),
            "warnings": list(self.warnings),
            "backends": backends,
            "n_attacks": self.n_attacks,
            "auto": auto,
        }


async def examine(request: SandboxRequest) -> Examination:
    """Look at this machine; `request` is what a run would ask of its sandbox."""
    versions, warnings = _machine(), []
    reports = []
    for look in (_look_at_docker, _look_at_bubblewrap):
        report, told, complaints = await look(request)
        reports.append(report)
        versions |= told
        warnings += complaints
    return Examination(versions, tuple(warnings), tuple(reports), await _choose(request, reports))


async def _look_at_docker(request: SandboxRequest) -> tuple[BackendReport, dict[str, str], list[str]]:
    try:
        backend = await docker.open_backend(request.image, runtime=request.runtime, pull=request.pull)
    except SandboxError as error:
        return _missing("docker", error), {}, []
    try:
        facts = backend.facts
        versions = {"docker engine": facts.engine, "runtimes": ", ".join(facts.runtimes) or "unknown"}
        versions |= {"runc": facts.runc} if facts.runc else {}
        versions |= {"engine's kernel": facts.kernel}
        problems = [engine_problem(facts), runc_problem(facts.runc) if facts.runc else None]
        report = BackendReport(
            "docker",
            "answers",
            f"{backend.description}; `--sandbox-image` tries a command",
            None,
            *_held("docker", {}),
        )
        if request.image is not None:
            report = await _try(backend, backend.description)
        if report.state == "works":
            n_held_by_design, opens = _held("docker", backend.features.lost)
            report = replace(report, n_held_by_design=n_held_by_design, opens=opens)
        runtime = request.runtime or facts.default_runtime
        if problems[1] is not None and not any(name in runtime for name in _OTHER_RUNTIMES):
            report = replace(report, n_held_by_design=None, in_doubt=f"runc {facts.runc}")
        return report, versions, [*filter(None, problems), *backend.warnings]
    finally:
        backend.close()


async def _look_at_bubblewrap(request: SandboxRequest) -> tuple[BackendReport, dict[str, str], list[str]]:
    try:
        backend = await bubblewrap.open_backend(request.environment)
    except SandboxError as error:
        return _missing("bubblewrap", error), {}, []
    report = await _try(backend, backend.description)
    if report.state == "works" and backend.groups is not None and backend.groups.has_all:
        n_held_by_design, opens = _held("bubblewrap", dict.fromkeys(HELD_BY_GROUPS))
        report = replace(report, n_held_by_design=n_held_by_design, opens=opens)
    return report, {"bubblewrap": _version_of(find_program())}, []


async def _try(backend: SandboxBackend, description: str) -> BackendReport:
    """Run a few commands, each in a new sandbox."""
    seconds = []
    with tempfile.TemporaryDirectory(prefix="gagar-doctor-") as directory:
        user = sandbox_user()
        os.chown(directory, user.uid, user.gid)
        try:
            for _ in range(_N_RUNS):
                sandbox = await backend.open(Checkout(Path(directory)), _PATCH, SandboxLimits())
                started = asyncio.get_running_loop().time()
                result = await sandbox.run(["grep", "-q", "held", "probe"], timeout_seconds=_COMMAND_SECONDS)
                seconds.append(asyncio.get_running_loop().time() - started)
                await sandbox.close()
                if result.exit_code != 0:
                    raise SandboxError(f"a command failed: exit {result.exit_code}, {result.stderr.strip()}")
        except SandboxError as error:
            return _missing(backend.name, error)
    latency = 1000 * sorted(seconds)[_N_RUNS // 2]
    return BackendReport(backend.name, "works", description, round(latency, 1), *_held(backend.name, {}))


def _held(name: str, here: Mapping[str, str | None]) -> tuple[int, tuple[tuple[str, str], ...]]:
    """How many attacks a backend holds, and those that it does not.

    `here`: by number, what is otherwise on this machine; None: held after all.
    """
    truths: dict[str, str | None] = {attack.number: truth for attack, truth in open_attacks(name)}
    truths |= here
    left = [(attack.what, truth) for attack in ATTACKS if (truth := truths.get(attack.number))]
    return len(ATTACKS) - len(left), tuple(left)


def _missing(name: str, error: SandboxError) -> BackendReport:
    detail = f"{error.message}; {error.hint}" if error.hint else error.message
    return BackendReport(name, "not available", detail, None, None, ())


async def _choose(
    request: SandboxRequest, reports: Sequence[BackendReport]
) -> tuple[tuple[str, str, str], ...]:
    """What a run would take, for the two kinds of dumps."""
    wishes = replace(request, name="auto")
    try:
        chosen = await choose_backend(wishes, has_repos=True)
    except SandboxError as error:
        with_repos = ("none", error.message)
    else:
        if isinstance(chosen.backend, docker.DockerBackend):
            chosen.backend.close()
        with_repos = (chosen.name, chosen.reason)
    engine = reports[0]
    if engine.state == "not available":
        with_images = ("inspect-only", f"docker: {engine.detail}; `--repos` lets bubblewrap serve instead")
    else:
        with_images = ("docker", "the engine answers; images must be on this machine, or `--pull` given")
    return (("repositories of --repos", *with_repos), ("images that the dump names", *with_images))


def _machine() -> dict[str, str]:
    git = shutil.which("git")
    return {
        "gagar": __version__,
        "python": platform.python_version(),
        "kernel": f"{platform.system()} {platform.release()} {platform.machine()}",
        "git": _version_of(Path(git)) if git else "not found",
        "user": "root (sandboxes run as nobody)" if os.geteuid() == 0 else f"uid {os.geteuid()}",
    }


def _version_of(program: Path) -> str:
    """The last word of what a program says to `--version`."""
    try:
        done = subprocess.run(  # noqa: S603 - a program of this machine, without any input
            [program, "--version"], capture_output=True, text=True, timeout=10, check=False, cwd="/"
        )
    except (OSError, subprocess.SubprocessError) as error:
        return f"unknown ({error})"
    return (done.stdout.split() or ["unknown"])[-1]
