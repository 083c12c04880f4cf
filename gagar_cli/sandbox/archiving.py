"""What a clone holds at a commit, taken out of it by `git archive` in a sandbox, never on the host.

The clone's git directory is bound read-only, and only its objects are used: git works with a directory of ours, so that
no configuration, hook, attribute or reference of the clone is ever read. Without a network and without the machine's
files, borrowed objects (`alternates`) and submodules are not there. What the tree's own attributes say of archives
(`export-ignore`, `export-subst`) is switched off: a checkout has these files, as they are.

The archive is as hostile as the clone: it is written to a file under a cap, and unpacked by `layout.py`.
"""

import asyncio
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from gagar_cli.errors import SandboxError
from gagar_cli.sandbox.base import Checkout, ExecResult, SandboxBackend, SandboxLimits
from gagar_cli.sandbox.clones import Clone
from gagar_cli.sandbox.launcher import BASE, HOME, describe_failure
from gagar_cli.sandbox.layout import MAX_TOTAL_BYTES, LaidOut, lay_out_archive
from gagar_cli.sandbox.output import FileOutput

if TYPE_CHECKING:
    from gagar_cli.sandbox.bubblewrap import BubblewrapBackend

ARCHIVE_SECONDS = 300.0

_MAX_ARCHIVE_BYTES = MAX_TOTAL_BYTES + 512 * 1024**2
"""With a header and padding for each member."""
_UNKNOWN_COMMIT, _NO_GIT, _UNREADABLE = 44, 45, 46
_WHY = {_NO_GIT: "there is no git in it", _UNREADABLE: "its user cannot read the clone"}
_LIMITS = SandboxLimits(output_bytes=8192)
_SCRIPT = f"""
command -v git >/dev/null || exit {_NO_GIT}
own={HOME}/own.git commit=$1
mkdir -p "$own/refs" "$own/objects" "$own/info" || exit 1
echo 'ref: refs/heads/none' >"$own/HEAD"
[ "${{#commit}}" -le 40 ] && format=sha1 || format=sha256
printf '[core]\nbare = true\nrepositoryformatversion = 1\n[extensions]\nobjectFormat = %s\n' "$format" >"$own/config"
echo '* -export-ignore -export-subst -filter' >"$own/info/attributes"
export GIT_DIR="$own" GIT_OBJECT_DIRECTORY="{BASE}/objects" GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null
export GIT_ATTR_NOSYSTEM=1 GIT_NO_REPLACE_OBJECTS=1 GIT_TERMINAL_PROMPT=0 HOME=/nonexistent
ls {BASE}/objects/pack >/dev/null || exit {_UNREADABLE}
git cat-file -e "$commit^{{commit}}" || exit {_UNKNOWN_COMMIT}
exec git -c core.packedGitWindowSize=64m -c core.packedGitLimit=512m -c core.bigFileThreshold=64m \
    archive --format=tar "$commit^{{tree}}"
"""


class UnknownCommitError(SandboxError):
    """A clone that does not hold a commit."""


class Archiver:
    """Takes trees out of clones, with the first sandbox that can. Safe to use from several threads, which it blocks."""

    def __init__(self, chosen: SandboxBackend | None) -> None:
        """`chosen` is the run's own backend; bubblewrap goes first in any case, since it needs no image."""
        self._chosen = chosen
        self._backends: list[SandboxBackend] | None = None
        self._opened: list[BubblewrapBackend] = []
        """Those that nobody else closes."""
        self._refusal = ""
        self._lock = threading.Lock()
        self._tasks: set[tuple[asyncio.AbstractEventLoop, asyncio.Task[None]]] = set()
        self._is_stopped = False

    def lay_out(self, clone: Clone, commit: str, target: Path, image: str | None = None) -> LaidOut:
        """Write the tree at `commit` below `target`. `image` is for docker, and needs git.

        Raises:
            UnknownCommitError: the clone does not hold it.
            SandboxError: no sandbox works here, or none can read the clone.
            InputError: the archive breaks the rules of `layout.py`.
        """
        with tempfile.TemporaryFile(dir=target.parent) as spool:
            file = cast("BinaryIO", spool)
            try:
                asyncio.run(self._archive(clone, commit, file, image))
            except asyncio.CancelledError as error:
                raise SandboxError("the run was stopped") from error
            file.seek(0)
            return lay_out_archive(f"{clone.name}@{commit[:12]}", file, target)

    def stop(self) -> None:
        """End what still runs; nothing is taken out afterwards. The last one to end closes what was opened."""
        with self._lock:
            self._is_stopped = True
            for loop, task in self._tasks:
                loop.call_soon_threadsafe(task.cancel)
            self._close_if_idle()

    async def _archive(self, clone: Clone, commit: str, file: BinaryIO, image: str | None) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - a coroutine that runs is a task's
        running = (asyncio.get_running_loop(), task)
        with self._lock:
            if self._is_stopped:
                raise SandboxError("the run was stopped")
            self._tasks.add(running)
        try:
            refusals = []
            for backend in await self._open_backends():
                try:
                    return await _archive_with(backend, clone, commit, file, image)
                except UnknownCommitError:
                    raise
                except SandboxError as error:
                    refusals.append(f"{backend.name}: {error.message}")
            raise SandboxError("; ".join(refusals) or self._refusal)
        finally:
            with self._lock:
                self._tasks.discard(running)
                self._close_if_idle()

    def _close_if_idle(self) -> None:
        while self._is_stopped and not self._tasks and self._opened:
            self._opened.pop().close()

    async def _open_backends(self) -> list[SandboxBackend]:
        if self._backends is None:
            from gagar_cli.sandbox import bubblewrap

            backends = [] if self._chosen is None else [self._chosen]
            if not any(backend.name == bubblewrap.BubblewrapBackend.name for backend in backends):
                try:
                    opened = await bubblewrap.open_backend()
                    self._opened.append(opened)
                    backends.insert(0, opened)
                except SandboxError as error:
                    self._refusal = f"bubblewrap: {error.message}"
            # Opened twice where two threads come at once, which harms nobody.
            self._backends = backends
        return self._backends


async def _archive_with(
    backend: SandboxBackend, clone: Clone, commit: str, file: BinaryIO, image: str | None
) -> None:
    file.seek(0)
    file.truncate()
    sandbox = await backend.open(Checkout(clone.git_directory, image, is_copied=False), "", _LIMITS)
    output = FileOutput(file, _MAX_ARCHIVE_BYTES)
    try:
        command = ["sh", "-c", _SCRIPT, "sh", commit]
        result = await sandbox.run(command, timeout_seconds=ARCHIVE_SECONDS, stdout=output)
    finally:
        await sandbox.close()
    if result.exit_code == 0 and not output.is_truncated:
        return
    if result.exit_code == _UNKNOWN_COMMIT:
        raise UnknownCommitError(f"{clone.name} has no commit {commit}", clone.lack())
    raise SandboxError(_describe(result, is_too_large=output.is_truncated))


def _describe(result: ExecResult, *, is_too_large: bool) -> str:
    if is_too_large:
        return f"the tree is larger than {MAX_TOTAL_BYTES // 1024**3} GiB, or than the disk"
    if result.timed_out:
        return f"git took longer than {ARCHIVE_SECONDS:.0f} s"
    if result.out_of_memory:
        return "git ran out of memory"
    if result.exit_code in _WHY:
        return _WHY[result.exit_code]
    return f"git failed: {describe_failure(result.stderr.encode())}"
