"""Pickles into JSON lines, in a sandbox: the one way in which a pickle is read, and only on demand.

The program that reads it (`sandbox/unpickle.py`) runs nothing that a pickle names; that it runs in a sandbox of
bubblewrap, without network and with nothing of this machine but the file, is for what nobody thought of. What comes out
is text from a stranger like any dump.
"""

import asyncio
import json
import os
import shutil
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from gagar_cli.core.text import escape_untrusted, shorten
from gagar_cli.errors import InputError, OutputError, SandboxError
from gagar_cli.io.streams import MAX_SPOOL_BYTES, show_path
from gagar_cli.sandbox import unpickle, unpickle_numbers
from gagar_cli.sandbox.base import Checkout, SandboxLimits, sandbox_user
from gagar_cli.sandbox.bubblewrap import open_backend
from gagar_cli.sandbox.launcher import BASE
from gagar_cli.sandbox.output import FileOutput

SUFFIXES = (".pt", ".pkl", ".pickle")
MAX_SECONDS = 900.0
_LIMITS = SandboxLimits(memory_bytes=4 * 1024**3, n_processes=16)
_START = f"import sys; sys.path.insert(0, {BASE!r}); from gagar_cli.sandbox.unpickle import main; sys.exit(main('{BASE}/dump'))"
_NOT_FOUND = 127


def unpickled(paths: Sequence[str], stack: ExitStack) -> dict[str, str]:
    """Files of JSON lines for the pickles among some inputs, each with the path that it was made of; others as they are.

    The files go when the stack closes. Raises:
        SandboxError: there is no bubblewrap on this machine.
        InputError: a file is no dump that is read here, or refers to anything but plain values.
    """
    made: dict[str, str] = {}
    for path in paths:
        found = _pickles_of(path)
        if not found:
            made[path] = path
        for each in found:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gagar-pickle-")))
            lines = folder / f"{each.name}.jsonl"
            asyncio.run(_convert(each, lines))
            made[str(lines)] = str(each)
    return made


def _pickles_of(path: str) -> list[Path]:
    named = Path(path)
    if path == "-" or not named.exists():
        return []
    if named.is_dir():
        return sorted(each for each in named.rglob("*") if each.suffix in SUFFIXES and each.is_file())
    return [named] if named.suffix in SUFFIXES and named.is_file() else []


async def _convert(source: Path, target: Path) -> None:
    backend = await _backend()
    with tempfile.TemporaryDirectory(prefix="gagar-unpickle-") as folder, target.open("wb") as stream:
        tree = Path(folder)
        tree.chmod(0o755)
        package = tree / "gagar_cli" / "sandbox"
        copy = tree / "dump"
        try:
            package.mkdir(parents=True)
            for module in (unpickle, unpickle_numbers):
                shutil.copy(str(module.__file__), package)
            shutil.copyfile(source, copy)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise OutputError(f"{show_path(source)}: cannot be copied for the sandbox: {reason}") from error
        user = sandbox_user()
        for each in (tree, *tree.rglob("*")) if user.must_switch else ():
            os.chown(each, user.uid, user.gid)
        sandbox = await backend.open(Checkout(tree, is_copied=False), "", _LIMITS)
        try:
            result = await sandbox.run(
                ["python3", "-I", "-c", _START],
                timeout_seconds=MAX_SECONDS,
                stdout=FileOutput(stream, MAX_SPOOL_BYTES),
            )
        finally:
            await sandbox.close()
    _check(result, source)


async def _backend() -> Any:
    try:
        return await open_backend()
    except SandboxError as error:
        raise SandboxError(
            f"pickles are read in a sandbox only, and there is none: {error.message}", error.hint
        ) from error


def _check(result: Any, source: Path) -> None:
    name = show_path(source)
    if result.exit_code == 0 and not result.truncated:
        return
    if result.exit_code == _NOT_FOUND:
        raise SandboxError("pickles are read by a python3 under /usr, and there is none", "install python3")
    if result.timed_out:
        raise InputError(f"{name}: not read within {MAX_SECONDS:.0f} seconds")
    if result.out_of_memory:
        raise InputError(f"{name}: takes more than {_LIMITS.memory_bytes / 1024**3:.0f} GiB to read")
    if result.truncated:
        raise InputError(f"{name}: expands beyond {MAX_SPOOL_BYTES / 1e9:.0f} GB")
    last = result.stderr.strip().rpartition("\n")[2]
    try:
        reason = str(json.loads(last))
    except ValueError:
        reason = f"its reader ended with {result.exit_code}"
    raise InputError(f"{name}: not read: {shorten(escape_untrusted(reason, keep_newlines=False), 300)}")
