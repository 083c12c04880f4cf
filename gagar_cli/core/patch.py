"""Unified diffs: files, hunks, line numbers, refusals, exact application.

Patches are written by policies and never trusted. `parse_patch` takes any text and never raises: what it cannot read
becomes a `PatchProblem`. It reads what `git apply -p1` reads, in one pass, without git. Nothing here touches files, and
binary deltas are listed, never inflated.

The parts: values in `patch_model.py`, reading in `patch_parser.py`, names and modes in `patch_names.py`.
"""

from gagar_cli.core.patch_model import (
    Change,
    Hunk,
    Patch,
    PatchConflict,
    PatchFile,
    PatchLine,
    PatchProblem,
    show_text,
)
from gagar_cli.core.patch_names import why_mode_is_refused, why_path_is_refused
from gagar_cli.core.patch_parser import parse_patch

__all__ = [
    "Change",
    "Hunk",
    "Patch",
    "PatchConflict",
    "PatchFile",
    "PatchLine",
    "PatchProblem",
    "apply_file",
    "parse_patch",
    "refuse_patch",
]


def refuse_patch(patch: Patch) -> tuple[PatchProblem, ...]:
    """Why this patch must not be applied anywhere, not even in a sandbox; empty if it may.

    A patch of which no file could be read is refused with what `parse_patch` said.
    """
    refusals = [] if patch.files else list(patch.problems)
    for file in patch.files:
        paths = dict.fromkeys(path for path in (file.old_path, file.new_path) if path is not None)
        for path in paths or [""]:
            if reason := why_path_is_refused(path):
                refusals.append(PatchProblem(file.line, f"{reason}: {show_text(path)}"))
        if file.new_mode is not None and (reason := why_mode_is_refused(file.new_mode)):
            refusals.append(PatchProblem(file.line, f"{reason}: {show_text(file.path)}"))
    return tuple(refusals)


def apply_file(patch_file: PatchFile, base: str | None) -> str:
    """The file's text after the patch; a deleted file's is empty.

    Every hunk must fit at the very lines that its header names: no fuzz and no offset, so that the line numbers of the
    patch are true. `base` is the text of `old_path`, None where the base repository has no such file.

    Raises:
        PatchConflict: a hunk does not fit, or the file is binary, missing, or there already.
    """
    if patch_file.is_binary:
        raise PatchConflict(patch_file.path, 0, "it is binary")
    if base is None and not _makes_its_file(patch_file):
        raise PatchConflict(patch_file.path, 0, "no such file")
    if base is not None and patch_file.change == "added":
        raise PatchConflict(patch_file.path, 0, "the file exists")
    before = _split_keeping_newlines(base or "")
    after: list[str] = []
    n_used = 0
    for number, hunk in enumerate(patch_file.hunks, 1):
        start = hunk.old_start - (1 if hunk.old_count else 0)
        old = _texts(hunk, "-", lacks_newline=hunk.old_lacks_newline)
        if start < n_used or before[start : start + len(old)] != old or start > len(before):
            raise PatchConflict(patch_file.path, number, f"the old lines differ at line {hunk.old_start}")
        after += before[n_used:start]
        if len(after) != hunk.new_start - (1 if hunk.new_count else 0):
            raise PatchConflict(
                patch_file.path, number, f"it lands at line {len(after) + 1}, not {hunk.new_start}"
            )
        after += _texts(hunk, "+", lacks_newline=hunk.new_lacks_newline)
        n_used = start + len(old)
        if hunk.new_lacks_newline and n_used < len(before):
            raise PatchConflict(patch_file.path, number, "the newline is missing in the middle of the file")
    after += before[n_used:]
    if patch_file.change == "deleted" and patch_file.hunks and after:
        raise PatchConflict(patch_file.path, len(patch_file.hunks), "lines are left in the deleted file")
    return "" if patch_file.change == "deleted" else "".join(after)


def _makes_its_file(patch_file: PatchFile) -> bool:
    """Whether no base is needed; a plain diff may name the new file on both sides."""
    return patch_file.change == "added" or (
        patch_file.change == "modified"
        and [hunk.old_start + hunk.old_count for hunk in patch_file.hunks] == [0]
    )


def _split_keeping_newlines(text: str) -> list[str]:
    """Lines that end at newline characters only: `str.splitlines` also ends them at form feeds and the like."""
    *whole, rest = text.split("\n")
    return [line + "\n" for line in whole] + ([rest] if rest else [])


def _texts(hunk: Hunk, marker: str, *, lacks_newline: bool) -> list[str]:
    """The hunk's lines on one side, each with its newline."""
    texts = [line.text + "\n" for line in hunk.lines if line.marker in (" ", marker)]
    if lacks_newline and texts:
        texts[-1] = texts[-1][:-1]
    return texts
