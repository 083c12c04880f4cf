"""Text as a terminal shows it."""

import unicodedata


def display_width(text):
    """The number of terminal cells: wide East Asian characters take two, combining marks none."""
    return sum(_cell_width(character) for character in text)


def _cell_width(character):
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1


def shorten(text, max_cells):
    """At most `max_cells` cells of the text, the cut shown as an ellipsis."""
    if display_width(text) <= max_cells:
        return text
    kept = ""
    for character in text:
        if display_width(kept + character) > max_cells - 1:
            break
        kept += character
    return kept + "…"
