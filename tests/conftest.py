"""What many tests need: a real HTTP endpoint with listed replies, and command lines run within the process."""

import json
from collections.abc import Callable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler
from typing import Any, NamedTuple

import pytest
from hypothesis import settings

from gagar_cli import cli
from tests.servers import ThreadedServer

# Wall time on a shared machine says nothing about the code: no property fails for being slow.
settings.register_profile("shared-machine", deadline=None)
settings.load_profile("shared-machine")


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """No bytes in the name of a test: compressed ones hold the time, and every worker must find the same tests."""
    return argname if isinstance(val, bytes) else None


def chat_body(*calls: tuple[str, dict[str, Any]], content: str | None = None) -> dict[str, Any]:
    """A chat-completions body whose reply makes these tool calls."""
    tool_calls = [
        {
            "id": f"call_{n}",
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(arguments)},
        }
        for n, (name, arguments) in enumerate(calls, 1)
    ]
    message = {"role": "assistant", "content": content, "tool_calls": tool_calls}
    usage = {"prompt_tokens": 100, "completion_tokens": 10, "prompt_tokens_details": {"cached_tokens": 40}}
    return {"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}], "usage": usage}


class ScriptedEndpoint:
    """A real HTTP endpoint that answers with listed replies, in order, and keeps the requests.

    A reply is a body (bytes or JSON), optionally with a status and headers: `(503, body, {"retry-after": "1"})`.
    """

    def __init__(self, replies: Sequence[Any]) -> None:
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self._replies = list(replies)
        server = ThreadedServer(self._handler())
        self.base_url, self.close = server.base_url, server.close

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                endpoint.requests.append(json.loads(body))
                endpoint.headers.append(dict(self.headers))
                reply = endpoint._replies.pop(0) if endpoint._replies else (500, b"no reply is left")
                status, payload, *more = reply if isinstance(reply, tuple) else (200, reply)
                data = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
                self.send_response(status)
                for name, value in (more[0] if more else {}).items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *arguments: Any) -> None:
                pass

        return Handler


@pytest.fixture
def chat() -> Callable[..., dict[str, Any]]:
    """Make a chat-completions body from (tool name, arguments) pairs."""
    return chat_body


@pytest.fixture
def serve() -> Iterator[Callable[..., ScriptedEndpoint]]:
    """Start endpoints with listed replies; they are stopped with the test."""
    endpoints: list[ScriptedEndpoint] = []

    def start(*replies: Any) -> ScriptedEndpoint:
        endpoints.append(ScriptedEndpoint(replies))
        return endpoints[-1]

    yield start
    for endpoint in endpoints:
        endpoint.close()


class Done(NamedTuple):
    """How a command ended, named as in `subprocess`."""

    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def gagar(capsys) -> Callable[..., Done]:
    """Run a command line within this process: all but the start of Python is as in a shell."""
    return lambda *arguments: Done(cli.run([str(each) for each in arguments]), *capsys.readouterr())
