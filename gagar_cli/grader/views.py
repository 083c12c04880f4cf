"""What each read-only tool shows of the workspace, as lines. Formats are fixed: the offline model reads them too."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from gagar_cli.core.patch import Hunk, PatchConflict, PatchFile
from gagar_cli.core.tampering import find_tampering
from gagar_cli.core.text import split_lines
from gagar_cli.grader.pages import cite
from gagar_cli.grader.patterns import Pattern
from gagar_cli.grader.workspace import RAW_PATCH, Attempt, Workspace, describe_file

MAX_SEARCH_HITS = 2_000


class Place(NamedTuple):
    """One untrusted line and where it stands."""

    coordinate: str
    text: str


def overview(workspace: Workspace, sandbox_name: str | None) -> list[str]:
    """The group at a glance: what is there, how large it is, where to look first."""
    lines = [
        cite("task", workspace.task.instance_id or "unnamed"),
        f"repository: {'available' if workspace.repository else 'not supplied'}",
        f"run_check: {sandbox_name or 'not available'}",
    ]
    if sandbox_name and workspace.task.test_command:
        lines.append(cite("tests", workspace.task.test_command))
    lines += [_attempt_line(workspace, workspace.attempts[name]) for name in workspace.candidates]
    lines += [_attempt_line(workspace, workspace.attempts[name]) for name in workspace.references]
    lines += ["touched files:", *_touched_files(workspace)]
    leads = [line for attempt in workspace.attempts.values() for line in _lead_lines(attempt)]
    lines += ["leads:", *leads] if leads else []
    lines.append("problem statement:")
    lines += _cite_numbered("task", split_lines(workspace.problem_statement))
    return lines


def patch_lines(attempt: Attempt, path: str | None) -> list[str]:
    """A candidate's patch, or one file of it; as plain text where no file of it could be read."""
    lines: list[str] = [cite("not applicable", refusal) for refusal in attempt.refusals]
    lines += _cite_numbered(f"{attempt.blind_id}:{RAW_PATCH}", attempt.raw_lines)
    for file in attempt.patch.files if path is None else attempt.sections(path):
        lines += _file_lines(attempt.blind_id, file)
    return lines


def compare_lines(first: Attempt, second: Attempt) -> list[str]:
    """What one patch changes and the other does not, by file."""
    changed = {attempt.blind_id: _changed_lines(attempt) for attempt in (first, second)}
    common = changed[first.blind_id].keys() & changed[second.blind_id].keys()
    lines = [f"changed lines in both: {len(common)}"]
    for name, entries in changed.items():
        own = [text for key, text in entries.items() if key not in common]
        lines += [f"only {name}: {len(own)}", *own]
    return lines


def turn_digests(attempt: Attempt) -> list[str]:
    """One line a turn."""
    return [cite(f"{attempt.blind_id}:turn:{turn.number}", turn.digest) for turn in attempt.turns]


def turn_lines(attempt: Attempt, first: int, last: int) -> list[str]:
    """The full text of some turns."""
    wanted = (turn for turn in attempt.turns if first <= turn.number <= last)
    return [
        line
        for turn in wanted
        for line in _cite_numbered(f"{attempt.blind_id}:turn:{turn.number}", turn.lines)
    ]


def test_output_lines(attempt: Attempt) -> list[str]:
    """The test output of an attempt."""
    return _cite_numbered(f"{attempt.blind_id}:test_output", attempt.test_lines)


def execution_lines(workspace: Workspace, candidate: str, number: int) -> list[str]:
    """What a command printed."""
    return _cite_numbered(f"{candidate}:exec:{number}", workspace.executions[candidate, number])


def file_lines(workspace: Workspace, path: str, candidate: str | None) -> list[str] | None:
    """A file of the repository, at the base or as a candidate leaves it; None where there is none.

    Raises:
        PatchConflict: the candidate's patch does not apply.
    """
    text = workspace.read_file(path, candidate)
    return None if text is None else _cite_numbered(f"{candidate or 'base'}:{path}", split_lines(text))


def search_lines(workspace: Workspace, pattern: Pattern, where: str, candidate: str | None) -> list[str]:
    """Every line that holds a pattern, in the coordinate form of where it stands."""
    hits: list[str] = []
    for place in _searchable(workspace, pattern, where, candidate):
        if pattern.is_in_line(place.text):
            hits.append(cite(*place))
            if len(hits) == MAX_SEARCH_HITS:
                hits.append(f"stopped at {MAX_SEARCH_HITS} lines: search for something rarer")
                break
    return hits


