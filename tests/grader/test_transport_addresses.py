"""Where a call goes, and what is refused before the first one."""

import asyncio
import json

import pytest

from gagar_cli.errors import EndpointError
from gagar_cli.grader.client import EndpointClient, EndpointSettings
from tests.servers import listening

OK = json.dumps({"choices": [{"message": {"content": "ok"}}], "usage": {"prompt_tokens": 1}}).encode()


def target(address: str, host: str = "127.0.0.1") -> str:
    """The target of the request that a call at an address makes; `{}` in it stands for the port."""
    targets = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        targets.append(head.split()[1].decode())
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(OK), OK))
        await writer.drain()

    async def run() -> None:
        async with listening(serve, host) as port:
            base_url = address.format(port)
            client = EndpointClient(EndpointSettings("m", base_url, max_attempts=1, call_seconds=5))
            try:
                await client.complete([{"role": "user", "content": "hello"}], [])
            finally:
                await client.close()

    asyncio.run(run())
    return targets[0]


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("http://127.0.0.1:{}", "/chat/completions"),
        ("http://127.0.0.1:{}/", "/chat/completions"),
        ("http://127.0.0.1:{}/v1", "/v1/chat/completions"),
        ("http://127.0.0.1:{}/v1/", "/v1/chat/completions"),
        ("http://127.0.0.1:{}/v1#part", "/v1/chat/completions"),
        ("http://127.0.0.1:{}/v1?version=2", "/v1/chat/completions?version=2"),
        ("http://127.0.0.1:{}/a%2Fb/v1", "/a%2Fb/v1/chat/completions"),
        ("http://localhost:{}/v1", "/v1/chat/completions"),
        ("HTTP://127.0.0.1:{}/v1", "/v1/chat/completions"),
    ],
)
def test_a_call_goes_below_the_address(address, expected):
    assert target(address) == expected


def test_an_address_of_the_newer_protocol_is_reached():
    try:
        assert target("http://[::1]:{}/v1", host="::1") == "/v1/chat/completions"
    except OSError as error:
        pytest.skip(f"no IPv6 here: {error}")


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1:8000/v1",
        "//127.0.0.1:8000/v1",
        "ws://127.0.0.1:8000/v1",
        "unix:///tmp/socket",
        "http+unix://%2Ftmp%2Fsocket/v1",
        "file:///etc/passwd",
        "http://",
        "http://:80/v1",
        "http://127.0.0.1:99999/v1",
        "http://[::1/v1",
        "http://user:secret@127.0.0.1:8000/v1",
        "http://user:se:cret@127.0.0.1:8000/v1",
    ],
)
def test_an_address_that_cannot_be_used_is_refused_without_a_call(address):
    with pytest.raises(EndpointError, match="the base URL") as caught:
        EndpointClient(EndpointSettings("m", address))
    assert caught.value.is_fatal
    assert "secret" not in caught.value.message


@pytest.mark.parametrize(
    "headers",
    [
        {"X-A": "b\r\nX-Evil: 1"},
        {"X-A\r\nX-Evil": "1"},
        {"X-A": "\u00e4"},
        {"X A": "b"},
        {"": "b"},
        {"Content-Length": "5"},
        {"transfer-encoding": "chunked"},
        {"Expect": "100-continue"},
    ],
)
def test_a_header_that_would_change_the_request_is_refused(headers):
    with pytest.raises(EndpointError, match="the header") as caught:
        EndpointClient(EndpointSettings("m", "http://127.0.0.1:9/v1", headers=headers))
    assert caught.value.is_fatal


def test_a_field_of_the_body_that_would_stand_there_twice_is_refused():
    with pytest.raises(EndpointError, match="holds messages, model, which each request") as caught:
        EndpointClient(EndpointSettings("m", extra_body={"model": "other", "messages": [], "top_k": 2}))
    assert caught.value.is_fatal


@pytest.mark.parametrize("key", ["sk\n", "sk-\u20ac", "sk\r\nX-Evil: 1"])
def test_a_key_that_is_no_header_is_refused_and_not_shown(key):
    with pytest.raises(EndpointError, match="the key") as caught:
        EndpointClient(EndpointSettings("m", "http://127.0.0.1:9/v1", api_key=key))
    assert "sk" not in caught.value.message
