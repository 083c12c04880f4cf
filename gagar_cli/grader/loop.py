"""The conversation about one group: ask, run the tools, until a ranking is accepted or a limit is met.

Submissions are judged in `acceptance`; the first accepted one ends it. What the grader is told first, and which tools
it has, come from outside.
"""

import asyncio
import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from gagar_cli.core.ranking import RankedCandidate
from gagar_cli.errors import LimitError, VerdictError
from gagar_cli.grader.acceptance import Acceptance, SentBackError
from gagar_cli.grader.client import EndpointClient, Reply, RequestedCall
from gagar_cli.grader.pages import show_inline
from gagar_cli.grader.tool_schemas import SUBMIT
from gagar_cli.grader.tools import Toolbox

MAX_PARALLEL_CALLS = 64
MAX_BAD_REPLIES = 3


@dataclass(frozen=True, slots=True)
class GroupLimits:
    """Budgets of one group's grading."""

    max_turns: int = 40
    max_tokens: int = 2_000_000
    """Input and output of all calls together."""
    max_seconds: float = 1800.0
    max_reasks: int = 2
    """How often a submission may be sent back."""


@dataclass(slots=True)
class Usage:
    """What one group's grading cost."""

    n_calls: int = 0
    n_input_tokens: int = 0
    n_cached_tokens: int = 0
    n_output_tokens: int = 0

    def add(self, reply: Reply) -> None:
        """Count one answered call."""
        self.n_calls += 1
        self.n_input_tokens += reply.n_input_tokens
        self.n_cached_tokens += reply.n_cached_tokens
        self.n_output_tokens += reply.n_output_tokens


@dataclass(slots=True)
class Conversation:
    """One group's grading while it goes on; its messages and usage stand also after it failed."""

    opening: Sequence[dict[str, Any]]
    """The messages before the first reply: the rules, then what to do."""
    toolbox: Toolbox
    acceptance: Acceptance
    client: EndpointClient
    limits: GroupLimits
    messages: list[dict[str, Any]] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    _n_bad_replies: int = 0

    async def run(self) -> tuple[RankedCandidate, ...]:
        """The ranking of all candidates.

        Raises:
            VerdictError: no usable ranking came of it; the message is the reason.
            LimitError: a budget is used up.
            EndpointError: the endpoint failed.
        """
        self.messages = list(self.opening)
        deadline = time.monotonic() + self.limits.max_seconds
        try:
            async with asyncio.timeout(self.limits.max_seconds):
                for n_left in range(self.limits.max_turns - 1, -1, -1):
                    ranking = await self._step(n_left)
                    if ranking is not None:
                        return ranking
        except TimeoutError as error:
            if time.monotonic() < deadline:
                raise
            raise LimitError(f"no ranking within {self.limits.max_seconds:g} s") from error
        raise LimitError(f"no ranking within {self.limits.max_turns} turns")

    async def _step(self, n_left: int) -> tuple[RankedCandidate, ...] | None:
        """One reply and its tool results."""
        reply = await self.client.complete(self.messages, self.toolbox.schemas)
        self.usage.add(reply)
        self.messages.append(reply.message)
        if self.usage.n_input_tokens + self.usage.n_output_tokens > self.limits.max_tokens:
            raise LimitError(f"no ranking within {self.limits.max_tokens} tokens")
        if not reply.calls:
            self._count_bad_reply("the reply calls no tool")
            self.messages.append({"role": "user", "content": f"Call a tool; end with {SUBMIT}."})
            return None
        ranking, answers = await self._answer(reply.calls[:MAX_PARALLEL_CALLS])
        n_refused = len(reply.calls) - len(answers)
        answers += [f"error: at most {MAX_PARALLEL_CALLS} calls in one reply"] * n_refused
        if n_left <= 2 and ranking is None:
            answers[-1] += f"\n{n_left} replies are left: call {SUBMIT} now"
        for call, answer in zip(reply.calls, answers, strict=True):
            self.messages.append({"role": "tool", "tool_call_id": call.call_id, "content": answer})
        return ranking

    async def _answer(
        self, calls: Sequence[RequestedCall]
    ) -> tuple[tuple[RankedCandidate, ...] | None, list[str]]:
        """The answers in order. Tools between two submissions run side by side; an accepted one ends it."""
        ranking: tuple[RankedCandidate, ...] | None = None
        answers: list[str] = []
        for is_submission, part in itertools.groupby(calls, lambda call: call.name == SUBMIT):
            if not is_submission and ranking is None:
                answers += await self._use_tools(list(part))
                continue
            for call in part:
                if ranking is not None:
                    answers.append("not run: a ranking was accepted in the same reply")
                else:
                    ranking, answer = await self._submit(call)
                    answers.append(answer)
        return ranking, answers

    async def _use_tools(self, calls: Sequence[RequestedCall]) -> list[str]:
        """Commands of one candidate one after the other, everything else side by side."""
        answers = [""] * len(calls)

        async def use(numbers: Sequence[int]) -> None:
            for number in numbers:
                answers[number] = await self._use_tool(calls[number])

        chains: dict[object, list[int]] = {}
        for number, call in enumerate(calls):
            candidate = (call.arguments or {}).get("candidate")
            key = candidate if call.name == "run_check" and isinstance(candidate, str) else number
            chains.setdefault(key, []).append(number)
        try:
            async with asyncio.TaskGroup() as running:
                for numbers in chains.values():
                    running.create_task(use(numbers))
        except BaseExceptionGroup as group:
            # The first accident ends the group's grading; what the others met while they were stopped adds nothing.
            raise group.exceptions[0] from None
        return answers

    async def _use_tool(self, call: RequestedCall) -> str:
        if call.arguments is None:
            return self._refuse_arguments(call)
        return await self.toolbox.call(call.name, call.arguments)

    async def _submit(self, call: RequestedCall) -> tuple[tuple[RankedCandidate, ...] | None, str]:
        if call.arguments is None:
            return None, self._refuse_arguments(call)
        try:
            # Findings are looked up in logs of any size: not on the event loop, which serves the other groups.
            return await asyncio.to_thread(self.acceptance.accept, call.arguments), "accepted"
        except SentBackError as error:
            return None, f"error: not accepted, submit again:\n{error}"

    def _refuse_arguments(self, call: RequestedCall) -> str:
        self._count_bad_reply("arguments are no JSON object")
        return f"error: the arguments are not a JSON object: {show_inline(call.raw_arguments[:200])}"

    def _count_bad_reply(self, what: str) -> None:
        self._n_bad_replies += 1
        if self._n_bad_replies > MAX_BAD_REPLIES:
            raise VerdictError(f"unusable replies: {what}")
