"""The endpoint: one chat-completions call in, a checked reply out, and the one place that retries.

The SDK's own retries are off. Every failure becomes one of these: retried here (connection, timeout, 408, 409, 429,
5xx, a malformed 200); asked otherwise (`max_tokens` that is spelt otherwise, reasoning that is not taken back); told
to the conversation (a protocol or a length that the endpoint does not take); fatal for the run (401, 403, 404, a
redirect, a circuit breaker that gave up); or an error of this group (400 and others).
A call has a wall deadline that a slow drip of bytes cannot stretch, and the body of an answer has a cap. How many
conversations may wait for an answer at a time is `turns`: whoever holds a conversation takes one for each reply.

What is learnt of the endpoint on the way (its protocol, its spellings) is kept here, for all groups.
"""

import asyncio
import json
import random
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from gagar_cli.errors import EndpointError
from gagar_cli.grader.breaker import CircuitBreaker, Pausing
from gagar_cli.grader.endpoint import (
    OFFLINE_MODEL,
    PROTOCOLS,
    UNREACHABLE_HINT,
    EndpointSettings,
    Protocol,
)
from gagar_cli.grader.protocols import Rendering, Request, encode
from gagar_cli.grader.refusals import ParameterRefusedError, ProtocolRefusedError, raise_for_status
from gagar_cli.grader.replies import Reply, RequestedCall, RetryableError, parse_reply, shown
from gagar_cli.grader.transport import MAX_BODY_BYTES, call_options, open_client
from gagar_cli.grader.window import CHARS_PER_TOKEN, Window, estimated

if TYPE_CHECKING:
    from tenacity import RetryCallState

__all__ = [
    "CHARS_PER_TOKEN",
    "MAX_BODY_BYTES",
    "OFFLINE_MODEL",
    "EndpointClient",
    "EndpointSettings",
    "Reply",
    "RequestedCall",
    "parse_reply",
]

MAX_IGNORED = 3
"""Replies without a usable call, none before them, after which `auto` takes the endpoint to ignore its protocol."""
MAX_BACKOFF_SECONDS = 60.0
_CAP_NAMES = ("max_tokens", "max_completion_tokens")


