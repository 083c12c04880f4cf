"""How a request wants calls to be made: as native tool calls, or as JSON in the text of a reply.

In the text dialects the tools are read off the system message, and the results off the user messages, where each
stands under a line `[result NUMBER NAME ARGUMENTS]`. Untrusted lines start with their coordinate, so none of them can
pose as such a line.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gagar_cli.grader.offline.planning import Call
from gagar_cli.grader.offline.reading import Exchange, read_content, read_exchanges

_OFFERED = re.compile(r"^- `(\w+)`: .* Arguments: (\{.*\})$", re.MULTILINE)
_RESULT = re.compile(r"^\[result (\d+) (\w+) [^\n]*\]$", re.MULTILINE)
_FULL_REPLY = 60
"""Calls that count as one reply: what is bounded is the work, not in how many pieces it is asked for."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """One way of making calls, and the tools that a request offers."""

    name: str
    """`tools`, `json-schema` or `text`."""
    schemas: Sequence[Mapping[str, Any]]
    """The tools in the form of the chat-completions protocol."""
    max_calls: int = _FULL_REPLY
    """Of one reply."""

    @property
    def tools(self) -> frozenset[str]:
        """What the tools are called."""
        return frozenset(schema["function"]["name"] for schema in self.schemas)

    def read(self, messages: Sequence[Mapping[str, Any]]) -> tuple[Exchange, ...]:
        """The calls that have been answered, in order."""
        if self.name == "tools":
            return read_exchanges(messages)
        exchanges: list[Exchange] = []
        calls: list[Mapping[str, Any]] = []
        for message in messages:
            content = read_content(message.get("content"))
            if message["role"] == "assistant":
                calls = _read_calls(content)
            elif message["role"] == "user":
                exchanges += _answered(calls, content)
        return tuple(exchanges)

    def count_replies(self, messages: Sequence[Mapping[str, Any]]) -> int:
        """The replies so far; a part of a reply that was cut to `max_calls` counts as a part."""
        replies = [message for message in messages if message["role"] == "assistant"]
        if self.name == "tools":
            return len(replies)
        n_calls = [len(_read_calls(read_content(reply.get("content")))) for reply in replies]
        return int(sum(n / _FULL_REPLY if n >= self.max_calls else 1 for n in n_calls))

    def write(self, calls: Sequence[Call]) -> str:
        """The text of a reply that makes these calls."""
        action = {
            "calls": [{"tool": call.name, "arguments": call.arguments} for call in calls[: self.max_calls]]
        }
        if self.name == "json-schema":
            return json.dumps(action)
        return f"The rules ask for this next:\n\n```json\n{json.dumps(action, indent=1)}\n```"


def find_dialect(request: Mapping[str, Any]) -> Dialect:
    """The dialect of a checked request."""
    if request.get("tools"):
        return Dialect("tools", request["tools"])
    system = "\n".join(
        read_content(message.get("content")) for message in request["messages"] if message["role"] == "system"
    )
    offered = [
        {"function": {"name": name, "parameters": _load(parameters)}}
        for name, parameters in _OFFERED.findall(system)
    ]
    wanted = request.get("response_format")
    if not isinstance(wanted, dict) or wanted.get("type") != "json_schema":
        return Dialect("text", offered)
    return Dialect("json-schema", offered, _max_calls(wanted))


def _load(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _max_calls(wanted: Mapping[str, Any]) -> int:
    """What the schema allows in one reply."""
    try:
        most = wanted["json_schema"]["schema"]["properties"]["calls"].get("maxItems")
    except (LookupError, TypeError, AttributeError):
        return _FULL_REPLY
    return most if type(most) is int and most > 0 else _FULL_REPLY


def _read_calls(content: str) -> list[Mapping[str, Any]]:
    """The calls of a reply of our own."""
    start, end = content.find("{"), content.rfind("}")
    try:
        action = json.loads(content[start : end + 1])
        return [call for call in action["calls"] if isinstance(call["arguments"], dict)]
    except (ValueError, RecursionError, LookupError, TypeError):
        return []


def _answered(calls: Sequence[Mapping[str, Any]], content: str) -> list[Exchange]:
    exchanges = []
    marks = list(_RESULT.finditer(content))
    ends = [*(mark.start() - 1 for mark in marks[1:]), len(content)]
    for mark, end in zip(marks, ends, strict=False):
        number = int(mark[1])
        if number <= len(calls) and calls[number - 1].get("tool") == mark[2]:
            result = content[mark.end() + 1 : end]
            exchanges.append(Exchange(mark[2], calls[number - 1]["arguments"], result))
    return exchanges
