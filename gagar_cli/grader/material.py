"""What a judge without tools is given: the same lines that the tools would show, in one message.

Each part is headed by a line of ours that names the tool and candidate whose output it is; every untrusted line stands
behind its coordinate, so that it can be cited and can never pose as a heading. Every cut is told.

Where not all fits, the room is dealt out evenly: first to the attempts, then to patch and test output of each, then to
the files of the patch. What one does not need goes to the others, so no attempt gains or loses by another's length, and
no file by one that stands before it. Failing attempts, which are context, get a quarter of a candidate's share.
"""

from collections.abc import Sequence

from gagar_cli.core.text import counted
from gagar_cli.grader import views
from gagar_cli.grader.pages import Line, render
from gagar_cli.grader.workspace import Attempt, Workspace

MAX_MATERIAL_CHARS = 240_000
"""About 70,000 tokens: fits the windows of the endpoints that are in use."""
_OVERVIEW_SHARE = 0.2
_TEST_SHARE = 0.25
"""Of what an attempt gets, where its patch would take all of it."""
_REFERENCE_WEIGHT = 0.25
_MAX_TEST_LINES = 30
"""Of each test output its last lines: of attempts that passed there is little else to learn from it."""
_HEADING_CHARS = 100
"""For a part's heading, and for the line that tells a cut."""


def compose_material(workspace: Workspace, max_chars: int = MAX_MATERIAL_CHARS) -> str:
    """The overview, every attempt's patch, and the end of each candidate's test output."""
    overview_chars = int(max_chars * _OVERVIEW_SHARE)
    parts = [_part("overview", _head(list(views.overview(workspace, None)), overview_chars))]
    shown = [_Shown(workspace, attempt) for attempt in workspace.attempts.values()]
    weights = [1.0 if one.is_candidate else _REFERENCE_WEIGHT for one in shown]
    rest = max_chars - len(parts[0]) - _HEADING_CHARS
    for one, share in zip(shown, deal_out([one.n_chars for one in shown], weights, rest), strict=True):
        parts += one.parts(share)
    return "\n\n".join(parts)


def deal_out(wanted: Sequence[int], weights: Sequence[float], total: float) -> list[int]:
    """So much for each that none gets more than it wants, and those that get less have the same for their weight.

    >>> deal_out([10, 500, 90], [1, 1, 1], 300)
    [10, 200, 90]
    """
    shares = [0] * len(wanted)
    left, weight_left = max(0.0, total), float(sum(weights))
    for place in sorted(range(len(wanted)), key=lambda place: wanted[place] / weights[place]):
        shares[place] = min(wanted[place], int(left * weights[place] / weight_left + 1e-6))
        left -= shares[place]
        weight_left -= weights[place]
    return shares


class _Shown:
    """One attempt's lines, before they are cut."""

    def __init__(self, workspace: Workspace, attempt: Attempt) -> None:
        self.name = attempt.blind_id
        self.is_candidate = attempt.blind_id in workspace.candidates
        self._files = [list(map(_rendered, part)) for part in views.patch_parts(attempt) if part]
        if attempt.trajectory.model_patch is None:
            self._files = [["the patch is unknown"]]
        elif not self._files:
            self._files = [["no changes"]]
        tests = views.test_output_lines(attempt) if self.is_candidate else []
        self._n_tests = len(tests)
        self._tests = tests[-_MAX_TEST_LINES:]
        self._patch_chars = sum(map(_size, self._files)) + _HEADING_CHARS * (1 + len(self._files))
        self._test_chars = _size(self._tests) + 2 * _HEADING_CHARS if self._tests else 0
        self.n_chars = self._patch_chars + self._test_chars

    def parts(self, max_chars: int) -> list[str]:
        """Its patch and test output within so many characters."""
        for_tests = max(int(max_chars * _TEST_SHARE), max_chars - self._patch_chars)
        for_tests = min(self._test_chars, for_tests)
        parts = [_part(f"view_patch {self.name}", self._cut_patch(max_chars - for_tests - _HEADING_CHARS))]
        if self._tests:
            tail = _tail(self._tests, for_tests - 2 * _HEADING_CHARS, self._n_tests)
            parts.append(_part(f"view_test_output {self.name}", tail))
        return parts

    def _cut_patch(self, max_chars: int) -> list[str]:
        n_files = max(1, min(len(self._files), max_chars // (4 * _HEADING_CHARS)))
        files = self._files[:n_files]
        wanted = [_size(lines) + _HEADING_CHARS for lines in files]
        shares = deal_out(wanted, [1.0] * n_files, max_chars)
        lines = [
            line
            for file, share in zip(files, shares, strict=True)
            for line in _head(file, share - _HEADING_CHARS)
        ]
        n_more = len(self._files) - n_files
        return [
            *lines,
            *([f"({counted(n_more, 'more file is', 'more files are')} not shown)"] if n_more else []),
        ]


def _rendered(line: Line) -> str:
    return render(line)


def _part(title: str, lines: Sequence[str]) -> str:
    return "\n".join([f"## {title}", *lines])


def _size(lines: Sequence[str]) -> int:
    return sum(map(len, lines)) + len(lines)


def _head(lines: Sequence[str], max_chars: int) -> list[str]:
    n_fitting = _n_fitting(lines, max_chars)
    n_cut = len(lines) - n_fitting
    return [
        *lines[:n_fitting],
        *([f"({counted(n_cut, 'more line is', 'more lines are')} not shown)"] if n_cut else []),
    ]


def _tail(lines: Sequence[str], max_chars: int, n_lines: int) -> list[str]:
    """The last lines of `n_lines`, of which `lines` are the last."""
    n_fitting = _n_fitting(list(reversed(lines)), max_chars)
    n_cut = n_lines - n_fitting
    shown = lines[len(lines) - n_fitting :]
    return [
        *([f"({counted(n_cut, 'earlier line is', 'earlier lines are')} not shown)"] if n_cut else []),
        *shown,
    ]


def _n_fitting(lines: Sequence[str], max_chars: int) -> int:
    n_chars = 0
    for number, line in enumerate(lines):
        n_chars += len(line) + 1
        if n_chars > max_chars:
            return number
    return len(lines)
