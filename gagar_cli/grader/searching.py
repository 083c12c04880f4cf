"""What the `search` tool shows: every line of the workspace that holds a pattern, one text after the other.

Texts are searched whole and only the lines with hits are made: of a log of any size one text is in memory at a time.
"""

import time
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice

from gagar_cli.core.patch import PatchConflict
from gagar_cli.core.text import count_lines, counted
from gagar_cli.core.turns import Turn
from gagar_cli.grader.pages import Line, Lines, Place, as_lines
from gagar_cli.grader.patterns import Pattern
from gagar_cli.grader.views import numbered, patch_places
from gagar_cli.grader.workspace import RAW_PATCH, Attempt, Workspace

MAX_SEARCH_HITS = 2_000
MAX_SEARCH_CHARS = 20_000_000
"""Of the lines that are found: each may be a megabyte long."""
MAX_SEARCH_SECONDS = 20.0
"""Of the processor's time. Most expressions take a second for 400 MB, some a hundred: they would keep all groups waiting."""
_FEW_HITS = 20
"""More are counted by whose they are, above the list."""


def search_lines(workspace: Workspace, pattern: Pattern, where: str, candidate: str | None) -> Lines:
    """Every line that holds a pattern, in the coordinate form of where it stands; of many, whose they are first."""
    hits: list[Line] = []
    owners: Counter[str] = Counter()
    n_chars = 0
    end = time.thread_time() + MAX_SEARCH_SECONDS
    for place in _found(workspace, pattern, where, candidate):
        if place is None:
            if time.thread_time() < end:
                continue
            hits.append(f"stopped after {MAX_SEARCH_SECONDS:g} s: search one candidate, or something simpler")
            break
        hits.append(place)
        owners[place.coordinate.partition(":")[0]] += 1
        n_chars += len(place.text)
        if len(hits) == MAX_SEARCH_HITS or n_chars > MAX_SEARCH_CHARS:
            hits.append(f"stopped at {counted(len(hits), 'line')}: search for something rarer")
            break
    if len(hits) > _FEW_HITS:
        counts = ", ".join(f"{owner} {count}" for owner, count in owners.items())
        hits.insert(0, f"{owners.total()} lines: {counts}")
    return as_lines(hits)


def _found(
    workspace: Workspace, pattern: Pattern, where: str, candidate: str | None
) -> Iterator[Place | None]:
    """Lines with hits; None after each text that may be long or one of many, to look at the clock."""
    if where in ("repo", "all") and workspace.repository:
        for path in workspace.repository.list_files():
            try:
                content = workspace.read_file(path, candidate)
            except PatchConflict:
                continue
            if content is not None:
                yield from _places_with(pattern, f"{candidate or 'base'}:{path}", content)
            yield None
    for attempt in [workspace.attempts[candidate]] if candidate else workspace.attempts.values():
        if where in ("patches", "all"):
            for file in attempt.patch.files:
                yield from _holding(pattern, patch_places(attempt.blind_id, file))
            yield from _holding(pattern, numbered(f"{attempt.blind_id}:{RAW_PATCH}", attempt.raw_lines))
        if where in ("turns", "all"):
            for turn in attempt.turns:
                yield from _turn_places_with(pattern, attempt, turn)
                yield None
        if where in ("test_output", "all"):
            yield from _places_with(pattern, f"{attempt.blind_id}:test_output", attempt.test_output)
            yield None
    if where in ("exec", "all"):
        for (owner, number), lines in workspace.executions.items():
            if candidate in (None, owner):
                yield from _holding(pattern, numbered(f"{owner}:exec:{number}", lines))


def _holding(pattern: Pattern, places: Iterable[Place]) -> Iterator[Place]:
    for place in places:
        focus = pattern.find(place.text)
        if focus is not None:
            yield place._replace(focus=focus)


def _places_with(pattern: Pattern, prefix: str, content: str, n_before: int = 0) -> Iterator[Place]:
    """The lines of a text that hold a pattern; so many lines stand before it."""
    return (
        Place(f"{prefix}:{n_before + hit.number + 1}", hit.line, hit.place)
        for hit in pattern.find_all(content)
    )


def _turn_places_with(pattern: Pattern, attempt: Attempt, turn: Turn) -> Iterator[Place]:
    prefix = f"{attempt.blind_id}:turn:{turn.number}"
    n_before: int | None = None
    for number, text in enumerate(turn.texts()):
        if next(pattern.find_all(text), None) is not None:
            if n_before is None:
                # Counted from the first hit on only: a log without one is searched as fast as it is read.
                n_before = sum(map(count_lines, islice(turn.texts(), number)))
            yield from _places_with(pattern, prefix, text, n_before)
        if n_before is not None:
            n_before += count_lines(text)
