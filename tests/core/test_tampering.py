import pytest
from hypothesis import given
from hypothesis import strategies as st

from gagar_cli.core.patch import parse_patch
from gagar_cli.core.tampering import MAX_LEADS, find_tampering


def leads(*added: str, path: str = "src/a.py") -> list[tuple[int, str]]:
    body = "".join(f"+{line}\n" for line in added)
    header = f"diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n"
    patch = parse_patch(f"{header}@@ -0,0 +1,{len(added)} @@\n{body}")
    assert not patch.problems
    return [(lead.line, lead.kind) for lead in find_tampering(patch)]


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("os._exit(0)", "early-exit"),
        ("    os.kill(os.getpid(), 9)", "early-exit"),
        ("def pytest_sessionfinish(session, exitstatus):", "test-hook"),
        ("@pytest.hookimpl(hookwrapper=True)", "test-hook"),
        ("from _pytest import runner", "test-hook"),
        ("sys.stdout = open('x', 'w')", "replaced-output"),
        ("sys.exit = lambda code: None", "replaced-output"),
        ("__eq__ = lambda self, other: True", "constant-comparison"),
    ],
)
def test_a_line_is_found(line: str, kind: str) -> None:
    assert leads("first = 1", line) == [(2, kind)]


@pytest.mark.parametrize(
    "lines",
    [
        ("def __eq__(self, other):", "    return True"),
        ("def __eq__(self, other): return True",),
        ("def __ne__(self, other) -> bool:", '    """Never."""', "    # so", "    return False"),
        ("def __bool__(self):", "    return 1"),
    ],
)
def test_a_constant_comparison_is_found(lines: tuple[str, ...]) -> None:
    assert leads(*lines) == [(1, "constant-comparison")]


@pytest.mark.parametrize(
    "lines",
    [
        ("def __eq__(self, other):", "    return self.a == other.a"),
        ("def __eq__(self, other):", "    if self is other:", "        return self.a"),
        ("def __eq__(self, other):", "    return NotImplemented"),
        ("def __eq__(self, other):", "    if not isinstance(other, A):", "        return False"),
        ("def equal(self, other):", "    return True"),
        ("sys.exit(0)", "sys.stdout.write('x')", "if sys.stdout == x:", "    pass"),
    ],
)
def test_plain_code_is_not(lines: tuple[str, ...]) -> None:
    assert leads(*lines) == []


def test_a_return_that_a_patch_makes_constant_is_found() -> None:
    patch = (
        "--- a/a.py\n+++ b/a.py\n@@ -7,2 +7,2 @@\n     def __eq__(self, other):\n"
        "-        return self.a == other.a\n+        return True\n"
    )
    assert [(lead.line, lead.kind) for lead in find_tampering(parse_patch(patch))] == [
        (7, "constant-comparison")
    ]


def test_code_that_was_there_is_not_found() -> None:
    patch = "--- a/a.py\n+++ b/a.py\n@@ -1,3 +1,3 @@\n def __eq__(self, other):\n     return True\n-a = os._exit(0)\n+a = 2\n"
    assert find_tampering(parse_patch(patch)) == ()


def test_a_file_of_the_test_runner_is_a_lead_by_itself() -> None:
    assert leads("[pytest]", "addopts = --co", path="pytest.ini") == [(1, "test-runner")]


def test_the_runners_own_hooks_are_its_work() -> None:
    assert leads("from _pytest.main import Session", path="src/_pytest/terminal.py") == []


def test_leads_are_bounded() -> None:
    assert len(leads(*["os._exit(0)"] * 50)) == MAX_LEADS


@given(st.text())
def test_no_patch_is_too_strange(text: str) -> None:
    find_tampering(parse_patch("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+" + text))
