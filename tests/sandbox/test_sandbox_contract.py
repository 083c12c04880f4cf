"""What every backend promises, one property a test, run against each that works here."""

import pytest

from gagar_cli.errors import SandboxError

PATCH = """\
diff --git a/table.py b/table.py
--- a/table.py
+++ b/table.py
@@ -1,2 +1,2 @@
 def total(rows):
-    return sum(rows)
+    return sum(row.value for row in rows)
"""


def test_a_failing_command_is_a_result(held):
    assert held.shell("exit 7").exit_code == 7
    assert held.run("no-such-program").exit_code == 127


def test_streams_are_told_apart(held):
    result = held.shell("echo out; echo err >&2")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "out\n", "err\n")
    assert (result.timed_out, result.out_of_memory, result.truncated) == (False, False, False)


def test_the_command_has_no_input(held):
    assert held.run("cat").stdout == ""


def test_the_patch_is_applied(hold):
    assert "row.value" in hold(PATCH).run("cat", "table.py").stdout


def test_a_patch_without_a_final_newline_is_applied(hold):
    assert "row.value" in hold(PATCH.rstrip("\n")).run("cat", "table.py").stdout


def test_files_can_be_added_and_deleted(hold):
    patch = (
        "diff --git a/docs/notes.txt b/docs/notes.txt\ndeleted file mode 100644\n--- a/docs/notes.txt\n+++ /dev/null\n"
        "@@ -1 +0,0 @@\n-notes\ndiff --git a/new/a.txt b/new/a.txt\nnew file mode 100644\n--- /dev/null\n"
        "+++ b/new/a.txt\n@@ -0,0 +1 @@\n+new\n"
    )
    assert hold(patch).shell("find . -type f | sort").stdout.split() == ["./new/a.txt", "./table.py"]


def test_a_patch_that_does_not_apply_is_named(hold):
    with pytest.raises(SandboxError, match=r"patch failed: table\.py:1"):
        hold(PATCH.replace("sum(rows)", "max(rows)")).run("true")


def test_a_patch_that_leaves_the_repository_is_refused(hold):
    patch = "diff --git a/../x b/../x\nnew file mode 100644\n--- /dev/null\n+++ b/../x\n@@ -0,0 +1 @@\n+x\n"
    with pytest.raises(SandboxError, match="invalid path"):
        hold(patch).run("true")


def test_a_bare_repository_in_the_tree_runs_nothing(hold, supply):
    """`git apply` must not take the tree's own configuration for its repository's."""
    tree = supply(
        **{
            "table.py": "def total(rows):\n    return sum(rows)\n",
            "HEAD": "ref: refs/heads/main\n",
            "config": '[core]\nfsmonitor = touch /tmp/ran\nhooksPath = .\n[filter "x"]\nclean = touch /tmp/ran\n'
            "smudge = touch /tmp/ran\nrequired = true\n",
            "objects/x": "",
            "refs/x": "",
            ".gitattributes": "* filter=x\n",
        }
    )
    result = hold(PATCH, tree=tree).shell("test ! -e /tmp/ran && grep row.value table.py")
    assert result.exit_code == 0


def test_output_keeps_head_and_tail(held):
    result = held.shell("echo first; seq 100000; echo last")
    assert result.exit_code == 0
    assert result.truncated
    assert result.stdout.startswith("first\n1\n")
    assert result.stdout.endswith("100000\nlast\n")
    assert len(result.stdout) < 20_100
    assert "bytes dropped" in result.stdout


def test_endless_output_ends_the_command(held):
    result = held.run("yes", timeout_seconds=30)
    assert result.exit_code is None
    assert result.truncated
    assert not result.timed_out


def test_every_command_starts_from_the_same_state(held):
    spoil = "echo x >table.py; touch new /tmp/.new /dev/shm/new; mkdir closed; chmod 0 closed; (sleep 300 &) >/dev/null 2>&1"
    assert held.shell(spoil).exit_code == 0
    result = held.shell(
        "cat table.py; find . /tmp /dev/shm -name '*new'; ls -d closed; cat /proc/[0-9]*/cmdline"
    )
    assert "sum(rows)" in result.stdout
    assert "new" not in result.stdout.replace("*new", "").replace("new /tmp", "")
    assert "sleep\x00300" not in result.stdout


def test_the_checkout_is_writable_throughout(held):
    assert (
        held.shell("echo x >>docs/notes.txt && mkdir docs/more && mv docs moved && rm -r moved").exit_code
        == 0
    )


def test_an_exit_code_is_told_while_children_hold_the_output(held):
    result = held.shell("sleep 300 & echo done; exit 3", timeout_seconds=30)
    assert (result.exit_code, result.stdout) == (3, "done\n")
