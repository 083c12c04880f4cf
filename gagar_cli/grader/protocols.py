"""One conversation in three protocols: what is sent for its history, and which calls a reply makes.

The history is kept in one form, that of native tool calls, whatever the endpoint can do; so a conversation can change
protocol half way, and its log reads the same. What is sent follows from it:

    tools         as it is; reasoning goes back in the field that it came in, until the endpoint refuses that
    json-schema   the tools stand in the system message, a reply is one JSON object that the endpoint is asked to
                  constrain, results are a user message with a line `[result 1 tool {arguments}]` before each
    text          the same without asking for a constraint

Each message is encoded once: a long history is not serialised anew with every call.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gagar_cli.grader import wording
from gagar_cli.grader.endpoint import Protocol
from gagar_cli.grader.protocols_text import BadActionError, read_action, read_tagged
from gagar_cli.grader.replies import Reply, without_thinking

MAX_SCHEMA_CALLS = 8
"""Of one constrained reply: a weak model that repeats itself comes to an end."""

_ID_NAMES = ("candidate", "first", "second")
_MAX_ID_CHARS = 4
_MAX_ARGUMENT_CHARS = 80
"""A weak model that repeats itself would fill its whole reply with one argument."""
_DROPPED_KEYWORDS = ("description", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_REASONING_FIELDS = ("reasoning_content", "reasoning")


@dataclass(frozen=True, slots=True)
class Request:
    """What one call sends, encoded, without what is the same for the whole run."""

    messages: bytes
    protocol: Protocol
    tools: bytes | None = None
    response_format: bytes | None = None
    max_output_tokens: int | None = None
    """A larger bound of the reply than the run's, for a reply that was cut off; None: the run's."""


@dataclass(slots=True)
class Rendering:
    """Encodes one conversation's messages for an endpoint."""

    schemas: Sequence[Mapping[str, Any]]
    _encoded: dict[tuple[object, ...], tuple[Sequence[Mapping[str, Any]], bytes]] = field(
        default_factory=dict
    )
    _constants: dict[str, bytes] = field(default_factory=dict)

    def request(
        self, messages: Sequence[Mapping[str, Any]], protocol: Protocol, *, passes_reasoning: bool = True
    ) -> Request:
        """The request that goes on with a conversation.

        A message that was given before is not encoded again; what a message holds must not be changed in place.
        """
        if protocol == "tools":
            parts = [self._encode((message,), _native, passes_reasoning) for message in messages]
            tools = self._constant("tools", self.schemas) if self.schemas else None
            return Request(b"[" + b",".join(parts) + b"]", protocol, tools=tools)
        parts = [self._encode(run, self._as_text, protocol) for run in _runs(messages)]
        constraint = None
        if protocol == "json-schema":
            constraint = self._constant("response_format", action_format(self.schemas))
        return Request(b"[" + b",".join(parts) + b"]", protocol, response_format=constraint)

    def _encode(self, run: tuple[Mapping[str, Any], ...], render: Any, setting: object) -> bytes:
        key = (setting, *map(id, run))
        known = self._encoded.get(key)
        if known is None:
            # The messages are kept with their bytes: an id is only theirs while they live.
            known = self._encoded[key] = (run, encode(render(run, setting)))
        return known[1]

    def _constant(self, name: str, value: object) -> bytes:
        if name not in self._constants:
            self._constants[name] = encode(value)
        return self._constants[name]

    def _as_text(self, run: tuple[Mapping[str, Any], ...], _protocol: object) -> Mapping[str, Any]:
        message = run[0]
        if message["role"] == "system":
            return {**message, "content": message["content"] + manual(self.schemas)}
        if message["role"] != "assistant":
            return message
        if len(run) == 1:
            content = without_thinking(message.get("content") or "")
            if message.get("tool_calls") and not _holds_action(content):
                action = json.dumps({"calls": [_as_action(call) for call in message["tool_calls"]]})
                content = f"{content}\n{action}".strip()
            # Some chat templates refuse a message that says nothing.
            return {"role": "assistant", "content": content or wording.NOTHING_SAID}
        calls = {call["id"]: call["function"] for call in message["tool_calls"]}
        results = [
            wording.RESULT.format(
                number=number, heading=_heading(calls[result["tool_call_id"]]), content=result["content"]
            )
            for number, result in enumerate(run[1:], 1)
        ]
        return {"role": "user", "content": "\n".join(results)}


