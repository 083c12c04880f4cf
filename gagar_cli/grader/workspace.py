"""The workspace of one group: everything the grader may see of it, under blind ids.

It holds candidates and references with their patches, turns and test outputs, the repository at its base commit where
one is supplied, and what commands printed. Trajectory ids, policy names, rewards and other metadata stay outside:
no tool can reach them. Nothing is run here; commands run in sandboxes that `checks.py` opens.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Protocol

from gagar_cli.core.blinding import blind_ids
from gagar_cli.core.evidence import WINDOW_LINES, Coordinate, NumberedLine
from gagar_cli.core.integrity import AddedLines
from gagar_cli.core.leads import Lead, find_leads
from gagar_cli.core.lines import slice_lines
from gagar_cli.core.patch import Patch, PatchConflict, PatchFile, apply_file, parse_patch, refuse_patch
from gagar_cli.core.schema import Group, Trajectory
from gagar_cli.core.tampering import PatchLead, find_tampering
from gagar_cli.core.text import count_lines, split_lines
from gagar_cli.core.turns import Turn, first_prompt, split_turns
from gagar_cli.grader.pages import show_inline

QUICK_CHARS = 100_000
"""Of a group's texts: to go through all of them takes a few milliseconds, tens of them where they are made to take long."""
_PART_CHARS = 20
"""What an attempt, a message or a call counts for by itself: empty ones are gone through as well."""
RAW_PATCH = "patch"
"""In coordinates: the path under which a patch that could not be read is shown line by line."""


class Repository(Protocol):
    """The base repository as the grader reads it (`sandbox/tree.py`)."""

    def list_files(self) -> tuple[str, ...]:
        """All regular files, as sorted paths relative to the root."""

    def read_text(self, path: str) -> str | None:
        """A file's text; None where it is absent, no regular file or not text."""


@dataclass(frozen=True)
class Attempt:
    """One trajectory as the workspace shows it."""

    blind_id: str
    trajectory: Trajectory

    @cached_property
    def patch(self) -> Patch:
        """The parsed patch; empty where it is unknown."""
        return parse_patch(self.trajectory.model_patch or "")

    @cached_property
    def refusals(self) -> tuple[str, ...]:
        """Why the patch must not be applied anywhere; empty where it may."""
        return tuple(str(problem) for problem in (*self.patch.problems, *refuse_patch(self.patch)))

    @cached_property
    def turns(self) -> Sequence[Turn]:
        """The turns of its message log."""
        return split_turns(self.trajectory.messages)

    @cached_property
    def leads(self) -> tuple[Lead, ...]:
        """Turns that could have brought the answer in."""
        return find_leads(self.turns)

    @cached_property
    def tampering(self) -> tuple[PatchLead, ...]:
        """Lines of its patch by which tests can be made to pass."""
        return find_tampering(self.patch)

    @property
    def test_output(self) -> str:
        """Its test output; empty where there is none."""
        return self.trajectory.test_output or ""

    @cached_property
    def raw_lines(self) -> list[str]:
        """The patch as text, where no file of it could be read."""
        return [] if self.patch.files else split_lines(self.trajectory.model_patch or "")

    def sections(self, path: str) -> tuple[PatchFile, ...]:
        """What its patch does to a file, named as it is or as the tools show it; a patch may return to a file."""
        return tuple(file for file in self.patch.files if path in (file.path, show_inline(file.path)))

    def moves_away(self, path: str) -> bool:
        """Whether its patch renames the file, so that nothing is left under this name."""
        return any(file.change == "renamed" and file.old_path == path for file in self.patch.files)


