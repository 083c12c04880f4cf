"""Pages: tool output in bounded pieces, every untrusted line behind its coordinate.

`COORD│TEXT` marks text that somebody else wrote; a line without `│` is the tool's own. Long lines are cut on the page
(evidence is still checked against the whole line), long output is paged with the call that continues it.
"""

from collections.abc import Sequence

from gagar_cli.core.text import escape_untrusted

PAGE_LINES = 200
PAGE_CHARS = 24_000
LINE_CHARS = 500

GUTTER = "│"


def cite(coordinate: str, text: str) -> str:
    """One untrusted line behind its coordinate, harmless and of bounded length."""
    if len(text) > LINE_CHARS:
        text = f"{text[:LINE_CHARS]}… [{len(text) - LINE_CHARS} more characters]"
    return f"{show_inline(coordinate)}{GUTTER}{escape_untrusted(text, keep_newlines=False)}"


def show_inline(text: str) -> str:
    """A name or short text within a line of ours: harmless, and unable to pose as a gutter."""
    return escape_untrusted(text, keep_newlines=False).replace(GUTTER, "\\u{2502}")


def page(lines: Sequence[str], start: int, *, empty: str = "nothing to show") -> str:
    """The lines from `start` (1-based) that fit on one page, with a footer that says how to go on."""
    if not lines:
        return empty
    if start > len(lines):
        return f"error: start is {start}, there are {len(lines)} lines"
    shown: list[str] = []
    n_chars = 0
    for line in lines[start - 1 : start - 1 + PAGE_LINES]:
        n_chars += len(line) + 1
        if shown and n_chars > PAGE_CHARS:
            break
        shown.append(line[:PAGE_CHARS])
    end = start - 1 + len(shown)
    header = [f"lines {start}-{end} of {len(lines)}"] if start > 1 or end < len(lines) else []
    footer = [f"more: call again with start={end + 1}"] if end < len(lines) else []
    return "\n".join([*header, *shown, *footer])


def head_and_tail(lines: Sequence[str], more: str) -> list[str]:
    """At most a page of lines: some from the start, most from the end, where failures are told; what is left out is said."""
    if not lines:
        return ["no output"]
    head = _fitting(lines, PAGE_LINES // 4, PAGE_CHARS // 4)
    if head == len(lines):
        return list(lines)
    rest = list(reversed(lines[head:]))
    tail = _fitting(rest, PAGE_LINES // 2, PAGE_CHARS // 2)
    n_left_out = len(lines) - head - tail
    middle = [f"({n_left_out} lines left out: {more})"] if n_left_out else []
    return [*lines[:head], *middle, *lines[len(lines) - tail :]]


def _fitting(lines: Sequence[str], max_lines: int, max_chars: int) -> int:
    """How many lines fit, at least one."""
    n_chars = 0
    for number, line in enumerate(lines[:max_lines]):
        n_chars += len(line) + 1
        if n_chars > max_chars and number:
            return number
    return min(len(lines), max_lines)
