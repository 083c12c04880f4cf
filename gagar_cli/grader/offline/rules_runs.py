"""Rules about runs: tests that fail here and pass for the siblings, in the recorded output or when run again.

They set a flag only. Scores belong to the patch, so that byte-identical patches have the same.
"""

import re
from collections.abc import Sequence

from gagar_cli.grader.offline.blemishes import Blemish, Evidence, blemish, quote
from gagar_cli.grader.offline.facts import Candidate, Group, ShownLine

FAILED_TEST = re.compile(r"(?:\bFAILED\b|\bFAIL:|\bERROR:)\s+(\S+)")


def rule_regression(candidate: Candidate, group: Group) -> Sequence[Blemish]:
    """A test that fails here and passes for the siblings."""
    for line in group.found("FAILED", "test_output") or ():
        match = FAILED_TEST.search(line.text)
        if not match or not line.at.startswith(f"{candidate.id}:"):
            continue
        hits = group.found(match[1], "test_output") or ()
        passed = {hit.at.partition(":")[0] for hit in hits if "PASSED" in hit.text}
        failed = {hit.at.partition(":")[0] for hit in hits if "FAILED" in hit.text}
        candidates = {other.id for other in group.candidates}
        if len(passed & candidates) >= 2 and failed & candidates == {candidate.id}:
            return blemish(
                "regression", "fails a test that its siblings pass", _as_is(line), flag="regression"
            )
    return _failed_run(candidate, group)


def _failed_run(candidate: Candidate, group: Group) -> Sequence[Blemish]:
    """The tests, run again, fail here and pass for at least two others and for most."""
    run = candidate.execution
    others = [
        other.execution.exit_code == 0
        for other in group.candidates
        if other.execution and other.id != candidate.id
    ]
    if run is None or run.exit_code == 0 or sum(others) < 2 or 2 * sum(others) <= len(others):
        return []
    telling = [line for line in run.lines if re.search(r"FAILED|Error|FAIL|assert", line.text)] or list(
        run.lines
    )
    evidence = quote(telling[-1], telling, kind="exec") if telling else None
    return blemish(
        "regression", "its tests fail when run again, the siblings' pass", evidence, flag="regression"
    )


def _as_is(line: ShownLine) -> Evidence | None:
    return quote(line, [line], kind="test_output")
