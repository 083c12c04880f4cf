import asyncio
import gzip
import json
import socket
import ssl
import time
from email.utils import formatdate
from types import SimpleNamespace

import pytest
from aiohttp import ClientConnectorError

from gagar_cli.errors import EndpointError
from gagar_cli.grader.client import EndpointClient, EndpointSettings, Reply
from gagar_cli.grader.replies import describe_failure
from tests.servers import listening

MESSAGES = [{"role": "user", "content": "hello"}]


def ask(endpoint, **settings) -> Reply:
    values = {"backoff_seconds": 0.001, "max_attempts": 3, "call_seconds": 5.0, **settings}

    async def once() -> Reply:
        client = EndpointClient(EndpointSettings("m", endpoint.base_url, **values))
        try:
            return await client.complete(MESSAGES, [])
        finally:
            await client.close()

    return asyncio.run(once())


def test_calls_and_usage_are_read(serve, chat):
    reply = ask(serve(chat(("overview", {"start": 2}), content="let me see")))
    assert (reply.content, reply.calls[0].name, reply.calls[0].arguments) == (
        "let me see",
        "overview",
        {"start": 2},
    )
    assert (reply.n_input_tokens, reply.n_cached_tokens, reply.n_output_tokens) == (100, 40, 10)


def test_what_is_asked_is_what_was_set(serve, chat):
    endpoint = serve(chat())
    ask(
        endpoint,
        temperature=0.0,
        seed=5,
        extra_body={"top_k": 1},
        headers={"X-Team": "rl"},
        api_key="sk-test",
    )
    assert endpoint.requests == [
        {"model": "m", "messages": MESSAGES, "temperature": 0.0, "seed": 5, "top_k": 1}
    ]
    sent = {name.lower(): value for name, value in endpoint.headers[0].items()}
    assert (sent["x-team"], sent["authorization"]) == ("rl", "Bearer sk-test")


MALFORMED = [
    b"<html>bad gateway</html>",
    b"null",
    b"[]",
    b'"text"',
    b'{"choices": []}',
    b'{"choices": null}',
    b'{"choices": [{"message": null}]}',
    b'{"error": {"message": "overloaded", "code": 429}}',
    b'{"choices": [{"mess',
    b"\xff\xfe",
    b"",
    b'{"choices": [{"message": {"tool_calls": [{"function": null}]}}]}',
    b"[" * 100_000,
]


@pytest.mark.parametrize("body", MALFORMED, ids=range(len(MALFORMED)))
def test_a_malformed_answer_is_asked_again(serve, body, chat):
    endpoint = serve(body, chat(("overview", {})))
    assert ask(endpoint).calls[0].name == "overview"
    assert len(endpoint.requests) == 2


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503])
def test_a_passing_failure_is_asked_again(serve, status, chat):
    endpoint = serve((status, b"try later"), chat(content="ok"))
    assert ask(endpoint).content == "ok"


def test_an_endpoint_that_keeps_failing_is_given_up(serve):
    endpoint = serve(*[(503, b"down")] * 9)
    with pytest.raises(EndpointError, match=r"failed 3 times, last: status 503") as caught:
        ask(endpoint)
    assert len(endpoint.requests) == 3
    assert not caught.value.is_fatal


@pytest.mark.parametrize(
    ("status", "hint"), [(401, "--api-key-env"), (403, "may not use"), (404, "--base-url")]
)
def test_a_refusal_that_all_would_meet_is_fatal_at_once(serve, status, hint):
    endpoint = serve((status, {"error": {"message": "no"}}))
    with pytest.raises(EndpointError) as caught:
        ask(endpoint)
    assert caught.value.is_fatal
    assert hint in caught.value.hint
    assert len(endpoint.requests) == 1


def test_a_bad_request_is_this_groups_trouble(serve):
    with pytest.raises(EndpointError, match="status 400") as caught:
        ask(serve((400, {"error": {"message": "context length exceeded"}})))
    assert not caught.value.is_fatal


