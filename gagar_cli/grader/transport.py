"""The connection to an endpoint: the SDK's client without its own retries, redirects and proxies, answers capped."""

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from gagar_cli.grader.endpoint import EndpointSettings

if TYPE_CHECKING:
    import httpx2
    from openai import AsyncOpenAI

MAX_BODY_BYTES = 16 * 1024**2

_OFFLINE_URL = "http://offline.invalid/v1"


def open_client(settings: EndpointSettings) -> "AsyncOpenAI":
    """A client of the endpoint; of the offline model in this process where no address is given."""
    import httpx2
    from openai import AsyncOpenAI

    transport: httpx2.AsyncBaseTransport
    if settings.base_url is None:
        from gagar_cli.grader.offline.app import app

        transport = httpx2.ASGITransport(app=app)
    else:
        transport = _single_connections(settings.max_connections)
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


def _single_connections(max_connections: int) -> "httpx2.AsyncBaseTransport":
    """A transport that hands each request to a pool of one connection.

    A common pool looks at each of its connections for every request: with 64 of them a third of all time goes there.
    """
    import httpx2

    limits = httpx2.Limits(max_connections=1, max_keepalive_connections=1)
    # Made once: loading certificates takes longer than a call.
    certificates = httpx2.create_ssl_context(trust_env=False)
    turns = asyncio.Semaphore(max_connections)
    pools: list[httpx2.AsyncHTTPTransport] = []
    free: list[httpx2.AsyncHTTPTransport] = []

    class ReturningStream(httpx2.AsyncByteStream):
        def __init__(self, stream: httpx2.AsyncByteStream, pool: httpx2.AsyncHTTPTransport) -> None:
            self._stream = stream
            self._pool: httpx2.AsyncHTTPTransport | None = pool

        async def __aiter__(self) -> AsyncIterator[bytes]:
            async for chunk in self._stream:
                yield chunk

        async def aclose(self) -> None:
            pool, self._pool = self._pool, None
            try:
                await self._stream.aclose()
            finally:
                if pool is not None:
                    give_back(pool)

    def give_back(pool: httpx2.AsyncHTTPTransport) -> None:
        free.append(pool)
        turns.release()

    class SingleConnections(httpx2.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            await turns.acquire()
            if not free:
                pools.append(httpx2.AsyncHTTPTransport(verify=certificates, limits=limits, trust_env=False))
                free.append(pools[-1])
            pool = free.pop()
            try:
                response = await pool.handle_async_request(request)
            except BaseException:
                give_back(pool)
                raise
            assert isinstance(response.stream, httpx2.AsyncByteStream)  # noqa: S101 - a fact of async transports
            response.stream = ReturningStream(response.stream, pool)
            return response

        async def aclose(self) -> None:
            for pool in pools:
                await pool.aclose()

    return SingleConnections()


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
