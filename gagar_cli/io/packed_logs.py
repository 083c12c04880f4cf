"""Long logs out of memory: compressed in a temporary file (`kept_texts.py`), decoded where they are looked at.

A trajectory with a short log stays as it is, unless its group has many. Of a long one the messages are kept in blocks, and a long content or test
output by itself, so that who reads the replies does not decode the results. Messages and trajectories are what they
were: only `content` and `test_output` are decoded whenever they are asked for, and the log is a sequence that makes its
messages. One store serves the trajectories of one group; of what it decoded it holds on to one small block. Its file
has no name, and is gone with the last of its trajectories.
"""

import marshal
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import cast, overload

from gagar_cli.core.schema import Message, ToolCall, Trajectory
from gagar_cli.io.kept_texts import KeptText, TextFile

MIN_LOG_CHARS = 1_000_000
"""Of a trajectory's messages and test output together."""
MAX_LEFT_CHARS = 4_000_000
"""Of the logs of a store that stay in memory, but for very short ones: many groups may be open."""
MIN_TEXT_CHARS = 16_000
"""Of a content that is kept by itself."""
BLOCK_CHARS = 64_000
BLOCK_MESSAGES = 500
"""A block ends with the first message that reaches either."""
_MAX_HELD_BYTES = 1_000_000


class LogStore:
    """Where the long logs of one group are kept."""

    def __init__(self) -> None:
        self._file = TextFile()
        self._held = _Held()
        self._n_chars_left = 0
        self._output: tuple[str, KeptText] | None = None

    def packed(self, trajectory: Trajectory) -> Trajectory:
        """The same trajectory, its log in the store where it is long, or where the others' take enough memory.

        Raises:
            OutputError: the temporary directory is full.
        """
        n_chars = len(trajectory.test_output or "") + sum(map(_n_chars, trajectory.messages))
        n_left = self._n_chars_left + n_chars
        if n_chars < MIN_TEXT_CHARS or (n_chars < MIN_LOG_CHARS and n_left <= MAX_LEFT_CHARS):
            self._n_chars_left = n_left
            return trajectory
        fields = {name: getattr(trajectory, name) for name in Trajectory.__slots__}
        fields["test_output"] = self._kept_output(fields["test_output"])
        fields["messages"] = _packed(trajectory.messages, self._file, self._held)
        return PackedTrajectory(**fields)

    def _kept_output(self, output: str | None) -> str | KeptText | None:
        if output is None or len(output) < MIN_TEXT_CHARS:
            return output
        # Attempts that are made of one another share theirs.
        if self._output is None or self._output[0] != output:
            (kept,) = self._file.keep([_encoded(output)])
            self._output = (output, kept)
        return self._output[1]


class _Held:
    """The block that was decoded last, where it is small: neighbours are asked for one by one.

    It belongs to the logs and not to the file, which it refers to: a cycle would keep both until the collector runs.
    """

    block: tuple[KeptText, tuple[Message, ...]] | None = None


def _packed(messages: Sequence[Message], file: TextFile, held: _Held) -> "PackedLog":
    contents = (one.content for one in messages if len(one.content) >= MIN_TEXT_CHARS)
    kept = list(file.keep(map(_encoded, contents)))
    sizes: list[int] = []
    blocks = list(file.keep(_dumped(_blocks(messages, iter(kept)), sizes)))
    return PackedLog(list(zip(sizes, blocks, strict=True)), held)


def _dumped(blocks: Iterable[list[tuple[object, ...]]], sizes: list[int]) -> Iterator[bytes]:
    for block in blocks:
        sizes.append(len(block))
        yield marshal.dumps(block)


def _blocks(messages: Iterable[Message], kept: Iterator[KeptText]) -> Iterator[list[tuple[object, ...]]]:
    """The messages as plain values, in blocks; of a long content the place in the file, in their order `kept`."""
    block: list[tuple[object, ...]] = []
    n_chars = 0
    for message in messages:
        is_long = len(message.content) >= MIN_TEXT_CHARS
        content: object = tuple(next(kept)[1:]) if is_long else message.content
        block.append((message.role, content, [tuple(call) for call in message.tool_calls], message.name))
        n_chars += _n_chars(message) - is_long * len(message.content)
        if n_chars >= BLOCK_CHARS or len(block) == BLOCK_MESSAGES:
            yield block
            block, n_chars = [], 0
    if block:
        yield block


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


class _Kept:
    """A field that holds a text, or where it is kept; whoever asks gets the text."""

    def __init__(self, slot: str) -> None:
        self._slot = slot

    def __get__(self, owner: object, kind: type | None = None) -> str | None:
        value = getattr(owner, self._slot)
        return value.text() if isinstance(value, KeptText) else cast("str | None", value)

    def __set__(self, owner: object, value: str | KeptText | None) -> None:
        object.__setattr__(owner, self._slot, value)


