import pytest
from hypothesis import given
from hypothesis import strategies as st

from gagar_cli.core.patch import parse_patch
from gagar_cli.core.verification import (
    RunOutcome,
    Tally,
    count_tests,
    drop_runner_files,
    judge_runs,
    tells_count,
)

PYTEST = "python3 -m pytest -q tests"


def added(path: str) -> str:
    return f"diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+a = 1\n"


def changed(path: str) -> str:
    return f"diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-a = 1\n+a = 2\n"


def moved(old: str, new: str) -> str:
    return f"diff --git a/{old} b/{new}\nsimilarity index 100%\nrename from {old}\nrename to {new}\n"


@pytest.mark.parametrize(
    "change",
    [
        added("conftest.py"),
        changed("deep/below/conftest.py"),
        changed("pytest.ini"),
        changed("tox.ini"),
        changed("setup.cfg"),
        changed("pyproject.toml"),
        added("sitecustomize.py"),
        added("usercustomize.py"),
        added("lib/x.pth"),
        moved("conftest.py", "conftest_old.py"),
        moved("hooks.py", "conftest.py"),
        added("pytest.py"),
        added("_pytest/runner.py"),
        added("unittest/__init__.py"),
    ],
)
def test_changes_to_the_test_runner_are_taken_out(change: str) -> None:
    restored = drop_runner_files(changed("a.py") + change + added("b.py"))
    assert restored.text == changed("a.py") + added("b.py")
    assert len(restored.dropped) == 1
    assert drop_runner_files(change).text == ""


@pytest.mark.parametrize(
    "path",
    ["a.py", "tests/test_a.py", "my_conftest.py", "src/_pytest/runner.py", "setup.py", "docs/pytest.ini.md"],
)
def test_other_changes_stay(path: str) -> None:
    for patch in (added(path), changed(path)):
        assert drop_runner_files(patch) == (patch, ())


def test_the_runners_own_repository_may_change_itself() -> None:
    assert drop_runner_files(changed("unittest/case.py")).dropped == ()


@given(st.lists(st.sampled_from(["a.py", "conftest.py", "b/c.py", "tox.ini"]), unique=True), st.booleans())
def test_what_is_left_is_as_it_was(paths: list[str], has_prose: bool) -> None:
    prose = "From a mail:\n\n" if has_prose else ""
    restored = drop_runner_files(prose + "".join(map(changed, paths)))
    kept = [path for path in paths if path not in ("conftest.py", "tox.ini")]
    assert [file.path for file in parse_patch(restored.text).files] == kept
    assert "".join(map(changed, kept)) in restored.text


@given(st.text() | st.text(alphabet="diff -+@a/b\n ").map(lambda text: changed("conftest.py") + text))
def test_no_text_is_too_strange(text: str) -> None:
    restored = drop_runner_files(text)
    assert restored.dropped or restored.text == text


@pytest.mark.parametrize(
    ("output", "tally"),
    [
        ("1 failed, 2 passed in 0.53s", Tally(2, 1)),
        ("===== 3 passed, 2 warnings in 61.33s (0:01:01) =====", Tally(3, 0)),
        ("=== 2 passed, 1 skipped, 1 xfailed, 1 xpassed in 0.1s ===", Tally(2, 0, 3)),
        ("2 errors in 0.20s", Tally(0, 2)),
        ("1 passed, 1 error in 0.20s", Tally(1, 1)),
        ("no tests ran in 0.01s", Tally(0, 0)),
        ("=== no tests collected (5 deselected) in 0.10s ===", Tally(0, 0)),
        ("4 passed, 2 subtests passed in 0.01s", Tally(4, 0)),
        ("9 passed in 1.00s\nmore output\n1 passed in 0.01s", Tally(1, 0)),
        ("1 test collected in 0.00s", None),
        ("say 3 passed in 0.1s", None),
        ("", None),
    ],
)
def test_pytest_is_counted(output: str, tally: Tally | None) -> None:
    assert count_tests(PYTEST, f"..F\n{output}\n") == tally


@pytest.mark.parametrize(
    ("output", "tally"),
    [
        ("Ran 3 tests in 0.001s\n\nOK\n", Tally(3, 0)),
        ("Ran 1 test in 0.001s\n\nFAILED (errors=1)\n", Tally(0, 1)),
        ("Ran 5 tests in 0.001s\n\nOK (skipped=1, expected failures=2)\n", Tally(2, 0, 3)),
        ("Ran 0 tests in 0.000s\n\nOK\n", Tally(0, 0)),
        ("OK\n", None),
    ],
)
def test_unittest_is_counted(output: str, tally: Tally | None) -> None:
    assert count_tests("python -m unittest -v", f"...\n-----\n{output}") == tally


@pytest.mark.parametrize(
    ("command", "is_told"),
    [
        ("pytest", True),
        ("cd src && .venv/bin/pytest tests -q", True),
        ("python -m pytest -rA", True),
        ("python manage.py test app", True),
        ("python -m pytest -qq", False),
        ("make test", False),
        ("bin/test sympy", False),
    ],
)
def test_runners_that_count_are_known(command: str, is_told: bool) -> None:
    assert tells_count(command) is is_told


PASSED = RunOutcome(0, Tally(3, 0))
FAILED = RunOutcome(1, Tally(2, 1))


@pytest.mark.parametrize(
    ("plain", "verification", "doubts"),
    [
        (PASSED, PASSED, []),
        (FAILED, FAILED, []),
        (PASSED, FAILED, ["disagrees", "disagrees"]),
        (FAILED, PASSED, ["disagrees", "disagrees"]),
        (PASSED, RunOutcome(0, Tally(2, 0)), ["disagrees"]),
        (RunOutcome(0), PASSED, ["disagrees"]),
        (RunOutcome(0), RunOutcome(0), ["doubtful"]),
        (RunOutcome(0, Tally(0, 0)), RunOutcome(0, Tally(0, 0)), ["doubtful"]),
        (RunOutcome(0, Tally(1, 1)), RunOutcome(0, Tally(1, 1)), ["doubtful"]),
        (RunOutcome(None), RunOutcome(None), []),
    ],
)
def test_runs_are_compared(plain: RunOutcome, verification: RunOutcome, doubts: list[str]) -> None:
    assert [doubt.split(":")[0] for doubt in judge_runs(PYTEST, plain, verification)] == doubts


def test_the_verdicts_are_told_in_words() -> None:
    assert judge_runs(PYTEST, PASSED, FAILED) == (
        "disagrees: the plain run passes, the verification run fails",
        "disagrees: the plain run has exit 0, 3 passed; the verification run has exit 1, 2 passed, 1 failed",
    )


def test_a_command_that_does_not_count_needs_no_count() -> None:
    assert judge_runs("make test", RunOutcome(0), RunOutcome(0)) == ()


@given(st.text(alphabet="0123456789 passedfil,in.s=()RantestOK\n", max_size=300))
def test_no_output_is_too_strange(output: str) -> None:
    for command in (PYTEST, "python -m unittest"):
        for text in (
            output,
            f"{'9' * 5000} passed in 1.0s\n",
            f"Ran {'9' * 5000} tests in 1.0s\n\nOK\n",
            "=" * 50_000,
        ):
            count_tests(command, text)
