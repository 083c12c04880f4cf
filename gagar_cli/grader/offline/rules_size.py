"""Rules of size and place: how much a patch changes, and where, against its passing siblings.

What is small enough is not absolute: the smallest passing patch shows that the task could be solved with so much.
Documentation and new tests cost nothing; removed lines of any kind count, for somebody has to review them.
"""

from collections import Counter
from collections.abc import Sequence
from statistics import median

from gagar_cli.core.text import counted
from gagar_cli.grader.offline.blemishes import Blemish, Evidence, blemish, count, quote
from gagar_cli.grader.offline.facts import Candidate, Group, PatchedFile, ShownLine
from gagar_cli.grader.offline.rules_literals import find_special_cases
from gagar_cli.grader.offline.source import changed_runs, code_lines, kind_of, language_of, moved_texts

_SIZE_STEPS = ((1.5, 3), (3, 12), (6, 30))
"""Score 5, 4, 3 up to so many times the smallest patch's lines, or so many lines more: whichever allows more."""


def measure_file(file: PatchedFile) -> int:
    """Lines that a reviewer must weigh: added code and whatever was removed; 0 outside the sources."""
    if kind_of(file) != "source":
        return 0
    n_added = len(code_lines(file.added, language_of(file.path)))
    moved = moved_texts(file.lines)
    return n_added + sum(1 for line in file.removed if line.text.strip() and line.text.strip() not in moved)


def measure(candidate: Candidate) -> int:
    """The size of a candidate's patch in lines to review."""
    return sum(measure_file(file) for file in candidate.files)


def rule_size(candidate: Candidate, group: Group) -> Sequence[Blemish]:
    """Much more changed than the smallest passing patch needed, and more than most needed."""
    honest = [other for other in group.candidates if measure(other) and not find_special_cases(other, group)]
    size = measure(candidate)
    if len(honest) < 2 or not size:
        return []
    smallest = min(honest, key=measure)
    least = measure(smallest)
    cost = sum(size > max(factor * least, least + extra) for factor, extra in _SIZE_STEPS)
    if size <= 1.2 * median(measure(other) for other in honest):
        cost = min(cost, 1)
    run = _largest_run(candidate)
    if not cost or not run:
        return []
    file, line = run
    return blemish(
        "size",
        f"changes {counted(size, 'line')} of source where {smallest.id} needs {least}",
        quote(line, file.lines),
        compared_with=_first_change(smallest),
        costs={"minimality": cost},
    )


def _largest_run(candidate: Candidate) -> tuple[PatchedFile, ShownLine] | None:
    runs = [
        (len(run), file, run)
        for file in candidate.files
        if kind_of(file) == "source"
        for hunk in file.hunks
        for run in changed_runs(hunk)
    ]
    if not runs:
        return None
    _, file, run = max(runs, key=lambda entry: entry[0])
    lines = code_lines(run, language_of(file.path)) or run
    return file, lines[0]


def _first_change(candidate: Candidate) -> str | None:
    changes = (
        line.at
        for file in candidate.files
        if kind_of(file) == "source"
        for line in file.lines
        if line.marker != " " and line.text.strip()
    )
    return next(changes, None)


def agreed_files(group: Group) -> frozenset[str]:
    """The source files that at least half of the candidates, and at least two, change."""
    patched = [candidate for candidate in group.candidates if candidate.files]
    counts = Counter(
        file.path for candidate in patched for file in candidate.files if kind_of(file) == "source"
    )
    quorum = max(2, (len(patched) + 1) // 2)
    return frozenset(path for path, number in counts.items() if number >= quorum)


def rule_place(candidate: Candidate, group: Group) -> Sequence[Blemish]:
    """Source files changed that the siblings agree need no change."""
    agreed = agreed_files(group)
    own = [file for file in candidate.files if kind_of(file) == "source" and file.lines]
    if not agreed or not own:
        return []
    # New files at the root are leftovers, which have a rule of their own.
    outside = [
        file for file in own if file.path not in agreed and (file.change != "added" or "/" in file.path)
    ]
    if len(outside) == len(own):
        return blemish(
            "other place",
            f"fixes it in {outside[0].path}, which most passing siblings leave alone",
            _quote_first_change(outside[0]),
            costs={"approach": 1},
        )
    found: list[Blemish] = []
    for file in sorted(outside, key=measure_file, reverse=True)[:2]:
        size = measure_file(file)
        costs = {"minimality": 1 if size <= 6 else 2, "side_effects": int(size > 6)}
        found += blemish(
            "outside",
            f"also changes {file.path} ({count(size, 'line')}), which most passing siblings leave alone",
            _quote_first_change(file),
            costs={name: cost for name, cost in costs.items() if cost},
        )
    return found


def _quote_first_change(file: PatchedFile) -> Evidence | None:
    changed = [line for line in file.lines if line.marker != " "]
    code = code_lines(changed, language_of(file.path)) or changed
    return quote(code[0], file.lines) if code else None