def test_a_redirect_is_not_followed(serve, chat):
    elsewhere = serve(chat())
    with pytest.raises(EndpointError, match="redirects"):
        ask(serve((302, b"", {"location": elsewhere.base_url})))
    assert elsewhere.requests == []


@pytest.mark.parametrize("as_date", [False, True])
def test_the_wait_that_the_endpoint_asks_for_is_kept(serve, as_date, chat):
    wait = formatdate(time.time() + 2, usegmt=True) if as_date else "1"
    endpoint = serve((429, b"", {"retry-after": wait}), chat(content="ok"))
    started = time.monotonic()
    ask(endpoint)
    assert time.monotonic() - started > 0.9


def test_an_answer_over_the_cap_is_not_kept(serve, chat):
    endpoint = serve(b" " * (17 * 1024**2), chat(content="ok"))
    assert ask(endpoint).content == "ok"


def test_a_slow_drip_meets_the_deadline():
    async def drip(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n")
        while True:
            writer.write(b" ")
            await writer.drain()
            await asyncio.sleep(0.02)

    async def once() -> float:
        async with listening(drip) as port:
            settings = EndpointSettings("m", f"http://127.0.0.1:{port}/v1", call_seconds=0.3, max_attempts=1)
            client = EndpointClient(settings)
            started = time.monotonic()
            with pytest.raises(EndpointError, match="no answer within"):
                await client.complete(MESSAGES, [])
            seconds = time.monotonic() - started
            await client.close()
            return seconds

    assert asyncio.run(once()) < 2


def test_nobody_listening_is_told_as_a_failed_connection():
    class Nobody:
        base_url = "http://127.0.0.1:9/v1"

    with pytest.raises(EndpointError) as caught:
        ask(Nobody, max_attempts=1)
    told = "the endpoint failed: connection failed: 127.0.0.1:9: connection refused"
    assert caught.value.message == told


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        (ConnectionRefusedError(111, "Connect call failed ('127.0.0.1', 9)"), "h:9: connection refused"),
        (socket.gaierror(-2, "Name or service not known"), "h:9: Name or service not known"),
        # The number 1 is "operation not permitted" elsewhere.
        (ssl.SSLError(1, "wrong version number"), "h:9: wrong version number"),
        (OSError(None, "no answer from any"), "h:9: no answer from any"),
    ],
)
def test_a_connection_that_cannot_be_opened_is_told_in_the_systems_words(reason, told):
    error = ClientConnectorError(SimpleNamespace(host="h", port=9, ssl=True), reason)
    assert describe_failure(error) == told


def test_arguments_that_are_no_object_go_back_into_the_history_as_valid_json(serve, chat):
    body = chat(("overview", {}))
    body["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] = '{"start": NaN'
    reply = ask(serve(body))
    assert reply.calls[0].arguments is None
    assert json.loads(reply.message["tool_calls"][0]["function"]["arguments"]) == {}


def test_the_key_is_shown_nowhere():
    settings = EndpointSettings(
        "m", "http://127.0.0.1:9/v1", api_key="sk-secret", headers={"X-Key": "sk-other"}
    )
    assert "sk-" not in repr(settings)


@pytest.mark.parametrize("wait", ["Wed, garbage", "nan", "inf", "-5", "tomorrow"])
def test_a_wait_that_makes_no_sense_is_no_trouble(serve, wait, chat):
    assert ask(serve((429, b"", {"retry-after": wait}), chat(content="ok"))).content == "ok"


def test_a_compressed_answer_is_not_unpacked(serve, chat):
    packed = gzip.compress(b" " * 50_000_000 + json.dumps(chat(content="ok")).encode())
    endpoint = serve((200, packed, {"content-encoding": "gzip"}))
    with pytest.raises(EndpointError, match="compressed"):
        ask(endpoint, max_attempts=1)
    assert {name.lower(): value for name, value in endpoint.headers[0].items()}[
        "accept-encoding"
    ] == "identity"


def test_a_lone_surrogate_can_go_back_into_the_history(serve, chat):
    reply = ask(serve(chat(content="odd \ud800 text")))
    assert json.dumps(reply.message, ensure_ascii=False).encode()