class EndpointClient:
    """One endpoint for a whole run, shared by all groups."""

    def __init__(self, settings: EndpointSettings) -> None:
        self.settings = settings
        self.window = Window()
        """How much of a conversation the model takes, as far as refusals have told."""
        self._notes: list[str] = []
        self.protocol: Protocol = "tools" if settings.protocol == "auto" else settings.protocol
        """The one in force; with `auto` it may change while replies come in."""
        self.cap_name: str | None = _CAP_NAMES[0]
        """How the endpoint spells the bound of a reply; None where it takes neither."""
        self.passes_reasoning = True
        """Whether reasoning is given back in the history."""
        self.turns = asyncio.Semaphore(settings.max_connections)
        """Calls that may be on their way at a time, first come, first served."""
        self._n_ignored = 0
        self._has_called = self._has_been_cut = False
        self._client = open_client(settings)
        # Whole: an address below the base is put together anew with every call.
        self._call = call_options(f"{str(self._client.base_url).rstrip('/')}/chat/completions")
        self._breaker = CircuitBreaker(
            max(settings.max_failures, 2 * settings.max_connections),
            settings.pause_seconds,
            settings.max_pauses,
        )
        self._jitter = random.Random()  # noqa: S311 - spreads retries, nothing depends on it
        self._head = encode({"model": settings.model})[:-1]
        self._tail = self._encode_tail(None)

    @property
    def notes(self) -> list[str]:
        """What was learnt of the endpoint and the user should know."""
        late = (self.window.cut_note, self._breaker.note)
        return [*self._notes, *(note for note in late if note)]

    async def complete(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]
    ) -> Reply:
        """Ask once with native tools, with retries; what `ask` raises."""
        rendering = Rendering(tools)
        while True:
            request = rendering.request(messages, "tools", passes_reasoning=self.passes_reasoning)
            try:
                return await self.ask(request)
            except ParameterRefusedError:
                continue

    async def ask(self, request: Request, pausing: Pausing = nullcontext) -> Reply:
        """Ask once, with retries; `pausing` is entered while the whole run pauses.

        Raises:
            EndpointError: the endpoint refused, or kept failing.
            ContextOverflowError: the request is longer than the model's window.
            ProtocolRefusedError: the endpoint does not take this protocol; with `auto` another one is in force now.
            ParameterRefusedError: reasoning in the history is not taken; without it the request may pass.
        """
        is_raised = request.max_output_tokens is not None
        while True:
            if is_raised and not self._can_raise_cap():
                raise EndpointError("the endpoint takes no larger bound of a reply")
            cap_name, passes_reasoning = self.cap_name, self.passes_reasoning
            try:
                return await self._try(request, pausing)
            except RetryableError as error:
                n_times = self.settings.max_attempts
                told = f"the endpoint failed {n_times} times, last" if n_times > 1 else "the endpoint failed"
                raise EndpointError(f"{told}: {error}", error.hint) from error
            except ProtocolRefusedError as error:
                if not self._fall_from(request.protocol, str(error)):
                    raise EndpointError(
                        f"the endpoint does not take the protocol {request.protocol} ({error})",
                        "choose another one with `--protocol`, or leave it to `auto`",
                        is_fatal=True,
                    ) from error
                raise
            except ParameterRefusedError as error:
                if error.name == "reasoning" and passes_reasoning:
                    self.passes_reasoning = False
                    raise
                # Where a bound was taken before, its name is right, and it is the larger value that is refused.
                is_misspelt = error.name == "max_tokens" and is_raised != self._sends_cap()
                if not is_misspelt or cap_name is None:
                    raise EndpointError(f"the endpoint refused ({error})") from error
                # Another call may have settled it meanwhile.
                if self.cap_name == cap_name:
                    self._respell_cap()

    def tell_cut(self) -> None:
        """Note that a reply did not fit; once is enough."""
        if not self._has_been_cut:
            self._has_been_cut = True
            self._notes.append(
                "replies were cut off and asked again with a larger bound: a larger `--max-output-tokens` saves that"
            )

    def tell_usable(self, *, is_usable: bool, protocol: Protocol) -> bool:
        """Count a reply by whether its calls could be read; whether that put another protocol in force."""
        if protocol != self.protocol:
            return True
        self._has_called = self._has_called or is_usable
        if self._has_called:
            return False
        self._n_ignored += 1
        return self._n_ignored >= MAX_IGNORED and self._fall_from(
            protocol, f"{self._n_ignored} replies made no use of it"
        )

    async def read(self, address: str) -> object:
        """The JSON document at an address below the base URL, or at a whole address; without retries.

        Raises:
            EndpointError: there is none; fatal for 401 and 403.
        """
        import httpx2
        from openai import APIError

        try:
            async with asyncio.timeout(self.settings.call_seconds):
                response = await self._client.get(address, cast_to=httpx2.Response)
            return json.loads(response.content)
        except APIError as error:
            status = getattr(error, "status_code", None)
            raise EndpointError(shown(error.__cause__ or error), is_fatal=status in (401, 403)) from error
        except (TimeoutError, httpx2.HTTPError, ValueError, RecursionError) as error:
            raise EndpointError(shown(error) or "no answer in time") from error

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    def _fall_from(self, protocol: Protocol, reason: str) -> bool:
        """Whether another protocol than this one is in force, now or already."""
        if protocol != self.protocol:
            return True
        if self.settings.protocol != "auto" or protocol == PROTOCOLS[-1]:
            return False
        self.protocol = PROTOCOLS[PROTOCOLS.index(protocol) + 1]
        self._n_ignored = 0
        self._notes.append(f"protocol {self.protocol}: the endpoint does not take {protocol} ({reason})")
        return True

    async def _try(self, request: Request, pausing: Pausing) -> Reply:
        try:
            return await self._attempt(request, pausing)
        except RetryableError as error:
            failure = error
        # Made for the few calls that fail: it costs a tenth of one that does not.
        return await self._retry(request, pausing, failure)

    async def _retry(self, request: Request, pausing: Pausing, failure: RetryableError) -> Reply:
        from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_attempt

        first = [failure]

        async def attempt() -> Reply:
            if first:
                raise first.pop()
            return await self._attempt(request, pausing)

        retrying = AsyncRetrying(
            retry=retry_if_exception_type(RetryableError),
            stop=stop_after_attempt(self.settings.max_attempts),
            wait=self._wait_seconds,
            reraise=True,
        )
        return await retrying(attempt)

    async def _attempt(self, request: Request, pausing: Pausing) -> Reply:
        import httpx2
        from openai import APIConnectionError, APIStatusError, APITimeoutError

        async with self._breaker.guard(pausing):
            body = self._body(request)
            try:
                async with asyncio.timeout(self.settings.call_seconds):
                    response = await self._client.request(
                        httpx2.Response, self._call.model_copy(update={"content": body})
                    )
            except (TimeoutError, APITimeoutError) as error:
                raise RetryableError(f"no answer within {self.settings.call_seconds:g} s") from error
            except APIStatusError as error:
                # Once calls came back, an accident's words are no reason to change how a whole run asks.
                is_doubtful = self._has_called and error.status_code >= 500
                raise_for_status(
                    error.status_code,
                    error.message,
                    error.response,
                    protocol="" if is_doubtful else request.protocol,
                )
            except (APIConnectionError, httpx2.HTTPError) as error:
                if isinstance(error.__cause__, EndpointError):
                    raise error.__cause__ from error
                failed = f"connection failed: {shown(error.__cause__ or error)}"
                raise RetryableError(failed, hint=UNREACHABLE_HINT) from error
            reply = parse_reply(response.content)
        if not reply.n_input_tokens:
            return estimated(reply, len(body))
        self.window.weigh(reply, len(request.messages))
        return reply

    def _body(self, request: Request) -> bytes:
        parts = [self._head, b',"messages":', request.messages]
        if request.tools is not None:
            parts += [b',"tools":', request.tools]
        if request.response_format is not None:
            parts += [b',"response_format":', request.response_format]
        raised = request.max_output_tokens
        return b"".join([*parts, self._tail if raised is None else self._encode_tail(raised)])

    def _encode_tail(self, raised: int | None) -> bytes:
        """The parameters behind the messages: the same in every request, so that what differs comes late."""
        settings = self.settings
        optional = {"temperature": settings.temperature, "seed": settings.seed}
        if self.cap_name is not None:
            optional[self.cap_name] = raised or settings.max_output_tokens
        given = {name: value for name, value in optional.items() if value is not None}
        given |= dict(settings.extra_body)
        return b"," + encode(given)[1:] if given else b"}"

    def _can_raise_cap(self) -> bool:
        return self.cap_name is not None and not any(name in self.settings.extra_body for name in _CAP_NAMES)

    def _sends_cap(self) -> bool:
        return self.settings.max_output_tokens is not None

    def _respell_cap(self) -> None:
        self.cap_name = _CAP_NAMES[1] if self.cap_name == _CAP_NAMES[0] else None
        self._tail = self._encode_tail(None)
        if self.cap_name is None and self._sends_cap():
            self._notes.append("the endpoint takes no bound of a reply: `--max-output-tokens` is not sent")

    def _wait_seconds(self, state: "RetryCallState") -> float:
        error = state.outcome.exception() if state.outcome else None
        if isinstance(error, RetryableError) and error.retry_after_seconds:
            # It holds for the whole endpoint: the breaker keeps every call waiting.
            return 0.0
        n_failed = min(state.attempt_number - 1, 60)
        return self._jitter.uniform(
            0.0, min(MAX_BACKOFF_SECONDS, self.settings.backoff_seconds * 2.0**n_failed)
        )