class Workspace:
    """One group, blind. Candidates are the passing attempts, references the failing ones."""

    def __init__(self, group: Group, *, seed: int, repository: Repository | None) -> None:
        self.task = group.task
        self.repository = repository
        by_id = {trajectory.trajectory_id: trajectory for trajectory in group.trajectories}
        passing = [trajectory.trajectory_id for trajectory in group.passing]
        failing = [trajectory.trajectory_id for trajectory in group.failing]
        names = blind_ids(passing, seed, group.key, prefix="c") | blind_ids(
            failing, seed, group.key, prefix="f"
        )
        self.trajectory_ids: Mapping[str, str] = names
        self.attempts = {blind_id: Attempt(blind_id, by_id[name]) for blind_id, name in names.items()}
        self.candidates = tuple(blind_id for blind_id in names if blind_id.startswith("c"))
        self.references = tuple(blind_id for blind_id in names if blind_id.startswith("f"))
        self.twins = _find_twins([self.attempts[blind_id] for blind_id in self.candidates])
        self.executions: dict[tuple[str, int], list[str]] = {}
        """The output lines of each command, by candidate and number."""
        self.problem_statement = group.task.problem_statement or _shared_prompt(group) or ""

    @cached_property
    def is_quick(self) -> bool:
        """Whether all that it shows is in memory, and little: what a tool makes of it takes no time to speak of."""
        n_left = QUICK_CHARS - len(self.problem_statement) - _PART_CHARS * len(self.attempts)
        for attempt in self.attempts.values():
            one = attempt.trajectory
            # Logs that make their messages when they are asked for are long ones.
            if self.repository is not None or not isinstance(one.messages, tuple):
                return False
            n_left -= len(one.model_patch or "") + len(one.test_output or "")
            n_left -= _PART_CHARS * len(one.messages)
            for message in one.messages:
                n_left -= len(message.content) + _PART_CHARS * len(message.tool_calls)
                n_left -= sum(len(call.name) + len(call.arguments) for call in message.tool_calls)
                if n_left < 0:
                    return False
        return n_left >= 0

    def read_file(self, path: str, candidate: str | None) -> str | None:
        """A repository file at the base, or as a candidate's patch leaves it; None where there is no such file.

        Raises:
            PatchConflict: the candidate's patch does not apply to the base file.
        """
        base = self.repository.read_text(path) if self.repository else None
        if candidate is None:
            return base
        attempt = self.attempts[candidate]
        sections = attempt.sections(path)
        if sections and sections[0].path != path:  # named as the tools show it
            return self.read_file(sections[0].path, candidate)
        text = None if attempt.moves_away(path) else base
        for section in sections:
            before = text
            if section.change in ("renamed", "copied"):
                before = self.repository.read_text(section.old_path or "") if self.repository else None
            if before is None and section.change != "added" and self.repository is None:
                return None
            text = None if section.change == "deleted" else apply_file(section, before)
        return text

    def added_lines(self, candidate: str) -> AddedLines:
        """The lines that a patch adds, by file, and those that were there: its other lines, and the base files'."""
        by_path: dict[str, list[str]] = {}
        known: list[str] = []
        old_paths: set[str] = set()
        for file in self.attempts[candidate].patch.files:
            lines = [line for hunk in file.hunks for line in hunk.lines]
            by_path.setdefault(file.path, []).extend(line.text for line in lines if line.marker == "+")
            known += (line.text for line in lines if line.marker != "+")
            old_paths |= {file.old_path} if file.old_path else set()
        if self.repository is not None:
            known += (
                line for path in old_paths for line in split_lines(self.repository.read_text(path) or "")
            )
        return AddedLines(by_path, known, self.problem_statement)

    def next_execution(self, candidate: str, lines: Sequence[str]) -> int:
        """Keep a command's output lines; the number under which findings cite it comes back."""
        number = 1 + sum(owner == candidate for owner, _ in self.executions)
        self.executions[candidate, number] = list(lines)
        return number

    def lines_near(self, place: Coordinate) -> list[str] | None:
        """The lines within `WINDOW_LINES` of a coordinate; None where it does not exist."""
        if place.owner != "base" and place.owner not in self.attempts:
            return None
        match place.kind:
            case "patch":
                return self._patch_lines_near(place)
            case "repo":
                return self._file_lines_near(place)
            case "turn":
                turns = self.attempts[place.owner].turns if place.owner in self.attempts else ()
                if not 1 <= (place.number or 0) <= len(turns):
                    return None
                turn = turns[(place.number or 0) - 1]
                # A turn as a whole may be cited as `list_turns` shows it.
                digest = [turn.digest] if place.line is None else []
                return [*(_lines_at(turn.n_lines, turn.lines_between, place.line) or []), *digest] or None
            case "test_output":
                if place.owner not in self.attempts:
                    return None
                output = self.attempts[place.owner].test_output
                return _lines_at(count_lines(output), partial(slice_lines, output), place.line)
            case "exec":
                return _window(self.executions.get((place.owner, place.number or 0)), place.line)

    def _patch_lines_near(self, place: Coordinate) -> list[str] | None:
        attempt = self.attempts.get(place.owner)
        if attempt is None or place.line is None:
            return None
        if place.path == RAW_PATCH and attempt.raw_lines:
            return _window(attempt.raw_lines, place.line)
        sections = attempt.sections(place.path or "")
        if place.line == 0:
            return [describe_file(section) for section in sections] or None
        wanted, is_removed = abs(place.line), place.line < 0
        found: list[str] = []
        exists = False
        for line in (line for section in sections for hunk in section.hunks for line in hunk.lines):
            number = line.old_line if is_removed else line.new_line
            if number is None or (is_removed and line.marker != "-"):
                continue
            exists = exists or number == wanted
            if abs(number - wanted) <= WINDOW_LINES:
                found.append(NumberedLine.of(-number if is_removed else number, line.text))
        return found if exists else None

    def _file_lines_near(self, place: Coordinate) -> list[str] | None:
        try:
            text = self.read_file(place.path or "", None if place.owner == "base" else place.owner)
        except PatchConflict:
            return None
        return _window(split_lines(text), place.line) if text is not None else None


