r"""Untrusted text made harmless to look at.

A policy that is trained to please the grader writes file names, logs and patches. Every such string passes
`escape_untrusted` on its way to a terminal or into a conversation: what could move a cursor, hide, reorder or
pose as a chat template's own token is shown as `\u{hex}` instead. Nothing is dropped, so the text can still be quoted.
"""

import re

_INVISIBLE = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 but for tab and newline, DEL, C1
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"  # soft hyphen, joiners, fillers
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb"  # zero width, bidi, separators
    "\ud800-\udfff"  # surrogates
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"  # format controls, tags, selectors
)
_UNSAFE = re.compile(f"[{_INVISIBLE}]|<(?=[|｜])")


def escape_untrusted(text: str, *, keep_newlines: bool = True) -> str:
    r"""The text with every character that a terminal or chat template would obey shown as `\u{hex}`.

    Covers C0 (but tab and, by default, newline), DEL, C1, bidi, zero-width, separators, surrogates, tags, and the
    `<` of `<|…|>` tokens.

    >>> escape_untrusted("a\x1b[31mb\u202e")
    'a\\u{1b}[31mb\\u{202e}'
    """
    escaped = _UNSAFE.sub(lambda match: f"\\u{{{ord(match[0]):x}}}", text)
    return escaped if keep_newlines else escaped.replace("\n", "\\n").replace("\t", " ")


def split_lines(text: str) -> list[str]:
    """The lines as git and editors count them: ended by newlines only, not by form feeds and other separators."""
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return lines


def fold_whitespace(text: str) -> str:
    """Runs of white space as one blank, none at the ends: how quotes are compared with what they cite."""
    return " ".join(text.split())


def shorten(text: str, max_chars: int) -> str:
    """At most `max_chars` characters, the cut shown as an ellipsis."""
    return text if len(text) <= max_chars else text[: max_chars - 1] + "…"
