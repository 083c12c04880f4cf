"""The rule against drive-by work: existing code rewritten that no sibling touches and the issue does not name.

Lines that come back elsewhere or deeper in the same file are moved, not rewritten. Where a candidate shares no place
with a sibling it may just solve the task elsewhere, so nothing is held against it here.
"""

import re
from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

from gagar_cli.grader.offline.blemishes import Blemish, blemish, count, quote
from gagar_cli.grader.offline.facts import Candidate, Group, Hunk, PatchedFile, ShownLine
from gagar_cli.grader.offline.rules_size import agreed_files, measure
from gagar_cli.grader.offline.source import changed_runs, kind_of, moved_texts, source_files

_NEAR_LINES = 5
"""A sibling's change so near is at the same place."""
_MIN_REWRITTEN = 6
_MIN_FOREIGN_LINES = 16
_SOME_REWRITTEN = 3
_MIN_REPLACED = 15
_MANY_TIMES = 4
_WORD = re.compile(r"[a-z][a-z0-9]{3,}")
_DEFINITION = re.compile(r"^\s*(?:async\s+)?(?:def|class|func|fn|function)\s+(\w+)")


def rule_scope(candidate: Candidate, group: Group) -> Sequence[Blemish]:
    """Existing code rewritten where no sibling changes anything: a drive-by refactor, unless the issue speaks of it."""
    siblings = group.siblings(candidate)
    foreign: list[_Run] = []
    n_changed = n_shared = 0
    for file in candidate.files:
        if kind_of(file) not in ("source", "docs"):
            continue
        moved = moved_texts(file.lines)
        theirs = _changed_base_lines(siblings, file.path)
        for hunk in file.hunks:
            for run in changed_runs(hunk):
                run = tuple(line for line in run if line.text.strip() not in moved)
                n_changed += _weight(run)
                if any(abs(line.base - other) <= _NEAR_LINES for line in run for other in theirs):
                    n_shared += _weight(run)
                elif run and not _is_asked_for(file, hunk, run, group):
                    foreign.append(_Run(file, run))
    if not foreign or not n_shared:
        return []
    n_foreign = sum(_weight(run) for _, run in foreign)
    n_rewritten = sum(map(_n_removed, foreign))
    worst = max(foreign, key=_n_removed)
    longest = max(worst.lines, key=lambda line: (line.marker == "-", len(line.text.strip())))
    evidence = quote(longest, worst.file.lines)
    is_large = n_rewritten >= _MIN_REWRITTEN and n_foreign >= _MIN_FOREIGN_LINES
    if is_large and 2 * n_foreign >= n_changed:
        claim = f"rewrites {count(n_rewritten, 'line')} in places that no sibling touches and the issue does not name"
        return blemish(
            "scope",
            claim,
            evidence,
            flag="out_of_scope",
            costs={"minimality": 3, "side_effects": 2, "consistency": 1},
        )
    if n_rewritten >= _SOME_REWRITTEN and 4 * n_foreign >= n_changed:
        claim = f"changes {count(n_rewritten, 'existing line')} in places that no sibling touches"
        return blemish("elsewhere", claim, evidence, costs={"minimality": 1, "side_effects": 1})
    return []


def rule_rewrite(candidate: Candidate, group: Group) -> Sequence[Blemish]:
    """Existing code replaced at large where the siblings changed a few lines of it."""
    siblings = [sibling for sibling in group.siblings(candidate) if measure(sibling)]
    rewritten = _rewritten_lines(candidate)
    usual = median(len(_rewritten_lines(sibling)) for sibling in siblings) if siblings else 0
    if len(rewritten) < max(_MIN_REPLACED, _MANY_TIMES * usual):
        return []
    if measure(candidate) < _MANY_TIMES * median(measure(sibling) for sibling in siblings or [candidate]):
        return []
    file, line = max(rewritten, key=lambda entry: len(entry[1].text.strip()))
    claim = f"replaces {count(len(rewritten), 'existing line')} where siblings replace {usual:g}"
    return blemish(
        "rewrite",
        claim,
        quote(line, file.lines),
        flag="out_of_scope",
        costs={"minimality": 1, "side_effects": 2},
    )


def _rewritten_lines(candidate: Candidate) -> list[tuple[PatchedFile, ShownLine]]:
    return [
        (file, line)
        for file, _ in source_files(candidate)
        for moved in [moved_texts(file.lines)]
        for line in file.removed
        if line.text.strip() and line.text.strip() not in moved
    ]


class _Run(NamedTuple):
    """Changed lines of one place."""

    file: PatchedFile
    lines: tuple[ShownLine, ...]


def _n_removed(run: _Run) -> int:
    return sum(line.marker == "-" and bool(line.text.strip()) for line in run.lines)


def _weight(run: Sequence[ShownLine]) -> int:
    return sum(bool(line.text.strip()) for line in run)


def _changed_base_lines(siblings: Sequence[Candidate], path: str) -> set[int]:
    return {
        line.base
        for sibling in siblings
        for file in sibling.files
        if file.path == path
        for line in file.lines
        if line.marker != " "
    }


def _is_asked_for(file: PatchedFile, hunk: Hunk, run: Sequence[ShownLine], group: Group) -> bool:
    """Whether the issue names what the lines belong to: the function or class around them, or an otherwise lone file."""
    statement = group.statement
    names = {
        match[1]
        for line in hunk.lines
        if line in run or line.base <= run[0].base
        if (match := _DEFINITION.match(line.text))
    }
    if any(re.search(rf"\b{re.escape(name)}\b", statement) for name in names if len(name) > 3):
        return True
    stem = file.path.rpartition("/")[2].partition(".")[0].lower()
    return file.path not in agreed_files(group) and len(stem) > 3 and stem in _WORD.findall(statement.lower())
