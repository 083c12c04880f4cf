"""Reading unified diffs, git's and plain ones, from text of any kind.

One pass over the lines, the counts of a hunk's header decide where it ends, as in git. Where a count is wrong the hunk
keeps the lines that were read, and the problem names the hunk.
"""

import re
from dataclasses import dataclass

from gagar_cli.core.patch_model import Change, Hunk, Patch, PatchFile, PatchLine, PatchProblem, show_text
from gagar_cli.core.patch_names import MAX_HEADER_CHARS, read_name, shared_name, strip_prefix

MAX_PATCH_CHARS = 50_000_000
MAX_PATCH_LINES = 1_000_000
MAX_PATCH_FILES = 20_000
MAX_PROBLEMS = 100
"""Listed; a text may hold a million broken headers."""

_HUNK = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@ ?(.*)", re.DOTALL)
_BINARY_SIZE = re.compile(r"(?:literal|delta) \d+\r?$")
_MODE_LINE = re.compile(r"(old mode|new mode|deleted file mode|new file mode) ([0-7]{5,6})$")
_NAME_LINE = re.compile(r"(rename|copy) (from|to|old|new) (.+)", re.DOTALL)
_INDEX_LINE = re.compile(r"index [0-9a-fA-F]+\.\.[0-9a-fA-F]+(?: ([0-7]{5,6}))?$")
_SIMILARITY_LINE = re.compile(r"(?:dis)?similarity index \d+%")


def parse_patch(text: str) -> Patch:
    r"""Read a git or plain unified diff; never raises.

    Prose around the files and blank first lines are passed over. A text that is not blank and holds no file, or is over
    a cap, yields no files and a problem.

    >>> patch = parse_patch("--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-a = 1\n+a = 2\n")
    >>> patch.files[0].path, patch.n_added, patch.n_removed
    ('x.py', 1, 1)
    """
    n_lines = text.count("\n")
    for size, limit, unit in (
        (len(text), MAX_PATCH_CHARS, "characters"),
        (n_lines, MAX_PATCH_LINES, "lines"),
    ):
        if size > limit:
            return Patch(problems=(PatchProblem(1, f"patch has {size:,} {unit}, more than {limit:,}"),))
    parser = _Parser(text.split("\n"))
    parser.read()
    if len(parser.files) > MAX_PATCH_FILES:
        return Patch(problems=(PatchProblem(1, f"patch has more than {MAX_PATCH_FILES:,} files"),))
    if not parser.files and not parser.problems and text.strip():
        parser.complain(1, f"no diff in {show_text(text.strip()[:200])}, expected a unified diff")
    return Patch(tuple(parser.files), tuple(parser.problems))


@dataclass(slots=True)
class _Header:
    """What the lines above a file's first hunk say."""

    line: int
    is_git: bool
    old: str | None = None
    new: str | None = None
    change: Change = "modified"
    old_mode: str | None = None
    new_mode: str | None = None
    is_binary: bool = False

    @property
    def is_bare(self) -> bool:
        """Nothing but names: such a header changes nothing by itself."""
        return self.change == "modified" and self.old_mode == self.new_mode

    def take(self, line: str) -> bool:
        """Read one extended header line of git; False if it is none."""
        if match := _MODE_LINE.match(line):
            kind, mode = match[1], match[2]
            if kind == "deleted file mode":
                self.change = "deleted"
            elif kind == "new file mode":
                self.change = "added"
            if kind in ("old mode", "deleted file mode"):
                self.old_mode = mode
            else:
                self.new_mode = mode
        elif match := _NAME_LINE.match(line):
            self.change = "renamed" if match[1] == "rename" else "copied"
            if match[2] in ("from", "old"):
                self.old = read_name(match[3])
            else:
                self.new = read_name(match[3])
        elif match := _INDEX_LINE.match(line):
            if match[1]:
                self.old_mode, self.new_mode = self.old_mode or match[1], self.new_mode or match[1]
        else:
            return _SIMILARITY_LINE.match(line) is not None
        return True

    def take_names(self, old_line: str, new_line: str) -> bool:
        """Read the `---` and `+++` lines; False if they contradict the lines above them."""
        old, new = _read_side(old_line), _read_side(new_line)
        self.change = "added" if old is None else "deleted" if new is None else self.change
        if self.old is not None or self.new is not None:
            return all(name in (None, said) for name, said in ((old, self.old), (new, self.new)))
        if not self.is_git and old is not None and new is not None and new.startswith(old):
            new = old  # like git: `--- x.py` with `+++ x.py.new` means `x.py`
        self.old, self.new = (new, new) if not self.is_git and new is not None else (old, new)
        return True


def _read_side(line: str) -> str | None:
    """The name of a `---` or `+++` line without its prefix; None for `/dev/null`."""
    name = read_name(line[4:])
    return None if name == "/dev/null" else strip_prefix(name) or name


