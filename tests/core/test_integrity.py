import pytest

from gagar_cli.core.integrity import find_leads, is_copied_from, touches_runner
from gagar_cli.core.schema import ToolCall
from gagar_cli.core.turns import Turn

FIX = ["    if value is None:", "        return default_for(kind)"]


def turn(number: int, command: str = "", result: str = "") -> Turn:
    return Turn(number, "", (ToolCall("bash", f'{{"command": {command!r}}}'.replace("'", '"')),), (result,))


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        ("git log --all -p", "git-history"),
        ("git show 1a2b3c4d", "git-history"),
        ("git -C repo show HEAD~1:src/a.py", "git-history"),
        ("git cherry-pick abc", "git-history"),
        ("curl -s https://example.com/fix.patch", "upstream"),
        ("pip download tool==2.1", "installed-version"),
        ("cat /usr/lib/python3/site-packages/tool/a.py", "installed-version"),
        ("cat /eval.sh", "hidden-tests"),
        ("echo x > conftest.py", "runner"),
    ],
)
def test_calls_that_can_bring_the_answer_in_are_leads(command, kind):
    assert [lead.kind for lead in find_leads([turn(7, command)])] == [kind]


@pytest.mark.parametrize(
    "command", ["git status", "git diff", "git log --oneline -5", "git show --stat", "pip install -e ."]
)
def test_everyday_calls_are_no_leads(command):
    assert find_leads([turn(1, command)]) == ()


def test_lines_that_were_seen_before_they_were_written_are_copied():
    shown = "\n".join(f"+{line}" for line in FIX)
    assert is_copied_from(FIX, [turn(1, "git show abc", shown)], 1)


def test_a_policys_own_diff_is_no_source():
    turns = [Turn(1, "\n".join(FIX), (), ()), turn(2, "git diff", "\n".join(f"+{line}" for line in FIX))]
    assert not is_copied_from(FIX, turns, 2)


def test_short_lines_and_small_overlap_prove_nothing():
    assert not is_copied_from(["else:", "pass"], [turn(1, "git show abc", "+else:\n+pass")], 1)
    own = [f"own_line_number_{n} = compute()" for n in range(3)]
    assert not is_copied_from([*FIX[:1], *own], [turn(1, "git show abc", FIX[0])], 1)


@pytest.mark.parametrize(
    "path", ["conftest.py", "pkg/tests/conftest.py", "pytest.ini", "lib/x.pth", ".github/workflows/ci.yml"]
)
def test_what_runs_the_tests_is_told_from_the_tests(path):
    assert touches_runner([path])
    assert not touches_runner(["tests/test_a.py", "src/conftest_helper.py"])
