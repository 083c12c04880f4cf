"""The circuit breaker of a run: an endpoint that fails call after call is left alone for a while, then tried by one.

Shared by all groups. After `max_failures` failed calls in a row new calls wait; when the pause is over one of them
goes through. Its success lets the others go; its failure starts the next pause. After `max_pauses` pauses the run
stops: groups that are done are on disk, and the same command goes on later. Calls on their way are not called back.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from gagar_cli.errors import EndpointError
from gagar_cli.grader.replies import RetryableError


class CircuitBreaker:
    """Counts the failures of an endpoint and holds calls back."""

    def __init__(self, max_failures: int, pause_seconds: float, max_pauses: int) -> None:
        self._max_failures = max_failures
        self._pause_seconds = pause_seconds
        self._max_pauses = max_pauses
        self._n_failures = 0
        self._n_pauses = 0
        self._is_open = False
        self._open_until = 0.0
        self._last = ""
        self._probing = asyncio.Lock()

    @property
    def n_pauses(self) -> int:
        """Pauses since the last answered call."""
        return self._n_pauses

    @asynccontextmanager
    async def guard(self) -> AsyncIterator[None]:
        """One call: waits its turn, and is counted by how it ends.

        Raises:
            EndpointError: fatal, the endpoint has failed through all pauses.
        """
        if self._is_open:
            async with self._probing:
                # Those that waited here behind a probe that was answered need not be probes themselves.
                while self._is_open:
                    self._raise_if_given_up()
                    wait = self._open_until - time.monotonic()
                    if wait <= 0:
                        async with self._counted():
                            yield
                        return
                    await asyncio.sleep(wait)
        async with self._counted():
            yield

    @asynccontextmanager
    async def _counted(self) -> AsyncIterator[None]:
        was_open = self._is_open
        try:
            yield
        except RetryableError as error:
            self._n_failures += 1
            if was_open or (not self._is_open and self._n_failures >= self._max_failures):
                self._n_pauses += 1
                self._is_open = True
                self._open_until = time.monotonic() + self._pause_seconds
                self._last = str(error)
                self._raise_if_given_up()
            raise
        except Exception:
            # A refusal is an answer too.
            self._close()
            raise
        else:
            self._close()

    def _close(self) -> None:
        self._n_failures = self._n_pauses = 0
        self._is_open = False

    def _raise_if_given_up(self) -> None:
        if self._n_pauses > self._max_pauses:
            raise EndpointError(
                f"the endpoint failed {self._n_failures} calls in a row, through {self._max_pauses} pauses, "
                f"last: {self._last}",
                "what is done is kept: repeat the command when the endpoint is well",
                is_fatal=True,
            )
