"""The conversation about one group: ask, run the tools, until a ranking is accepted or a limit is met.

Submissions are judged in `acceptance`; the first accepted one ends it. What the grader is told first, and which tools
it has, come from outside. The history is kept in the form of native tool calls whatever the protocol (`protocols`);
the log holds all of it, what is sent is kept inside the model's window (`context`).
"""

import asyncio
import itertools
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

from gagar_cli.core.ranking import RankedCandidate
from gagar_cli.core.text import counted
from gagar_cli.errors import ContextOverflowError, EndpointError, LimitError, WindowError
from gagar_cli.grader import wording
from gagar_cli.grader.acceptance import Acceptance, SentBackError
from gagar_cli.grader.client import EndpointClient, Reply, RequestedCall
from gagar_cli.grader.context import count_chars, fit_messages
from gagar_cli.grader.cut_replies import CUT_OFF, as_cut_off, larger_bound
from gagar_cli.grader.limits import BadCalls, Clock, GroupLimits, Usage
from gagar_cli.grader.pages import show_inline
from gagar_cli.grader.protocols import Rendering, Request, read_reply
from gagar_cli.grader.protocols_text import BadActionError
from gagar_cli.grader.refusals import ParameterRefusedError, ProtocolRefusedError
from gagar_cli.grader.tool_schemas import SUBMIT
from gagar_cli.grader.tools import Toolbox
from gagar_cli.grader.turns import run_until_one_fails
from gagar_cli.grader.window import CHARS_PER_TOKEN, MIN_CONTEXT_CHARS

__all__ = ["Conversation", "GroupLimits", "Usage"]

