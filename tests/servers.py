"""Small servers of the tests' own, which leave no connection behind."""

import asyncio
import ssl
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def listening(
    handler: Handler, host: str = "127.0.0.1", *, context: ssl.SSLContext | None = None
) -> AsyncIterator[int]:
    """The port of a server that gives each connection to `handler`.

    At the end every handler is cancelled and every connection has been lost: a connection that outlives its loop
    warns when it is collected, which is in whatever test runs then.
    """
    tasks: list[asyncio.Task[None]] = []
    writers: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.append(task)
        writers.append(writer)
        try:
            await handler(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, host, 0, ssl=context, limit=2**24)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks)
        for writer in writers:
            await _lose(writer)


async def _lose(writer: asyncio.StreamWriter) -> None:
    lost = asyncio.ensure_future(writer.wait_closed())
    await asyncio.sleep(0)
    # One that was lost before cannot be aborted: it knows its loop no more.
    if not lost.done():
        writer.transport.abort()
    with suppress(OSError):
        await lost


class ThreadedServer:
    """A server of a handler class of `http.server`, a thread each connection."""

    def __init__(self, handler: type[BaseHTTPRequestHandler]) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()
        self.base_url = f"http://127.0.0.1:{self._server.server_port}/v1"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class BackgroundServer:
    """Such a server on a thread of its own, for a program under test that has a loop of its own."""

    def __init__(self, handler: Handler) -> None:
        self._loop = asyncio.new_event_loop()
        self._stack = AsyncExitStack()
        port = self._loop.run_until_complete(self._stack.enter_async_context(listening(handler)))
        self.base_url = f"http://127.0.0.1:{port}/v1"
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._stack.aclose(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
