"""Rules about files that are not the program's sources: tests, settings, documentation.

New tests are welcome and cost nothing; weakened ones do. Whatever half of the siblings change is part of the task.
"""

import re
from collections.abc import Iterable, Sequence

from gagar_cli.grader.offline.blemishes import Blemish, blemish, count, quote
from gagar_cli.grader.offline.facts import Candidate, Group, Hunk, PatchedFile, ShownLine
from gagar_cli.grader.offline.source import kind_of

_SKIPS = re.compile(
    r"@(?:pytest\.mark\.(?:skip|xfail)|unittest\.skip|Ignore|Disabled)|\bpytest\.(?:skip|xfail)\(|\b(?:it|test|describe)\.skip\("
)
_TEST_HEAD = re.compile(
    r"^\s*(?:async\s+)?(?:def|class|func|function|public|private|void|it|test|describe)\b"
)
_STRICT = re.compile(
    r"assert\w*(?:Equal|Is)\(|^\s*assert\b.*(?:==| is )|\.to(?:Be|Equal|StrictEqual)\(|assert_eq!"
)
_ASSERTS = re.compile(r"^\s*(?:self\.)?(?:assert|fail)|\bexpect\(|\.raises\(|\bassert\w*\(")


def rule_tests(candidate: Candidate, group: Group) -> Sequence[Blemish]:
    """Existing tests weakened: checks removed, changed or skipped. New tests are welcome."""
    found: list[Blemish] = []
    for file in candidate.files:
        if kind_of(file) != "test" or file.change == "added":
            continue
        kept = {line.text.strip() for line in file.added}
        lost = [line for line in file.removed if _ASSERTS.search(line.text) and line.text.strip() not in kept]
        skipped = [line for hunk in file.hunks for line in _skips_of_existing_tests(hunk)]
        if file.change == "deleted" and file.removed:
            found += blemish(
                "tests",
                f"deletes {file.path}",
                quote(file.removed[0], file.lines),
                costs={"side_effects": 3, "approach": 2},
            )
        elif skipped:
            found += blemish(
                "tests",
                f"skips a test in {file.path}",
                quote(skipped[0], file.lines),
                costs={"side_effects": 3, "approach": 2},
            )
        elif lost and not _siblings_change(file, candidate, group):
            is_weaker = _n_strict(lost) > _n_strict(file.added)
            verb = "weakens or removes" if is_weaker else "changes"
            costs = {"side_effects": 2, "approach": 1} if is_weaker else {"side_effects": 1}
            claim = f"{verb} {count(len(lost), 'check')} of existing tests in {file.path}"
            found += blemish("tests", claim, quote(lost[0], file.lines), costs=costs)
    return found[:2]


def _n_strict(lines: Iterable[ShownLine]) -> int:
    """How many of the lines compare with an exact value."""
    return sum(bool(_STRICT.search(line.text)) for line in lines)


def _skips_of_existing_tests(hunk: Hunk) -> list[ShownLine]:
    """Skips above or within a test that the patch does not add itself."""
    lines = [line for line in hunk.lines if line.marker != "-"]
    found = []
    for position, line in enumerate(lines):
        if line.marker != "+" or not _SKIPS.search(line.text):
            continue
        is_decorator = line.text.strip().startswith("@")
        around = lines[position + 1 :] if is_decorator else lines[:position][::-1]
        head = next((other for other in around if _TEST_HEAD.match(other.text)), None)
        if head is not None and head.marker == " ":
            found.append(line)
    return found


def rule_settings(candidate: Candidate, group: Group) -> Sequence[Blemish]:
    """Build, CI or packaging files changed without being asked for."""
    for file in candidate.files:
        name = file.path.rpartition("/")[2]
        changed = [line for line in file.lines if line.marker != " " and line.text.strip()]
        if (
            kind_of(file) != "settings"
            or not changed
            or name in group.statement
            or _siblings_change(file, candidate, group)
        ):
            continue
        return blemish(
            "settings",
            f"edits {file.path}, which the task does not ask for",
            quote(changed[0], file.lines),
            costs={"side_effects": 2, "minimality": 1},
        )
    return []


def _siblings_change(file: PatchedFile, candidate: Candidate, group: Group) -> bool:
    siblings = group.siblings(candidate)
    alike = sum(any(other.path == file.path for other in sibling.files) for sibling in siblings)
    return bool(siblings) and 2 * alike >= len(siblings)


def rule_documentation(candidate: Candidate, group: Group) -> Sequence[Blemish]:
    """Documentation rewritten at large where no sibling changes it: rarely what the task asked for."""
    for file in candidate.files:
        removed = [line for line in file.removed if line.text.strip()]
        if kind_of(file) == "docs" and len(removed) >= 6 and not _siblings_change(file, candidate, group):
            claim = f"rewrites {count(len(removed), 'line')} of {file.path}, which most passing siblings leave alone"
            return blemish(
                "documentation",
                claim,
                quote(removed[0], file.lines),
                costs={"minimality": 2, "side_effects": 1},
            )
    return []
