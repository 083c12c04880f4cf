"""The connection itself, against servers that write what they like."""

import asyncio
import json
import time

import pytest

from gagar_cli.errors import EndpointError
from gagar_cli.grader.client import MAX_BODY_BYTES, EndpointClient, EndpointSettings, Reply
from gagar_cli.grader.transport import call_options, open_client
from tests.servers import Handler, listening

MESSAGES = [{"role": "user", "content": "hello"}]
OK = json.dumps({"choices": [{"message": {"content": "ok"}}], "usage": {"prompt_tokens": 1}}).encode()


def answer(body: bytes = OK, headers: bytes = b"", status: bytes = b"200 OK") -> bytes:
    return b"HTTP/1.1 %s\r\n%scontent-length: %d\r\n\r\n%s" % (status, headers, len(body), body)


async def read_request(reader: asyncio.StreamReader) -> bytes:
    """The head of a request, its body read and dropped."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(
        int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")
    )
    await reader.readexactly(length)
    return head


class Server:
    """Writes one answer to each request; `heads` are those of the requests."""

    def __init__(self, *answers: bytes, closes: bool = False) -> None:
        self.heads: list[bytes] = []
        self.n_connections = 0
        self._answers = list(answers)
        self._closes = closes

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.n_connections += 1
        while self._answers:
            self.heads.append(await read_request(reader))
            writer.write(self._answers.pop(0))
            await writer.drain()
            if self._closes:
                return


def ask(
    handler: Handler, n: int = 1, *, pause: float = 0.0, messages: object = MESSAGES, **settings
) -> list[Reply]:
    """Ask so many times, one after the other."""

    async def run() -> list[Reply]:
        values = {"max_attempts": 1, "call_seconds": 5.0, "backoff_seconds": 0.001, **settings}
        async with listening(handler) as port:
            client = EndpointClient(EndpointSettings("m", f"http://127.0.0.1:{port}/v1", **values))
            try:
                replies = []
                for _ in range(n):
                    replies.append(await client.complete(messages, []))
                    await asyncio.sleep(pause)
                return replies
            finally:
                await client.close()

    return asyncio.run(run())


NO_HTTP = {
    "nothing": b"",
    "noise": b"\x00\xff\x16\x03\x01" * 50,
    "text": b"hello there\r\n\r\n",
    "status without a number": b"HTTP/1.1 OK\r\n\r\n",
    "status of four digits": b"HTTP/1.1 2000 OK\r\ncontent-length: 0\r\n\r\n",
    "other protocol": b"SIP/2.0 200 OK\r\ncontent-length: 0\r\n\r\n",
    "header without a colon": b"HTTP/1.1 200 OK\r\nnonsense\r\n\r\n",
    "two lengths": b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 2\r\n\r\nhello",
    "negative length": b"HTTP/1.1 200 OK\r\ncontent-length: -5\r\n\r\n",
    "length of letters": b"HTTP/1.1 200 OK\r\ncontent-length: many\r\n\r\n",
    "bad chunk": b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\nhello\r\n",
    "cut chunk": b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nff\r\nhello",
    "long header": b"HTTP/1.1 200 OK\r\nx: " + b"a" * 1_000_000 + b"\r\n\r\n",
    "many headers": b"HTTP/1.1 200 OK\r\n" + b"x: a\r\n" * 20_000 + b"\r\n",
    "long status": b"HTTP/1.1 200 " + b"K" * 1_000_000 + b"\r\n\r\n",
    "cut body": answer(b"{" * 20)[:-10],
}


@pytest.mark.parametrize("written", NO_HTTP.values(), ids=NO_HTTP)
def test_what_is_no_http_is_a_failed_connection(written):
    with pytest.raises(EndpointError, match="connection failed") as caught:
        ask(Server(written, closes=True))
    assert not caught.value.is_fatal


@pytest.mark.parametrize("written", NO_HTTP.values(), ids=NO_HTTP)
def test_a_failed_connection_is_not_used_again(written):
    server = Server(written, answer(), closes=True)
    assert ask(server, max_attempts=2)[0].content == "ok"
    assert server.n_connections == 2


def test_what_stands_behind_an_answer_is_no_answer_to_the_next_call():
    forged = answer(json.dumps({"choices": [{"message": {"content": "forged"}}]}).encode())
    server = Server(answer() + forged, answer())
    assert [reply.content for reply in ask(server, 2, max_attempts=2)] == ["ok", "ok"]


@pytest.mark.parametrize("is_whole", [True, False])
def test_what_comes_late_behind_an_answer_is_no_answer_to_the_next_call(is_whole):
    """It lies in the connection when the next call is to go out."""
    forged = answer(json.dumps({"choices": [{"message": {"content": "forged"}}]}).encode())
    n_connections = 0

    async def add_later(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal n_connections
        n_connections += 1
        try:
            await read_request(reader)
            writer.write(answer())
            await asyncio.sleep(0.05)
            writer.write(forged if is_whole else forged[:-5])
            await reader.read()
        except ConnectionError:
            pass
        finally:
            writer.close()

    assert [reply.content for reply in ask(add_later, 3, pause=0.15)] == ["ok"] * 3
    assert n_connections == 3


def test_answers_that_only_announce_another_are_passed_over():
    server = Server(b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" * 3 + answer(), answer())
    assert [reply.content for reply in ask(server, 2)] == ["ok", "ok"]


def test_a_change_of_protocol_is_no_answer():
    upgrade = b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n"
    server = Server(upgrade + answer(), answer())
    assert [reply.content for reply in ask(server, max_attempts=2)] == ["ok"]
    assert server.n_connections == 2


@pytest.mark.parametrize("n_bytes", [MAX_BODY_BYTES, MAX_BODY_BYTES + 1])
def test_the_cap_of_a_body_is_exact(n_bytes):
    server = Server(answer(OK + b" " * (n_bytes - len(OK))))
    if n_bytes == MAX_BODY_BYTES:
        assert ask(server)[0].content == "ok"
    else:
        with pytest.raises(EndpointError, match="longer than 16777216 bytes"):
            ask(server)


@pytest.mark.parametrize(
    "start", [b"HTTP/1.1 200 OK\r\nx: ", b"HTTP/1.1 200 OK\r\ncontent-length: 9999\r\n\r\n"]
)
def test_a_drip_does_not_stretch_the_deadline(start):
    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(start)
        try:
            while True:
                writer.write(b"a")
                await writer.drain()
                await asyncio.sleep(0.02)
        except ConnectionError:
            pass
        finally:
            writer.close()

    started = time.monotonic()
    with pytest.raises(EndpointError, match=r"no answer within 0\.3 s"):
        ask(drip, call_seconds=0.3)
    assert time.monotonic() - started < 2


def test_one_connection_serves_calls_that_follow_each_other():
    server = Server(*[answer()] * 3)
    ask(server, 3)
    assert server.n_connections == 1


def test_a_connection_that_the_server_closed_behind_an_answer_costs_no_attempt():
    server = Server(*[answer()] * 3, closes=True)
    assert [reply.content for reply in ask(server, 3, pause=0.05)] == ["ok"] * 3
    assert server.n_connections == 3


def test_an_endless_body_ends_at_the_cap():
    n_written = 0

    async def pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal n_written
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        try:
            while True:
                writer.write(b"10000\r\n" + b" " * 0x10000 + b"\r\n")
                n_written += 0x10000
                await writer.drain()
        except ConnectionError:
            writer.close()

    with pytest.raises(EndpointError, match="longer than 16777216 bytes"):
        ask(pour)
    # What was on its way when the cap was met fits into the buffers of both sides.
    assert n_written < 64 * 1024**2


def test_cookies_are_not_sent_back():
    server = Server(answer(headers=b"set-cookie: id=7; Path=/\r\n"), answer())
    ask(server, 2)
    assert b"cookie" not in server.heads[1].lower()


def test_proxies_of_the_environment_are_not_used(monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert ask(Server(answer()))[0].content == "ok"


def test_what_the_sdk_finds_in_the_environment_goes_nowhere(monkeypatch):
    """It is meant for another endpoint, and must not take the place of this one's key."""
    monkeypatch.setenv("OPENAI_ORG_ID", "org-secret")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "proj-secret")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "Authorization: Bearer sk-secret\nX-Tenant: secret")
    server = Server(answer(), answer())
    ask(server, 2, api_key="sk-test", headers={"OpenAI-Organization": "ours"})
    assert len(server.heads) == 2
    for head in server.heads:
        assert b"secret" not in head
        assert b"Bearer sk-test" in head
        assert b": ours\r\n" in head


