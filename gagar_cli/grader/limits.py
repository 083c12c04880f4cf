"""What the grading of one group may take, and what it took."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass

from gagar_cli.errors import LimitError, VerdictError
from gagar_cli.grader.replies import Reply

MAX_BAD_IN_A_ROW = 3
"""Calls and replies that cannot be read and are borne with, none that can between them."""
MAX_BAD_IN_ALL = 10
"""In one conversation: who never learns it is given up, whatever he does in between."""


@dataclass(frozen=True, slots=True)
class GroupLimits:
    """Budgets of one group's grading."""

    max_turns: int = 40
    max_tokens: int = 2_000_000
    """Input and output of all calls together."""
    max_seconds: float = 1800.0
    """Without the time in which the run's other groups came first, or the whole run paused."""
    max_reasks: int = 2
    """How often a submission may be sent back."""
    max_context_tokens: int = 120_000
    """Of one call: older tool results give way to what they can be asked for again with."""


@dataclass(slots=True)
class Usage:
    """What one group's grading cost."""

    n_calls: int = 0
    n_input_tokens: int = 0
    n_cached_tokens: int = 0
    n_output_tokens: int = 0
    n_estimated_calls: int = 0
    """Calls whose tokens the endpoint did not report."""

    def add(self, reply: Reply) -> None:
        """Count one answered call."""
        self.n_calls += 1
        self.n_input_tokens += reply.n_input_tokens
        self.n_cached_tokens += reply.n_cached_tokens
        self.n_output_tokens += reply.n_output_tokens
        self.n_estimated_calls += reply.is_estimated


@dataclass(slots=True)
class BadCalls:
    """Counts what cannot be read of a model's replies: a few slips of a long conversation do not end it."""

    n_in_a_row: int = 0
    n_in_all: int = 0

    def count(self, what: str) -> None:
        """Note a call, or a reply without one, that cannot be read.

        Raises:
            VerdictError: it was one too many.
        """
        self.n_in_a_row += 1
        self.n_in_all += 1
        if self.n_in_a_row > MAX_BAD_IN_A_ROW or self.n_in_all > MAX_BAD_IN_ALL:
            raise VerdictError(f"unusable replies: {what}")

    def tell_read(self) -> None:
        """Note a call that could be read."""
        self.n_in_a_row = 0


class Clock:
    """The seconds of one conversation; it stands still while what it waits for is the run's doing, not its own."""

    def __init__(self, max_seconds: float) -> None:
        self.stopped_seconds = 0.0
        self._max_seconds = max_seconds
        self._time: asyncio.Timeout
        self._n_stops = 0
        self._stopped_at = 0.0
        self._deadline: float | None = None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Bound what is done inside; once only.

        Raises:
            LimitError: the time is used up.
        """
        self._time = asyncio.timeout(self._max_seconds)
        try:
            async with self._time:
                yield
        except TimeoutError as error:
            if not self._time.expired():
                raise
            raise LimitError(f"no ranking within {self._max_seconds:g} s") from error

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Let no time pass inside. Of tools that stop it at the same time the last one lets it go on."""
        if self._n_stops == 0:
            self._stopped_at, self._deadline = time.monotonic(), self._time.when()
            self._move_to(None)
        self._n_stops += 1
        try:
            yield
        finally:
            self._n_stops -= 1
            if self._n_stops == 0:
                seconds = time.monotonic() - self._stopped_at
                self.stopped_seconds += seconds
                if self._deadline is not None:
                    self._move_to(self._deadline + seconds)

    def _move_to(self, deadline: float | None) -> None:
        # Past its end a timeout cannot be moved any more: what waits is about to be cancelled.
        if not self._time.expired():
            self._time.reschedule(deadline)
