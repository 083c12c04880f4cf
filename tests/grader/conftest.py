from typing import Any

import pytest

from gagar_cli.core.schema import Group, GroupKey, Message, Task, ToolCall, Trajectory

BASE = "def total(rows):\n    return sum(rows)\n\n\ndef label(row):\n    return str(row)\n"

GOOD_PATCH = """\
diff --git a/src/table.py b/src/table.py
--- a/src/table.py
+++ b/src/table.py
@@ -1,2 +1,2 @@
 def total(rows):
-    return sum(rows)
+    return sum(row.value for row in rows)
"""

NOISY_PATCH = """\
diff --git a/src/table.py b/src/table.py
--- a/src/table.py
+++ b/src/table.py
@@ -1,2 +1,3 @@
 def total(rows):
-    return sum(rows)
+    print("debugging the rows", rows)
+    return sum(row.value for row in rows)
"""


class StaticRepository:
    """A repository of literal files."""

    def __init__(self, **files: str) -> None:
        self._files = {"src/table.py": BASE, **files}

    def list_files(self) -> tuple[str, ...]:
        return tuple(sorted(self._files))

    def read_text(self, path: str) -> str | None:
        return self._files.get(path)


def trajectory(name: str, patch: str | None, *, passed: bool = True, **changes: Any) -> Trajectory:
    messages = (
        Message("user", "total() ignores row.value"),
        Message("assistant", "", (ToolCall("bash", '{"command": "grep -n total src/table.py"}'),)),
        Message("tool", "1:def total(rows):"),
    )
    values = {"messages": messages, "model_patch": patch, "test_output": "ran 3 tests\nOK", **changes}
    return Trajectory(name, float(passed), passed, **values)


@pytest.fixture
def group() -> Group:
    """Two passing attempts, the second with a debug print, and a failing one."""
    return Group(
        GroupKey(7, "tables"),
        Task(
            "tables-1",
            "total() ignores row.value",
            "demo/tables",
            "abc123",
            test_command="python3 -m unittest",
        ),
        (
            trajectory("policy-x/good", GOOD_PATCH),
            trajectory("policy-x/noisy", NOISY_PATCH),
            trajectory("policy-x/failed", "", passed=False),
        ),
    )


@pytest.fixture
def repository() -> StaticRepository:
    return StaticRepository()
