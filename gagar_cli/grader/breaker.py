"""The circuit breaker of a run: an endpoint that fails call after call is left alone for a while, then tried by one.

Shared by all groups. After `max_failures` failed calls in a row new calls wait; when the pause is over one of them
goes through. Its success lets the others go; its failure starts the next pause. After `max_pauses` pauses the run
stops: groups that are done are on disk, and the same command goes on later. Calls on their way are not called back.

Where the endpoint itself says how long it wants to be left alone (`Retry-After`), no call of the run goes out before
that; behind it they come back one by one, spread at random over a share of the wait.
"""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext

from gagar_cli.core.text import counted
from gagar_cli.errors import EndpointError
from gagar_cli.grader.replies import RetryableError

Pausing = Callable[[], AbstractContextManager[None]]
"""What a caller does with his clock while he waits for the whole run: the pause is not his doing."""

SPREAD_SHARE = 0.25
"""Of the wait that was asked for: over so much more time the calls that waited come back."""


class CircuitBreaker:
    """Counts the failures of an endpoint and holds calls back."""

    def __init__(self, max_failures: int, pause_seconds: float, max_pauses: int) -> None:
        self._max_failures = max_failures
        self._pause_seconds = pause_seconds
        self._max_pauses = max_pauses
        self._n_failures = 0
        self._n_pauses = self._n_all_pauses = 0
        self._is_open = False
        self._open_until = 0.0
        self._told_until = self._spread_seconds = 0.0
        self._last: RetryableError | None = None
        self._probing = asyncio.Lock()
        self._jitter = random.Random()  # noqa: S311 - spreads calls, nothing depends on it

    @property
    def note(self) -> str | None:
        """What a user should know of the pauses of the whole run."""
        if not self._n_all_pauses:
            return None
        times = "once" if self._n_all_pauses == 1 else f"{self._n_all_pauses} times"
        return (
            f"the endpoint failed {counted(self._max_failures, 'time')} in a row: "
            f"calls paused {self._pause_seconds:g} s, {times}"
        )

    @asynccontextmanager
    async def guard(self, pausing: Pausing = nullcontext) -> AsyncIterator[None]:
        """One call: waits as long as the run pauses, and is counted by how it ends.

        Raises:
            EndpointError: fatal, the endpoint has failed through all pauses.
        """
        is_probe = False
        if self._is_open or self._told_until > time.monotonic():
            with pausing():
                is_probe = await self._wait()
        try:
            async with self._counted():
                yield
        finally:
            if is_probe:
                self._probing.release()

    async def _wait(self) -> bool:
        """Wait until a call may go out; whether it is a probe, which holds back the others until it has ended."""
        await self._wait_as_told()
        if not self._is_open:
            return False
        await self._probing.acquire()
        is_probe = False
        try:
            is_probe = await self._sit_out()
        finally:
            if not is_probe:
                self._probing.release()
        return is_probe

    async def _sit_out(self) -> bool:
        """Wait for the end of the pause; whether it still needs a probe: the one before may have been answered."""
        while self._is_open:
            self._raise_if_given_up()
            seconds = max(self._open_until, self._told_until) - time.monotonic()
            if seconds <= 0:
                return True
            await asyncio.sleep(seconds)
        return False

    @asynccontextmanager
    async def _counted(self) -> AsyncIterator[None]:
        was_open = self._is_open
        try:
            yield
        except RetryableError as error:
            self._hear(error.retry_after_seconds or 0.0)
            self._n_failures += 1
            if was_open or (not self._is_open and self._n_failures >= self._max_failures):
                self._n_pauses += 1
                self._is_open = True
                self._open_until = time.monotonic() + self._pause_seconds
                self._last = error
                self._raise_if_given_up()
                self._n_all_pauses += 1
            raise
        except Exception:
            # A refusal is an answer too.
            self._close()
            raise
        else:
            self._close()

    def _hear(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        if seconds > 0 and until > self._told_until:
            self._told_until, self._spread_seconds = until, SPREAD_SHARE * seconds

    async def _wait_as_told(self) -> None:
        # Another call may be told to wait longer meanwhile.
        while (wait := self._told_until - time.monotonic()) > 0:
            await asyncio.sleep(wait + self._jitter.uniform(0.0, self._spread_seconds))

    def _close(self) -> None:
        self._n_failures = self._n_pauses = 0
        self._is_open = False

    def _raise_if_given_up(self) -> None:
        if self._n_pauses > self._max_pauses:
            hint = "what is done is kept: repeat the command when the endpoint is well"
            if self._last is not None and self._last.hint:
                hint = f"{self._last.hint}; {hint}"
            raise EndpointError(
                f"the endpoint failed {counted(self._n_failures, 'call')} in a row, "
                f"through {counted(self._max_pauses, 'pause')}, last: {self._last}",
                hint,
                is_fatal=True,
            )
