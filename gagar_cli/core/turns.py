"""Turns: one reply of the policy and the tool results that follow it.

Dumps differ in how a result is told: a `tool` message, or the next `user` message of an agent that acts in text.
Whatever follows a reply, up to the next reply, is its result. Messages before the first reply are the prompt.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from gagar_cli.core.actions import describe_action
from gagar_cli.core.outcomes import describe_outcome, find_open_file
from gagar_cli.core.schema import Message, ToolCall
from gagar_cli.core.text import count_lines, split_lines


@dataclass(frozen=True, slots=True)
class Turn:
    """One reply with its calls, and what came back."""

    number: int
    """1-based."""
    reply: str
    calls: tuple[ToolCall, ...]
    results: tuple[str, ...]

    @property
    def authored(self) -> str:
        """Everything the policy itself wrote in this turn."""
        return "\n".join((self.reply, *(readable_arguments(call) for call in self.calls)))

    @property
    def texts(self) -> tuple[str, ...]:
        """Texts whose lines are `lines`: made whole, to see in one go whether something can be in any of them."""
        calls = (f"call {call.name}: {readable_arguments(call)}" for call in self.calls)
        quoted = "> " + self.reply.replace("\n", "\n> ") if self.reply else ""
        return (quoted, *calls, *(["result:"] if self.results else []), *self.results)

    @property
    def n_lines(self) -> int:
        """How many `lines` there are."""
        n_called = sum(max(1, count_lines(readable_arguments(call))) for call in self.calls)
        return count_lines(self.reply) + n_called + sum(1 + count_lines(result) for result in self.results)

    @property
    def lines(self) -> list[str]:
        """The turn as lines of text: the reply, each call, each result.

        Words of the policy stand behind `> `, so that a reply cannot pass for a call or a result.
        """
        lines = [f"> {line}" for line in split_lines(self.reply)]
        for call in self.calls:
            first, *rest = split_lines(readable_arguments(call)) or [""]
            lines += [f"call {call.name}: {first}", *rest]
        for result in self.results:
            lines += ["result:", *split_lines(result)]
        return lines

    @property
    def digest(self) -> str:
        """One line: what was done and what came of it."""
        action = describe_action(self.reply, self.calls)
        if action.startswith("edit lines ") and (path := find_open_file(self.results)):
            action = f"edit {path} {action.removeprefix('edit ')}"
        outcome = describe_outcome(self.results, is_edit=action.startswith(("edit ", "create ")))
        return f"{action} → {outcome}" if outcome else action


def readable_arguments(call: ToolCall) -> str:
    """A call's arguments as people read them: the values of a JSON object, a command without its quotes."""
    try:
        arguments = json.loads(call.arguments)
    except (ValueError, RecursionError):
        return call.arguments
    if not isinstance(arguments, dict):
        return call.arguments
    if len(arguments) == 1:
        return str(next(iter(arguments.values())))
    return "\n".join(f"{name}={value}" for name, value in arguments.items())


def split_turns(messages: Sequence[Message]) -> tuple[Turn, ...]:
    """The turns of a message log, in order; empty for a log without a reply."""
    turns: list[Turn] = []
    reply: Message | None = None
    results: list[str] = []
    for message in messages:
        if message.role != "assistant":
            results.append(message.content)
            continue
        if reply is not None:
            turns.append(Turn(len(turns) + 1, reply.content, reply.tool_calls, tuple(results)))
        reply, results = message, []
    if reply is not None:
        turns.append(Turn(len(turns) + 1, reply.content, reply.tool_calls, tuple(results)))
    return tuple(turns)


def first_prompt(messages: Sequence[Message]) -> str | None:
    """The first user message: the task, in a dump that has no problem statement of its own."""
    return next((message.content for message in messages if message.role == "user" and message.content), None)