def _searchable(workspace: Workspace, pattern: Pattern, where: str, candidate: str | None) -> Iterator[Place]:
    if where in ("repo", "all") and workspace.repository:
        for path in workspace.repository.list_files():
            try:
                content = workspace.read_file(path, candidate)
            except PatchConflict:
                continue
            if content is not None and pattern.may_be_in(content):
                yield from _numbered(f"{candidate or 'base'}:{path}", split_lines(content))
    for attempt in [workspace.attempts[candidate]] if candidate else workspace.attempts.values():
        if where in ("patches", "all"):
            for file in attempt.patch.files:
                yield from _patch_places(attempt.blind_id, file)
            yield from _numbered(f"{attempt.blind_id}:{RAW_PATCH}", attempt.raw_lines)
        if where in ("turns", "all"):
            for turn in attempt.turns:
                yield from _numbered(f"{attempt.blind_id}:turn:{turn.number}", turn.lines)
        if where in ("test_output", "all"):
            yield from _numbered(f"{attempt.blind_id}:test_output", attempt.test_lines)


def _attempt_line(workspace: Workspace, attempt: Attempt) -> str:
    patch = attempt.trajectory.model_patch
    if patch is None:
        size = "unknown"
    elif not attempt.patch.files:
        size = "empty" if not patch.strip() else "unreadable"
    else:
        size = f"{len(attempt.patch.files)} files +{attempt.patch.n_added} -{attempt.patch.n_removed}"
    scored_as = workspace.twins.get(attempt.blind_id, "-")
    return (
        f"{attempt.blind_id} patch: {size} | turns: {len(attempt.turns)} | "
        f"test output: {len(attempt.test_lines)} lines | identical to: {scored_as}"
    )


def _lead_lines(attempt: Attempt) -> Iterator[str]:
    for lead in attempt.leads:
        yield cite(f"  {attempt.blind_id} turn {lead.turn} {lead.kind}", lead.text)
    for found in find_tampering(attempt.patch):
        yield cite(f"  {attempt.blind_id}:{found.path}:{found.line} {found.kind}", found.text)


def _touched_files(workspace: Workspace) -> list[str]:
    touched: dict[str, list[str]] = {}
    for attempt in workspace.attempts.values():
        for file in attempt.patch.files:
            touched.setdefault(file.path, []).append(f"{attempt.blind_id} +{file.n_added} -{file.n_removed}")
    return [cite(f"  {', '.join(sizes)}", path) for path, sizes in sorted(touched.items())]


def _file_lines(blind_id: str, file: PatchFile) -> Iterator[str]:
    yield cite(f"{blind_id}:{file.path}:0", describe_file(file))
    for hunk in file.hunks:
        yield f"@@ -{hunk.old_start},{hunk.old_count} +{hunk.new_start},{hunk.new_count} @@"
        yield from (cite(*place) for place in _hunk_places(blind_id, file, hunk))


def _patch_places(blind_id: str, file: PatchFile) -> Iterator[Place]:
    for hunk in file.hunks:
        yield from _hunk_places(blind_id, file, hunk)


def _hunk_places(blind_id: str, file: PatchFile, hunk: Hunk) -> Iterator[Place]:
    for line in hunk.lines:
        number = -(line.old_line or 0) if line.marker == "-" else line.new_line
        yield Place(f"{blind_id}:{file.path}:{number}", line.marker + line.text)


def _changed_lines(attempt: Attempt) -> dict[tuple[str, str], str]:
    """Each changed line as shown, by file and by marker and stripped text."""
    return {
        (file.path, place.text[0] + place.text[1:].strip()): cite(*place)
        for file in attempt.patch.files
        for place in _patch_places(attempt.blind_id, file)
        if place.text[0] != " " and place.text[1:].strip()
    }


def _numbered(prefix: str, lines: Iterable[str]) -> Iterator[Place]:
    for number, line in enumerate(lines, 1):
        yield Place(f"{prefix}:{number}", line)


def _cite_numbered(prefix: str, lines: Iterable[str]) -> list[str]:
    return [cite(*place) for place in _numbered(prefix, lines)]
