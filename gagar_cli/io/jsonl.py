"""JSON lines, read strictly: one object a line, nothing guessed, nothing dropped.

Parsers disagree about duplicate keys, NaN, huge numbers and broken text; a reward that depends on the parser is no
reward. What is ambiguous is refused here, with the line and, where it is known, the column. Lines are parsed one by
one: a schema inferred from the first lines of a dump loses what appears later.
"""

import json
import math
from collections.abc import Callable, Iterator, Mapping
from typing import BinaryIO, NamedTuple

from gagar_cli.core.text import escape_untrusted, shorten
from gagar_cli.errors import InputError
from gagar_cli.io.jsonl_hints import describe_encoding, layout_hint

MAX_RECORD_BYTES = 64 * 1024**2
MAX_DEPTH = 100
_CONTAINERS = (dict, list)
_LONG_BYTES = 64 * 1024
"""From here on what costs a pass over the text counts, and not what costs a call."""
_BOM = b"\xef\xbb\xbf"


class Line(NamedTuple):
    """One line that is not blank, where it lies, and what is left to check."""

    number: int
    """1-based."""
    offset: int
    """Bytes before the text, a byte order mark included."""
    text: bytes
    """Without the end of line; empty where `is_too_long`."""
    is_cut: bool
    """The file ended before a newline."""
    is_too_long: bool = False


def show_value(value: object) -> str:
    """A value from a file as messages quote it: JSON, escaped, at most 80 characters."""
    try:
        text = json.dumps(value, ensure_ascii=False, default=str)
    except (ValueError, RecursionError):
        text = repr(value)
    return shorten(escape_untrusted(text, keep_newlines=False), 80)


def read_lines(
    stream: BinaryIO, *, max_record_bytes: int = MAX_RECORD_BYTES, offset: int = 0, number: int = 0
) -> Iterator[Line]:
    """The lines that are not blank, in order; a line over the limit is skipped piecewise, never held whole.

    `offset` bytes and `number` lines lie before where the stream stands.
    """
    while text := stream.readline(max_record_bytes + 2):
        number += 1
        n_bytes = len(text)
        start = offset
        is_ended = text.endswith(b"\n")
        if number == 1 and text.startswith(_BOM):
            start += len(_BOM)
            text = text[len(_BOM) :]
        body = text.rstrip(b"\r\n")
        # With a mark before it or returns behind it, what was read of a long line may look short enough.
        if len(body) > max_record_bytes or (n_bytes == max_record_bytes + 2 and not is_ended):
            while not is_ended and (rest := stream.readline(1024**2)):
                n_bytes += len(rest)
                is_ended = rest.endswith(b"\n")
            yield Line(number, start, b"", not is_ended, is_too_long=True)
        elif body.strip():
            yield Line(number, start, body, not is_ended)
        offset += n_bytes


def has_byte_order_mark(stream: BinaryIO) -> bool:
    """Whether a seekable stream starts with a UTF-8 byte order mark; the position is restored."""
    position = stream.tell()
    found = stream.read(len(_BOM)) == _BOM
    stream.seek(position)
    return found


def parse_line(
    line: Line,
    source: str,
    *,
    may_be_nan: Callable[[str], bool] | None = None,
    max_record_bytes: int = MAX_RECORD_BYTES,
) -> dict[str, object]:
    """The object on a line; `may_be_nan` tells the paths that may hold a bare NaN.

    Raises:
        InputError: the line is too long, cut, or not one strict JSON object.
    """
    where = f"{source}:{line.number}"
    if line.is_too_long:
        size = (
            f"{max_record_bytes // 1024**2} MiB"
            if max_record_bytes >= 1024**2
            else f"{max_record_bytes} bytes"
        )
        raise InputError(
            f"{where}: line longer than {size}", "`--on-bad-record skip` leaves it out and counts it"
        )
    try:
        return parse_object(line.text, where, may_be_nan=may_be_nan)
    except InputError as error:
        if line.is_cut and ends_too_early(error.__cause__):
            hint = "the writer stopped in the middle: drop the line, or use `--on-bad-record skip`"
            raise InputError(f"{where}: truncated line (no newline)", hint) from error
        raise


def parse_object(
    text: bytes, where: str, *, may_be_nan: Callable[[str], bool] | None = None
) -> dict[str, object]:
    """One JSON object from UTF-8 text.

    Raises:
        InputError: not UTF-8, not JSON, not an object, a duplicate key, NaN (unless `may_be_nan` of its path) or Infinity, a
            number out of range, or nested deeper than 100.
    """
    value = parse_value(text, where, may_be_nan=may_be_nan)
    if not isinstance(value, dict):
        kind = "an array" if isinstance(value, list) else show_value(value)
        raise InputError(f"{where}: expected an object, found {kind}", layout_hint(text))
    return value


