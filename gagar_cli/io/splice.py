"""Members put into the text of a JSON object while every other value of it stays as it is written.

A record that is parsed and written again loses what its writer meant: digits of long numbers, `1e5`, escapes. Here the
text is only cut between its top-level members.
"""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

_BLANK = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder(parse_int=str, parse_float=str, strict=False)
"""Values are only stepped over; as text, no number is too long."""


_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False)


class NotAnObjectError(ValueError):
    """A text that was taken for a JSON object and is none."""


class _Member(NamedTuple):
    key: str
    key_text: str
    value_text: str


class Spliced(NamedTuple):
    """The new text, and the names whose old value it no longer has."""

    text: str
    replaced: frozenset[str] = frozenset()


def splice_members(text: str, members: Mapping[str, object], renamed: Mapping[str, str]) -> Spliced:
    """The object's text with `members` at its end, in place of any that it has by these names.

    `renamed` gives old names to new ones: such a member keeps its value, unless the object has the new name already.
    `text` is one JSON object, which is only looked into where it may have one of the names.

    Raises:
        NotAnObjectError: it is none, or too deep.

    >>> splice_members('{"a": 1.50, "b": 2}', {"a": 0.5, "b": 3}, {"a": "a_input"})
    Spliced(text='{"a_input": 1.50, "a": 0.5, "b": 3}', replaced=frozenset({'b'}))
    """
    added = encode_members(members)
    if not any(f'"{name}"' in text for name in (*members, *renamed)) and "\\u00" not in text:
        body = text.rstrip()[:-1].rstrip()
        return Spliced(f"{body}{'' if body.endswith('{') else ', '}{added}}}")
    found = list(_members(text))
    replaced: set[str] = set()
    kept = _kept(found, {member.key for member in found}, members, renamed, replaced)
    return Spliced("{" + ", ".join([*kept, added]) + "}", frozenset(replaced))


def splice_ends(
    head: str, tail: str, members: Mapping[str, object], renamed: Mapping[str, str]
) -> tuple[str, str, frozenset[str]]:
    """The same for an object of which only the first and last members are at hand, the others having none of the names.

    `head` ends in a comma, unless it is the brace alone; `tail` starts with one. New head and tail come back, and the
    names whose old value is gone.
    """
    first = list(_members(head.rstrip().removesuffix(",") + "}"))
    last = list(_members("{" + tail[1:]))
    present = {member.key for member in (*first, *last)}
    replaced: set[str] = set()
    kept = _kept(first, present, members, renamed, replaced)
    # What comes between brings its own blank: another one each time would make a copy of a copy longer.
    new_head = "{" + ", ".join(kept) + ("," if kept else "")
    new_tail = "".join(f", {text}" for text in _kept(last, present, members, renamed, replaced))
    return new_head, f"{new_tail}, {encode_members(members)}}}", frozenset(replaced)


def encode_members(members: Mapping[str, object]) -> str:
    """Members as they stand between the braces of an object."""
    return _ENCODER.encode(members)[1:-1]


def _kept(
    found: Iterable[_Member],
    present: Collection[str],
    members: Mapping[str, object],
    renamed: Mapping[str, str],
    replaced: set[str],
) -> list[str]:
    """The texts of members that stay, under their new names; those that do not are added to `replaced`."""
    kept: list[str] = []
    for member in found:
        new_key = renamed.get(member.key)
        if new_key is not None and new_key not in present:
            kept.append(f"{json.dumps(new_key)}: {member.value_text}")
        elif member.key in members:
            replaced.add(member.key)
        else:
            kept.append(f"{member.key_text}: {member.value_text}")
    return kept


def _members(text: str) -> Iterator[_Member]:
    position = _pass("{", text, 0)
    is_over = text.startswith("}", position)
    while not is_over:
        if not text.startswith('"', position):
            raise NotAnObjectError("a member without a name")
        key, end = _decode(text, position)
        start = _pass(":", text, end)
        _, stop = _decode(text, start)
        yield _Member(str(key), text[position:end], text[start:stop])
        position = _skip_blank(text, stop)
        is_over = text.startswith("}", position)
        if not is_over:
            position = _pass(",", text, position)
    if _skip_blank(text, position + 1) != len(text):
        raise NotAnObjectError("text after the object")


def _decode(text: str, position: int) -> tuple[object, int]:
    try:
        return _DECODER.raw_decode(text, position)
    except json.JSONDecodeError as error:
        raise NotAnObjectError(f"{error.msg[:1].lower()}{error.msg[1:]}") from error
    except RecursionError as error:
        raise NotAnObjectError("nested too deep") from error


def _pass(mark: str, text: str, position: int) -> int:
    """The position after a mark and the blank around it."""
    position = _skip_blank(text, position)
    if not text.startswith(mark, position):
        raise NotAnObjectError(f"no {mark!r} where one is needed")
    return _skip_blank(text, position + 1)


def _skip_blank(text: str, position: int) -> int:
    match = _BLANK.match(text, position)
    return match.end() if match else position
