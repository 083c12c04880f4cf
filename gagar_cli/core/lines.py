"""Some lines of a text, without making all the others: a log may have a million."""

from gagar_cli.core.text import split_lines


def slice_lines(text: str, start: int, stop: int) -> list[str]:
    r"""The same as `split_lines(text)[start:stop]`, for places from 0 on.

    >>> slice_lines("a\nb\nc\n", 1, 3)
    ['b', 'c']
    """
    begin = _start_of_line(text, 0, start)
    if begin < 0 or stop <= start:
        return []
    end = _start_of_line(text, begin, stop - start)
    return split_lines(text[begin:] if end < 0 else text[begin:end])


def _start_of_line(text: str, place: int, n_lines: int) -> int:
    """Where the line starts that comes so many after the one at a place; -1 where there are not so many."""
    for _ in range(n_lines):
        place = text.find("\n", place) + 1
        if not place:
            return -1
    return place
