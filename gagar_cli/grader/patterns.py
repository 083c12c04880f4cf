"""What the `search` tool looks for: a text as it is written, or a regular expression that cannot hang.

Expressions are RE2's, which takes time in proportion to the text whatever the expression: the grader may have been
talked into one that another engine would never finish. Look-around and back references are not part of it.
"""

from collections.abc import Callable
from typing import NamedTuple

MAX_EXPRESSION_CHARS = 1_000
_MAX_MEMORY_BYTES = 8 * 1024 * 1024
_DEPENDS_ON_LINE_ENDS = ("^", "$", "(?", "\\A", "\\z")


class BadExpressionError(ValueError):
    """The expression cannot be compiled; the message says why."""


class Pattern(NamedTuple):
    """Something to look for."""

    find: Callable[[str], int | None]
    """Where in a line it is; None where it is not."""
    may_be_in: Callable[[str], bool]
    """Whether it is worth looking at the lines of a text."""

    def is_in_line(self, content: str) -> bool:
        """Whether it is in a line."""
        return self.find(content) is not None


def literal(text: str) -> Pattern:
    """Lines that contain a text."""

    def find(content: str) -> int | None:
        place = content.find(text)
        return place if place >= 0 else None

    return Pattern(find, lambda content: text in content)


def expression(text: str) -> Pattern:
    """Lines in which an expression matches somewhere.

    Raises:
        BadExpressionError: it is no expression of RE2, or too long.
    """
    import re2

    if len(text) > MAX_EXPRESSION_CHARS:
        raise BadExpressionError(f"it has more than {MAX_EXPRESSION_CHARS} characters")
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MAX_MEMORY_BYTES
    try:
        compiled = re2.compile(text, options)
    except re2.error as error:
        why = error.args[0] if error.args else b""
        raise BadExpressionError(
            why.decode("utf-8", "replace") if isinstance(why, bytes) else str(why)
        ) from None
    except UnicodeEncodeError:
        raise BadExpressionError("it holds half a character") from None

    def find(content: str) -> int | None:
        encoded = content.encode("utf-8", "surrogatepass")
        match = compiled.search(encoded)
        return len(encoded[: match.start()].decode("utf-8", "surrogatepass")) if match else None

    def matches(content: str) -> bool:
        return compiled.search(content.encode("utf-8", "surrogatepass")) is not None

    # Over a whole text an anchor means something else than over each of its lines.
    is_local = not any(mark in text for mark in _DEPENDS_ON_LINE_ENDS)
    return Pattern(find, matches if is_local else _always)


def _always(_: str) -> bool:
    return True
