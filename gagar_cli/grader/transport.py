"""The connection to an endpoint: the SDK's client over aiohttp, answers read whole and capped.

Nothing is followed, repeated or remembered here: no redirect, no proxy or password file of the environment, no cookie,
no retry of a call that asks a model. Certificates are always verified. How long a call may take, and how many there
may be at a time, is the caller's to say (`client`).
"""

import io
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gagar_cli.errors import EndpointError
from gagar_cli.grader.endpoint import EndpointSettings
from gagar_cli.grader.replies import describe_failure

if TYPE_CHECKING:
    import aiohttp
    import httpx2
    from openai import AsyncOpenAI
    from openai._models import FinalRequestOptions

MAX_BODY_BYTES = 16 * 1024**2

_OFFLINE_URL = "http://offline.invalid/v1"
_IDLE_SECONDS = 4.0
"""Common servers close a connection that is idle for five: a call must not be sent into one that is about to close."""
_TOLD_HEADERS = frozenset((b"content-type", b"location", b"retry-after", b"retry-after-ms"))
"""Of an answer: what decides how it is taken. The rest, cookies above all, is left behind here."""
_MAX_RAW_BYTES = 2**20
"""A longer request is handed over as a stream, so that sending it does not hold up the event loop."""
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"[\t -~]*")
_KEY_HEADER = "idempotency-key"
_OWN_FIELDS = frozenset(("model", "messages", "tools"))
_OWN_HEADERS = frozenset(("content-length", "expect", "transfer-encoding"))
"""Where the next request begins depends on them."""


def open_client(settings: EndpointSettings) -> "AsyncOpenAI":
    """A client of the endpoint; of the offline model in this process where no address is given.

    Raises:
        EndpointError: fatal, the address, a header or a field of the body cannot be used.
    """
    import httpx2

    _check_headers(settings.headers)
    if own := sorted(_OWN_FIELDS & settings.extra_body.keys()):
        raise EndpointError(
            f"the extra body holds {', '.join(own)}, which each request has already",
            "leave it out: which of the two counts is up to the endpoint",
            is_fatal=True,
        )
    if settings.api_key is not None and not _HEADER_VALUE.fullmatch(settings.api_key):
        raise EndpointError("the key holds characters that no key has", is_fatal=True)
    address = _read_address(settings.base_url or _OFFLINE_URL)
    transport: httpx2.AsyncBaseTransport
    if settings.base_url is None:
        from gagar_cli.grader.offline.app import app

        transport = httpx2.ASGITransport(app=app)
    else:
        transport = _aiohttp_transport(settings.max_connections)
    client = _repeating_client()(
        api_key=settings.api_key or "none",
        # What stands behind a question mark goes with each request, behind its own path.
        base_url=address.copy_with(query=None, fragment=None),
        default_query=dict(address.params),
        max_retries=0,
        default_headers=dict(settings.headers),
        http_client=_plain_client(transport),
    )
    # What the SDK finds in the environment is for another endpoint: it would go to this one, and before the key.
    client.organization = client.project = None
    client._custom_headers = dict(settings.headers)
    return client


def call_options(address: str) -> "FinalRequestOptions":
    """What the SDK is told of every call, but for its content: made once, for its defaults are copied deeply."""
    from openai._models import FinalRequestOptions

    return FinalRequestOptions.construct(method="post", url=address)


def _read_address(base_url: str) -> "httpx2.URL":
    import httpx2

    try:
        address = httpx2.URL(base_url)
    except httpx2.InvalidURL as error:
        raise _unusable("cannot be read") from error
    if address.scheme not in ("http", "https") or not address.host or not 0 < (address.port or 80) < 65536:
        raise _unusable("is not an http or https address")
    if address.userinfo:
        raise _unusable("holds credentials, which belong into the key")
    return address


def _unusable(what: str) -> EndpointError:
    # The address itself is left out, as it may hold a password.
    return EndpointError(f"the base URL {what}", "for example `http://127.0.0.1:8000/v1`", is_fatal=True)


def _check_headers(headers: Mapping[str, str]) -> None:
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
            raise EndpointError(
                f"the header {name!a} holds characters that no header has",
                "give names and values in printable ASCII",
                is_fatal=True,
            )
        if name.lower() in _OWN_HEADERS:
            raise EndpointError(f"the header {name} is the connection's own", "leave it out", is_fatal=True)


def _repeating_client() -> "type[AsyncOpenAI]":
    """The SDK's client, which makes the request of a call out of the one before it.

    Between two calls only the body differs; the SDK puts address and headers together anew, and checks them, with each.
    """
    import httpx2
    from openai import AsyncOpenAI

    class RepeatingClient(AsyncOpenAI):
        _pattern: tuple[str, httpx2.Request] | None = None

        @property
        def user_agent(self) -> str:
            # The SDK tells the name of the class.
            return f"{AsyncOpenAI.__name__}/Python {self._version}"

        def _build_request(self, options: "FinalRequestOptions", **others: Any) -> httpx2.Request:
            content = options.content
            if options.method != "post" or not isinstance(content, bytes):
                return super()._build_request(options, **others)
            if self._pattern is None or self._pattern[0] != options.url:
                request = super()._build_request(options, **others)
                # How long a body is, the connection knows by itself.
                request.headers.pop("content-length", None)
                if not any(name.lower() == _KEY_HEADER for name in self._custom_headers):
                    # One for all calls would make them the same call; one that the user gives is his.
                    request.headers.pop(_KEY_HEADER, None)
                self._pattern = (options.url, request)
            _, pattern = self._pattern
            request = httpx2.Request(
                pattern.method, pattern.url, headers=pattern.headers, stream=httpx2.ByteStream(content)
            )
            # Where it is not told, each look at a header finds it out from all of them.
            request.headers.encoding = "ascii"
            return request

    return RepeatingClient


