"""Calls that a model writes as text: found tolerantly, read strictly.

Around the JSON there may be prose, fences and thinking; inside it nothing is mended: a trailing comma, a cut end or a
NaN is an error that goes back to the model. Where a text holds several actions the last one counts, and where the
last one is broken there is none. `<tool_call>` blocks, which some models write whatever they are asked for, count
all together.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, NoReturn

from gagar_cli.grader import wording
from gagar_cli.grader.replies import RequestedCall, without_thinking

MAX_TRIES = 200
"""Places of one text at which an object may begin and does not: braces in prose are few."""

_ACTION_START = re.compile(r'\{\s*"(?:calls|tool|name)"\s*:')
_TAGGED = re.compile(r"<tool_call>\s*(.*?)\s*(?:</tool_call>|\Z)", re.DOTALL)
_ONLY_TAGGED = re.compile(r"(?:\s*<tool_call>.*?(?:</tool_call>|\Z))+\s*", re.DOTALL)
_NAME_KEYS = ("tool", "name")
_ARGUMENT_KEYS = ("arguments", "parameters")


class BadActionError(Exception):
    """The text holds no action that can be carried out; the message says to the model what is wrong."""


class _Broken(NamedTuple):
    reason: str


def read_action(text: str) -> tuple[RequestedCall, ...]:
    """The calls of a reply in the json-schema and text protocols.

    Raises:
        BadActionError: there is no action, or the last one is not well-formed.
    """
    said = without_thinking(text)
    if "<tool_call>" in said:
        return _number([_read_call(_load(block)) for block in _TAGGED.findall(said)])
    last: object = None
    for found in _objects(said):
        last = found if isinstance(found, _Broken) or _is_action(found) else last
    if last is None:
        raise BadActionError(wording.NO_ACTION)
    if isinstance(last, _Broken):
        raise BadActionError(wording.BROKEN_ACTION.format(why=last.reason))
    return _number(_read_calls(last))


def read_tagged(text: str) -> tuple[RequestedCall, ...]:
    """The calls of a reply that is nothing but `<tool_call>` blocks: a server's parser has left them in the text."""
    said = without_thinking(text)
    if not _ONLY_TAGGED.fullmatch(said):
        return ()
    try:
        return _number([_read_call(_load(block)) for block in _TAGGED.findall(said)])
    except BadActionError:
        return ()


def _objects(text: str) -> Iterator[object]:
    """The JSON objects of a text in order, and what begins like an action and breaks off."""
    decoder = json.JSONDecoder(parse_constant=_refuse_constant)
    place, n_tries = text.find("{"), 0
    while place >= 0 and n_tries < MAX_TRIES:
        try:
            value, end = decoder.raw_decode(text, place)
            yield value
        except (ValueError, RecursionError) as error:
            n_tries += 1
            end = place + 1
            if _ACTION_START.match(text, place):
                # What stands inside a broken action was not meant to be one by itself.
                yield _Broken(_why(error))
                end = _closing(text, place)
        place = text.find("{", end)


def _closing(text: str, place: int) -> int:
    """Behind the brace that closes the one at `place`, strings skipped; the end of the text where none does."""
    depth = 0
    for match in re.compile(r'"(?:[^"\\]|\\.)*"|[{}]', re.DOTALL).finditer(text, place):
        depth += {"{": 1, "}": -1}.get(match[0], 0)
        if depth == 0:
            return match.end()
    return len(text)


def _is_action(value: object) -> bool:
    if not isinstance(value, dict):
        return False
    return isinstance(value.get("calls"), list) or any(isinstance(value.get(key), str) for key in _NAME_KEYS)


def _read_calls(action: Any) -> list[tuple[str, Mapping[str, Any] | None, str]]:
    calls = action.get("calls")
    if calls is None:
        return [_read_call(action)]
    if not calls:
        raise BadActionError(wording.NO_CALLS)
    return [_read_call(call) for call in calls]


def _read_call(call: object) -> tuple[str, Mapping[str, Any] | None, str]:
    if not isinstance(call, dict):
        raise BadActionError(wording.NO_CALL_OBJECT)
    names = [call[key] for key in _NAME_KEYS if key in call]
    if len(names) != 1 or not isinstance(names[0], str):
        raise BadActionError(wording.NO_CALL_NAME)
    given = [call[key] for key in _ARGUMENT_KEYS if key in call]
    if len(given) > 1:
        raise BadActionError(wording.TWO_ARGUMENTS)
    arguments = given[0] if given else {}
    if isinstance(arguments, dict):
        return names[0], arguments, json.dumps(arguments)
    return names[0], None, json.dumps(arguments)


def _number(calls: list[tuple[str, Mapping[str, Any] | None, str]]) -> tuple[RequestedCall, ...]:
    return tuple(RequestedCall(f"call_{n}", *call) for n, call in enumerate(calls, 1))


def _load(text: str) -> object:
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise BadActionError(wording.BROKEN_TAGGED.format(why=_why(error))) from error


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _why(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} at character {error.pos}"
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)
