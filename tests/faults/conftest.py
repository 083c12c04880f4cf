"""A real-socket endpoint that answers as the offline model does, and puts planned faults in between."""

import asyncio
import hashlib
import json
import random
import socket
import struct
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import pytest

from gagar_cli.grader.offline.app import complete
from tests.servers import BackgroundServer

MARK = "fault_"
"""What the ids of calls that a fault made up start with, and a text that holds them: the model never hears of them."""


def _chat(*calls: tuple[str, str], content: str | None = None) -> bytes:
    tool_calls = [
        {"id": f"{MARK}{n}", "type": "function", "function": {"name": name, "arguments": arguments}}
        for n, (name, arguments) in enumerate(calls)
    ]
    message = {"role": "assistant", "content": content, "tool_calls": tool_calls}
    return json.dumps({"choices": [{"message": message, "finish_reason": "tool_calls"}]}).encode()


def _say(*calls: tuple[str, str]) -> bytes:
    """The same calls written as text, as an endpoint without native tools makes them."""
    written = ", ".join(f'{{"tool": "{name}", "arguments": {arguments}}}' for name, arguments in calls)
    message = {"role": "assistant", "content": f'{MARK}\n{{"calls": [{written}]}}'}
    return json.dumps({"choices": [{"message": message, "finish_reason": "stop"}]}).encode()


def _response(body: bytes, status: str = "200 OK", headers: str = "", length: int | None = None) -> bytes:
    n_bytes = len(body) if length is None else length
    return f"HTTP/1.1 {status}\r\n{headers}content-length: {n_bytes}\r\n\r\n".encode() + body


ANSWERS = {
    "500": _response(b'{"error": {"message": "internal"}}', "500 Internal Server Error"),
    "502 page": _response(b"<html>bad gateway</html>", "502 Bad Gateway"),
    "503 empty": _response(b"", "503 Service Unavailable"),
    "429": _response(b"slow down", "429 Too Many Requests", "retry-after: 0.02\r\n"),
    "200 page": _response(b"<html>log in</html>"),
    "200 null": _response(b"null"),
    "200 list": _response(b"[]"),
    "200 string": _response(b'"done"'),
    "200 error": _response(b'{"error": {"message": "overloaded", "code": 429}}'),
    "200 no choices": _response(b'{"choices": null}'),
    "200 null message": _response(b'{"choices": [{"message": null}]}'),
    "cut JSON": _response(b'{"choices": [{"message": {"content": "all of th'),
    "bad UTF-8": _response(b'{"choices": [{"message": {"content": "\xff\xfe"}}]}'),
    "deep JSON": _response(b"[" * 100_000),
    "17 MB": _response(b" " * 17 * 1024**2),
    "gzip lie": _response(b"plain", headers="content-encoding: gzip\r\n"),
    "gone before headers": b"",
    "gone in headers": b"HTTP/1.1 200 OK\r\ncontent-le",
    "gone in body": _response(b'{"choices": [', length=5_000),
    "reset": b"",
    "hang": b"",
    "drip": b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n",
}
CALLS = {
    "bad arguments": [("overview", '{"start": NaN')],
    "unknown tool": [("delete_rankings", '{"path": "../../etc/passwd"}')],
    "500 calls": [("overview", "{}")] * 500,
}
"""Faults of the model rather than of its server: they come in the protocol in which it is asked."""
FAULTS = (*ANSWERS, *CALLS)
UNREADABLE = "bad arguments"
REFUSED = (b"the arguments are not a JSON object", b"the JSON of the reply is not valid")
"""The fault that is a reply without a readable call, and what the conversation then holds."""
CLOSING = ("gone before headers", "gone in headers", "gone in body", "17 MB", "drip", "hang", "reset")


class FaultyEndpoint:
    """Each fault `n_each` times in a seeded order.

    At most three in a row for the same request, and at most three calls that cannot be read in one conversation: for
    more of either a group is rightly given up.
    """

    def __init__(self, *, n_each: int, seed: int) -> None:
        self._plan = list(FAULTS) * n_each
        random.Random(seed).shuffle(self._plan)
        self.n_served: Counter[str] = Counter()
        self.n_answers = 0
        self._n_by_request: Counter[str] = Counter()
        server = BackgroundServer(self._serve)
        self.base_url, self.close = server.base_url, server.close

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while body := await _read_request(reader):
            fault = self._next_fault(body)
            if fault is None:
                self.n_answers += 1
                writer.write(_response(json.dumps(complete(_without_faults(json.loads(body)))).encode()))
                await writer.drain()
            elif fault in CALLS:
                write = _chat if "tools" in json.loads(body) else _say
                writer.write(_response(write(*CALLS[fault])))
                await writer.drain()
            elif not await _misbehave(fault, writer):
                return

    def _next_fault(self, body: bytes) -> str | None:
        key = hashlib.sha256(body).hexdigest()
        if not self._plan or self._n_by_request[key] >= 3:
            return None
        is_full = sum(map(body.count, REFUSED)) >= 3
        place = next(
            (n for n in reversed(range(len(self._plan))) if not is_full or self._plan[n] != UNREADABLE), None
        )
        if place is None:
            return None
        self._n_by_request[key] += 1
        fault = self._plan.pop(place)
        self.n_served[fault] += 1
        return fault


async def _read_request(reader: asyncio.StreamReader) -> bytes:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return b""
    length = next(
        int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")
    )
    return await reader.readexactly(length)


async def _misbehave(fault: str, writer: asyncio.StreamWriter) -> bool:
    """Whether the connection can still be used."""
    writer.write(ANSWERS[fault])
    if fault == "reset":
        linger = struct.pack("ii", 1, 0)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    elif fault == "hang":
        await asyncio.sleep(30)
    elif fault == "drip":
        while True:
            writer.write(b" ")
            await writer.drain()
            await asyncio.sleep(0.02)
    await writer.drain()
    return fault not in CLOSING


def _without_faults(request: dict[str, Any]) -> dict[str, Any]:
    """The conversation as the model would have it, had no fault made calls in its name."""
    messages = [
        message
        for before, message in pairwise(({}, *request["messages"]))
        if not _is_made_up(message)
        and not str(message.get("tool_call_id", "")).startswith(MARK)
        # Where calls are text, what came of them is the message behind it.
        and not (message["role"] == "user" and _is_made_up(before))
    ]
    return {**request, "messages": messages}


def _is_made_up(message: dict[str, Any]) -> bool:
    if message.get("role") != "assistant":
        return False
    is_written = (message.get("content") or "").startswith(MARK)
    return is_written or any(call["id"].startswith(MARK) for call in message.get("tool_calls") or ())


@pytest.fixture
def serve_faults() -> Iterator[Callable[..., FaultyEndpoint]]:
    """Start faulty endpoints; they are stopped with the test."""
    endpoints: list[FaultyEndpoint] = []

    def start(**options: int) -> FaultyEndpoint:
        endpoints.append(FaultyEndpoint(**options))
        return endpoints[-1]

    yield start
    for endpoint in endpoints:
        endpoint.close()