def _plain_client(transport: "httpx2.AsyncBaseTransport") -> "httpx2.AsyncClient":
    """A client that sends what the SDK has put together as it is, and gives back what comes.

    A common one goes through settings of its own, cookies, redirects and authentication with every call.
    """
    import httpx2

    class PlainClient(httpx2.AsyncClient):
        def build_request(
            self,
            method: str,
            url: httpx2.URL | str,
            *,
            content: Any = None,
            headers: Any = None,
            **others: Any,
        ) -> httpx2.Request:
            if any(others.get(name) for name in ("data", "files", "json", "params", "cookies")):
                return super().build_request(method, url, content=content, headers=headers, **others)
            return httpx2.Request(method, url, content=content, headers=headers)

        async def send(self, request: httpx2.Request, **_options: Any) -> httpx2.Response:
            response = await transport.handle_async_request(request)
            response.request = request
            if not response.is_closed:
                await response.aread()
            return response

    return PlainClient(transport=transport, timeout=None, trust_env=False)


def _aiohttp_transport(max_connections: int) -> "httpx2.AsyncBaseTransport":
    """A transport with a pool of its own, opened with the first request."""
    import aiohttp
    import httpx2

    class WholeResponse(httpx2.Response):
        """One whose body is there: it is not gone through once more, as that of a stream is."""

        def __init__(self, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
            super().__init__(status, headers=headers, stream=httpx2.ByteStream(body))
            self.is_closed = self.is_stream_consumed = True
            self._body = body

        @property
        def content(self) -> bytes:
            return self._body

    class AiohttpTransport(httpx2.AsyncBaseTransport):
        def __init__(self) -> None:
            self._session: aiohttp.ClientSession | None = None

        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            if self._session is None:
                self._session = _open_session(max_connections, is_https=request.url.scheme == "https")
            # A compressed answer could unpack to any size behind the cap.
            request.headers["accept-encoding"] = "identity"
            try:
                async with self._session.request(
                    request.method,
                    str(request.url),
                    headers=request.headers.multi_items(),
                    data=_payload(await request.aread()),
                    allow_redirects=False,
                ) as answer:
                    told = [pair for pair in answer.raw_headers if pair[0].lower() in _TOLD_HEADERS]
                    return WholeResponse(answer.status, told, await _read_body(answer))
            except aiohttp.ClientConnectorCertificateError as error:
                reason = getattr(error.certificate_error, "verify_message", "") or "it cannot be verified"
                raise EndpointError(
                    f"the endpoint's certificate is refused: {reason}",
                    "use a certificate of a public authority for this very host name; on loopback http will do",
                    is_fatal=True,
                ) from error
            except TimeoutError as error:
                raise httpx2.ReadTimeout(str(error)) from error
            except (aiohttp.ClientError, OSError, ValueError) as error:
                raise httpx2.ReadError(describe_failure(error)) from error

        async def aclose(self) -> None:
            if self._session is not None:
                await self._session.close()

    return AiohttpTransport()


def _payload(content: bytes) -> bytes | io.BytesIO | None:
    if not content:
        return None
    return content if len(content) < _MAX_RAW_BYTES else io.BytesIO(content)


def _open_session(max_connections: int, *, is_https: bool) -> "aiohttp.ClientSession":
    import aiohttp
    import httpx2

    class CleanConnector(aiohttp.TCPConnector):
        async def connect(
            self, req: aiohttp.ClientRequest, traces: list[Any], timeout: aiohttp.ClientTimeout
        ) -> aiohttp.connector.Connection:
            """One that is open and holds nothing: what came after an answer is no answer to the next call."""
            for _ in range(max_connections):
                connection = await super().connect(req, traces, timeout)
                if connection.protocol is None or not connection.protocol.should_close:
                    return connection
                connection.close()
            return await super().connect(req, traces, timeout)

    connector = CleanConnector(
        limit=max_connections,
        keepalive_timeout=_IDLE_SECONDS,
        # Made once, and only where it is used: loading certificates takes longer than a call.
        ssl=httpx2.create_ssl_context(trust_env=False) if is_https else True,
    )
    return aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(),
        auto_decompress=False,
        trust_env=False,
    )


async def _read_body(answer: "aiohttp.ClientResponse") -> bytes:
    """The whole body.

    Raises:
        ValueError: it is compressed, or longer than `MAX_BODY_BYTES`.
    """
    if answer.headers.get("content-encoding", "identity").lower() not in ("", "identity"):
        raise ValueError("the answer is compressed, which was not asked for")
    parts: list[bytes] = []
    n_bytes = 0
    async for part in answer.content.iter_any():
        n_bytes += len(part)
        if n_bytes > MAX_BODY_BYTES:
            raise ValueError(f"the answer is longer than {MAX_BODY_BYTES} bytes")
        parts.append(part)
    return b"".join(parts)