MAX_PARALLEL_CALLS = 64


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
    clock: Clock = field(init=False)
    """Stopped while it waits for a turn at the endpoint or at sandboxes, and while the whole run pauses."""
    _sent: list[dict[str, Any]] = field(default_factory=list)
    """The messages as they are sent: the same ones, old results shortened."""
    _n_chars: int = 0
    """Of the messages as they are sent."""
    _rendering: Rendering = field(init=False)
    _max_chars: float = 0.0
    _bad_calls: BadCalls = field(default_factory=BadCalls)

    def __post_init__(self) -> None:
        self.clock = Clock(self.limits.max_seconds)
        self._rendering = Rendering(self.toolbox.schemas)
        self._max_chars = self.limits.max_context_tokens * CHARS_PER_TOKEN
        self._say(*self.opening)

    async def run(self) -> tuple[RankedCandidate, ...]:
        """The ranking of all candidates.

        Raises:
            VerdictError: no usable ranking came of it; the message is the reason.
            LimitError: a budget is used up.
            EndpointError: the endpoint failed.
        """
        async with self.clock.running():
            for n_left in range(self.limits.max_turns - 1, -1, -1):
                ranking = await self._step(n_left)
                if ranking is not None:
                    return ranking
        raise LimitError(f"no ranking within {self.limits.max_turns} turns")

    async def _step(self, n_left: int) -> tuple[RankedCandidate, ...] | None:
        """One reply and its tool results."""
        reply, complaint = await self._ask()
        self._say(reply.message)
        if self._is_over_budget():
            raise LimitError(f"no ranking within {self.limits.max_tokens} tokens")
        if complaint is not None:
            self._say({"role": "user", "content": complaint})
            return None
        ranking, answers = await self._answer(reply.calls[:MAX_PARALLEL_CALLS])
        n_refused = len(reply.calls) - len(answers)
        answers += [wording.TOO_MANY_CALLS.format(n=MAX_PARALLEL_CALLS)] * n_refused
        if n_left <= 2 and ranking is None:
            answers[-1] += "\n" + wording.FEW_LEFT.format(replies=counted(n_left, "reply is", "replies are"))
        for call, answer in zip(reply.calls, answers, strict=True):
            self._say({"role": "tool", "tool_call_id": call.call_id, "content": answer})
        return ranking

    def _is_over_budget(self) -> bool:
        return self.usage.n_input_tokens + self.usage.n_output_tokens > self.limits.max_tokens

    def _say(self, *messages: dict[str, Any]) -> None:
        self.messages += messages
        said = [message for message in messages if CUT_OFF not in message]
        self._sent += said
        self._n_chars += sum(map(count_chars, said))

    async def _ask(self) -> tuple[Reply, str | None]:
        """The next reply; where it makes no call that can be read, with what to say about it."""
        request, reply = await self._send()
        protocol = request.protocol
        bound = self.client.settings.max_output_tokens
        larger = larger_bound(reply, protocol, bound, self.limits.max_context_tokens)
        if larger is not None and not self._is_over_budget():
            self._say(as_cut_off(reply))
            whole = await self._send_with_room(request, larger)
            if whole is None:
                # What was cut off is the reply after all.
                self.messages.pop()
            reply = whole or reply
        try:
            usable = read_reply(reply, protocol)
        except BadActionError as error:
            # What was cut off says nothing of whether the protocol is heeded.
            is_cut = reply.finish_reason == "length"
            has_changed = not is_cut and self.client.tell_usable(is_usable=False, protocol=protocol)
            return reply, self._complain(str(error), reply, protocol, is_counted=not has_changed)
        self.client.tell_usable(is_usable=True, protocol=protocol)
        return usable, None

    async def _send(self) -> tuple[Request, Reply]:
        """What was sent in the end, and the reply to it."""
        while True:
            self._shorten()
            request = self._rendering.request(
                self._sent, self.client.protocol, passes_reasoning=self.client.passes_reasoning
            )
            try:
                return request, await self._call(request)
            except (ProtocolRefusedError, ParameterRefusedError):
                continue
            except ContextOverflowError:
                self._halve_context()

    async def _send_with_room(self, request: Request, max_output_tokens: int) -> Reply | None:
        """The reply to the same request under a larger bound; None where the endpoint does not take that."""
        self.client.tell_cut()
        try:
            return await self._call(replace(request, max_output_tokens=max_output_tokens))
        except (ProtocolRefusedError, ParameterRefusedError):
            return None
        except EndpointError as error:
            if error.is_fatal:
                raise
            return None

    async def _call(self, request: Request) -> Reply:
        await self.take_turn(self.client.turns)
        try:
            reply = await self.client.ask(request, self.clock.stopped)
        finally:
            self.client.turns.release()
        self.usage.add(reply)
        self._learn_density(reply, len(request.messages))
        return reply

    async def take_turn(self, turns: asyncio.Semaphore) -> None:
        """Wait for one of the run's turns; waiting is no time of this conversation."""
        # Stopping a clock takes longer than a turn that is free.
        with self.clock.stopped() if turns.locked() else nullcontext():
            await turns.acquire()

    def _complain(self, what: str, reply: Reply, protocol: str, *, is_counted: bool) -> str:
        if is_counted:
            self._bad_calls.count(what)
        else:
            # What was said under another protocol says nothing of how this one is kept to.
            self._bad_calls = BadCalls()
        how = wording.CALL_A_TOOL if protocol == "tools" else wording.WRITE_A_CALL
        told = wording.ASK_AGAIN.format(what=what, how=how)
        return wording.WAS_CUT_OFF.format(told=told) if reply.finish_reason == "length" else told

    def _shorten(self) -> None:
        """Keep what is sent inside the model's window, as far as this conversation or another has learnt it."""
        self._max_chars = min(self._max_chars, self.client.window.max_chars)
        # Every call of a message is in its texts, so this never counts less than what is sent of them.
        if self._n_chars > self._max_chars:
            self._fit()

    def _halve_context(self) -> None:
        n_chars = self._n_chars
        self.client.window.narrow(n_chars)
        self._max_chars = min(self._max_chars, n_chars) / 2
        self._fit()
        if self._max_chars < MIN_CONTEXT_CHARS or self._n_chars >= n_chars:
            raise WindowError("the model's window is too small for what may not be left out")

    def _fit(self) -> None:
        self._sent = fit_messages(self._sent, int(self._max_chars))
        self._n_chars = sum(map(count_chars, self._sent))

    def _learn_density(self, reply: Reply, n_chars: int) -> None:
        """The budget in characters, from how many of them the endpoint counts as a token."""
        if reply.is_estimated or n_chars < MIN_CONTEXT_CHARS:
            return
        measured = self.limits.max_context_tokens * n_chars / reply.n_input_tokens
        # A budget only shrinks: what was left out is not sent again, and an overflow has told the truth.
        self._max_chars = min(self._max_chars, measured)

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
                    answers.append(wording.NOT_RUN)
                else:
                    ranking, answer = await self._submit(call)
                    answers.append(answer)
        return ranking, answers

    async def _use_tools(self, calls: Sequence[RequestedCall]) -> list[str]:
        """Commands of one candidate one after the other, everything else side by side."""
        answers = [""] * len(calls)
        for call in calls:
            self._count(call)

        async def use(numbers: Sequence[int]) -> None:
            for number in numbers:
                answers[number] = await self._use_tool(calls[number])

        chains: dict[object, list[int]] = {}
        for number, call in enumerate(calls):
            candidate = (call.arguments or {}).get("candidate")
            key = candidate if call.name == "run_check" and isinstance(candidate, str) else number
            chains.setdefault(key, []).append(number)
        if len(chains) == 1:
            # Most replies make one call: a task of its own would be for nothing.
            await use(range(len(calls)))
            return answers
        await run_until_one_fails(use(numbers) for numbers in chains.values())
        return answers

    async def _use_tool(self, call: RequestedCall) -> str:
        if call.arguments is None:
            return _refuse_arguments(call)
        return await self.toolbox.call(call.name, call.arguments)

    async def _submit(self, call: RequestedCall) -> tuple[tuple[RankedCandidate, ...] | None, str]:
        self._count(call)
        if call.arguments is None:
            return None, _refuse_arguments(call)
        try:
            # Findings are looked up in logs of any size: not on the event loop, which serves the other groups.
            return await asyncio.to_thread(self.acceptance.accept, call.arguments), wording.ACCEPTED
        except SentBackError as error:
            return None, wording.NOT_ACCEPTED.format(what=error)

    def _count(self, call: RequestedCall) -> None:
        if call.arguments is None:
            self._bad_calls.count("arguments are no JSON object")
        else:
            self._bad_calls.tell_read()


def _refuse_arguments(call: RequestedCall) -> str:
    return wording.NO_ARGUMENTS.format(given=show_inline(call.raw_arguments[:200]))
