"""The conversation about one group: ask, run the tools, until a ranking is accepted or a limit is met.

Submissions are judged in `acceptance`; the first accepted one ends it. What the grader is told first, and which tools
it has, come from outside. The history is kept in the form of native tool calls whatever the protocol (`protocols`);
the log holds all of it, what is sent is kept inside the model's window (`context`).
"""

import asyncio
import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from gagar_cli.core.ranking import RankedCandidate
from gagar_cli.errors import ContextOverflowError, LimitError, VerdictError, WindowError
from gagar_cli.grader.acceptance import Acceptance, SentBackError
from gagar_cli.grader.client import CHARS_PER_TOKEN, EndpointClient, Reply, RequestedCall
from gagar_cli.grader.context import count_chars, fit_messages
from gagar_cli.grader.pages import show_inline
from gagar_cli.grader.protocols import Rendering, read_reply
from gagar_cli.grader.protocols_text import BadActionError
from gagar_cli.grader.refusals import ParameterRefusedError, ProtocolRefusedError
from gagar_cli.grader.tool_schemas import SUBMIT
from gagar_cli.grader.tools import Toolbox

MAX_PARALLEL_CALLS = 64
MAX_BAD_REPLIES = 3
MIN_CONTEXT_CHARS = 8_000
"""A window that holds less than this is no use: the group is given up."""


@dataclass(frozen=True, slots=True)
class GroupLimits:
    """Budgets of one group's grading."""

    max_turns: int = 40
    max_tokens: int = 2_000_000
    """Input and output of all calls together."""
    max_seconds: float = 1800.0
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
    _sent: list[dict[str, Any]] = field(default_factory=list)
    """The messages as they are sent: the same ones, old results shortened."""
    _rendering: Rendering = field(init=False)
    _max_chars: float = 0.0
    _n_bad_replies: int = 0

    def __post_init__(self) -> None:
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
        reply, complaint = await self._ask()
        self._say(reply.message)
        if self.usage.n_input_tokens + self.usage.n_output_tokens > self.limits.max_tokens:
            raise LimitError(f"no ranking within {self.limits.max_tokens} tokens")
        if complaint is not None:
            self._say({"role": "user", "content": complaint})
            return None
        ranking, answers = await self._answer(reply.calls[:MAX_PARALLEL_CALLS])
        n_refused = len(reply.calls) - len(answers)
        answers += [f"error: at most {MAX_PARALLEL_CALLS} calls in one reply"] * n_refused
        if n_left <= 2 and ranking is None:
            answers[-1] += f"\n{n_left} replies are left: call {SUBMIT} now"
        for call, answer in zip(reply.calls, answers, strict=True):
            self._say({"role": "tool", "tool_call_id": call.call_id, "content": answer})
        return ranking

    def _say(self, *messages: dict[str, Any]) -> None:
        self.messages += messages
        self._sent += messages

    async def _ask(self) -> tuple[Reply, str | None]:
        """The next reply; where it makes no call that can be read, with what to say about it."""
        while True:
            protocol = self.client.protocol
            self._shorten()
            request = self._rendering.request(
                self._sent, protocol, passes_reasoning=self.client.passes_reasoning
            )
            try:
                reply = await self.client.ask(request)
            except (ProtocolRefusedError, ParameterRefusedError):
                continue
            except ContextOverflowError:
                self._halve_context()
                continue
            break
        self.usage.add(reply)
        self._learn_density(reply, len(request.messages))
        try:
            usable = read_reply(reply, protocol)
        except BadActionError as error:
            has_changed = self.client.tell_usable(is_usable=False, protocol=protocol)
            return reply, self._complain(str(error), reply, protocol, is_counted=not has_changed)
        self.client.tell_usable(is_usable=True, protocol=protocol)
        return usable, None

    def _complain(self, what: str, reply: Reply, protocol: str, *, is_counted: bool) -> str:
        if is_counted:
            self._count_bad_reply(what)
        else:
            self._n_bad_replies = 0
        cut = "your reply was cut off at its largest length; " if reply.finish_reason == "length" else ""
        how = "Call a tool" if protocol == "tools" else 'Reply with {"calls": […]} that calls a tool'
        return f"{cut}{what}. {how}; end with {SUBMIT}."

    def _shorten(self) -> None:
        """Keep what is sent inside the model's window."""
        # Every call of a message is in its texts, so this never counts less than what is sent of them.
        if sum(map(count_chars, self._sent)) > self._max_chars:
            self._sent = fit_messages(self._sent, int(self._max_chars))

    def _halve_context(self) -> None:
        n_chars = sum(map(count_chars, self._sent))
        self._max_chars = min(self._max_chars, n_chars) / 2
        shorter = fit_messages(self._sent, int(self._max_chars))
        if self._max_chars < MIN_CONTEXT_CHARS or sum(map(count_chars, shorter)) >= n_chars:
            raise WindowError("the model's window is too small for what may not be left out")
        self._sent = shorter

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