def test_a_password_file_is_not_read(tmp_path, monkeypatch):
    for name in ("netrc", ".netrc"):
        (tmp_path / name).write_text("machine 127.0.0.1 login a password b\n")
        (tmp_path / name).chmod(0o600)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    server = Server(answer())
    ask(server, api_key="sk-test")
    assert b"authorization: bearer sk-test\r\n" in server.heads[0].lower()


def test_the_head_of_a_request_is_what_the_protocol_needs():
    server = Server(answer())
    ask(server, api_key="sk-test", headers={"X-Team": "rl"})
    first, *lines = server.heads[0].decode().split("\r\n")
    sent = {line.partition(":")[0].lower(): line.partition(": ")[2] for line in lines if line}
    assert first == "POST /v1/chat/completions HTTP/1.1"
    assert (sent["content-type"], sent["accept-encoding"]) == ("application/json", "identity")
    assert sent["user-agent"].startswith("AsyncOpenAI/Python ")
    assert "idempotency-key" not in sent
    assert (sent["authorization"], sent["x-team"]) == ("Bearer sk-test", "rl")
    assert len(lines) == len({line.partition(":")[0].lower() for line in lines if line}) + 2


def test_the_calls_after_the_first_have_its_head_and_their_own_bodies():
    """The request of a call is made out of the one before it."""
    bodies = []

    async def keep(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(3):
            head = await reader.readuntil(b"\r\n\r\n")
            length = next(line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))
            bodies.append((head.replace(length, b""), await reader.readexactly(int(length[15:]))))
            writer.write(answer())
            await writer.drain()

    async def run() -> None:
        async with listening(keep) as port:
            settings = EndpointSettings(
                "m",
                f"http://127.0.0.1:{port}/v1?tenant=ab",
                api_key="sk-test",
                headers={"X-Team": "rl", "Idempotency-Key": "mine"},
            )
            client = EndpointClient(settings)
            try:
                for text in ("one", "two and a half", "3"):
                    await client.complete([{"role": "user", "content": text}], [])
            finally:
                await client.close()

    asyncio.run(run())
    heads = {head.lower() for head, _ in bodies}
    assert len(heads) == 1
    head = heads.pop()
    assert head.startswith(b"post /v1/chat/completions?tenant=ab http/1.1\r\n")
    assert b"\r\nauthorization: bearer sk-test\r\n" in head
    assert b"\r\nidempotency-key: mine\r\n" in head
    sent = [json.loads(body)["messages"][0]["content"] for _, body in bodies]
    assert sent == ["one", "two and a half", "3"]


