"""An answer's body → a checked reply. Whatever is no chat completion is a failure that asking again may mend.

Reasoning (`reasoning_content`, `reasoning`, `<think>` blocks) is kept apart from what the reply says: it is never
searched for calls. Arguments that are no JSON object stay with the call, to be told to the model.
"""

import json
import os
import re
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

from gagar_cli.core.text import escape_untrusted, shorten

_REASONING_FIELDS = ("reasoning_content", "reasoning")
_THINKING = re.compile(r"<(think|thinking|thought|reasoning)>.*?(?:</\1>|\Z)", re.DOTALL | re.IGNORECASE)
_THINKING_END = re.compile(r"\A.*</(?:think|thinking|thought|reasoning)>", re.DOTALL | re.IGNORECASE)


class RetryableError(Exception):
    """A failure that asking again may mend."""

    def __init__(
        self, message: str, retry_after_seconds: float | None = None, *, hint: str | None = None
    ) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds
        self.hint = hint


@dataclass(frozen=True, slots=True)
class RequestedCall:
    """A tool call of a reply; `arguments` is None where its text was no JSON object."""

    call_id: str
    name: str
    arguments: Mapping[str, Any] | None
    raw_arguments: str


@dataclass(frozen=True, slots=True)
class Reply:
    """A checked answer of the endpoint."""

    content: str
    """As it came, thinking blocks included: `said` is without them."""
    calls: tuple[RequestedCall, ...]
    finish_reason: str | None
    n_input_tokens: int
    n_cached_tokens: int
    n_output_tokens: int
    reasoning: Mapping[str, str] = field(default_factory=dict)
    """By the name of the field that it came in."""
    is_estimated: bool = False
    """The endpoint reported no usage: tokens were reckoned from characters."""

    @property
    def said(self) -> str:
        """The content without thinking blocks."""
        return without_thinking(self.content)

    @property
    def message(self) -> dict[str, Any]:
        """The reply as it stands in the history, its arguments valid JSON whatever the model wrote."""
        message: dict[str, Any] = {"role": "assistant", "content": self.content or None, **self.reasoning}
        if self.calls:
            message["tool_calls"] = [
                {
                    "id": call.call_id,
                    "type": "function",
                    "function": {"name": call.name, "arguments": json.dumps(call.arguments or {})},
                }
                for call in self.calls
            ]
        elif not self.content:
            message["content"] = ""
        return message

    def with_calls(self, calls: tuple[RequestedCall, ...]) -> "Reply":
        """The same reply with the calls that its text makes."""
        return replace(self, calls=calls)


def without_thinking(text: str) -> str:
    """The text without thinking blocks; one that never closed reaches to the end.

    >>> without_thinking("<think>c01 looks better</think>so: c02")
    'so: c02'
    >>> without_thinking("the template opened it</think>so: c02")
    'so: c02'
    """
    return _THINKING_END.sub("", _THINKING.sub("", text)).strip() if "<" in text else text.strip()


def parse_reply(body: bytes) -> Reply:
    """The reply in a chat-completions body.

    Raises:
        RetryableError: it is not one, whatever its status said.
    """
    try:
        document = json.loads(body)
        if isinstance(document, dict) and "error" in document and not document.get("choices"):
            raise RetryableError(f"status 200 with an error: {shown(document['error'])}")
        choice = document["choices"][0]
        message = choice["message"]
        content = message.get("content")
        usage = document.get("usage") or {}
        cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens")
        finish_reason = choice.get("finish_reason")
        return Reply(
            content=encodable(content if isinstance(content, str) else _join_parts(content)),
            calls=_parse_calls(message.get("tool_calls") or ()),
            finish_reason=finish_reason if isinstance(finish_reason, str) else None,
            n_input_tokens=_count(usage.get("prompt_tokens")),
            n_cached_tokens=_count(cached),
            n_output_tokens=_count(usage.get("completion_tokens")),
            reasoning={
                name: encodable(message[name])
                for name in _REASONING_FIELDS
                if isinstance(message.get(name), str) and message[name]
            },
        )
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError) as error:
        raise RetryableError(
            f"not a chat completion: {shown(body[:200].decode('utf-8', 'replace'))}"
        ) from error


def encodable(text: str) -> str:
    """The text without lone surrogates, which could not be sent back with the history."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def shown(value: object) -> str:
    """Something of the endpoint's within a message of ours."""
    return escape_untrusted(shorten(str(value), 200), keep_newlines=False)


def describe_failure(error: Exception) -> str:
    """Why a connection failed, in the system's words where it has some: `127.0.0.1:9: connection refused`."""
    reason = getattr(error, "os_error", None)
    if not isinstance(reason, OSError):
        return str(error) or type(error).__name__
    # Errors of TLS and of name resolution have numbers of their own, which name something else here.
    is_numbered = not isinstance(reason, ssl.SSLError | socket.gaierror) and (reason.errno or 0) > 0
    told = os.strerror(reason.errno or 0).lower() if is_numbered else reason.strerror or str(reason)
    return f"{getattr(error, 'host', '')}:{getattr(error, 'port', '')}: {told}"


def parse_object(text: str) -> dict[str, Any] | None:
    """A JSON object; None where the text is none."""
    try:
        value = _STRICT.decode(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_STRICT = json.JSONDecoder(parse_constant=_refuse_constant)


def _parse_calls(calls: Any) -> tuple[RequestedCall, ...]:
    """The calls with ids that tell them apart, whatever the endpoint gave them."""
    parsed: list[RequestedCall] = []
    seen: set[str] = set()
    for number, call in enumerate(calls, 1):
        one = _parse_call(call, number)
        if one.call_id in seen:
            one = replace(one, call_id=f"{one.call_id}_{number}")
        seen.add(one.call_id)
        parsed.append(one)
    return tuple(parsed)


def _parse_call(call: Mapping[str, Any], number: int) -> RequestedCall:
    function = call["function"]
    raw = function.get("arguments")
    arguments = raw if isinstance(raw, dict) and _is_json(raw) else parse_object(str(raw or "{}"))
    call_id = encodable(str(call.get("id") or f"call_{number}"))
    return RequestedCall(call_id, encodable(str(function["name"])), arguments, str(raw))


def _is_json(value: Mapping[str, Any]) -> bool:
    """No NaN or infinity is in it: Python's reader lets them pass."""
    try:
        json.dumps(value, allow_nan=False)
    except ValueError:
        return False
    return True


def _join_parts(content: object) -> str:
    """The text of a content that is a list of parts; empty for null."""
    parts = content if isinstance(content, list) else []
    return "".join(str(part.get("text", "")) for part in parts if isinstance(part, dict))


def _count(value: object) -> int:
    return value if type(value) is int and value >= 0 else 0
