"""The offline model's endpoint: a small ASGI app that speaks chat completions with tool calls.

Where a request offers no tools but describes them in its system message, the calls are JSON in the text (`dialects`).

Not a language model: replies follow from rules, and the same conversation always gets the same reply. It keeps no
state and writes nothing; whoever can reach it can at most make it work. Mounted in-process for `--model offline`, and
served on a socket by `gagar offline-endpoint`.
"""

import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from typing import Any

from gagar_cli.core.rubric import DIMENSIONS
from gagar_cli.grader.offline.dialects import Dialect, find_dialect
from gagar_cli.grader.offline.guessing import plan_guess
from gagar_cli.grader.offline.planning import SUBMIT, Call, plan_calls
from gagar_cli.grader.offline.reading import read_content, read_material
from gagar_cli.grader.offline.requests import MODEL, RequestError, max_reply_tokens, parse

MAX_BODY_BYTES = 64 * 1024 * 1024
_CHARS_PER_TOKEN = 4

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """The ASGI entry point."""
    if scope["type"] == "lifespan":
        await _pass_lifespan(receive, send)
        return
    if scope["type"] != "http":
        return
    try:
        status, answer = 200, await _answer(scope["method"], scope["path"], receive)
    except RequestError as error:
        status, answer = error.status, _error(error.status, str(error))
    except Exception as error:  # noqa: BLE001 - the edge of one request: a rule's bug must not end the server
        status, answer = 500, _error(500, f"the offline model failed: {type(error).__name__}: {error}")
    await _send_json(send, status, answer)


async def _pass_lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return


async def _answer(method: str, path: str, receive: Receive) -> dict[str, Any]:
    routes: dict[str, tuple[str, dict[str, Any] | None]] = {
        "/health": ("GET", {"status": "ok"}),
        "/v1/models": ("GET", {"object": "list", "data": [_model_card()]}),
        f"/v1/models/{MODEL}": ("GET", _model_card()),
        "/v1/chat/completions": ("POST", None),
    }
    if path not in routes:
        raise RequestError(404, f"there is nothing at {path}, expected one of {', '.join(routes)}")
    expected, answer = routes[path]
    if method != expected:
        raise RequestError(405, f"{path} takes {expected}, not {method}")
    return answer if answer is not None else complete(parse(await _read_body(receive)))


def _model_card() -> dict[str, Any]:
    return {"id": MODEL, "object": "model", "created": 0, "owned_by": "gagar (rules, not a language model)"}


async def _read_body(receive: Receive) -> bytes:
    parts: list[bytes] = []
    n_bytes = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise RequestError(400, "the client went away")
        parts.append(message.get("body", b""))
        n_bytes += len(parts[-1])
        if n_bytes > MAX_BODY_BYTES:
            raise RequestError(413, f"the request is larger than {MAX_BODY_BYTES} bytes")
        if not message.get("more_body"):
            return b"".join(parts)


def complete(request: Mapping[str, Any]) -> dict[str, Any]:
    """The chat completion that follows from a checked request.

    Raises:
        RequestError: it wants an answer in a form that nothing but the calls of a grading have here.
    """
    messages: Sequence[Mapping[str, Any]] = request["messages"]
    dialect = find_dialect(request)
    tools = dialect.tools
    asked = json.dumps([messages, dialect.name, sorted(tools)], sort_keys=True)
    digest = hashlib.sha256(asked.encode()).hexdigest()[:24]
    material = () if "overview" in tools else read_material(messages)
    guess = plan_guess(dialect.schemas, digest)
    if guess is not None:
        message, finish_reason = _reply(dialect, [guess], digest)
    elif SUBMIT in tools and ("overview" in tools or material):
        exchanges = (*material, *dialect.read(messages))
        dimensions = read_dimensions(dialect.schemas)
        calls = plan_calls(exchanges, tools, dialect.count_replies(messages), dimensions)
        message, finish_reason = _reply(dialect, calls, digest)
    elif dialect.name == "json-schema":
        raise RequestError(
            400, f"response_format json_schema is for calls, and the tools overview and {SUBMIT} are not told"
        )
    else:
        message = {
            "role": "assistant",
            "content": "The offline model is a set of rules, not a language model: it can only grade a group, "
            f"and needs the tools overview and {SUBMIT} for that.",
        }
        finish_reason = "stop"
    n_prompt = _count_tokens(*messages)
    cap = max_reply_tokens(request)
    if cap is not None and _count_tokens(message) > cap:
        message, finish_reason = _cut(message, cap * _CHARS_PER_TOKEN), "length"
    n_reply = _count_tokens(message)
    return {
        "id": f"chatcmpl-{digest}",
        "object": "chat.completion",
        "created": 0,
        "model": MODEL,
        "choices": [{"index": 0, "message": message, "finish_reason": finish_reason, "logprobs": None}],
        "usage": {
            "prompt_tokens": n_prompt,
            "completion_tokens": n_reply,
            "total_tokens": n_prompt + n_reply,
        },
    }


def read_dimensions(tools: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """The dimensions that the submitting tool takes scores for; the paper's where it does not say."""
    for tool in tools:
        if tool["function"]["name"] != SUBMIT:
            continue
        found: Any = tool["function"].get("parameters")
        for key in ("properties", "candidates", "items", "properties", "scores", "properties"):
            found = found.get(key) if isinstance(found, dict) else None
        if isinstance(found, dict) and found:
            return tuple(found)
    return DIMENSIONS


def _reply(dialect: Dialect, calls: Sequence[Call], digest: str) -> tuple[dict[str, Any], str]:
    """The next message and how it finished."""
    if dialect.name != "tools":
        return {"role": "assistant", "content": dialect.write(calls)}, "stop"
    tool_calls = [
        {
            "id": f"call_{digest[:12]}_{number}",
            "type": "function",
            "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
        }
        for number, call in enumerate(calls, 1)
    ]
    return {"role": "assistant", "content": None, "tool_calls": tool_calls}, "tool_calls"


def _cut(message: Mapping[str, Any], n_chars: int) -> dict[str, Any]:
    """The beginning of a reply: the call where it ends is cut in the middle, those behind it are not made."""
    if "tool_calls" not in message:
        return {**message, "content": message["content"][:n_chars]}
    calls = []
    for call in message["tool_calls"]:
        arguments = call["function"]["arguments"]
        calls.append({**call, "function": {**call["function"], "arguments": arguments[:n_chars]}})
        n_chars -= len(arguments)
        if n_chars <= 0:
            break
    return {**message, "tool_calls": calls}


def _count_tokens(*messages: Mapping[str, Any]) -> int:
    """Reckoned from characters; nothing that is sent is free."""
    return max(1, sum(map(_count_chars, messages)) // _CHARS_PER_TOKEN)


def _count_chars(message: Mapping[str, Any]) -> int:
    calls = message.get("tool_calls") or ()
    return len(read_content(message.get("content"))) + sum(
        len(str(call["function"].get("arguments", ""))) for call in calls
    )


def _error(status: int, message: str) -> dict[str, Any]:
    kind = "server_error" if status >= 500 else "invalid_request_error"
    return {"error": {"message": message, "type": kind, "param": None, "code": None}}


async def _send_json(send: Send, status: int, answer: Mapping[str, Any]) -> None:
    body = json.dumps(answer).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
