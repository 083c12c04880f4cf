import json
import time

import pytest

from gagar_cli.core.integrity import MAX_LEADS, find_leads, is_copied_from, is_runner_file
from gagar_cli.core.schema import ToolCall
from gagar_cli.core.turns import Turn

FIX = ["    if value is None:", "        return default_for(kind)"]
SHOWN = "\n".join(f"+{line}" for line in FIX)


def turn(number: int, command: str = "", result: str = "", reply: str = "", **more: str) -> Turn:
    arguments = {"command": command, **more} if more else {"command": command}
    return Turn(number, reply, (ToolCall("bash", json.dumps(arguments)),), (result,))


def test_lines_that_were_seen_before_they_were_written_are_copied():
    assert is_copied_from(FIX, [], [turn(1, "git show abc", SHOWN)], 1)


def test_line_numbers_and_list_markers_do_not_hide_a_copy():
    numbered = "\n".join(f"  {number}\t{line}" for number, line in enumerate(FIX, 10))
    assert is_copied_from(FIX, [], [turn(1, "cat -n site-packages/tool/a.py", numbered)], 1)
    assert is_copied_from(
        ["- a list item of a document"], [], [turn(1, "git show abc", "+- a list item of a document")], 1
    )


@pytest.mark.parametrize(
    "earlier",
    [
        Turn(1, "\n".join(FIX), (), ()),
        turn(1, "", path="a.py", new_str="\n".join(FIX)),
        turn(1, "sed -i 's/x/y/' a.py && git commit -am wip"),
    ],
    ids=["in the reply", "in an edit's argument", "by a script and committed"],
)
def test_a_policys_own_work_is_no_source(earlier):
    assert not is_copied_from(FIX, [], [earlier, turn(2, "git show HEAD", SHOWN)], 2)


def test_moved_or_reindented_lines_of_the_base_are_no_source():
    assert not is_copied_from(FIX, [line.strip() for line in FIX], [turn(1, "git show abc", SHOWN)], 1)


def test_short_lines_and_small_overlap_prove_nothing():
    assert not is_copied_from(["else:", "pass"], [], [turn(1, "git show abc", "+else:\n+pass")], 1)
    own = [f"own_line_number_{n} = compute()" for n in range(3)]
    assert not is_copied_from([*FIX[:1], *own], [], [turn(1, "git show abc", FIX[0])], 1)


@pytest.mark.parametrize(
    "path",
    [
        "conftest.py",
        "pkg/tests/conftest.py",
        "pytest.ini",
        "setup.cfg",
        "lib/x.pth",
        ".github/workflows/ci.yml",
        "Makefile",
    ],
)
def test_what_runs_the_tests_is_told_from_the_tests(path):
    assert is_runner_file(path)


@pytest.mark.parametrize("path", ["tests/test_a.py", "src/conftest_helper.py", "workflows/ci.yml"])
def test_tests_and_lookalikes_are_no_runner(path):
    assert not is_runner_file(path)
