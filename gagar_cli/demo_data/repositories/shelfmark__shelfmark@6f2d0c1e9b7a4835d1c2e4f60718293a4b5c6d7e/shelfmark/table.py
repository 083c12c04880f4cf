"""Plain tables for the terminal."""

from shelfmark.text import shorten

MAX_CELLS = 40


def render_table(header, rows):
    """A table with a ruled header; columns are as wide as their widest cell, at most 40."""
    cells = [[shorten(cell, MAX_CELLS) for cell in row] for row in [list(header), *rows]]
    widths = [max(len(row[index]) for row in cells) for index in range(len(header))]
    lines = [_render_row(row, widths) for row in cells]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(lines)


def _render_row(row, widths):
    return "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip()


def render_pairs(pairs):
    """Names and values below each other, the values in one column."""
    width = max((len(name) for name, _ in pairs), default=0)
    return "\n".join(f"{name.rjust(width)}: {value}" for name, value in pairs)
