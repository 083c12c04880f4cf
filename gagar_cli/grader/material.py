"""What a judge without tools is given: the same lines that the tools would show, in one message.

Each part is headed by a line of ours that names the tool and candidate whose output it is; every untrusted line stands
behind its coordinate, so that it can be cited and can never pose as a heading. Parts are cut to a share of the whole,
and a cut is told.
"""

from collections.abc import Sequence

from gagar_cli.grader import views
from gagar_cli.grader.workspace import Workspace

MAX_MATERIAL_CHARS = 240_000
"""About 70,000 tokens: fits the windows of the endpoints that are in use."""
_OVERVIEW_SHARE = 0.2
_PATCH_SHARE = 0.75
"""Of what an attempt may take; the rest is for its test output."""
_MIN_PART_CHARS = 1_000


def compose_material(workspace: Workspace) -> str:
    """The overview, every attempt's patch, and the end of each candidate's test output."""
    n_attempts = len(workspace.attempts)
    overview_chars = int(MAX_MATERIAL_CHARS * _OVERVIEW_SHARE)
    share = max(_MIN_PART_CHARS, (MAX_MATERIAL_CHARS - overview_chars) // n_attempts)
    parts = [_part("overview", _head(list(views.overview(workspace, None)), overview_chars))]
    for name, attempt in workspace.attempts.items():
        patch = list(views.patch_lines(attempt, None)) or ["no changes"]
        if attempt.trajectory.model_patch is None:
            patch = ["the patch is unknown"]
        parts.append(_part(f"view_patch {name}", _head(patch, int(share * _PATCH_SHARE))))
        if name in workspace.candidates and attempt.test_lines:
            tests = list(views.test_output_lines(attempt))
            parts.append(_part(f"view_test_output {name}", _tail(tests, int(share * (1 - _PATCH_SHARE)))))
    return "\n\n".join(parts)


def _part(title: str, lines: Sequence[str]) -> str:
    return "\n".join([f"## {title}", *lines])


def _head(lines: Sequence[str], max_chars: int) -> list[str]:
    n_fitting = _n_fitting(lines, max_chars)
    n_cut = len(lines) - n_fitting
    return [*lines[:n_fitting], *([f"({n_cut} more lines are not shown)"] if n_cut else [])]


def _tail(lines: Sequence[str], max_chars: int) -> list[str]:
    n_fitting = _n_fitting(list(reversed(lines)), max_chars)
    n_cut = len(lines) - n_fitting
    return [*([f"({n_cut} earlier lines are not shown)"] if n_cut else []), *lines[n_cut:]]


def _n_fitting(lines: Sequence[str], max_chars: int) -> int:
    """How many lines fit, at least one."""
    n_chars = 0
    for number, line in enumerate(lines):
        n_chars += len(line) + 1
        if n_chars > max_chars and number:
            return number
    return len(lines)