class _Parser:
    """The lines of a text and how far they are read."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines
        if lines[-1] == "":
            lines.pop()
        self.at = 0
        self.files: list[PatchFile] = []
        self.problems: list[PatchProblem] = []

    def complain(self, line: int, message: str) -> None:
        """Record a problem at a 1-based line."""
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(PatchProblem(line, message))

    def read(self) -> None:
        """Read all files, passing over what stands between them."""
        while self.at < len(self.lines) and len(self.files) <= MAX_PATCH_FILES:
            line = self.lines[self.at]
            if line.startswith("diff --git "):
                self._read_git_file()
            elif self._is_plain_header():
                header = _Header(line=self.at + 1, is_git=False)
                header.take_names(*self._take_lines(2))
                self._read_hunks(header)
            else:
                if _HUNK.match(line):
                    self.complain(self.at + 1, "a hunk without the name of its file")
                self.at += 1

    def _take_lines(self, n: int) -> list[str]:
        """The next lines of a header, without carriage returns."""
        self.at += n
        return [line.rstrip("\r") for line in self.lines[self.at - n : self.at]]

    def _starts(self, offset: int, prefix: str) -> bool:
        return self.at + offset < len(self.lines) and self.lines[self.at + offset].startswith(prefix)

    def _is_plain_header(self) -> bool:
        """As in git, a hunk must follow: prose and signatures have lines of dashes too."""
        return self._starts(0, "--- ") and self._starts(1, "+++ ") and self._starts(2, "@@ -")

    def _read_git_file(self) -> None:
        name = shared_name(self._take_lines(1)[0].removeprefix("diff --git "))
        header = _Header(line=self.at, is_git=True, old=name, new=name)
        while self.at < len(self.lines):
            if self._starts(0, "--- ") and self._starts(1, "+++ "):
                if not header.take_names(*self._take_lines(2)):
                    self.complain(self.at, "the names in --- and +++ are not those of the lines above")
                break
            line = self.lines[self.at][:MAX_HEADER_CHARS].rstrip("\r")
            if line == "GIT binary patch" or (line.startswith("Binary files ") and line.endswith(" differ")):
                header.is_binary = True
                self.at += 1
                self._skip_deltas()
                break
            if not header.take(line):
                break
            self.at += 1
        self._read_hunks(header)

    def _skip_deltas(self) -> None:
        """Pass over the forward and the reverse delta, each ended by a blank line."""
        while self.at < len(self.lines) and _BINARY_SIZE.match(self.lines[self.at]):
            while self.at < len(self.lines) and self.lines[self.at].strip():
                self.at += 1
            self.at += 1

    def _read_hunks(self, header: _Header) -> None:
        """Read what follows a file's header and add the file."""
        path = header.new or header.old or ""
        hunks: list[Hunk] = []
        is_broken = False
        while self._starts(0, "@@ -"):
            hunk_line = self.at + 1
            match = _HUNK.match(self.lines[self.at])
            self.at += 1
            name = f"hunk {len(hunks) + 1} of {show_text(path)}"
            if match is None:
                self.complain(hunk_line, f"the header of {name} cannot be read")
                is_broken = True
                break
            hunk, problem = self._read_hunk(match)
            hunks.append(hunk)
            if problem is not None:
                self.complain(hunk_line, f"{name} {problem}")
        if not path:
            self.complain(header.line, "the name of the file cannot be told")
        elif not (hunks or is_broken or header.is_binary) and header.is_bare:
            self.complain(header.line, f"no change follows the header of {show_text(path)}")
        self.files.append(
            PatchFile(
                old_path=None if header.change == "added" else header.old,
                new_path=None if header.change == "deleted" else header.new,
                change=header.change,
                old_mode=header.old_mode,
                new_mode=header.new_mode,
                is_binary=header.is_binary,
                hunks=tuple(hunks),
                line=header.line,
            )
        )

    def _read_hunk(self, header: re.Match[str]) -> tuple[Hunk, str | None]:
        """The hunk below its header line, and what is wrong with its counts."""
        old_start, new_start = int(header[1]), int(header[3])
        old_count, new_count = int(header[2] or 1), int(header[4] or 1)
        # A count of 0 names the line before the hunk.
        old_line, new_line = old_start + (not old_count), new_start + (not new_count)
        old_end, new_end = old_line + old_count, new_line + new_count
        lines: list[PatchLine] = []
        lacking: set[str] = set()
        while self.at < len(self.lines):
            line = self.lines[self.at]
            marker = line[:1] or " "
            if marker == "\\":
                lacking.add(lines[-1].marker if lines else "")
            elif marker == " " and old_line < old_end and new_line < new_end:
                lines.append(PatchLine(" ", line[1:], old_line, new_line))
                old_line, new_line = old_line + 1, new_line + 1
            elif marker == "-" and old_line < old_end:
                lines.append(PatchLine("-", line[1:], old_line, None))
                old_line += 1
            elif marker == "+" and new_line < new_end:
                lines.append(PatchLine("+", line[1:], None, new_line))
                new_line += 1
            else:
                break
            self.at += 1
        hunk = Hunk(
            old_start,
            old_count,
            new_start,
            new_count,
            section=header[5].rstrip("\r"),
            lines=tuple(lines),
            old_lacks_newline=not lacking.isdisjoint(" -"),
            new_lacks_newline=not lacking.isdisjoint(" +"),
        )
        return hunk, self._check_counts(hunk, n_old_left=old_end - old_line, n_new_left=new_end - new_line)

    def _check_counts(self, hunk: Hunk, *, n_old_left: int, n_new_left: int) -> str | None:
        if n_old_left or n_new_left:
            n_old, n_new = hunk.old_count - n_old_left, hunk.new_count - n_new_left
            return f"has {n_old} old and {n_new} new lines, its header says {hunk.old_count} and {hunk.new_count}"
        is_over = (self._starts(0, "+") or self._starts(0, "-")) and not self._is_plain_header()
        if is_over and self.lines[self.at].rstrip() != "--":
            return f"has more lines than its header says ({hunk.old_count} old, {hunk.new_count} new)"
        return None
