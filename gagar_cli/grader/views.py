"""What each read-only tool shows of the workspace, as lines. Formats are fixed: the offline model reads them too."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from gagar_cli.core.lines import slice_lines
from gagar_cli.core.outcomes import told_tests
from gagar_cli.core.patch import Hunk, PatchFile
from gagar_cli.core.text import count_lines, counted, split_lines
from gagar_cli.grader.pages import PAGE_LINES, Line, Lines, Part, Place, Slices, as_lines, cite
from gagar_cli.grader.workspace import RAW_PATCH, Attempt, Workspace, describe_file

EVERY_LINE_CRLF = "every line of this file ends with CRLF"
MAX_SHOWN_LEADS, MAX_NAMED_TURNS = 12, 60
"""Of one attempt, in the overview: what it did must not push the others out of sight."""
MAX_SHOWN_FILES = 60
NO_CHANGE = "passed with no change"
"""Of a candidate with an empty patch: its tests pass as they are, or its change was lost or made past the patch."""
TOUCHED_FILES, PROBLEM_STATEMENT = "touched files:", "problem statement:"
"""Headings of the overview."""


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
    lines += [TOUCHED_FILES, *_touched_files(workspace)]
    leads = [line for attempt in workspace.attempts.values() for line in _lead_lines(attempt)]
    lines += ["leads:", *leads] if leads else []
    lines.append(PROBLEM_STATEMENT)
    lines += _cite_numbered("task", split_lines(workspace.problem_statement))
    return lines


def patch_lines(attempt: Attempt, path: str | None) -> Lines:
    """A candidate's patch, or one file of it; as plain text where no file of it could be read."""
    return as_lines([line for part in patch_parts(attempt, path) for line in part])


def patch_parts(attempt: Attempt, path: str | None = None) -> list[list[Line]]:
    """A candidate's patch as `patch_lines` shows it: what is wrong with it, then file by file."""
    lines: list[Line] = [Place("not applicable", refusal) for refusal in attempt.refusals]
    lines += numbered(f"{attempt.blind_id}:{RAW_PATCH}", attempt.raw_lines)
    files = attempt.patch.files if path is None else attempt.sections(path)
    return [lines, *(list(_file_lines(attempt.blind_id, file)) for file in files)]


def compare_lines(first: Attempt, second: Attempt) -> list[str]:
    """What one patch changes and the other does not, by file."""
    changed = {attempt.blind_id: _changed_lines(attempt) for attempt in (first, second)}
    common = changed[first.blind_id].keys() & changed[second.blind_id].keys()
    lines = [f"changed lines in both: {len(common)}"]
    for name, entries in changed.items():
        own = [text for key, text in entries.items() if key not in common]
        lines += [f"only {name}: {len(own)}", *own]
    return lines


def turn_digests(attempt: Attempt) -> Lines:
    """One line a turn."""
    n_turns = len(attempt.turns)
    return Lines([Part(n_turns, lambda: Slices(n_turns, partial(_digest_places, attempt)))])


def turn_lines(attempt: Attempt, first: int, last: int) -> Lines:
    """The full text of some turns."""
    numbers = range(max(1, first), min(last, len(attempt.turns)) + 1)
    sizes = {number: attempt.turns[number - 1].n_lines for number in numbers}
    return Lines(
        [
            Part(n_lines, partial(Slices, n_lines, partial(_turn_places, attempt, number)))
            for number, n_lines in sizes.items()
        ]
    )


def test_output_lines(attempt: Attempt) -> Lines:
    """The test output of an attempt."""
    n_lines = count_lines(attempt.test_output)
    return Lines([Part(n_lines, lambda: Slices(n_lines, partial(_output_places, attempt)))])


def execution_lines(workspace: Workspace, candidate: str, number: int) -> Lines:
    """What a command printed."""
    return _numbered_lines(f"{candidate}:exec:{number}", workspace.executions[candidate, number])


def listed_files(paths: Sequence[str], prefix: str) -> Lines:
    """Files under a folder; where they are more than a page, its own files, and its folders with how many they hold."""
    if len(paths) <= PAGE_LINES:
        return as_lines([Place("file", path) for path in paths])
    n_skipped = len(prefix) + 1 if prefix else 0
    folders: Counter[str] = Counter()
    files: list[Line] = []
    for path in paths:
        folder, slash, _ = path[n_skipped:].partition("/")
        if slash:
            folders[path[:n_skipped] + folder + "/"] += 1
        else:
            files.append(Place("file", path))
    return as_lines([*(Place(counted(count, "file"), folder) for folder, count in folders.items()), *files])


class FileView(NamedTuple):
    """A file as it can be paged."""

    lines: Lines
    is_crlf: bool
    """Every line ends with a carriage return, which is not shown."""


def file_lines(workspace: Workspace, path: str, candidate: str | None) -> FileView | None:
    """A file of the repository, at the base or as a candidate leaves it; None where there is none.

    Raises:
        PatchConflict: the candidate's patch does not apply.
    """
    text = workspace.read_file(path, candidate)
    if text is None:
        return None
    places = list(numbered(f"{candidate or 'base'}:{path}", split_lines(text)))
    is_whole = is_crlf([place.text for place in places])
    return FileView(as_lines(places if is_whole else list(_show_ends(places))), is_whole)


