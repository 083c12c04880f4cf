"""What came back in a turn, in a few words: exit code, tests, the error, how much there was.

Everything is read from what the agent's tools printed, so it is no more than they say: a reading aid, never evidence.
Only the two ends of a result are looked at, line by line: the time does not grow with a log, whatever is in it.
"""

import re
from collections.abc import Iterable, Sequence

from gagar_cli.core.text import count_lines, fold_whitespace, shorten

MAX_OUTCOME_CHARS = 110
_WINDOW_CHARS = 4_000
_ERROR_LINES = 8
"""An error that ended a command is among its last lines."""

_EXIT_CODES = (
    re.compile(r"<returncode>(-?\d{1,6})</returncode>"),
    re.compile(r"\bexit(?:ed with)?[ _](?:code|status)[\"']?:? ?(-?\d{1,6})\b", re.IGNORECASE),
    re.compile(r"[\"']returncode[\"']: ?(-?\d{1,6})\b"),
)
_FRAME = re.compile(
    r"^(?:</?(?:output|returncode|stdout|stderr|output_head|output_tail)>|<returncode>|\(Open file: |\(Current directory: |"
    r"bash-\$|OBSERVATION:$|\[The command |\[Command |\[Current working directory: |\[Python [Ii]nterpreter: |"
    r"\[Finished |Exit code: |EXECUTION RESULT of )"
)
_OPEN_FILE = re.compile(
    r"^(?:\[File: (\S{1,300}) \(\d{1,9} lines total\)\]|\(Open file: (\S{1,300})\))$", re.MULTILINE
)
_TIMED_OUT = re.compile(r"\btimed out\b|\bTimeoutExpired\b|\btimeout: sending signal\b")
_COUNTED = re.compile(r"(\d{1,7}) (passed|failed|errors?|passing|failing)\b")
_UNITTEST = re.compile(r"^Ran (\d{1,7}) tests? in ")
_UNITTEST_BAD = re.compile(r"(?:failures|errors)=(\d{1,7})")
_MAVEN = re.compile(r"Tests run: (\d{1,7}), Failures: (\d{1,7}), Errors: (\d{1,7})")
_GO = re.compile(r"^(ok|FAIL)\s+\S+\s+(?:\(cached\)|[\d.]+s)")
_SUMMARY_MARKS = (" in ", "test result:", "Tests:", "passing", "failing", "tests finished")
_TESTS_MARKS = ("\nRan ", "Tests run: ", "\nok", "\nFAIL", *_SUMMARY_MARKS)
"""Most outputs tell of no tests: those that hold none of these are not gone through line by line."""
_ERROR = re.compile(
    r"^(?:[A-Za-z_][\w.]{0,80}(?:Error|Exception|Interrupt|Warning|Exit)\b|[^\s:]{0,80}: (?:line \d{1,6}: )?[^\n]{0,120}"
    r"(?:command not found|No such file or directory|Permission denied)|- E\d{3} |ERROR:|error:|fatal: |[^\s:]{1,120}:\d{1,7}(?::\d{1,7})?: error:)"
)
_INTERPRETER = "[Python Interpreter: "
"""OpenHands puts it behind the last line, without a newline between."""
_ERRORS_IN_SECONDS = re.compile(r"\berrors? in [\d.]+ ?s")
_NO_OUTPUT = "did not produce any output"
_REFUSED_EDIT = "introduced new syntax error"


