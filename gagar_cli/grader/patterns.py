"""What the `search` tool looks for: a text as it is written, or a regular expression that cannot hang.

Expressions are RE2's, which takes time in proportion to the text whatever the expression: the grader may have been
talked into one that another engine would never finish. Look-around and back references are not part of it.
"""

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

from gagar_cli.core.text import split_lines

MAX_EXPRESSION_CHARS = 1_000
_MAX_MEMORY_BYTES = 8 * 1024 * 1024
_ENDS = {r"\A": "^", r"\z": "$"}
"""Of a text, and what stands for them where its lines are texts."""
_ESCAPE = re.compile(r"\\.", re.DOTALL)
_NOT_BY_LINE = re.compile(r"\\[CQ]|\(\?[a-zA-Z]*-")
"""What cannot be looked for in all lines at once: bytes, where a newline counts; quoted escapes; options that are ended."""


_CONTINUES = bytes(range(0x80, 0xC0))


class BadExpressionError(ValueError):
    """The expression cannot be compiled; the message says why."""


class Hit(NamedTuple):
    """A line of a text in which something was found."""

    number: int
    """From 0 on."""
    line: str
    place: int
    """Where in the line."""


class Pattern(NamedTuple):
    """Something to look for."""

    find: Callable[[str], int | None]
    """Where in a line it is; None where it is not."""
    find_all: Callable[[str], Iterator[Hit]]
    """The lines of a text in which it is, without making the others."""

    def is_in_line(self, content: str) -> bool:
        """Whether it is in a line."""
        return self.find(content) is not None


def literal(text: str) -> Pattern:
    """Lines that contain a text."""

    def find(content: str) -> int | None:
        place = content.find(text)
        return place if place >= 0 else None

    return Pattern(find, partial(_lines_with, text))


def expression(text: str) -> Pattern:
    """Lines in which an expression matches somewhere.

    Raises:
        BadExpressionError: it is no expression of RE2, or too long.
    """
    if len(text) > MAX_EXPRESSION_CHARS:
        raise BadExpressionError(f"it has more than {MAX_EXPRESSION_CHARS} characters")
    compiled = _compile(text)

    def find(content: str) -> int | None:
        encoded = content.encode("utf-8", "surrogatepass")
        match = compiled.search(encoded)
        return _n_chars(encoded[: match.start()]) if match else None

    if _NOT_BY_LINE.search(text):
        return Pattern(find, partial(_line_by_line, find))
    try:
        by_line = _ESCAPE.sub(lambda match: _ENDS.get(match[0], match[0]), text)
        whole = _compile(f"(?m){by_line}", never_nl=True, never_capture=True)
    except BadExpressionError:
        return Pattern(find, partial(_line_by_line, find))
    return Pattern(find, partial(_lines_matching, whole))


def _compile(text: str, **options: bool) -> Any:
    import re2

    chosen = re2.Options()
    chosen.log_errors = False
    chosen.max_mem = _MAX_MEMORY_BYTES
    for name, value in options.items():
        setattr(chosen, name, value)
    try:
        return re2.compile(text, chosen)
    except re2.error as error:
        why = error.args[0] if error.args else b""
        raise BadExpressionError(
            why.decode("utf-8", "replace") if isinstance(why, bytes) else str(why)
        ) from None
    except UnicodeEncodeError:
        raise BadExpressionError("it holds half a character") from None


def _n_chars(encoded: bytes) -> int:
    r"""How many characters begin in it: `\C` may find the middle of one."""
    return len(encoded.translate(None, _CONTINUES))


def _lines_with(text: str, content: str) -> Iterator[Hit]:
    number = counted = 0
    place = content.find(text) if "\n" not in text else -1
    while place >= 0:
        start, end = content.rfind("\n", 0, place) + 1, content.find("\n", place)
        number += content.count("\n", counted, start)
        counted = start
        yield Hit(number, content[start : None if end < 0 else end], place - start)
        place = content.find(text, end + 1) if end >= 0 else -1


def _lines_matching(whole: Any, content: str) -> Iterator[Hit]:
    """By an expression that matches no newline, and whose anchors hold at every one."""
    encoded = content.encode("utf-8", "surrogatepass")
    number = counted = position = 0
    while position < len(encoded) and (match := whole.search(encoded, position)):
        place = match.start()
        if place == len(encoded) and encoded.endswith(b"\n"):
            return  # behind the last line
        start, end = encoded.rfind(b"\n", 0, place) + 1, encoded.find(b"\n", place)
        number += encoded.count(b"\n", counted, start)
        counted = start
        line = encoded[start : None if end < 0 else end].decode("utf-8", "surrogatepass")
        yield Hit(number, line, _n_chars(encoded[start:place]))
        if end < 0:
            return
        position = end + 1


def _line_by_line(find: Callable[[str], int | None], content: str) -> Iterator[Hit]:
    for number, line in enumerate(split_lines(content)):
        if (place := find(line)) is not None:
            yield Hit(number, line, place)