def read_reply(reply: Reply, protocol: Protocol) -> Reply:
    """The reply with the calls that it makes in this protocol.

    Raises:
        BadActionError: it makes none that can be carried out.
    """
    if protocol == "tools":
        calls = reply.calls or read_tagged(reply.content)
        if not calls:
            raise BadActionError(wording.NO_CALL)
        return reply.with_calls(calls)
    # A server that reads calls out of the text by itself has them apart from it.
    return reply if reply.calls else reply.with_calls(read_action(reply.content))


def manual(schemas: Sequence[Mapping[str, Any]]) -> str:
    """The tools and the form of a reply, for a system message."""
    lines = []
    for schema in schemas:
        function = schema["function"]
        arguments = json.dumps(function["parameters"], ensure_ascii=False)
        lines.append(
            wording.MANUAL_TOOL.format(
                name=function["name"], description=function["description"], arguments=arguments
            )
        )
    return f"{wording.MANUAL}\n" + "\n".join(lines) + "\n"


def action_format(schemas: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The `response_format` of one action: only what constrained decoders have in common."""
    branches = [
        _object(
            {
                "tool": {"type": "string", "enum": [schema["function"]["name"]]},
                "arguments": _bounded(_plain(schema["function"]["parameters"])),
            }
        )
        for schema in schemas
    ]
    calls = {"type": "array", "items": {"anyOf": branches}, "minItems": 1, "maxItems": MAX_SCHEMA_CALLS}
    return {"type": "json_schema", "json_schema": {"name": "action", "schema": _object({"calls": calls})}}


def encode(value: object) -> bytes:
    """Compact JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "backslashreplace")


def _object(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


def _plain(schema: Any) -> Any:
    """A schema without words and bounds: they make grammars large, and what they say is checked here anyway."""
    if isinstance(schema, list):
        return [_plain(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    plain = {key: value for key, value in schema.items() if key not in _DROPPED_KEYWORDS}
    if "properties" in plain:
        plain["properties"] = {name: _plain(part) for name, part in plain["properties"].items()}
    if "items" in plain:
        plain["items"] = _plain(plain["items"])
    return plain


def _bounded(parameters: dict[str, Any]) -> dict[str, Any]:
    """The parameters with an end to each plain text; what a submission holds deeper down stays as long as it is."""
    properties = {
        name: {**part, "maxLength": _MAX_ID_CHARS if name in _ID_NAMES else _MAX_ARGUMENT_CHARS}
        if part == {"type": "string"} and name not in ("command", "order_reason")
        else part
        for name, part in parameters["properties"].items()
    }
    return {**parameters, "properties": properties}


def _native(run: tuple[Mapping[str, Any], ...], passes_reasoning: object) -> Mapping[str, Any]:
    message = dict(run[0])
    if message["role"] != "assistant":
        return message
    if message.get("content"):
        message["content"] = without_thinking(message["content"]) or (
            None if message.get("tool_calls") else ""
        )
    if not passes_reasoning or not message.get("tool_calls"):
        for name in _REASONING_FIELDS:
            message.pop(name, None)
    return message


def _runs(messages: Sequence[Mapping[str, Any]]) -> list[tuple[Mapping[str, Any], ...]]:
    """One run for each message that is sent: a reply by itself, and its results behind it with the reply in front."""
    runs: list[tuple[Mapping[str, Any], ...]] = []
    results: list[Mapping[str, Any]] = []
    for message, following in zip(messages, [*messages[1:], None], strict=True):
        if message["role"] == "assistant":
            reply = message
            runs.append((message,))
        elif message["role"] == "tool":
            results.append(message)
            if following is None or following["role"] != "tool":
                runs.append((reply, *results))
                results = []
        else:
            runs.append((message,))
    return runs


def _holds_action(content: str) -> bool:
    try:
        return bool(read_action(content))
    except BadActionError:
        return False


def _as_action(call: Mapping[str, Any]) -> dict[str, Any]:
    function = call["function"]
    return {"tool": function["name"], "arguments": json.loads(function["arguments"])}


def _heading(function: Mapping[str, Any]) -> str:
    """A call in the line above its result: on one line, and too short to matter."""
    arguments = str(function["arguments"])
    if len(arguments) > 300:
        arguments = "…"
    return f"{json.dumps(function['name'])[1:-1]} {arguments}"
