"""All candidates' patches side by side, place by place: who changes the same lines, and in how many ways.

The changed lines of a file are gathered by where they stand in the base file; changes that lie within a few lines of
each other are one place. Changes there that differ in white space only are one variant, shown once, as its first
candidate has it. So sixteen patches of one fix are about as long as the ways in which they differ.
"""

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gagar_cli.core.patch import PatchFile
from gagar_cli.core.patch_model import PatchLine
from gagar_cli.core.text import counted
from gagar_cli.grader.pages import Line, Place
from gagar_cli.grader.workspace import Attempt, describe_file

NEAR_LINES = 2
"""Unchanged base lines between changes of one place, at most."""
MAX_VARIANT_LINES = 40


class Run(NamedTuple):
    """Changed lines next to each other, and the base lines that they replace or follow."""

    start: int
    end: int
    lines: tuple[PatchLine, ...]


class Variant(NamedTuple):
    """One way in which a place is changed, and who does it so."""

    candidates: list[str]
    lines: list[PatchLine]
    """As the first of them has it."""
    texts: set[tuple[str, ...]]

    @property
    def differs(self) -> bool:
        """Whether they are the same but for white space."""
        return len(self.texts) > 1


def compare_all(attempts: Sequence[Attempt]) -> list[Line]:
    """The places that patches change, file by file: files of most candidates first, files of one only named."""
    by_path: dict[str, dict[str, list[PatchFile]]] = {}
    for attempt in attempts:
        for file in attempt.patch.files:
            by_path.setdefault(file.path, {}).setdefault(attempt.blind_id, []).append(file)
    names = [attempt.blind_id for attempt in attempts if attempt.patch.files]
    lines: list[Line] = [f"{counted(len(names), 'patch', 'patches')}, {counted(len(by_path), 'file')}"]
    shared = {path: files for path, files in by_path.items() if len(files) > 1 or len(names) == 1}
    for path, files in sorted(shared.items(), key=lambda entry: (-len(entry[1]), entry[0])):
        lines.append(Place("file", path))
        lines += _file_places(path, files, names)
    alone = {path: files for path, files in by_path.items() if path not in shared}
    if alone:
        lines.append("files that one candidate alone changes (view_patch shows them):")
    for path, files in sorted(alone.items(), key=lambda entry: (*entry[1], entry[0])):
        ((name, sections),) = files.items()
        lines.append(Place(f"  {name} {describe_file(sections[0]).partition(' from ')[0]}", path))
    return lines


def _file_places(path: str, files: dict[str, list[PatchFile]], names: Sequence[str]) -> Iterator[Line]:
    others = [name for name in names if name not in files]
    if others:
        yield f" not changed by {' '.join(others)}"
    changes: dict[str, list[str]] = {}
    for name, sections in files.items():
        for what in {f"{one.change}{' (binary)' if one.is_binary else ''}" for one in sections} - {
            "modified"
        }:
            changes.setdefault(what, []).append(name)
    yield from (f" {what} by {' '.join(who)}" for what, who in sorted(changes.items()))
    runs = [
        (run, name) for name, sections in files.items() for section in sections for run in find_runs(section)
    ]
    for start, end, changed in _gather(sorted(runs, key=lambda entry: (entry[0].start, entry[0].end))):
        variants = find_variants(changed)
        missing = [name for name in files if name not in changed]
        yield f" base lines {start}-{end}: {_count(variants)}" + (
            f", untouched by {' '.join(missing)}" if missing else ""
        )
        for letter, variant in zip(_letters(), variants, strict=False):
            first = variant.candidates[0]
            same = "all" if len(variant.candidates) == len(names) > 1 else " ".join(variant.candidates)
            yield f"  {letter}: {same}{' (white space differs)' if variant.differs else ''}"
            yield from (_place(first, path, line) for line in variant.lines[:MAX_VARIANT_LINES])
            n_more = len(variant.lines) - MAX_VARIANT_LINES
            if n_more > 0:
                yield f'  {counted(n_more, "more line")}: view_patch(candidate="{first}", path=…)'


def find_runs(file: PatchFile) -> Iterator[Run]:
    """The runs of changed lines of one file of a patch, in order."""
    for hunk in file.hunks:
        last = hunk.old_start - (hunk.old_count > 0)
        for is_change, group in itertools.groupby(hunk.lines, lambda line: line.marker != " "):
            lines = tuple(group)
            removed = [line.old_line for line in lines if line.old_line is not None]
            if is_change:
                yield Run(removed[0] if removed else last, removed[-1] if removed else last, lines)
            last = removed[-1] if removed else last


def find_variants(changes: dict[str, list[PatchLine]]) -> list[Variant]:
    """The different changes of one place, those of most candidates first."""
    variants: dict[tuple[str, ...], Variant] = {}
    for name, lines in changes.items():
        key = tuple(line.marker + "".join(line.text.split()) for line in lines if line.text.strip())
        variant = variants.setdefault(key, Variant([], lines, set()))
        variant.candidates.append(name)
        variant.texts.add(tuple(line.marker + line.text for line in lines))
    return sorted(variants.values(), key=lambda variant: -len(variant.candidates))


def _gather(runs: Sequence[tuple[Run, str]]) -> Iterator[tuple[int, int, dict[str, list[PatchLine]]]]:
    """Runs near each other as one place: its base lines, and each candidate's changed lines there."""
    changes: dict[str, list[PatchLine]] = {}
    start = end = 0
    for run, name in runs:
        if changes and run.start > end + NEAR_LINES + 1:
            yield start, end, changes
            changes = {}
        start, end = (start, max(end, run.end)) if changes else (run.start, run.end)
        changes.setdefault(name, []).extend(run.lines)
    if changes:
        yield start, end, changes


def _place(name: str, path: str, line: PatchLine) -> Place:
    number = -(line.old_line or 0) if line.marker == "-" else line.new_line
    return Place(f"{name}:{path}:{number}", line.marker + line.text)


def _count(variants: Sequence[Variant]) -> str:
    return "one way" if len(variants) == 1 else f"{len(variants)} ways"


def _letters() -> Iterator[str]:
    for size in itertools.count(1):
        yield from map("".join, itertools.product("ABCDEFGHIJKLMNOPQRSTUVWXYZ", repeat=size))
