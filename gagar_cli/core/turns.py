"""Turns: one reply of the policy and the tool results that follow it.

Dumps differ in how a result is told: a `tool` message, or the next `user` message of an agent that acts in text.
Whatever follows a reply, up to the next reply, is its result. Messages before the first reply are the prompt.

Of a log that is held in memory the turns are too. Of one that makes its messages when they are asked for, so are the
turns, and their results: who goes through them one by one never holds more than one.
"""

import json
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import overload

from gagar_cli.core.actions import describe_action
from gagar_cli.core.lines import slice_lines
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
    results: Sequence[str]

    @property
    def authored(self) -> str:
        """Everything the policy itself wrote in this turn."""
        return "\n".join((self.reply, *(readable_arguments(call) for call in self.calls)))

    def texts(self) -> Iterator[str]:
        """Texts whose lines, one text after the other, are `lines`: to look for something without making them."""
        if self.reply:
            yield "> " + _marked(self.reply)
        for call in self.calls:
            yield _called(call) + _marked(readable_arguments(call))
        for result in self.results:
            yield "result:"
            yield result

    @property
    def n_lines(self) -> int:
        """How many `lines` there are."""
        n_called = sum(max(1, count_lines(readable_arguments(call))) for call in self.calls)
        return count_lines(self.reply) + n_called + sum(1 + count_lines(result) for result in self.results)

    @property
    def lines(self) -> list[str]:
        """The turn as lines of text: the reply, each call, each result.

        Words of the policy stand behind `> `, or in the line of a call, so that they cannot pass for a result.
        """
        lines = [f"> {line}" for line in split_lines(self.reply)]
        for call in self.calls:
            first, *rest = split_lines(readable_arguments(call)) or [""]
            lines += [f"{_called(call)}{first}", *(f"> {line}" for line in rest)]
        for result in self.results:
            lines += ["result:", *split_lines(result)]
        return lines

    def lines_between(self, start: int, stop: int) -> list[str]:
        """The same as `lines[start:stop]`, without making the others."""
        found: list[str] = []
        for text in self.texts():
            if stop <= 0:
                break
            n_lines = count_lines(text)
            if start < n_lines:
                found += slice_lines(text, max(0, start), stop)
            start, stop = start - n_lines, stop - n_lines
        return found

    @property
    def digest(self) -> str:
        """One line: what was done and what came of it."""
        action = describe_action(self.reply, self.calls)
        results = tuple(self.results)  # made once
        if action.startswith("edit lines ") and (path := find_open_file(results)):
            action = f"edit {path} {action.removeprefix('edit ')}"
        outcome = describe_outcome(results, is_edit=action.startswith(("edit ", "create ")))
        return f"{action} → {outcome}" if outcome else action


def _marked(text: str) -> str:
    """A text of the policy with its later lines marked as such."""
    return text.removesuffix("\n").replace("\n", "\n> ")


def _called(call: ToolCall) -> str:
    # A line end in the name could make the rest of it pass for a result.
    name = call.name.replace("\n", " ")
    return f"call {name}: "


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


class TurnLog(Sequence[Turn]):
    """The turns of a log that makes its messages when they are asked for."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self._messages = messages
        self._starts = array(
            "q", (place for place, message in enumerate(messages) if message.role == "assistant")
        )

    def __len__(self) -> int:
        return len(self._starts)

    @overload
    def __getitem__(self, index: int) -> Turn: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Turn, ...]: ...
    def __getitem__(self, index: int | slice) -> Turn | tuple[Turn, ...]:
        places = range(len(self))[index]
        if not isinstance(places, int):
            return tuple(self[place] for place in places)
        end = self._starts[places + 1] if places + 1 < len(self) else None
        reply, *rest = self._messages[self._starts[places] : end]
        return Turn(places + 1, reply.content, reply.tool_calls, _Contents(rest))

    def __iter__(self) -> Iterator[Turn]:
        return (
            Turn(number, reply.content, reply.tool_calls, _Contents(rest))
            for number, (reply, rest) in enumerate(_replies(self._messages), 1)
        )


class _Contents(Sequence[str]):
    """What some messages hold, asked for one by one."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self._messages = messages

    def __len__(self) -> int:
        return len(self._messages)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[str, ...]: ...
    def __getitem__(self, index: int | slice) -> str | tuple[str, ...]:
        if isinstance(index, int):
            return self._messages[index].content
        return tuple(message.content for message in self._messages[index])

    def __iter__(self) -> Iterator[str]:
        return (message.content for message in self._messages)


def split_turns(messages: Sequence[Message]) -> Sequence[Turn]:
    """The turns of a message log, in order; empty for a log without a reply."""
    if not isinstance(messages, tuple | list):
        return TurnLog(messages)
    return tuple(
        Turn(number, reply.content, reply.tool_calls, tuple(message.content for message in rest))
        for number, (reply, rest) in enumerate(_replies(messages), 1)
    )


def _replies(messages: Sequence[Message]) -> Iterator[tuple[Message, list[Message]]]:
    """Each reply with the messages up to the next one."""
    reply: Message | None = None
    rest: list[Message] = []
    for message in messages:
        if message.role != "assistant":
            rest.append(message)
            continue
        if reply is not None:
            yield reply, rest
        reply, rest = message, []
    if reply is not None:
        yield reply, rest


def first_prompt(messages: Sequence[Message]) -> str | None:
    """The first user message: the task, in a dump that has no problem statement of its own."""
    return next((message.content for message in messages if message.role == "user" and message.content), None)
