"""Rules against leftovers: debug output, notes to self, comments about the edit, scratch files."""

import itertools
import re
from collections.abc import Sequence

from gagar_cli.grader.offline.blemishes import Blemish, blemish, count, quote
from gagar_cli.grader.offline.facts import Candidate, Group, PatchedFile, ShownLine
from gagar_cli.grader.offline.source import (
    code_lines,
    is_comment,
    is_prose,
    kind_of,
    source_files,
)

_PRINTS = {
    "python": re.compile(r"^\s*(?:print|pprint|pprint\.pprint|ic)\s*\((?!.*file\s*=)"),
    "javascript": re.compile(r"^\s*console\.(?:log|debug|dir|trace)\s*\("),
    "go": re.compile(r"^\s*(?:fmt\.Print(?:ln|f)?|println)\s*\("),
    "java": re.compile(r"^\s*System\.(?:out|err)\.print(?:ln|f)?\s*\(|\.printStackTrace\(\)"),
    "c": re.compile(r"^\s*(?:printf\s*\(|fprintf\s*\(\s*stderr|std::c(?:out|err)\s*<<)"),
    "rust": re.compile(r"\b(?:dbg|e?println)!\s*\("),
    "ruby": re.compile(r"^\s*(?:puts|p|pp)\s+\S"),
}
_BREAKPOINTS = re.compile(
    r"^\s*(?:breakpoint\(\)|import i?pu?db\b|i?pu?db\.set_trace\(|debugger\s*;?$|binding\.pry\b)|\bpdb\.set_trace\("
)
_NARRATION = re.compile(
    r"(?i)(?:#|//)\s*(?:(?:newly )?added\b|changed?(?: here|d)\b|modified\b|updated\b|removed\b|new (?:parameter|line|code|check)\b"
    r"|fix(?:ed|es)?\b:?.*\b(?:issue|bug|here)\b|bug ?fix|previously\b|the fix\b)"
)
_NOTES = re.compile(r"\b(?:TODO|FIXME|XXX|HACK)\b|(?:#|//).*\b[Pp]laceholder\b")
_SCRATCH_COSTS = (
    {"minimality": 2},
    {"minimality": 1, "side_effects": 1},
    {"side_effects": 2},
)
_DEBUG_WORDS = re.compile(r"(?i)\bdebug(?:ging)?\b")
_MIN_ALIKE = 2
_COMMAND_LINE = re.compile(
    r"(?:^|/)(?:bin|scripts?|cli|commands?|examples?|tools|__main__|main|manage)(?:/|\.|$)"
)


def rule_debug_output(candidate: Candidate, group: Group) -> Sequence[Blemish]:
    """Prints and breakpoints left in library code."""
    breakpoints: list[tuple[PatchedFile, ShownLine]] = []
    prints: list[tuple[PatchedFile, ShownLine]] = []
    for file, language in source_files(candidate):
        if file.change == "added" and "/" not in file.path:
            continue
        pattern = _PRINTS.get(language)
        code = code_lines(file.added, language)
        breakpoints += [(file, line) for line in code if _BREAKPOINTS.search(line.text)]
        if pattern and not _prints_on_purpose(file, pattern, candidate, group):
            prints += [(file, line) for line in code if pattern.search(line.text)]
    found: list[Blemish] = []
    if breakpoints:
        file, line = breakpoints[0]
        found += blemish(
            "breakpoint",
            "leaves a debugger call in the code",
            quote(line, file.lines),
            costs={"side_effects": 3, "minimality": 1},
        )
    if prints:
        file, line = prints[0]
        found += blemish(
            "debug output",
            f"leaves {count(len(prints), 'debug print')} in library code",
            quote(line, file.lines),
            costs={"side_effects": 2, "minimality": 1, "consistency": 1},
        )
    return found


def _prints_on_purpose(
    file: PatchedFile, pattern: re.Pattern[str], candidate: Candidate, group: Group
) -> bool:
    """Where the file printed before, is a command, or half of the siblings print too, output is its business."""
    if _COMMAND_LINE.search(file.path) or any(
        pattern.search(line.text) for line in file.lines if line.marker != "+"
    ):
        return True
    siblings = group.siblings(candidate)
    alike = sum(
        any(
            pattern.search(line.text)
            for other in sibling.files
            if other.path == file.path
            for line in other.added
        )
        for sibling in siblings
    )
    return alike >= _MIN_ALIKE and 2 * alike >= len(siblings)


def rule_notes(candidate: Candidate, _group: Group) -> Sequence[Blemish]:
    """TODO notes and remarks about debugging."""
    for file, language in source_files(candidate):
        for line in file.added:
            is_remark = is_comment(line.text, language) and _DEBUG_WORDS.search(line.text)
            is_moved = any(line.text.strip() == other.text.strip() for other in file.removed)
            if (_NOTES.search(line.text) or is_remark) and not is_moved:
                return blemish(
                    "note",
                    "leaves a note to self in the code",
                    quote(line, file.lines),
                    costs={"consistency": 1},
                )
    return []


def rule_narration(candidate: Candidate, _group: Group) -> Sequence[Blemish]:
    """Comments that tell the story of the edit rather than explain the code."""
    for file, _ in source_files(candidate):
        told = [line for line in file.added if _NARRATION.search(line.text)]
        if told:
            claim = f"has {count(len(told), 'comment')} that narrate the edit"
            return blemish("narration", claim, quote(told[0], file.lines), costs={"consistency": 1})
    return []


def rule_scratch_files(candidate: Candidate, group: Group) -> Sequence[Blemish]:
    """Reproduction scripts, editor leftovers and stray root files that the patch adds."""
    shared = {
        file.path for sibling in group.siblings(candidate) for file in sibling.files if file.change == "added"
    }
    stray = [
        file
        for file in candidate.files
        if file.change == "added" and file.lines and (kind_of(file) == "scratch" or _is_stray(file, shared))
    ]
    found: list[Blemish] = []
    # The first costs most; with a third one the patch is a heap to clear away.
    for file, costs in zip(stray, _SCRATCH_COSTS, strict=False):
        first = next((line for line in file.lines if len(line.text.strip()) >= 8), file.lines[0])
        found += blemish(
            "scratch file",
            f"leaves {file.path} behind ({count(len(file.added), 'line')})",
            quote(first, file.lines),
            costs=costs,
        )
    return found


def _is_stray(file: PatchedFile, shared: set[str]) -> bool:
    return "/" not in file.path and kind_of(file) == "source" and file.path not in shared


def rule_misplaced_text(candidate: Candidate, _group: Group) -> Sequence[Blemish]:
    """A string without use in the middle of code, posing as documentation."""
    for file, language in source_files(candidate):
        for hunk in file.hunks if language == "python" else ():
            lines = [line for line in hunk.lines if line.marker != "-" and line.text.strip()]
            for before, line in itertools.pairwise(lines):
                is_text = (
                    line.marker == "+" and line.text.strip() == '"""' and not is_prose(before.text.strip())
                )
                if is_text and before.marker == "+" and is_comment(before.text, "python"):
                    return blemish(
                        "misplaced text",
                        "puts a text without use amid the code",
                        quote(before, file.lines),
                        costs={"consistency": 2},
                    )
    return []
