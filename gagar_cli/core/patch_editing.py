"""Patches changed line by line, so that they still apply: everything that is not touched keeps its bytes.

A patch is text between hunks, and hunks; when a hunk's lines change its header is counted anew, and the hunks after it in the
same file move along.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

_HEADER = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@(.*)")
_NO_NEWLINE = "\\"


@dataclass(frozen=True, slots=True)
class EditableHunk:
    """One hunk as text."""

    path: str
    """Of the new file; empty for a deleted one."""
    old_start: int
    new_start: int
    section: str
    lines: tuple[str, ...]
    """With their markers, `\\ No newline` lines among them."""
    is_new_file: bool

    @property
    def new_side(self) -> list[tuple[int, str]]:
        """(place in `lines`, text) of the lines that the patched file has."""
        return [(n, line[1:]) for n, line in enumerate(self.lines) if line[:1] in ("+", " ", "")]


@dataclass(frozen=True, slots=True)
class EditablePatch:
    """A patch as pieces: text as it stands, and hunks."""

    pieces: tuple[str | EditableHunk, ...]

    @property
    def hunks(self) -> list[tuple[int, EditableHunk]]:
        """(place in `pieces`, hunk)."""
        return [(n, piece) for n, piece in enumerate(self.pieces) if isinstance(piece, EditableHunk)]

    def with_lines(self, place: int, lines: Sequence[str]) -> "EditablePatch":
        """The patch with other lines in the hunk at this place of `pieces`."""
        pieces = list(self.pieces)
        hunk = pieces[place]
        assert isinstance(hunk, EditableHunk)  # noqa: S101 - places come from `hunks`
        grown = _count(lines)[1] - _count(hunk.lines)[1]
        pieces[place] = replace(hunk, lines=tuple(lines))
        for later in range(place + 1, len(pieces)):
            following = pieces[later]
            if isinstance(following, str):
                break
            pieces[later] = replace(following, new_start=following.new_start + grown)
        return EditablePatch(tuple(pieces))

    def render(self) -> str:
        """The patch as text."""
        return "".join(piece if isinstance(piece, str) else _render(piece) for piece in self.pieces)


def read_editable(text: str) -> EditablePatch | None:
    """A patch in pieces; None where its hunks are not as their headers say."""
    pieces: list[str | EditableHunk] = []
    between: list[str] = []
    path, is_new = "", False
    lines = text.split("\n")
    number = 0
    while number < len(lines):
        line = lines[number]
        header = _HEADER.fullmatch(line.rstrip("\r")) if line.startswith("@@ ") else None
        if header is None:
            if line.startswith("--- "):
                is_new = line.split("\t")[0].rstrip() == "--- /dev/null"
            elif line.startswith("+++ "):
                path = line[4:].split("\t")[0].rstrip().removeprefix("b/")
            between.append(line)
            number += 1
            continue
        if between:
            pieces.append("\n".join(between) + "\n")
            between = []
        n_old, n_new = (int(count) if count is not None else 1 for count in (header[2], header[4]))
        body = _take(lines, number + 1, n_old, n_new)
        if body is None:
            return None
        pieces.append(EditableHunk(path, int(header[1]), int(header[3]), header[5], tuple(body), is_new))
        number += 1 + len(body)
    rest = "\n".join(between)
    if rest:
        pieces.append(rest)
    return EditablePatch(tuple(pieces))


def new_file(path: str, lines: Sequence[str]) -> str:
    """A patch section that adds a file."""
    body = "".join(f"+{line}\n" for line in lines)
    return (
        f"diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n"
        f"@@ -0,0 +1,{len(lines)} @@\n{body}"
    )


def append_section(patch: str, section: str) -> str:
    """A patch with one more section behind it."""
    return patch + ("" if patch.endswith("\n") else "\n") + section


def _take(lines: Sequence[str], start: int, n_old: int, n_new: int) -> list[str] | None:
    body = []
    for line in lines[start:]:
        if n_old == 0 and n_new == 0 and not line.startswith(_NO_NEWLINE):
            break
        marker = line[:1]
        if marker in (" ", "", "-"):
            n_old -= 1
        if marker in (" ", "", "+"):
            n_new -= 1
        if marker not in (" ", "", "-", "+", _NO_NEWLINE) or n_old < 0 or n_new < 0:
            return None
        body.append(line)
    return body if n_old == n_new == 0 else None


def _count(lines: Sequence[str]) -> tuple[int, int]:
    n_old = sum(line[:1] in (" ", "", "-") for line in lines)
    n_new = sum(line[:1] in (" ", "", "+") for line in lines)
    return n_old, n_new


def _render(hunk: EditableHunk) -> str:
    n_old, n_new = _count(hunk.lines)
    body = "".join(f"{line}\n" for line in hunk.lines)
    return f"@@ -{hunk.old_start},{n_old} +{hunk.new_start},{n_new} @@{hunk.section}\n{body}"
