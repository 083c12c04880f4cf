"""The lines of a ledger: a record and its checksum, sealed and read back.

A line that was edited or damaged does not fit its checksum. It is no signature: whoever can write a line can seal it.
"""

import hashlib
import json
from collections.abc import Mapping

from gagar_cli.errors import InputError
from gagar_cli.io.jsonl import Line, dump_line, is_too_deep, parse_line, show_value
from gagar_cli.io.streams import show_path

_PARSER = json.JSONDecoder()
_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)


def checksum(record: Mapping[str, object]) -> str:
    """The first 16 hex digits of SHA-256 over the record's canonical JSON, `checksum` left out."""
    content = json.loads(dump_line({key: value for key, value in record.items() if key != "checksum"}))
    return _digest(_CANONICAL.encode(content))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def read_sealed(line: Line) -> dict[str, object] | None:
    """The record on a line whose checksum fits, without it; None where anything is in doubt.

    A shortcut of `read_checked`, never another rule. What the strict parser looks for member by member shows in the
    text that the checksum is made of: NaN and infinities have none, and of a key that comes twice it has one, which is
    two quotes less than the line has.
    """
    if line.is_cut or line.is_too_long or b"\\u0022" in line.text:
        return None
    try:
        record = _PARSER.decode(line.text.decode())
        found = record.pop("checksum", None) if isinstance(record, dict) else None
        text = "" if found is None else _CANONICAL.encode(record)
    except (ValueError, RecursionError):
        return None
    n_quotes = text.count('"') + 4  # those of the checksum and its key
    is_sealed = bool(text) and found == _digest(text) and n_quotes == line.text.count(b'"')
    return record if is_sealed and not is_too_deep(record, line.text) else None


def read_checked(line: Line, source: str, *, must_be_ours: bool = True) -> dict[str, object]:
    """The record on a ledger's line, without its checksum.

    Raises:
        InputError: not one JSON object, or its checksum does not fit, or is missing where the line must be ours.
    """
    record = parse_line(line, show_path(source))
    found = record.pop("checksum", None)
    if found != checksum(record) and (found is not None or must_be_ours):
        what = "is missing" if found is None else f"is {show_value(found)}, which does not fit the line"
        hint = "the line was damaged or edited; nothing was overwritten"
        raise InputError(f"{show_path(source)}:{line.number}: checksum {what}", hint)
    return record