def parse_value(text: bytes, where: str, *, may_be_nan: Callable[[str], bool] | None = None) -> object:
    """One JSON value of any kind from UTF-8 text, as strictly as `parse_object`.

    Raises:
        InputError: as `parse_object`, but for the kind of value.
    """
    is_long = len(text) >= _LONG_BYTES
    try:
        value, has_constants = _decode_long(text) if is_long else (_DECODER.decode(text.decode()), True)
    except UnicodeDecodeError as error:
        raise InputError(f"{where}: {describe_encoding(text, error)}") from error
    except json.JSONDecodeError as error:
        place = f"{where}:{error.colno}" if error.lineno == 1 else f"{where}:{error.lineno}:{error.colno}"
        message = f"{place}: invalid JSON: {error.msg[:1].lower()}{error.msg[1:]}"
        raise InputError(message, layout_hint(text, error)) from error
    except RecursionError as error:
        raise InputError(f"{where}: nested deeper than {MAX_DEPTH}") from error
    except _StrictnessError as error:
        raise InputError(f"{where}: {error}") from error
    except ValueError as error:  # int() refuses thousands of digits, which would take quadratic time
        raise InputError(f"{where}: number out of range: more digits than can be read") from error
    if is_too_deep(value, text):
        raise InputError(f"{where}: nested deeper than {MAX_DEPTH}")
    if has_constants and (b"NaN" in text or b"Infinity" in text):
        _refuse_not_finite(value, where, may_be_nan)
    return value


def dump_line(record: Mapping[str, object]) -> bytes:
    """A record as one JSON line with its newline; NaN and infinities become null, other foreign values text."""
    try:
        text = json.dumps(record, ensure_ascii=False, allow_nan=False, default=_plain)
        return text.encode() + b"\n"
    except UnicodeEncodeError:  # a lone surrogate only survives as an escape
        return json.dumps(record, allow_nan=False, default=_plain).encode() + b"\n"
    except ValueError:
        return dump_line({key: _nulled(value) for key, value in record.items()})


class _StrictnessError(ValueError):
    """Valid for the parser, refused by us."""


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    made = dict(pairs)
    if len(made) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise _StrictnessError(f"duplicate key {show_value(twice)}")
    return made


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise _StrictnessError(f"number out of range: {shorten(text, 40)}")
    return number


_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_float=_finite)


def _decode_long(text: bytes) -> tuple[object, bool]:
    """The value of a text, and whether it may hold NaN or Infinity: told by the parser, a search takes as long as it."""
    constants: list[str] = []

    def constant(name: str) -> float:
        constants.append(name)
        return float(name)

    decoder = json.JSONDecoder(object_pairs_hook=_unique, parse_float=_finite, parse_constant=constant)
    return decoder.decode(text.decode()), bool(constants)


def ends_too_early(error: BaseException | None) -> bool:
    """Whether what was wrong with a text is only that it stops."""
    if isinstance(error, UnicodeDecodeError):
        return error.reason == "unexpected end of data" and error.end == len(error.object)
    if not isinstance(error, json.JSONDecodeError):
        return False
    rest = error.doc[error.pos :].strip()
    is_start_of_value = any(
        literal.startswith(rest) for literal in ("true", "false", "null", "-", "NaN", "Infinity")
    )
    is_start_of_fraction = rest in (".", "e", "E", "e+", "E+", "e-", "E-")
    is_open_string = error.msg.startswith(("Unterminated string", "Invalid \\uXXXX escape"))
    return is_start_of_value or is_start_of_fraction or is_open_string


def is_too_deep(value: object, text: bytes) -> bool:
    """Whether the value of a text is nested deeper than 100."""
    is_long = len(text) >= _LONG_BYTES
    may_be_deep = _opens_many(text) if is_long else text.count(b"{") + text.count(b"[") > MAX_DEPTH
    return may_be_deep and _depth(value) > MAX_DEPTH


def _opens_many(text: bytes) -> bool:
    """Whether a text has brackets enough to be nested too deep; of a log that is settled by its start."""
    n_found = 0
    for mark in (b"{", b"["):
        place = -1
        while n_found <= MAX_DEPTH and (place := text.find(mark, place + 1)) >= 0:
            n_found += 1
    return n_found > MAX_DEPTH


def _depth(value: object) -> int:
    level: list[object] = [value]
    depth = 0
    while level and depth <= MAX_DEPTH:
        depth += 1
        level = [
            child
            for container in level
            for child in (container.values() if isinstance(container, dict) else container)  # type: ignore[attr-defined]
            if type(child) in _CONTAINERS
        ]
    return depth


def _refuse_not_finite(
    value: object, where: str, may_be_nan: Callable[[str], bool] | None, path: str = ""
) -> None:
    if isinstance(value, dict):
        for key, child in value.items():
            _refuse_not_finite(child, where, may_be_nan, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for index, child in enumerate(value):
            _refuse_not_finite(child, where, may_be_nan, f"{path}[{index}]")
    elif isinstance(value, float) and not math.isfinite(value):
        if math.isnan(value) and may_be_nan is not None and may_be_nan(path):
            return
        name = "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        raise InputError(f"{where}: {show_value(path)[1:-1]} is {name}, expected a finite number")


def _plain(value: object) -> object:
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    isoformat = getattr(value, "isoformat", None)
    return isoformat() if isoformat else str(value)


def _nulled(value: object) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {key: _nulled(child) for key, child in value.items()}
    return [_nulled(child) for child in value] if isinstance(value, list | tuple) else value
