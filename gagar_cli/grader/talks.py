"""The conversations of one group's grading: they share its budget, its cost and its log."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from gagar_cli.errors import LimitError
from gagar_cli.grader.acceptance import Acceptance
from gagar_cli.grader.client import EndpointClient
from gagar_cli.grader.loop import Conversation, GroupLimits, Usage
from gagar_cli.grader.tools import Toolbox

_COUNTS = tuple(entry.name for entry in fields(Usage))


@dataclass(slots=True)
class Talks:
    """Holds conversations one after the other; turns are limited for each, tokens and seconds for all together."""

    client: EndpointClient
    limits: GroupLimits
    messages: list[Mapping[str, Any]] = field(default_factory=list)
    """Of all conversations, one behind the other; each starts with its system message."""
    usage: Usage = field(default_factory=Usage)
    _started: float = field(default_factory=time.monotonic)
    _waited_seconds: float = 0.0
    _current: Conversation | None = None

    async def hold(self, opening: Sequence[dict[str, Any]], toolbox: Toolbox, acceptance: Acceptance) -> None:
        """One conversation, until its submission is accepted.

        Raises:
            VerdictError: no usable submission came of it.
            LimitError: a budget is used up.
            EndpointError: the endpoint failed.
        """
        conversation = Conversation(opening, toolbox, acceptance, self.client, self._remaining())
        self._current = conversation
        try:
            await conversation.run()
        finally:
            self.messages += conversation.messages
            self._waited_seconds += conversation.clock.stopped_seconds
            for name in _COUNTS:
                setattr(self.usage, name, getattr(self.usage, name) + getattr(conversation.usage, name))

    async def take_turn(self, turns: asyncio.Semaphore) -> None:
        """Wait for one of the run's turns; waiting is no time of the conversation that is held."""
        assert self._current is not None  # noqa: S101 - what waits is a tool of a conversation
        await self._current.take_turn(turns)

    def _remaining(self) -> GroupLimits:
        n_tokens = self.limits.max_tokens - self.usage.n_input_tokens - self.usage.n_output_tokens
        seconds = self.limits.max_seconds - (time.monotonic() - self._started - self._waited_seconds)
        if n_tokens <= 0:
            raise LimitError(f"no ranking within {self.limits.max_tokens} tokens")
        if seconds <= 0:
            raise LimitError(f"no ranking within {self.limits.max_seconds:g} s")
        return replace(self.limits, max_tokens=n_tokens, max_seconds=seconds)
