import asyncio
from dataclasses import replace

import pytest

from gagar_cli.core.schema import Group
from gagar_cli.grader.checks import CheckRunner
from gagar_cli.grader.tools import Toolbox
from gagar_cli.grader.workspace import Workspace
from gagar_cli.sandbox.base import ExecResult

HOOKS = (
    "diff --git a/conftest.py b/conftest.py\nnew file mode 100644\n--- /dev/null\n+++ b/conftest.py\n"
    "@@ -0,0 +1 @@\n+import os\n"
)


class RunnerSandbox:
    """Passes three tests where the patch brings a conftest, else fails one of them."""

    def __init__(self, patch: str) -> None:
        self.patch = patch

    async def run(self, command, *, timeout_seconds: float) -> ExecResult:
        if "conftest" in self.patch:
            return ExecResult(0, "...\n", "Ran 3 tests in 0.001s\n\nOK\n", 0.25)
        return ExecResult(1, "..F\n", "Ran 3 tests in 0.001s\n\nFAILED (failures=1)\n", 0.25)

    async def close(self) -> None:
        pass


def verify(group: Group, **task) -> tuple[str, list[str]]:
    """What the tool shows for `c01`, and the patches that sandboxes were opened for."""
    workspace = Workspace(replace(group, task=replace(group.task, **task)), seed=0, repository=None)
    opened: list[str] = []

    async def open_sandbox(patch: str) -> RunnerSandbox:
        opened.append(patch)
        return RunnerSandbox(patch)

    async def ask() -> str:
        checks = CheckRunner(workspace, "runner", open_sandbox, max_seconds=60)
        return await Toolbox(workspace, checks).call("run_check", {"candidate": "c01", "command": "verify"})

    return asyncio.run(ask()), opened


@pytest.fixture
def with_hooks(group: Group) -> Group:
    changed = tuple(replace(one, model_patch=(one.model_patch or "") + HOOKS) for one in group.trajectories)
    return replace(group, trajectories=changed)


def test_a_disagreement_is_told_above_the_output(with_hooks):
    answer, opened = verify(with_hooks)
    assert answer.splitlines()[:6] == [
        "c01:exec:2 exit 1, 0.2 s",
        "this run has the base commit's test runner; left out of the patch:",
        "  file│conftest.py",
        "the run with the whole patch, c01:exec:1: exit 0, 3 passed",
        "verification disagrees: the plain run passes, the verification run fails",
        "verification disagrees: the plain run has exit 0, 3 passed; the verification run has exit 1, 2 passed, 1 failed",
    ]
    assert "c01:exec:2:1│..F" in answer
    assert [("conftest" in patch, "src/table.py" in patch) for patch in opened] == [
        (True, True),
        (False, True),
    ]


def test_one_run_is_both_where_the_test_runner_is_untouched(group):
    answer, opened = verify(group)
    assert answer.splitlines()[:3] == [
        "c01:exec:1 exit 1, 0.2 s",
        "the patch changes no file of the test runner: one run is both",
        "verification found nothing",
    ]
    assert len(opened) == 1


def test_a_success_without_a_count_is_doubted(with_hooks):
    answer, _ = verify(with_hooks, test_command="python3 -m pytest")
    assert "exit 0, no count of tests" in answer


def test_a_task_without_a_test_command_has_nothing_to_verify(group):
    answer, opened = verify(group, test_command=None)
    assert answer.startswith("error: the task names no test command")
    assert opened == []


def test_changes_of_the_test_runner_are_leads(with_hooks):
    overview = asyncio.run(Toolbox(Workspace(with_hooks, seed=0, repository=None), None).call("overview", {}))
    assert "  c01:conftest.py:1 test-runner│import os" in overview.splitlines()
