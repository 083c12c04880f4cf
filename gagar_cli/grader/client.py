"""The endpoint: one chat-completions call in, a checked reply out, and the one place that retries.

The SDK's own retries are off. Every failure becomes one of three things: retried here (connection, timeout, 408, 409,
429, 5xx, a malformed 200), fatal for the run (401, 403, 404, a redirect), or an error of this group (400 and others).
A call has a wall deadline that a slow drip of bytes cannot stretch, and the body of an answer has a cap.
"""

import asyncio
import email.utils
import json
import math
import random
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

from gagar_cli.core.text import escape_untrusted, shorten
from gagar_cli.errors import EndpointError

if TYPE_CHECKING:
    import httpx2
    from openai import APIStatusError, AsyncOpenAI
    from tenacity import RetryCallState

OFFLINE_MODEL = "offline"
_OFFLINE_URL = "http://offline.invalid/v1"

MAX_BODY_BYTES = 16 * 1024**2
MAX_RETRY_AFTER_SECONDS = 60.0
_FATAL_HINTS = {
    401: "set the variable named by `--api-key-env` to a valid key",
    403: "the key is valid but may not use this model",
    404: "check `--base-url` (it usually ends in /v1) and `--model`",
}


@dataclass(frozen=True, slots=True)
class EndpointSettings:
    """Where the grader model is, and how it is asked."""

    model: str
    base_url: str | None = None
    """None only with the offline model, which is mounted in this process."""
    api_key: str | None = field(default=None, repr=False)
    temperature: float | None = None
    """None leaves it to the endpoint: some models refuse the parameter."""
    seed: int | None = None
    max_output_tokens: int | None = None
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    call_seconds: float = 600.0
    max_attempts: int = 6
    backoff_seconds: float = 1.0
    """Upper end of the first wait; doubles with each retry, jittered from 0."""
    max_connections: int = 64


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
    calls: tuple[RequestedCall, ...]
    finish_reason: str | None
    n_input_tokens: int
    n_cached_tokens: int
    n_output_tokens: int

    @property
    def message(self) -> dict[str, Any]:
        """The reply as it goes back into the history, its arguments valid JSON whatever the model wrote."""
        message: dict[str, Any] = {"role": "assistant", "content": self.content or None}
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


class _RetryableError(Exception):
    """A failure that asking again may mend."""

    def __init__(self, message: str, retry_after_seconds: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class EndpointClient:
    """One endpoint for a whole run, shared by all groups."""

    def __init__(self, settings: EndpointSettings) -> None:
        self.settings = settings
        self._client = _make_client(settings)
        self._jitter = random.Random()  # noqa: S311 - spreads retries, nothing depends on it

    async def complete(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]
    ) -> Reply:
        """Ask once, with retries.

        Raises:
            EndpointError: the endpoint refused, or kept failing.
        """
        from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_attempt

        settings = self.settings
        body: dict[str, Any] = {"model": settings.model, "messages": list(messages), "tools": list(tools)}
        optional = {
            "temperature": settings.temperature,
            "seed": settings.seed,
            "max_tokens": settings.max_output_tokens,
        }
        body |= {name: value for name, value in optional.items() if value is not None} | dict(
            settings.extra_body
        )
        retrying = AsyncRetrying(
            retry=retry_if_exception_type(_RetryableError),
            stop=stop_after_attempt(settings.max_attempts),
            wait=self._wait_seconds,
            reraise=True,
        )
        try:
            return await retrying(self._ask, body)
        except _RetryableError as error:
            raise EndpointError(
                f"the endpoint failed {settings.max_attempts} times, last: {error}"
            ) from error

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def _ask(self, body: Mapping[str, Any]) -> Reply:
        import httpx2
        from openai import APIConnectionError, APIStatusError, APITimeoutError

        try:
            async with asyncio.timeout(self.settings.call_seconds):
                response = await self._client.post(
                    "/chat/completions", cast_to=httpx2.Response, body=dict(body)
                )
        except (TimeoutError, APITimeoutError) as error:
            raise _RetryableError(f"no answer within {self.settings.call_seconds:g} s") from error
        except APIStatusError as error:
            _raise_for_status(error)
        except (APIConnectionError, httpx2.HTTPError) as error:
            raise _RetryableError(f"connection failed: {_shown(error.__cause__ or error)}") from error
        return parse_reply(response.content)

    def _wait_seconds(self, state: "RetryCallState") -> float:
        error = state.outcome.exception() if state.outcome else None
        if isinstance(error, _RetryableError) and error.retry_after_seconds is not None:
            return error.retry_after_seconds
        ceiling = min(60.0, self.settings.backoff_seconds * 2 ** (state.attempt_number - 1))
        return self._jitter.uniform(0.0, ceiling)