def _attempt_line(workspace: Workspace, attempt: Attempt) -> str:
    patch = attempt.trajectory.model_patch
    if patch is None:
        size = "unknown"
    elif not attempt.patch.files:
        is_candidate = attempt.blind_id in workspace.candidates
        empty = f"empty, {NO_CHANGE}" if is_candidate else "empty"
        size = "unreadable" if patch.strip() else empty
    else:
        size = (
            f"{counted(len(attempt.patch.files), 'file')} +{attempt.patch.n_added} -{attempt.patch.n_removed}"
        )
    scored_as = workspace.twins.get(attempt.blind_id, "-")
    output = attempt.test_output
    told = told_tests(output)
    return (
        f"{attempt.blind_id} patch: {size} | turns: {len(attempt.turns)} | "
        f"test output: {counted(count_lines(output), 'line')}{f', it says: {told}' if told else ''} | identical to: {scored_as}"
    )


def _lead_lines(attempt: Attempt) -> Iterator[str]:
    for lead in attempt.leads[:MAX_SHOWN_LEADS]:
        yield cite(f"  {attempt.blind_id} turn {lead.turn} {lead.kind}", lead.text)
    rest = [str(lead.turn) for lead in attempt.leads[MAX_SHOWN_LEADS:]]
    if rest:
        turns = " ".join(dict.fromkeys(rest[:MAX_NAMED_TURNS]))
        more = f" and {len(rest) - MAX_NAMED_TURNS} more" if len(rest) > MAX_NAMED_TURNS else ""
        yield f"  {attempt.blind_id}: leads in turns {turns}{more}"
    for found in attempt.tampering:
        yield cite(f"  {attempt.blind_id}:{found.path}:{found.line} {found.kind}", found.text)


def _touched_files(workspace: Workspace) -> list[str]:
    touched: dict[str, list[str]] = {}
    for attempt in workspace.attempts.values():
        for file in attempt.patch.files:
            touched.setdefault(file.path, []).append(f"{attempt.blind_id} +{file.n_added} -{file.n_removed}")
    by_interest = sorted(touched.items(), key=lambda entry: (-len(entry[1]), entry[0]))
    shown = [cite(f"  {', '.join(sizes)}", path) for path, sizes in by_interest[:MAX_SHOWN_FILES]]
    n_more = len(by_interest) - len(shown)
    return [*shown, *([f"  and {counted(n_more, 'more file')}, touched by few"] if n_more else [])]


def _file_lines(blind_id: str, file: PatchFile) -> Iterator[Line]:
    yield Place(f"{blind_id}:{file.path}:0", describe_file(file))
    ends = [line.text.endswith("\r") for hunk in file.hunks for line in hunk.lines]
    is_mixed = any(ends) and not all(ends)
    if ends and all(ends):
        yield EVERY_LINE_CRLF
    for hunk in file.hunks:
        yield f"@@ -{hunk.old_start},{hunk.old_count} +{hunk.new_start},{hunk.new_count} @@"
        places = _hunk_places(blind_id, file, hunk)
        yield from _show_ends(places) if is_mixed else places


def patch_places(blind_id: str, file: PatchFile) -> Iterator[Place]:
    """The lines of a patch to a file."""
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
        for place in patch_places(attempt.blind_id, file)
        if place.text[0] != " " and place.text[1:].strip()
    }


def numbered(prefix: str, lines: Iterable[str], first: int = 1) -> Iterator[Place]:
    """Lines with their coordinates; `first` is the number of the first."""
    for number, line in enumerate(lines, first):
        yield Place(f"{prefix}:{number}", line)


def is_crlf(texts: Sequence[str]) -> bool:
    """Whether every line ends with a carriage return, which is then told once instead of shown on each."""
    return bool(texts) and all(text.endswith("\r") for text in texts)


def _show_ends(places: Iterable[Place]) -> Iterator[Place]:
    """The lines of a file of which only some end with a carriage return: it is made visible (a page drops one)."""
    for place in places:
        yield place._replace(text=place.text + "\r") if place.text.endswith("\r") else place


def _numbered_lines(prefix: str, lines: Sequence[str]) -> Lines:
    return Lines([Part(len(lines), lambda: list(numbered(prefix, lines)))])


def _digest_places(attempt: Attempt, start: int, stop: int) -> list[Line]:
    turns = (attempt.turns[place] for place in range(start, stop))
    return [Place(f"{attempt.blind_id}:turn:{turn.number}", turn.digest) for turn in turns]


def _turn_places(attempt: Attempt, number: int, start: int, stop: int) -> list[Line]:
    lines = attempt.turns[number - 1].lines_between(start, stop)
    return list(numbered(f"{attempt.blind_id}:turn:{number}", lines, start + 1))


def _output_places(attempt: Attempt, start: int, stop: int) -> list[Line]:
    lines = slice_lines(attempt.test_output, start, stop)
    return list(numbered(f"{attempt.blind_id}:test_output", lines, start + 1))


def _cite_numbered(prefix: str, lines: Iterable[str]) -> list[str]:
    return [cite(*place) for place in numbered(prefix, lines)]
