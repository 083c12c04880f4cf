"""What a line seems to be that is no JSON object on a line of its own, and what makes one of it."""

import json
import re

_FOREIGN = {
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
    b"\x1f\x8b": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"PAR1": "Parquet",
}
_TABLE_HEAD = re.compile(rb'"?[A-Za-z_][\w .-]{0,80}"?(?:[,;\t]"?[A-Za-z_][\w .-]{0,80}"?){1,200}')
"""Names of columns."""
_MAX_HEAD_BYTES = 20_000


def describe_encoding(text: bytes, error: UnicodeDecodeError) -> str:
    """What a text is that is not UTF-8."""
    for magic, name in _FOREIGN.items():
        if text.startswith(magic):
            return f"not UTF-8 (looks like {name})"
    if text[:64].count(0) > len(text[:64]) // 4:
        return "not UTF-8 (looks like UTF-16)"
    return f"not UTF-8: byte 0x{text[error.start]:02x} at offset {error.start} of the line"


def layout_hint(text: bytes, error: json.JSONDecodeError | None = None) -> str | None:
    """What turns the file into lines of objects, where the line shows how it is laid out."""
    if error is not None and error.msg == "Extra data" and error.doc[error.pos] == "{":
        return "objects that follow each other on a line get lines of their own by `jq -c . FILE`"
    start = text.lstrip()
    if start.startswith(b"["):
        return "a JSON array is turned into lines by `jq -c '.[]' FILE`"
    if start == b"{":
        return "JSON spread over several lines is joined by `jq -c . FILE`"
    if len(start) <= _MAX_HEAD_BYTES and _TABLE_HEAD.fullmatch(start.rstrip()):
        return "a CSV table is turned into lines by polars: `polars.read_csv(FILE).write_ndjson(NEW)`"
    return None