class PackedMessage(Message):
    """A message whose content is kept."""

    __slots__ = ("_content",)
    content = cast("str", _Kept("_content"))

    def __eq__(self, other: object) -> bool:
        """Whether the other one says the same, wherever it is held."""
        return isinstance(other, Message) and _fields(self) == _fields(other)

    def __hash__(self) -> int:
        return hash(tuple(_fields(self)))


class PackedTrajectory(Trajectory):
    """A trajectory whose messages, and test output where it is long, are kept."""

    __slots__ = ("_test_output",)
    test_output = cast("str | None", _Kept("_test_output"))

    def __eq__(self, other: object) -> bool:
        """Whether the other one says the same, wherever it is held."""
        return isinstance(other, Trajectory) and _fields(self) == _fields(other)

    __hash__ = None  # type: ignore[assignment] # its log is none that could be looked up


class PackedLog(Sequence[Message]):
    """The messages of a trajectory, made when they are asked for."""

    def __init__(self, blocks: Sequence[tuple[int, KeptText | tuple[Message, ...]]], held: _Held) -> None:
        """The blocks with how many messages each has; one that is in memory is its messages."""
        self.blocks = tuple(blocks)
        self.held = held
        self._ends = list(accumulate(n_messages for n_messages, _ in blocks))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Message, ...]: ...
    def __getitem__(self, index: int | slice) -> Message | tuple[Message, ...]:
        places = range(len(self))[index]
        if isinstance(places, int):
            number = bisect_right(self._ends, places)
            return self._block(number)[places - self._ends[number]]
        if places.step != 1:
            return tuple(self[place] for place in places)
        number = bisect_right(self._ends, places.start)
        found: list[Message] = []
        while len(found) < len(places):
            block = self._block(number)
            start = max(0, places.start - (self._ends[number] - len(block)))
            found += block[start : start + len(places) - len(found)]
            number += 1
        return tuple(found)

    def __iter__(self) -> Iterator[Message]:
        for number in range(len(self.blocks)):
            yield from self._block(number)

    def __eq__(self, other: object) -> bool:
        """Whether the other log says the same."""
        if not isinstance(other, PackedLog | tuple) or len(self) != len(other):
            return False
        return all(mine == theirs for mine, theirs in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment] # a log is compared, never looked up

    def __reduce__(self) -> tuple[object, ...]:
        """A copy is in memory: where the file is closed, or in another process, it would find something else."""
        return tuple, (tuple(self),)

    def _block(self, number: int) -> tuple[Message, ...]:
        kept = self.blocks[number][1]
        if not isinstance(kept, KeptText):
            return kept
        held = self.held.block
        if held is not None and held[0] is kept:
            return held[1]
        text = kept.read()
        # Written above, into a file without a name.
        messages = tuple(_message(kept.file, *fields) for fields in marshal.loads(text))  # noqa: S302
        if len(text) <= _MAX_HELD_BYTES:
            self.held.block = (kept, messages)
        return messages


def join_logs(first: Trajectory, parts: Sequence[Trajectory]) -> Trajectory:
    """`first` with the messages of all parts, one log after the other, and the last test output that is known.

    What is out of memory stays there.
    """
    fields = {name: getattr(first, name) for name in Trajectory.__slots__ if name != "test_output"}
    outputs = (
        one._test_output if isinstance(one, PackedTrajectory) else one.test_output  # type: ignore[attr-defined]
        for one in reversed(parts)
    )
    output = next((one for one in outputs if one is not None), None)
    fields["messages"] = _joined([one.messages for one in parts])
    kind = PackedTrajectory if isinstance(output, KeptText) else Trajectory
    return kind(**fields, test_output=output)


def _joined(logs: Sequence[Sequence[Message]]) -> Sequence[Message]:
    packed = next((log for log in logs if isinstance(log, PackedLog)), None)
    if packed is None:
        return tuple(message for log in logs for message in log)
    blocks: list[tuple[int, KeptText | tuple[Message, ...]]] = []
    for log in logs:
        blocks += log.blocks if isinstance(log, PackedLog) else [(len(log), tuple(log))]
    return PackedLog([block for block in blocks if block[0]], packed.held)


def _message(
    file: TextFile, role: str, content: str | tuple[int, int], calls: list[tuple[str, str]], name: str | None
) -> Message:
    tool_calls = tuple(ToolCall(*call) for call in calls)
    if isinstance(content, str):
        return Message(role, content, tool_calls, name)
    return PackedMessage(role, cast("str", KeptText(file, *content)), tool_calls, name)


def _n_chars(message: Message) -> int:
    return len(message.content) + sum(len(call.arguments) + len(call.name) for call in message.tool_calls)


def _fields(value: Message | Trajectory) -> list[object]:
    kind = Message if isinstance(value, Message) else Trajectory
    return [getattr(value, name) for name in kind.__slots__]
