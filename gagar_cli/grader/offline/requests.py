"""What the offline model is asked, checked: what it would not do it refuses, so that nobody takes it for done."""

import json
from collections.abc import Mapping
from typing import Any

MODEL = "offline"
_UNSUPPORTED = {
    "stream": (None, False),
    "n": (None, 1),
    "logprobs": (None, False),
    "stop": (None, []),
    "tool_choice": (None, "auto"),
}
"""Parameters of the protocol that change a reply, with the values that ask for nothing."""
_FORMATS = ("text", "json_schema")
_CAPS = ("max_completion_tokens", "max_tokens")


class RequestError(Exception):
    """A request that is answered with an error object and this status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def parse(body: bytes) -> dict[str, Any]:
    """The request of a body.

    Raises:
        RequestError: it is malformed, names another model, or asks for what the offline model does not do.
    """
    try:
        request = json.loads(body)
    except (ValueError, RecursionError):
        raise RequestError(400, "the request is not JSON") from None
    if not isinstance(request, dict):
        raise RequestError(400, "the request must be a JSON object")
    messages = request.get("messages")
    if not isinstance(messages, list) or not messages or not all(map(_is_message, messages)):
        raise RequestError(
            400, "messages must be a list of messages with a role, calls in the form of the protocol"
        )
    tools = request.get("tools")
    if tools is not None and not (isinstance(tools, list) and all(map(_is_tool, tools))):
        raise RequestError(400, "tools must be a list of functions with a name")
    _check_parameters(request)
    return request


def max_reply_tokens(request: Mapping[str, Any]) -> int | None:
    """How long the reply may be; None where the request does not say."""
    return min((request[name] for name in _CAPS if request.get(name) is not None), default=None)


def _check_parameters(request: Mapping[str, Any]) -> None:
    for name, nothing in _UNSUPPORTED.items():
        value = request.get(name)
        if not any(type(value) is type(each) and value == each for each in nothing):
            raise RequestError(400, f"{name} is not supported: leave it out")
    for name in _CAPS:
        value = request.get(name)
        if value is not None and not (type(value) is int and value > 0):
            raise RequestError(400, f"{name} must be an integer from 1")
    wanted = request.get("response_format")
    if wanted is not None and not (isinstance(wanted, dict) and wanted.get("type") in _FORMATS):
        raise RequestError(400, f"response_format must be of type {' or '.join(_FORMATS)}")
    model = request.get("model")
    if not isinstance(model, str):
        raise RequestError(400, f"model must be a name: {MODEL}")
    if model != MODEL:
        raise RequestError(404, f"there is no such model, only {MODEL}")


def _is_message(message: object) -> bool:
    if not isinstance(message, dict) or not isinstance(message.get("role"), str):
        return False
    calls = message.get("tool_calls")
    return calls is None or (isinstance(calls, list) and all(map(_is_call, calls)))


def _is_call(call: object) -> bool:
    return isinstance(call, dict) and isinstance(call.get("id"), str) and _is_tool(call)


def _is_tool(tool: object) -> bool:
    function = tool.get("function") if isinstance(tool, dict) else None
    return isinstance(function, dict) and isinstance(function.get("name"), str)
