"""Digests by which a run knows again what it graded, and under which settings."""

import hashlib
import json
from collections.abc import Iterable, Iterator
from typing import cast

from gagar_cli.core.schema import Group, Message, Task, Trajectory

_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), default=str)
_PIECE_CHARS = 256_000
_LONG_CHARS = 4_000
"""Of a content that is encoded by itself."""
_ESCAPES = {char.encode(): _CANONICAL.encode(char)[1:-1].encode() for char in '\\"\n\r\t\x1b'}
_USUAL = bytes([*range(0x20, 0x7F), *b"\n\r\t\x1b"])


def digest_group(group: Group) -> str:
    """A digest of what is graded; where the records lie does not matter. Long logs are gone through piece by piece."""
    made = hashlib.sha256()
    key, task = _CANONICAL.encode(group.key), _CANONICAL.encode(_fields_of(group.task))
    made.update(f'{{"key":{key},"task":{task},"trajectories":['.encode())
    for number, one in enumerate(group.trajectories):
        fields = {**_fields_of(one), "where": "", "messages": []}
        # The keys are in order: what stands before the log's end stays before it.
        head, marker, tail = _CANONICAL.encode(fields).partition('"messages":[')
        made.update(f"{',' if number else ''}{head}{marker}".encode())
        for place, piece in enumerate(_pieces(one.messages)):
            made.update(b"," if place else b"")
            made.update(piece)
        made.update(tail.encode())
    made.update(b"]}")
    return made.hexdigest()[:16]


def _pieces(messages: Iterable[Message]) -> Iterator[bytes]:
    """The messages in canonical JSON, one or some that are short in all at a time."""
    short: list[dict[str, object]] = []
    n_chars = 0
    for message in messages:
        fields = _fields_of(message)
        content = cast("str", fields["content"])
        is_long = len(content) >= _LONG_CHARS
        if not is_long:
            short.append(fields)
            n_chars += len(content) + sum(len(call.arguments) for call in message.tool_calls)
        if short and (is_long or n_chars > _PIECE_CHARS):
            yield _CANONICAL.encode(short).encode()[1:-1]
            short, n_chars = [], 0
        if is_long:
            del fields["content"]  # the first of the keys in their order
            yield b'{"content":%b,%b' % (_encode_text(content), _CANONICAL.encode(fields).encode()[1:])
    if short:
        yield _CANONICAL.encode(short).encode()[1:-1]


def _encode_text(text: str) -> bytes:
    """A text in canonical JSON. Logs are ASCII for the most part: then it is not gone through character by character."""
    if not text.isascii() or (encoded := text.encode()).translate(None, _USUAL):
        return _CANONICAL.encode(text).encode()
    for char, escaped in _ESCAPES.items():
        encoded = encoded.replace(char, escaped)
    return b'"%b"' % encoded


def _fields_of(value: Message | Task | Trajectory) -> dict[str, object]:
    """A value's fields by name; unlike `asdict` nothing is copied, as logs are long."""
    return {name: getattr(value, name) for name in value.__dataclass_fields__}


def digest(value: object) -> str:
    """Sixteen hex digits of a value's canonical JSON."""
    return hashlib.sha256(_CANONICAL.encode(value).encode()).hexdigest()[:16]
