import json

import pytest

from gagar_cli.core.integrity import AddedLines, changes_file, is_copied_from
from gagar_cli.core.leads import find_leads
from gagar_cli.core.patch import parse_patch
from gagar_cli.core.runner_files import changes_runner, is_runner_path
from gagar_cli.core.schema import ToolCall
from gagar_cli.core.turns import Turn

FIX = ["    if value is None:", "        return default_for(kind)"]
SHOWN = "\n".join(f"+{line}" for line in FIX)


def turn(number: int, command: str = "", result: str = "", reply: str = "", **more: str) -> Turn:
    arguments = {"command": command, **more} if more else {"command": command}
    return Turn(number, reply, (ToolCall("bash", json.dumps(arguments)),), (result,))


def is_copied(lines, turns, number, known=(), **more):
    added = AddedLines({"a.py": list(lines)}, list(known), **more)
    return is_copied_from(added, turns, find_leads(turns), number, "a.py")


def test_lines_that_were_seen_before_they_were_written_are_copied():
    assert is_copied(FIX, [turn(1, "git show abc", SHOWN)], 1)


def test_what_a_turn_that_is_no_lead_shows_is_not_copied():
    assert not is_copied(FIX, [turn(1, "cat src/other.py", SHOWN)], 1)


def test_line_numbers_and_list_markers_do_not_hide_a_copy():
    numbered = "\n".join(f"  {number}\t{line}" for number, line in enumerate(FIX, 10))
    assert is_copied(FIX, [turn(1, "cat -n site-packages/tool/a.py", numbered)], 1)
    item = "- a list item of a document"
    assert is_copied([item], [turn(1, "git show abc", f"+{item}")], 1)


@pytest.mark.parametrize(
    "earlier",
    [
        Turn(1, "\n".join(FIX), (), ()),
        turn(1, "", path="a.py", new_str="\n".join(FIX)),
        turn(1, "sed -i 's/x/y/' a.py && git commit -am wip"),
        turn(1, "sed -i 's/x/y/' a.py && git diff", SHOWN),
        turn(1, "sed -i 's/x/y/' a.py; cat a.py", "\n".join(FIX)),
    ],
    ids=[
        "in the reply",
        "in an edit's argument",
        "by a script and committed",
        "by a script, and shown",
        "read",
    ],
)
def test_a_policys_own_work_is_no_source(earlier):
    assert not is_copied(FIX, [earlier, turn(2, "git show HEAD~1", SHOWN)], 2)


def test_a_commit_of_its_own_excuses_nothing_that_comes_from_elsewhere():
    own = turn(1, "git commit --allow-empty -m x")
    assert is_copied(FIX, [own, turn(2, "git show origin/main", SHOWN)], 2)
    assert is_copied(FIX, [own, turn(2, "curl https://x/a.py", SHOWN)], 2)


@pytest.mark.parametrize(
    ("command", "is_source"),
    [
        ("git diff origin/main", False),
        ("git diff origin/main -- a.py", False),
        ("git diff origin/main HEAD", False),
        ("git diff HEAD origin/main", True),
        ("git diff HEAD..origin/main", True),
        ("git diff origin/main; git show origin/main", True),
    ],
)
def test_the_working_trees_side_of_a_diff_is_its_own_work(command, is_source):
    turns = [turn(1, "sed -i 's/x/y/' a.py"), turn(2, command, SHOWN)]
    assert is_copied(FIX, turns, 2) is is_source


def test_the_other_side_of_a_diff_is_a_source():
    removed = "\n".join(f"-{line}" for line in FIX)
    assert is_copied(FIX, [turn(1, "git diff origin/main", removed)], 1)


def test_what_the_task_quotes_is_no_source():
    assert not is_copied(FIX, [turn(1, "git show abc", SHOWN)], 1, told="try:\n" + "\n".join(FIX))


def test_moved_or_reindented_lines_of_the_base_are_no_source():
    known = [line.strip() for line in FIX]
    assert not is_copied(FIX, [turn(1, "git show abc", SHOWN)], 1, known)


def test_short_lines_and_small_overlap_prove_nothing():
    assert not is_copied(["else:", "pass"], [turn(1, "git show abc", "+else:\n+pass")], 1)
    own = [f"own_line_number_{n} = compute()" for n in range(3)]
    assert not is_copied([*FIX[:1], *own], [turn(1, "git show abc", FIX[0])], 1)


def test_a_long_test_beside_a_copied_fix_does_not_dilute_it():
    fix = [f"copied_line_number_{n} = compute()" for n in range(5)]
    added = AddedLines({"a.py": fix, "t.py": [f"assert own_line_{n} == {n}" for n in range(50)]}, [])
    turns = [turn(1, "git show abc", "\n".join(fix))]
    assert is_copied_from(added, turns, find_leads(turns), 1, "a.py")
    assert not is_copied_from(added, turns, find_leads(turns), 1, "t.py")
    few = AddedLines({"a.py": fix[:4], "t.py": added.by_path["t.py"]}, [])
    assert not is_copied_from(few, turns, find_leads(turns), 1, "a.py")


@pytest.mark.parametrize(
    "path",
    [
        "conftest.py",
        "pkg/tests/conftest.py",
        "pytest.ini",
        ".pytest.ini",
        "setup.cfg",
        "lib/x.pth",
        ".github/workflows/ci.yml",
        "Makefile",
    ],
)
def test_what_runs_the_tests_is_told_from_the_tests(path):
    assert is_runner_path(path)


@pytest.mark.parametrize("path", ["tests/test_a.py", "src/conftest_helper.py", "workflows/ci.yml"])
def test_tests_and_lookalikes_are_no_runner(path):
    assert not is_runner_path(path)


def patched(path: str, *lines: str):
    body = "".join(f"{line}\n" for line in lines)
    n_old, n_new = (sum(line[0] in signs for line in lines) for signs in (" -", " +"))
    head = f"diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n@@ -1,{n_old} +1,{n_new} @@\n"
    (file,) = parse_patch(head + body).files
    return file


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        (patched("conftest.py", " import os", "+collect_ignore = ['a']"), True),
        (patched("setup.cfg", " install_requires =", "+    attrs"), False),
        (patched("pyproject.toml", " [tool.pytest.ini_options]", "+addopts = '-k not_slow'"), True),
        (patched("src/a.py", " import os", "+test = 1"), False),
    ],
    ids=["conftest", "a dependency", "options", "code"],
)
def test_settings_of_other_things_are_no_change_of_the_runner(file, expected):
    assert changes_runner(file) is expected


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (turn(1, "echo \"collect_ignore = ['a']\" >> pkg/conftest.py"), True),
        (turn(1, "sed -i s/a/b/ pkg/conftest.py"), True),
        (turn(1, "", path="/repo/pkg/conftest.py", old_str="a", new_str="b"), True),
        (turn(1, "python -c \"open('pkg/conftest.py', 'w').write(x)\""), True),
        (turn(1, "edit 1:2\ncollect_ignore = ['a']\nend_of_edit"), True),
        (turn(1, "cat pkg/conftest.py"), False),
        (turn(1, "pytest", "loaded conftest.py > ok"), False),
        (turn(1, "sed -i s/a/b/ src/a.py && cat pkg/conftest.py"), False),
        (Turn(1, "I will not touch conftest.py", (), ("",)), False),
    ],
)
def test_a_turn_that_changes_a_file_is_told_from_one_that_names_it(one, expected):
    file = patched("pkg/conftest.py", " import os", "+collect_ignore = ['a']")
    assert changes_file(one, file) is expected
