"""Pages of `view_patch` → the files of one patch.

The workspace has parsed the diff already; what is read here is its listing: a heading behind the coordinate of line 0,
`@@ …` lines in its own words, then one line a patch line behind coordinates.
"""

import re
from collections.abc import Iterable

from gagar_cli.grader.offline.facts import Hunk, PatchedFile, ShownLine

_FILE = re.compile(
    r"^(?P<change>added|deleted|modified|renamed|copied) (?:binary )?file \+(?P<added>\d+) -(?P<removed>\d+)(?: |$)"
)
_HEADING = re.compile(r"^[cf]\d+:(?P<path>.+):0$")
_HUNK = re.compile(r"^@@ -(?P<old>\d+)(?:,\d+)? \+\d+")
_COORDINATE = re.compile(r"^[cf]\d+:.+:(?P<sign>-?)(?P<number>\d+)$")


class _OpenFile:
    """A file whose hunks are still being read."""

    def __init__(self, path: str, change: str, n_added: int, n_removed: int) -> None:
        self.path, self.change, self.n_added, self.n_removed = path, change, n_added, n_removed
        self.hunks: list[list[ShownLine]] = []

    def closed(self) -> PatchedFile:
        """The file with what was read of it."""
        hunks = tuple(Hunk(tuple(lines)) for lines in self.hunks if lines)
        return PatchedFile(self.path, self.change, self.n_added, self.n_removed, hunks)


def read_patch(pages: Iterable[str]) -> tuple[PatchedFile, ...]:
    """The files of one patch, from its pages in order."""
    files: dict[str, _OpenFile] = {}
    current: _OpenFile | None = None
    base = 1
    for line in (line for page in pages for line in page.split("\n")):
        at, separator, text = line.partition("│")
        if match := _HUNK.match(at):
            base = max(1, int(match["old"]))
            if current:
                current.hunks.append([])
        elif separator and (heading := _HEADING.match(at)):
            if match := _FILE.match(text):
                # A page may repeat the heading of the file that it continues.
                current = files.setdefault(heading["path"], _open(heading["path"], match))
        elif separator:
            shown = _read_patch_line(at, text, base)
            if shown and current:
                base = shown.base if shown.marker == "+" else shown.base + 1
                if not current.hunks:
                    current.hunks.append([])
                current.hunks[-1].append(shown)
    return tuple(file.closed() for file in files.values())


def _open(path: str, match: re.Match[str]) -> _OpenFile:
    return _OpenFile(path, match["change"], int(match["added"]), int(match["removed"]))


def _read_patch_line(at: str, text: str, base: int) -> ShownLine | None:
    match = _COORDINATE.match(at)
    if not match or text[:1] not in ("+", "-", " "):
        return None
    number = int(match["number"])
    return ShownLine(at, text[1:], text[0], number, number if match["sign"] else base)
