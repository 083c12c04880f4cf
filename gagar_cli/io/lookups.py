"""Values of a record by path, and the difference between null and missing."""

from collections.abc import Mapping

from gagar_cli.errors import InputError
from gagar_cli.io.jsonl import parse_object


class _Missing:
    """The type of `MISSING`: a field that a record does not have, as opposed to null."""

    def __repr__(self) -> str:
        return "MISSING"


MISSING = _Missing()


def look_up(record: Mapping[str, object], path: str) -> object:
    """The value at a dotted path, `MISSING` where it leads nowhere; a key that holds dots itself goes first.

    >>> look_up({"outcome": {"reward": 1.0}}, "outcome.reward")
    1.0
    """
    if path in record:
        return record[path]
    value: object = record
    for part in path.split("."):
        if isinstance(value, str) and value.lstrip().startswith("{"):
            try:
                value = parse_object(value.encode(errors="replace"), "")
            except InputError:
                return MISSING
        if isinstance(value, Mapping):
            value = value.get(part, MISSING)
        elif isinstance(value, list) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        else:
            return MISSING
    return value


def from_json_text(text: str) -> object:
    """The value of JSON text, the text itself where it is none."""
    try:
        return parse_object(b'{"value":' + text.encode(errors="surrogatepass") + b"}", "")["value"]
    except (InputError, UnicodeEncodeError):
        return text
