r"""Untrusted text made harmless to look at, and small forms of text that messages and tables share.

A policy that is trained to please the grader writes file names, logs and patches. Every such string passes
`escape_untrusted` on its way to a terminal or into a conversation: what could move a cursor, hide, reorder or
pose as a chat template's own token is shown as `\u{hex}` instead. Nothing is dropped: `unescape_shown` undoes it, and
`quotable` brings a text and what was shown of it to the same form, so it can still be quoted.
"""

import re
import sys
from collections.abc import Mapping

_INVISIBLE = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 but for tab and newline, DEL, C1
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"  # soft hyphen, joiners, fillers
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb"  # zero width, bidi, separators
    "\ud800-\udfff"  # surrogates
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"  # format controls, tags, selectors
)
_ANGLE_TOKENS = (
    r"<SYS>|/SYS>|/?s>|/?(?:bos|eos|pad|unk|sop|eop|BOS|EOS|PAD|UNK)(?:_TOKEN)?>"
    r"|/?(?:start|end)_(?:of_turn|of_image|function_(?:call|response|declaration))>|(?:start|end)_of_\w{1,20}>"
    r"|/?(?:\w{1,20}:)?(?:think|tool_calls?|tool_responses?|tools|function_calls|bos|eos)>|/?tool▁\w{1,20}>"
    r"|/?\w{1,24}\|>|(?:extra_id|SPECIAL|reserved|unused)_\w{0,12}>|<(?=/?SYS>>)"
)
_SQUARE_TOKENS = (
    r"/?(?:INST|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|TOOL_CONTENT|SYSTEM_PROMPT|THINK|ARGS|CALL_ID|IMG|gMASK)\]"
    r"|\|\w{1,20}\|\]|UNUSED_TOKEN_\d{1,4}\]"
)
_UNSAFE = re.compile(f"[{_INVISIBLE}]|<(?=[|｜]|{_ANGLE_TOKENS})|\\[(?={_SQUARE_TOKENS})")
"""Besides characters, what opens a control token of the chat templates in use: a server may split it off anywhere."""
_SHOWN = re.compile(r"\\u\{([0-9a-f]{1,6})\}")
_MISWRITTEN = re.compile(r"(?:\\\\|(?<!\\))u(?=\{[0-9a-f]{1,6}\})")


def escape_untrusted(text: str, *, keep_newlines: bool = True) -> str:
    r"""The text with every character that a terminal or chat template would obey shown as `\u{hex}`.

    Covers C0 (but tab and, by default, newline), DEL, C1, bidi, zero-width, separators, surrogates, tags, and the
    first character of control tokens such as `<|im_start|>`, `<start_of_turn>`, `[INST]` or `<think>`.

    >>> escape_untrusted("a\x1b[31mb\u202e")
    'a\\u{1b}[31mb\\u{202e}'
    """
    escaped = _UNSAFE.sub(lambda match: f"\\u{{{ord(match[0]):x}}}", text)
    return escaped if keep_newlines else escaped.replace("\n", "\\n").replace("\t", " ")


def unescape_shown(text: str) -> str:
    r"""The text with every `\u{hex}` made the character that it stands for.

    >>> unescape_shown("\\u{3c}|im_start|>")
    '<|im_start|>'
    """
    return _SHOWN.sub(_character, text)


def mend_escapes(text: str) -> str:
    r"""The text with `\u{hex}` where a writer of JSON doubled or lost its backslash."""
    return _MISWRITTEN.sub(r"\\u", text)


def _character(match: re.Match[str]) -> str:
    code = int(match[1], 16)
    return chr(code) if code <= sys.maxunicode else match[0]


def quotable(text: str) -> str:
    """The form in which a quote is looked for: the same for a text and for what `escape_untrusted` shows of it."""
    return fold_whitespace(unescape_shown(text))


def split_lines(text: str) -> list[str]:
    """The lines as git and editors count them: ended by newlines only, not by form feeds and other separators."""
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return lines


def count_lines(text: str) -> int:
    """How many lines `split_lines` would make."""
    return text.count("\n") + (not text.endswith("\n") and text != "")


def fold_whitespace(text: str) -> str:
    """Runs of white space as one blank, none at the ends: how quotes are compared with what they cite."""
    return " ".join(text.split())


def shorten(text: str, max_chars: int) -> str:
    """At most `max_chars` characters, the cut shown as an ellipsis."""
    return text if len(text) <= max_chars else text[: max_chars - 1] + "…"


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """A count with its noun in the right number; `plural` where an `s` does not make it.

    >>> counted(1, "group"), counted(1200, "group"), counted(0, "trajectory", "trajectories")
    ('1 group', '1,200 groups', '0 trajectories')
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def told_counts(counts: Mapping[str, int]) -> str:
    """Names with how many there are of each.

    >>> told_counts({"no_ranking": 1200, "late": 1})
    'no_ranking 1,200, late 1'
    """
    return ", ".join(f"{name} {count:,}" for name, count in counts.items())