def describe_file(file: PatchFile) -> str:
    """A file of a patch in a few words: what becomes of it, and how much of it."""
    kind = "binary file" if file.is_binary else "file"
    origin = f" from {file.old_path}" if file.change in ("renamed", "copied") and file.old_path else ""
    mode = (
        f" mode {file.old_mode}→{file.new_mode}"
        if file.old_mode and file.new_mode and file.old_mode != file.new_mode
        else ""
    )
    return f"{file.change} {kind} +{file.n_added} -{file.n_removed}{origin}{mode}"


def _window(lines: Sequence[str] | None, line: int | None) -> list[str] | None:
    return None if lines is None else _lines_at(len(lines), lambda start, stop: lines[start:stop], line)


def _lines_at(
    n_lines: int, between: Callable[[int, int], Sequence[str]], line: int | None
) -> list[str] | None:
    """The lines near one, or all; None where there is no such line."""
    if line is not None and not 1 <= line <= n_lines:
        return None
    start = 0 if line is None else max(0, line - 1 - WINDOW_LINES)
    end = n_lines if line is None else line + WINDOW_LINES
    return [NumberedLine.of(number, text) for number, text in enumerate(between(start, end), start + 1)]


def _find_twins(candidates: Sequence[Attempt]) -> dict[str, str]:
    """Candidates whose non-empty patch is byte-identical to an earlier one's, to that one."""
    first: dict[str, str] = {}
    twins = {}
    for attempt in candidates:
        patch = attempt.trajectory.model_patch
        if not patch:
            continue
        scored = first.setdefault(patch, attempt.blind_id)
        if scored != attempt.blind_id:
            twins[attempt.blind_id] = scored
    return twins


def _shared_prompt(group: Group) -> str | None:
    return next(
        (text for trajectory in group.trajectories if (text := first_prompt(trajectory.messages))), None
    )