def parse_reply(body: bytes) -> Reply:
    """The reply in a chat-completions body.

    Raises:
        _RetryableError: it is not one, whatever its status said.
    """
    try:
        document = json.loads(body)
        if isinstance(document, dict) and "error" in document and not document.get("choices"):
            raise _RetryableError(f"status 200 with an error: {_shown(document['error'])}")
        choice = document["choices"][0]
        message = choice["message"]
        content = message.get("content")
        calls = tuple(_parse_call(call, n) for n, call in enumerate(message.get("tool_calls") or (), 1))
        usage = document.get("usage") or {}
        cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens")
        return Reply(
            content=_encodable(content if isinstance(content, str) else _join_parts(content)),
            calls=calls,
            finish_reason=choice.get("finish_reason"),
            n_input_tokens=_count(usage.get("prompt_tokens")),
            n_cached_tokens=_count(cached),
            n_output_tokens=_count(usage.get("completion_tokens")),
        )
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError) as error:
        raise _RetryableError(
            f"not a chat completion: {_shown(body[:200].decode('utf-8', 'replace'))}"
        ) from error


def _encodable(text: str) -> str:
    """The text without lone surrogates, which could not be sent back with the history."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _parse_call(call: Mapping[str, Any], number: int) -> RequestedCall:
    function = call["function"]
    raw = function.get("arguments")
    if isinstance(raw, dict):
        arguments: Mapping[str, Any] | None = raw
    else:
        arguments = _json_object(raw or "{}")
    call_id = _encodable(str(call.get("id") or f"call_{number}"))
    return RequestedCall(call_id, _encodable(str(function["name"])), arguments, str(raw))


def _json_object(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _join_parts(content: object) -> str:
    """The text of a content that is a list of parts; empty for null."""
    parts = content if isinstance(content, list) else []
    return "".join(str(part.get("text", "")) for part in parts if isinstance(part, dict))


def _count(value: object) -> int:
    return value if type(value) is int and value >= 0 else 0


def _raise_for_status(error: "APIStatusError") -> NoReturn:
    status = error.status_code
    told = f"status {status}: {_shown(error.message)}"
    if status in (408, 409, 429) or status >= 500:
        raise _RetryableError(told, _retry_after_seconds(error.response)) from error
    if status < 400:
        raise EndpointError(
            f"the endpoint redirects ({told})", "give the final address as `--base-url`", is_fatal=True
        )
    raise EndpointError(
        f"the endpoint refused ({told})", _FATAL_HINTS.get(status), is_fatal=status in _FATAL_HINTS
    )


def _retry_after_seconds(response: "httpx2.Response") -> float | None:
    """The wait that the endpoint asks for, in seconds, at most `MAX_RETRY_AFTER_SECONDS`; None where it asks none."""
    text = response.headers.get("retry-after", "")
    try:
        seconds = float(text)
    except ValueError:
        try:
            seconds = email.utils.parsedate_to_datetime(text).timestamp() - time.time()
        except (ValueError, TypeError, OverflowError):
            return None
    return min(max(seconds, 0.0), MAX_RETRY_AFTER_SECONDS) if math.isfinite(seconds) else None


def _shown(value: object) -> str:
    return escape_untrusted(shorten(str(value), 200), keep_newlines=False)


def _make_client(settings: EndpointSettings) -> "AsyncOpenAI":
    import httpx2
    from openai import AsyncOpenAI

    transport: httpx2.AsyncBaseTransport
    if settings.base_url is None:
        from gagar_cli.grader.offline.app import app

        transport = httpx2.ASGITransport(app=app)
    else:
        limits = httpx2.Limits(
            max_connections=settings.max_connections, max_keepalive_connections=settings.max_connections
        )
        transport = httpx2.AsyncHTTPTransport(limits=limits)
    timeout = httpx2.Timeout(settings.call_seconds, pool=None)
    return AsyncOpenAI(
        api_key=settings.api_key or "none",
        base_url=settings.base_url or _OFFLINE_URL,
        max_retries=0,
        default_headers=dict(settings.headers),
        http_client=httpx2.AsyncClient(
            transport=_capped_transport(transport), timeout=timeout, follow_redirects=False, trust_env=False
        ),
    )


def _capped_transport(inner: "httpx2.AsyncBaseTransport") -> "httpx2.AsyncBaseTransport":
    """A transport whose answers end in an error once they are longer than `MAX_BODY_BYTES`."""
    import httpx2

    class CappedStream(httpx2.AsyncByteStream):
        def __init__(self, stream: httpx2.AsyncByteStream) -> None:
            self._stream = stream

        async def __aiter__(self) -> AsyncIterator[bytes]:
            n_bytes = 0
            async for chunk in self._stream:
                n_bytes += len(chunk)
                if n_bytes > MAX_BODY_BYTES:
                    raise httpx2.ReadError(f"the answer is longer than {MAX_BODY_BYTES} bytes")
                yield chunk

        async def aclose(self) -> None:
            await self._stream.aclose()

    class CappedTransport(httpx2.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            # A compressed answer could unpack to any size behind the cap.
            request.headers["accept-encoding"] = "identity"
            response = await inner.handle_async_request(request)
            if response.headers.get("content-encoding", "identity").lower() not in ("", "identity"):
                await response.aclose()
                raise httpx2.ReadError("the answer is compressed, which was not asked for")
            assert isinstance(response.stream, httpx2.AsyncByteStream)  # noqa: S101 - a fact of async transports
            response.stream = CappedStream(response.stream)
            return response

        async def aclose(self) -> None:
            await inner.aclose()

    return CappedTransport()
