"""Leads in a patch: added lines by which a pass can be faked. They prove nothing: the grader looks at them.

What shares the tests' process can fake them in ways that no second run tells apart: objects that equal everything,
an early end of the process, hooks into the runner. Those are found in the patch itself, by what they look like, so
a disguised one is not.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from gagar_cli.core.comparisons import find_comparisons
from gagar_cli.core.patch import Patch, PatchFile
from gagar_cli.core.verification import is_runner_file

MAX_LEADS = 20
"""Of one patch: the first ones say enough."""

_LINES = {
    "early-exit": re.compile(r"\bos\._exit\s*\(|\bos\.abort\s*\(|\bos\.kill\s*\(\s*os\.getpid\("),
    "test-hook": re.compile(
        r"\bdef pytest_\w+\s*\(|\bpytest\.hookimpl\b|^\s*(?:from|import)\s+_pytest\b|\bpytest_plugins\s*="
    ),
    "replaced-output": re.compile(r"^\s*sys\.(?:stdout|stderr|exit)\s*=[^=]"),
}
_RUNNER_SOURCE = re.compile(r"(?:^|/)_?pytest/")
"""The test runner's own repository."""


class PatchLead(NamedTuple):
    """An added line that is worth the grader's look."""

    path: str
    line: int
    """In the patched file."""
    kind: str
    text: str


def find_tampering(patch: Patch) -> tuple[PatchLead, ...]:
    """Lines of a patch by which tests can be made to pass, in order; at most `MAX_LEADS`."""
    leads = [lead for file in patch.files for lead in _file_leads(file)]
    return tuple(leads[:MAX_LEADS])


def _file_leads(file: PatchFile) -> Iterator[PatchLead]:
    added = [line for hunk in file.hunks for line in hunk.lines if line.marker == "+"]
    if is_runner_file(file):
        first = added[0] if added else None
        yield PatchLead(
            file.path, (first and first.new_line) or 1, "test-runner", first.text if first else ""
        )
    kinds = sorted(_LINES.keys() - ({"test-hook"} if _RUNNER_SOURCE.search(file.path) else set()))
    for line in added:
        for kind in kinds:
            if _LINES[kind].search(line.text):
                yield PatchLead(file.path, line.new_line or 1, kind, line.text)
    for hunk in file.hunks:
        for found in find_comparisons(file.path, hunk):
            yield PatchLead(file.path, found.line, "constant-comparison", found.text)
