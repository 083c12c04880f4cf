import asyncio
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from gagar_cli.errors import SandboxError
from gagar_cli.sandbox import bubblewrap as module
from gagar_cli.sandbox.base import Checkout, SandboxLimits
from gagar_cli.sandbox.environment import read_environment


@pytest.fixture
def folder():
    """A directory that every user can pass through; pytest's own is private."""
    with tempfile.TemporaryDirectory(prefix="gagar-test-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def python_installation(root: Path) -> Path:
    """What looks like a Python."""
    (root / "bin").mkdir(parents=True)
    (root / "bin" / "python3").touch()
    (root / "lib" / "python3.11").mkdir(parents=True)
    (root / "lib" / "python3.11" / "os.py").touch()
    return root


def environment_of(root: Path, home: Path) -> Path:
    (root / "bin").mkdir(parents=True)
    (root / "bin" / "python").symlink_to(home / "python3")
    (root / "pyvenv.cfg").write_text(f"home = {home}\nversion = 3.11.9\n")
    return root


def run(environment, tree, script):
    async def run_once():
        backend = await module.open_backend(environment)
        sandbox = await backend.open(Checkout(tree), "", SandboxLimits())
        return await sandbox.run(["sh", "-c", script], timeout_seconds=30)

    return asyncio.run(run_once())


@pytest.mark.skipif(not Path("/usr/bin/python3").exists(), reason="there is no Python under /usr")
def test_packages_of_the_environment_are_there_and_its_programs_go_first(folder, bubblewrap, tree):
    made = environment_of(folder / "env", Path("/usr/bin"))
    for name in (f"python3.{minor}" for minor in range(9, 20)):
        (made / "lib" / name / "site-packages").mkdir(parents=True)
        (made / "lib" / name / "site-packages" / "only_here.py").write_text("NAME = 'seen'\n")
    script = (
        "python -c 'import only_here; print(only_here.NAME)'; command -v python; echo x >$VIRTUAL_ENV/new"
    )
    result = run(made, tree, script)
    assert result.stdout.splitlines() == ["seen", f"{made}/bin/python"]
    assert "Read-only" in result.stderr
    assert not (made / "new").exists()


def test_the_python_of_the_environment_runs_from_its_own_place(folder, bubblewrap, tree):
    installation = python_installation(folder / "python")
    (installation / "bin" / "python3").write_text("#!/bin/sh\necho own python\n")
    (installation / "bin" / "python3").chmod(0o755)
    (folder / "beside").write_text("not shown")
    made = environment_of(folder / "env", installation / "bin")
    result = run(made, tree, f"python; cat {folder}/beside")
    assert result.stdout == "own python\n"
    assert "No such file" in result.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs sandboxes as another user")
def test_an_environment_that_nobody_can_reach_is_told(folder, bubblewrap, tree):
    made = environment_of(folder / "closed" / "env", Path("/usr/bin"))
    (folder / "closed").chmod(0o700)
    with pytest.raises(SandboxError, match=r"cannot pass through .*/closed"):
        run(made, tree, "true")


def test_a_python_elsewhere_is_bound_too(folder):
    installation = python_installation(folder / "python")
    made = read_environment(environment_of(folder / "env", installation / "bin"))
    assert made.places == (folder / "env", installation)
    assert made.bin == folder / "env" / "bin"


def test_a_python_under_usr_needs_no_place_of_its_own(folder):
    assert read_environment(environment_of(folder / "env", Path("/usr/bin"))).places == (folder / "env",)


def test_what_is_no_environment_is_refused(folder):
    with pytest.raises(SandboxError, match="is no virtual environment"):
        read_environment(folder)


@pytest.mark.parametrize("place", ["/", "/usr", "/etc", str(Path.home())])
def test_directories_with_more_in_them_are_refused(place):
    with pytest.raises(SandboxError, match=r"no virtual environment|more than a Python"):
        read_environment(Path(place))


def test_home_is_refused_also_where_it_is_an_environment(folder, monkeypatch):
    monkeypatch.setenv("HOME", str(folder / "home" / "me"))
    for place in ("home", "home/me"):
        made = environment_of(folder / place, Path("/usr/bin"))
        with pytest.raises(SandboxError, match="holds more than a Python"):
            read_environment(made)
        (made / "bin" / "python").unlink()
        (made / "bin").rmdir()


def test_a_home_of_the_interpreter_that_is_no_python_is_refused(folder):
    (folder / "secrets" / "bin").mkdir(parents=True)
    (folder / "secrets" / "bin" / "python3").touch()
    with pytest.raises(SandboxError, match="is no installation of Python"):
        read_environment(environment_of(folder / "env", folder / "secrets" / "bin"))


def test_an_interpreter_in_the_home_directory_itself_is_refused(folder, monkeypatch):
    monkeypatch.setenv("HOME", str(folder / "me"))
    python_installation(folder / "me")
    with pytest.raises(SandboxError, match=r"the environment's Python is .* holds more"):
        read_environment(environment_of(folder / "env", folder / "me" / "bin"))


@pytest.mark.parametrize("mode", [0o777, 0o1777])
def test_what_others_may_change_is_refused(folder, mode):
    made = environment_of(folder / "env", Path("/usr/bin"))
    made.chmod(mode)
    with pytest.raises(SandboxError, match="others may change"):
        read_environment(made)


@pytest.mark.parametrize("text", ["", "home = bin\n", "version = 3.11\n"])
def test_a_configuration_without_a_home_is_refused(folder, text):
    (folder / "pyvenv.cfg").write_text(text)
    with pytest.raises(SandboxError, match="names no home"):
        read_environment(folder)


@pytest.mark.skipif(sys.prefix == sys.base_prefix, reason="the tests run without a virtual environment")
def test_the_environment_of_these_tests_can_be_read():
    prefix = Path(sys.prefix)
    if prefix.stat().st_mode & 0o002:
        pytest.skip("it is writable by all")
    assert read_environment(prefix).root == prefix.resolve()
    assert subprocess.run([read_environment(prefix).bin / "python", "-c", ""]).returncode == 0