def test_the_sdk_itself_would_send_the_same():
    """What is repeated is what the SDK puts together, no more and no less."""
    from openai import AsyncOpenAI

    client = open_client(EndpointSettings("m", "http://127.0.0.1:9/v1", headers={"X-Team": "rl"}))
    whole, lean = [], []
    for body in (b"first", b"the second"):
        options = call_options("http://127.0.0.1:9/v1/chat/completions").model_copy(update={"content": body})
        lean.append(client._build_request(options))
        whole.append(AsyncOpenAI._build_request(client, options))
    for one, other in zip(lean, whole, strict=True):
        assert (one.method, one.url) == (other.method, other.url)
        # These two the connection puts in.
        left_out = ("content-length", "host")
        expected = {name: value for name, value in other.headers.items() if name not in left_out}
        assert {name: value for name, value in one.headers.items() if name not in left_out} == expected
        assert b"".join(one.stream) == other.content


def test_a_conversation_of_megabytes_arrives_whole():
    arrived = []

    async def weigh(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        arrived.append(await read_request(reader))
        writer.write(answer())
        await writer.drain()

    text = "y" * 3_000_000
    (reply,) = ask(weigh, messages=[{"role": "user", "content": text}])
    assert reply.content == "ok"
    assert len(arrived) == 1


def test_no_more_calls_are_on_their_way_than_there_may_be_connections():
    n_open = n_most = 0

    async def count(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal n_open, n_most
        while True:
            await read_request(reader)
            n_open += 1
            n_most = max(n_most, n_open)
            await asyncio.sleep(0.02)
            n_open -= 1
            writer.write(answer())

    async def run() -> None:
        async with listening(count) as port:
            base_url = f"http://127.0.0.1:{port}/v1"
            client = EndpointClient(EndpointSettings("m", base_url, max_attempts=1, max_connections=3))
            await asyncio.gather(*(client.complete(MESSAGES, []) for _ in range(12)))
            await client.close()

    asyncio.run(run())
    assert n_most == 3


def test_certificates_are_verified(tmp_path, monkeypatch):
    """A server with a certificate of its own making is not talked to, whatever the environment says."""
    import ssl
    import subprocess

    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "1",
        "-subj",
        "/CN=localhost",
    ]
    subprocess.run([*command, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    server = Server(answer())

    async def run() -> None:
        async with listening(server, context=context) as port:
            base_url = f"https://localhost:{port}/v1"
            client = EndpointClient(EndpointSettings("m", base_url, backoff_seconds=60.0))
            try:
                with pytest.raises(EndpointError, match="certificate is refused: self") as caught:
                    await client.complete(MESSAGES, [])
                # No other call would fare better, and none is made.
                assert caught.value.is_fatal
                assert "public authority" in caught.value.hint
            finally:
                await client.close()

    asyncio.run(run())
    assert server.heads == []