def describe_outcome(results: Sequence[str], *, is_edit: bool = False) -> str:
    """The outcome in at most `MAX_OUTCOME_CHARS` characters; empty where nothing came back.

    Of an edit it is enough that it was made: its results repeat the file.
    """
    if not results:
        return ""
    window = "\n".join(_ends(result) for result in results[:_ERROR_LINES])
    lines = [line.partition(_INTERPRETER)[0].rstrip() for line in window.split("\n")]
    told = [line for line in lines if line.strip() and not _FRAME.match(line)]
    code = _exit_code(window)
    parts = [f"exit {code}"] if code is not None else []
    if any(_TIMED_OUT.search(line) for line in (*told[:3], *told[-3:])):
        parts.append("timed out")
    tests = _tests(told)
    error = _error(told) if not tests and code != 0 else None
    parts += [part for part in (tests, error) if part]
    n_lines = sum(map(count_lines, results))
    n_shown = len(told) if len(lines) <= n_lines + len(results) else n_lines
    if is_edit and not (tests or error):
        parts.append("done")
    elif not n_shown or any(_NO_OUTPUT in line for line in told[-1:]):
        parts.append("no output")
    elif n_shown <= 2:
        parts += [] if tests or error else [fold_whitespace(" ".join(told))]
    else:
        parts.append(f"{n_shown} lines")
    return shorten(", ".join(parts), MAX_OUTCOME_CHARS)


def told_tests(output: str) -> str | None:
    """How many tests passed and failed by the summary that a test output has; None where it has none that is known."""
    lines = [line.rstrip() for line in _ends(output).split("\n")]
    return _tests([line for line in lines if line.strip()])


def find_open_file(results: Sequence[str]) -> str | None:
    """The file that an editor says it shows, for edits that do not name theirs."""
    found = (match for result in results for match in _OPEN_FILE.finditer(_ends(result)))
    return next((match[1] or match[2] for match in found), None)


def _ends(text: str) -> str:
    if len(text) <= 2 * _WINDOW_CHARS:
        return text
    return f"{text[:_WINDOW_CHARS]}\n{text[-_WINDOW_CHARS:]}"


def _exit_code(window: str) -> int | None:
    """The last one told, in the first form that tells any; tools print it first or last."""
    for pattern in _EXIT_CODES:
        ends = (window[:200], window[-400:])
        found = [match for end in ends for match in pattern.finditer(end)]
        if found:
            return int(found[-1][1])
    return None


def _tests(lines: Sequence[str]) -> str | None:
    """How many tests passed and failed, where a test runner's summary is among the last lines."""
    whole = "\n".join(("", *lines))
    if not any(mark in whole for mark in _TESTS_MARKS):
        return None
    passed = failed = 0
    found = False
    for place, line in enumerate(lines):
        if len(line) > 300:
            continue
        if (match := _UNITTEST.match(line)) and place + 1 < len(lines):
            bad = sum(int(count) for count in _UNITTEST_BAD.findall(lines[place + 1]))
            passed, failed, found = int(match[1]) - bad, bad, True
        elif match := _MAVEN.search(line):
            bad = int(match[2]) + int(match[3])
            passed, failed, found = int(match[1]) - bad, bad, True
        elif match := _GO.match(line):
            passed, failed, found = passed + (match[1] == "ok"), failed + (match[1] == "FAIL"), True
        elif any(mark in line for mark in _SUMMARY_MARKS):
            counts = _COUNTED.findall(line)
            if all(what.startswith("error") for _, what in counts) and not _ERRORS_IN_SECONDS.search(line):
                continue  # a compiler or type checker counts errors too
            # Mocha tells each on its own line; every other runner tells all on one.
            if counts and not (found and counts[0][1] == "failing"):
                passed, failed = 0, 0
            for count, what in counts:
                good = what in ("passed", "passing")
                passed, failed = passed + int(count) * good, failed + int(count) * (not good)
                found = True
    return f"tests {passed} passed, {failed} failed" if found else None


def _error(lines: Iterable[str]) -> str | None:
    """The error that ended it; a rejected edit, by the first of its errors."""
    last = list(lines)
    if any(_REFUSED_EDIT in line for line in last[:3]):
        what = next((line for line in last if _ERROR.match(line)), None)
        return shorten(f"edit rejected: {what.removeprefix('- ')}", 80) if what else "edit rejected"
    for place in [*reversed(range(len(last))[-_ERROR_LINES:]), *range(len(last))[:2]]:
        if _ERROR.match(last[place][:400]):
            # Some tools put a bare heading above what is wrong.
            told = " ".join(last[place : place + 2]) if last[place].endswith(":") else last[place]
            return shorten(fold_whitespace(told), 80)
    return None
