"""Tests of real repositories with real patches, run in both sandboxes: the verdicts of an independent run come back."""

import asyncio
import json
import subprocess
import tempfile
from pathlib import Path

import pytest

from gagar_cli.core.schema import Group, GroupKey, Task, Trajectory
from gagar_cli.core.verification import Tally, count_tests
from gagar_cli.grader.checks import TESTS_PRESET, CheckRunner
from gagar_cli.grader.workspace import Workspace
from gagar_cli.sandbox.base import Checkout, SandboxLimits
from gagar_cli.sandbox.tree import RepositoryStore

SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "data"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.shared,
    pytest.mark.skipif(not SHARED.exists(), reason="the reference data is not there"),
]

PYTEST = "/usr/bin/python3 -m pytest -rA -q -p no:cacheprovider"
# pytest of 2020 makes syntax trees that are incomplete since Python 3.10 and reads TOML with a package that the
# standard library has replaced; its version comes from git otherwise.
OLD_PYTEST = """\
echo 'version = "6.0.1"' >src/_pytest/_version.py
cat >/tmp/pytest_of_2020.py <<'END'
import ast, sys, tomllib, types
sys.modules["toml"] = types.SimpleNamespace(load=lambda path: tomllib.load(open(path, "rb")))
ast.alias = type("alias", (ast.alias,), {"lineno": 1, "col_offset": 0})
import pytest
sys.exit(pytest.main(sys.argv[1:]))
END
PYTHONPATH=src /usr/bin/python3 /tmp/pytest_of_2020.py -rA -q -p no:cacheprovider"""
COMMANDS = {"sympy__sympy-24443": PYTEST, "pytest-dev__pytest-7571": OLD_PYTEST}
PACKAGES = ("sympy", "src")
IN_MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
"""Thousands of small files are made and removed."""
N_AT_ONCE = 2


def read_task(instance_id: str) -> dict:
    with (SHARED / "swebench_groups.jsonl").open() as lines:
        return next(task for task in map(json.loads, lines) if task["instance_id"] == instance_id)


def read_expected(instance_id: str) -> tuple[dict[str, dict], list[str]]:
    """The independent runs by their label, and the test files that they ran."""
    found = json.loads((SHARED / "verified_runs" / f"{instance_id}.json").read_text())
    return {run["label"]: run for run in found["runs"]}, found["test_files"]


def distinct_patches(task: dict) -> dict[str, str]:
    """Base, gold and every patch once, by the label of the independent run."""
    patches = {"base": "", "gold": task["gold_patch"]}
    for attempt in task["attempts"]:
        if attempt["model_patch"] and attempt["model_patch"] not in patches.values():
            patches[attempt["attempt_id"]] = attempt["model_patch"]
    return patches


def command_with_tests(instance_id: str, task: dict, files: list[str]) -> str:
    """The task's test command: the tests that judge it come in as a patch of their own."""
    return (
        f"GIT_DIR=/nonexistent git apply - <<'END_OF_TESTS' || exit 99\n{task['test_patch'].rstrip()}\n"
        f"END_OF_TESTS\n{COMMANDS[instance_id]} {' '.join(files)}\n"
    )


@pytest.fixture(scope="module")
def trees():
    """The repositories, with byte code beside their sources, or every run would spend most of its time on that.

    It holds for sources of the same content only: what a patch changes is compiled anew.
    """
    with tempfile.TemporaryDirectory(prefix="gagar-test-", dir=IN_MEMORY) as run_dir:
        store = RepositoryStore(SHARED / "repos", Path(run_dir))
        found = {instance_id: store.find(instance_id, None, None).path for instance_id in COMMANDS}
        options = ["-q", "-j", "0", "--invalidation-mode", "checked-hash"]
        compiling = ["/usr/bin/python3", "-I", "-m", "compileall", *options]
        packages = [str(tree / package) for tree in found.values() for package in PACKAGES]
        subprocess.run([*compiling, *packages], check=False, stdout=subprocess.DEVNULL)
        yield found


@pytest.mark.parametrize("instance_id", COMMANDS)
def test_verdicts_are_those_of_an_independent_run(backend, trees, instance_id):
    task, (expected, files) = read_task(instance_id), read_expected(instance_id)
    patches = distinct_patches(task)
    assert len(patches) >= 10
    command = command_with_tests(instance_id, task, files)
    trajectories = tuple(Trajectory(name, 1.0, True, model_patch=patch) for name, patch in patches.items())
    group = Group(GroupKey(None, instance_id), Task(instance_id, test_command=command), trajectories)
    workspace = Workspace(group, seed=0, repository=None)
    slots = asyncio.Semaphore(N_AT_ONCE)

    async def check_all() -> dict[str, tuple[bool, Tally | None]]:
        checks = CheckRunner(
            workspace,
            backend.name,
            lambda patch: backend.open(Checkout(trees[instance_id]), patch, SandboxLimits()),
            max_seconds=300,
        )

        async def check(blind_id: str) -> tuple[bool, Tally | None]:
            async with slots:
                _, result = await checks.run(blind_id, TESTS_PRESET, None)
                return result.exit_code == 0, count_tests(PYTEST, result.stdout)

        try:
            found = await asyncio.gather(*map(check, workspace.candidates))
        finally:
            await checks.close()
        labels = (workspace.trajectory_ids[blind_id] for blind_id in workspace.candidates)
        return dict(zip(labels, found, strict=True))

    assert asyncio.run(check_all()) == {
        label: (expected[label]["resolved"], count_tests(PYTEST, expected[label]["test_output_tail"]))
        for label in patches
    }
