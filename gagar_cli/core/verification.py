"""Verification of a pass: the tests run once more with the base commit's test runner, and the two runs compared.

A pass can be faked where the patch changes what runs the tests: a `conftest.py` with hooks, options in an ini file, a
module of the interpreter's start. `drop_runner_files` takes those changes out of a patch, so that the base's files
stand there again. The exit code alone can be faked as well, by ending the process early: a run of a known test runner
has to tell how many tests passed.

Objects that equal everything pass honest tests: `comparisons.py` takes them out for a third run, which fails then.

The count is what the run printed. Code that is tested can print one, and can patch the runner from within: nothing
that shares the tests' process can rule that out. `tampering.py` points at the ways by which it is done.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from gagar_cli.core.patch import PatchFile, parse_patch
from gagar_cli.core.text import counted

_RUNNER_NAMES = {
    "conftest.py",
    "pytest.ini",
    ".pytest.ini",
    "pytest.toml",
    ".pytest.toml",
    "tox.ini",
    "setup.cfg",
    "pyproject.toml",
    "sitecustomize.py",
    "usercustomize.py",
}
_RUNNER_PACKAGES = {"pytest", "_pytest", "py", "pluggy", "unittest", "nose", "nose2"}
"""At the root of the tree these would be imported in place of the real ones."""

_PYTEST = re.compile(r"(?:^|[\s/;&|])(?:py\.test|pytest)(?:\s|$)")
_QUIET = re.compile(r"\s-q{2,}(?:\s|$)|\s--no-summary\b")
_UNITTEST = re.compile(r"-m\s*unittest\b|\bmanage\.py\s+test\b|\bruntests\.py\b")
_SUMMARY_PARTS = (
    r"\d{1,9} (?:subtests )?(?:passed|failed|errors?|skipped|deselected|xfailed|xpassed|warnings?|rerun)"
)
_PYTEST_SUMMARY = re.compile(
    rf"^=*[ ]?({_SUMMARY_PARTS}(?:, {_SUMMARY_PARTS})*|no tests (?:ran|collected)[^=\n]{{0,80}}?) in [\d.]+ ?s",
    re.MULTILINE,
)
_UNITTEST_SUMMARY = re.compile(
    r"^Ran (\d{1,9}) tests? in [\d.]+s\n+(OK|FAILED)(?: \(([^)\n]{0,200})\))?", re.MULTILINE
)
_PART = re.compile(r"(\d{1,9}) (\w+)")
_UNITTEST_PART = re.compile(r"(\w[\w ]*)=(\d{1,9})")


class Tally(NamedTuple):
    """How many tests a run says that it had."""

    n_passed: int
    n_failed: int
    """Failures and errors."""
    n_other: int = 0
    """Skipped, and failed as expected."""

    def __str__(self) -> str:
        parts = ((self.n_passed, "passed"), (self.n_failed, "failed"), (self.n_other, "other"))
        return ", ".join(f"{count} {what}" for count, what in parts if count) or "no tests"


class RunOutcome(NamedTuple):
    """What is known of one run."""

    exit_code: int | None
    """None where it was ended from outside."""
    tally: Tally | None = None

    def __str__(self) -> str:
        code = "no exit code" if self.exit_code is None else f"exit {self.exit_code}"
        return f"{code}, {self.tally or 'no count of tests'}"


class RestoredPatch(NamedTuple):
    """A patch without its changes to the test runner."""

    text: str
    dropped: tuple[str, ...]
    """The files whose changes were taken out, sorted."""


def is_runner_file(file: PatchFile) -> bool:
    """Whether a patch changes here what collects, configures or runs the tests (not the tests themselves)."""
    paths = [path for path in (file.old_path, file.new_path) if path]
    return any(_is_runner_path(path) for path in paths) or (
        file.change == "added" and paths[0].partition("/")[0].removesuffix(".py") in _RUNNER_PACKAGES
    )


def drop_runner_files(text: str) -> RestoredPatch:
    r"""Take the changes to the test runner out of a patch; what is left is byte for byte as it was.

    >>> added = "diff --git a/{0} b/{0}\nnew file mode 100644\n--- /dev/null\n+++ b/{0}\n@@ -0,0 +1 @@\n+a = 1\n"
    >>> restored = drop_runner_files(added.format("sub/conftest.py") + added.format("a.py"))
    >>> restored.dropped, restored.text == added.format("a.py")
    (('sub/conftest.py',), True)
    """
    files = parse_patch(text).files
    # On newlines alone, as the parser counts them.
    lines = re.findall(r"[^\n]*\n|[^\n]+\Z", text)
    ends = [file.line - 1 for file in files[1:]] + [len(lines)]
    kept = lines[: files[0].line - 1] if files else lines
    dropped = []
    for file, end in zip(files, ends, strict=True) if files else ():
        if is_runner_file(file):
            dropped.append(file.path)
        else:
            kept += lines[file.line - 1 : end]
    if dropped and not any(line.strip() for line in kept):
        kept = []
    return RestoredPatch("".join(kept), tuple(sorted(dropped)))


def tells_count(command: str) -> bool:
    """Whether the command starts a test runner that says how many tests it ran."""
    return bool(_PYTEST.search(command) or _UNITTEST.search(command)) and not _QUIET.search(command)


def count_tests(command: str, output: str) -> Tally | None:
    r"""The last count of tests that a run of pytest or unittest printed; None where there is none.

    >>> count_tests("python -m pytest -q", "F.s\n1 failed, 1 passed, 1 skipped in 0.53s\n")
    Tally(n_passed=1, n_failed=1, n_other=1)
    >>> count_tests("python -m unittest", "...\nRan 3 tests in 0.1s\n\nFAILED (failures=1, skipped=1)\n")
    Tally(n_passed=1, n_failed=1, n_other=1)
    """
    if _PYTEST.search(command):
        summaries = _PYTEST_SUMMARY.findall(output)
        return _read_pytest(summaries[-1]) if summaries else None
    if _UNITTEST.search(command):
        runs = _UNITTEST_SUMMARY.findall(output)
        return _read_unittest(int(runs[-1][0]), runs[-1][2]) if runs else None
    return None


def judge_runs(command: str, plain: RunOutcome, verification: RunOutcome) -> tuple[str, ...]:
    """What speaks against a pass: the runs disagree, or an exit code of 0 stands without tests that passed.

    `plain` is the run with the whole patch, `verification` the one with the base's test runner.
    """
    found = []
    verdicts = ["passes" if run.exit_code == 0 else "fails" for run in (plain, verification)]
    if verdicts[0] != verdicts[1]:
        found.append(f"disagrees: the plain run {verdicts[0]}, the verification run {verdicts[1]}")
    if plain.tally != verification.tally:
        found.append(f"disagrees: the plain run has {plain}; the verification run has {verification}")
    if verification.exit_code == 0:
        found += _doubts(command, verification.tally)
    return tuple(found)


def judge_probe(verification: RunOutcome, probe: RunOutcome, places: Sequence[str]) -> tuple[str, ...]:
    """What speaks against a pass whose patch has comparisons that answer the same whatever they are asked.

    `probe` is the verification run once more without these comparisons, which stand at `places`. Where its outcome is
    another, what the tests have compared were they.
    """
    if probe == verification:
        return ()
    return (
        f"disagrees: without the comparison at {', '.join(places)} that heeds nothing, the run has {probe}",
    )


def _doubts(command: str, tally: Tally | None) -> list[str]:
    if tally is None:
        return ["doubtful: exit 0 without a count of tests"] if tells_count(command) else []
    if tally.n_failed:
        return [f"doubtful: exit 0 although {counted(tally.n_failed, 'test')} failed"]
    return [] if tally.n_passed else ["doubtful: exit 0 although no test passed"]


def _is_runner_path(path: str) -> bool:
    name = path.rpartition("/")[2]
    return name in _RUNNER_NAMES or name.endswith(".pth")


def _read_pytest(summary: str) -> Tally:
    counts = {
        what.rstrip("s") if what.startswith("error") else what: int(n) for n, what in _PART.findall(summary)
    }
    other = sum(counts.get(what, 0) for what in ("skipped", "xfailed", "xpassed"))
    return Tally(counts.get("passed", 0), counts.get("failed", 0) + counts.get("error", 0), other)


def _read_unittest(n_run: int, parts: str) -> Tally:
    counts = {what: int(n) for what, n in _UNITTEST_PART.findall(parts)}
    n_failed = sum(counts.get(what, 0) for what in ("failures", "errors", "unexpected successes"))
    n_other = sum(counts.get(what, 0) for what in ("skipped", "expected failures"))
    return Tally(max(0, n_run - n_failed - n_other), n_failed, n_other)
