"""Where a grading run keeps what is done: its ledger and conversations, or standard output; and what earlier runs left.

A group is settled when an earlier run graded it under the same settings from the same input, or when it met a verdict
that asking again would not change. A correction by a person stands as long as the group's input does.
"""

import asyncio
import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import Any, NamedTuple, Self, cast

from gagar_cli.core.lateness import LATE
from gagar_cli.core.overriding import is_overridden
from gagar_cli.core.ranking import GroupRanking
from gagar_cli.core.schema import Group, GroupKey, Message, Task, Trajectory
from gagar_cli.core.spending import Spending, spending_of
from gagar_cli.core.text import escape_untrusted, shorten
from gagar_cli.errors import InputError, OutputError
from gagar_cli.grader.session import OWED_REASONS
from gagar_cli.io.conversations import ConversationLog
from gagar_cli.io.ledger import Ledger
from gagar_cli.io.patient_stdout import PatientStdout
from gagar_cli.io.rankings import ranking_from_record, ranking_to_record
from gagar_cli.io.read_options import ReadOptions

Messages = Sequence[Mapping[str, Any]]

_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), default=str)
_REASON_CHARS = 300
_PIECE_CHARS = 256_000
_LONG_CHARS = 4_000
"""Of a content that is encoded by itself."""
_ESCAPES = {char.encode(): _CANONICAL.encode(char)[1:-1].encode() for char in '\\"\n\r\t\x1b'}
_USUAL = bytes([*range(0x20, 0x7F), *b"\n\r\t\x1b"])


class _Pending(NamedTuple):
    """A ranking that is not written yet."""

    ranking: GroupRanking
    messages: Messages
    is_new: bool
    """Whether the ledger does not have it as it is."""


class RunRecord:
    """What a run has done, and what it found done. A context manager."""

    def __init__(self, output: str, ledger_path: str | None, *, overwrite: bool) -> None:
        self.rankings: dict[GroupKey, GroupRanking] = {}
        """Of this run, resumed ones too, in the order in which they came."""
        self.done: dict[GroupKey, GroupRanking] = {}
        """The last line of each group, of earlier runs too: what the ledger says."""
        self.spent = Spending()
        """By this run and the earlier ones of its ledger."""
        self.config_digest = ""
        self.notes: list[str] = []
        self.ledger_path = ledger_path
        self._overwrite = overwrite
        self._stack = ExitStack()
        self._ledger: Ledger | None = None
        self._conversations: ConversationLog | None = None
        self._stdout = PatientStdout() if output == "-" else None
        self._pending: list[_Pending] = []
        self._writing = asyncio.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with self._stack:
            is_unread = kind is not None and issubclass(kind, BrokenPipeError)
            if is_unread or (self._stdout is not None and self._stdout.is_stopped):
                # Nobody reads any more, and a ledger may be there all the same.
                self._stdout = None
            # What was finished in the moment of a stop is kept too; a disk that is full has said so already.
            if self._pending and not (kind is not None and issubclass(kind, OutputError)):
                self._write()

    def open(self, config: Mapping[str, object]) -> None:
        """Open the ledger of a run with these settings and read what is in it.

        Raises:
            UsageError: it was written under other ones.
            OutputError: it is locked, or cannot be written.
            InputError: a line of it is damaged.
        """
        self.config_digest = digest(config)
        path = self.ledger_path
        if path is None:
            return
        self._ledger = self._stack.enter_context(Ledger.open(path, config=config, overwrite=self._overwrite))
        self.notes = self._ledger.notes
        self._conversations = self._stack.enter_context(
            ConversationLog(f"{path}.conversations.jsonl.zst", overwrite=self._overwrite)
        )
        for record in self._ledger.records:
            ranking = ranking_from_record(record)
            self.done[ranking.key] = ranking
            if not is_amendment(ranking):
                self.spent += spending_of(ranking.grader)
        self._ledger.records.clear()

    def settled(self, key: GroupKey, input_digest: str, *, owed: Collection[str] = ()) -> GroupRanking | None:
        """The ranking that an earlier run settled this group with, from this input; None where it is to be graded.

        `owed`: further starts of reasons that are tried again.
        """
        earlier = self.done.get(key)
        if earlier is None:
            return None
        if is_overridden(earlier):
            is_same = earlier.input_digest == input_digest
            if is_same and not is_owed(earlier, owed):
                return earlier
            why = "trajectories arrived since" if is_same else "its input changed"
            self.notes.append(f"group {key}: was overridden, but {why}: it is graded again")
            return None
        if earlier.config_digest != self.config_digest or earlier.input_digest != input_digest:
            return None
        return None if is_owed(earlier, owed) else earlier

    async def keep(self, ranking: GroupRanking, messages: Messages = ()) -> None:
        """Put a ranking where it belongs, once, with its conversation where it is new; it is there on return.

        Written in a thread, as a disk that takes its time would stop all groups; what others finish meanwhile goes
        with the next write. Once begun a write is waited for, whatever else is cancelled.

        Raises:
            OutputError: it cannot be written.
            BrokenPipeError: nobody reads standard output any more.
        """
        self._note(ranking, messages)
        await self._flush()

    async def keep_all(self, rankings: Iterable[GroupRanking]) -> None:
        """The same for rankings that need no grading, by one write.

        Raises:
            OutputError: they cannot be written.
            BrokenPipeError: nobody reads standard output any more.
        """
        for ranking in rankings:
            self._note(ranking, ())
        await self._flush()

    async def _flush(self) -> None:
        async with self._writing:
            if self._pending:
                write = asyncio.ensure_future(asyncio.to_thread(self._write))
                try:
                    await asyncio.shield(write)
                except asyncio.CancelledError:
                    if self._stdout is not None:
                        self._stdout.stop()
                    with suppress(BrokenPipeError):
                        await write
                    raise

    def _note(self, ranking: GroupRanking, messages: Messages) -> None:
        if messages:
            self.spent += spending_of(ranking.grader)
        earlier = self.done.get(ranking.key)
        self.rankings[ranking.key] = self.done[ranking.key] = ranking
        self._pending.append(_Pending(ranking, messages, is_new=earlier is None or earlier != ranking))

    def _write(self) -> None:
        pending, self._pending = self._pending, []
        records = [(each, ranking_to_record(each.ranking)) for each in pending]
        failure: OutputError | None = None
        try:
            for each in pending:
                if each.messages and self._conversations is not None:
                    self._conversations.append(each.ranking.key, each.messages)
        except OutputError as error:
            # What was paid for is kept as long as its ranking finds room.
            failure = error
        new = [record for each, record in records if each.is_new]
        if self._ledger is not None and new:
            self._ledger.append(*new)
        if failure is not None:
            raise failure
        for _, record in records:
            if self._stdout is not None and not self._stdout.write(record):
                raise BrokenPipeError


def left_out(key: GroupKey, error: InputError, options: ReadOptions, config_digest: str) -> GroupRanking:
    """The line of a group of which a record cannot be read.

    Raises:
        InputError: that error, where bad records are not to be skipped.
    """
    if options.on_bad_record == "fail":
        raise error
    reason = shorten(escape_untrusted(f"bad_record: {error.message}", keep_newlines=False), _REASON_CHARS)
    return GroupRanking(key, "ungraded", reason, config_digest=config_digest)


def is_owed(ranking: GroupRanking, more_reasons: Collection[str] = ()) -> bool:
    """Whether a group with this ranking is to be tried again; `more_reasons` are further starts of reasons."""
    if ranking.status == "ungraded":
        return (ranking.reason or "").startswith((*OWED_REASONS, *more_reasons))
    return ranking.status == "skipped" and not ranking.grader


def is_amendment(ranking: GroupRanking) -> bool:
    """Whether a line only corrects or marks an earlier one: its grading was paid for there."""
    return is_overridden(ranking) or (ranking.reason or "").startswith(LATE)


def digest_group(group: Group) -> str:
    """A digest of what is graded; where the records lie does not matter. Long logs are gone through piece by piece."""
    made = hashlib.sha256()
    key, task = _CANONICAL.encode(group.key), _CANONICAL.encode(_fields_of(group.task))
    made.update(f'{{"key":{key},"task":{task},"trajectories":['.encode())
    for number, one in enumerate(group.trajectories):
        fields = {**_fields_of(one), "where": "", "messages": []}
        # The keys are in order: what stands before the log's end stays before it.
        head, marker, tail = _CANONICAL.encode(fields).partition('"messages":[')
        made.update(f"{',' if number else ''}{head}{marker}".encode())
        for place, piece in enumerate(_pieces(one.messages)):
            made.update(b"," if place else b"")
            made.update(piece)
        made.update(tail.encode())
    made.update(b"]}")
    return made.hexdigest()[:16]


def _pieces(messages: Iterable[Message]) -> Iterator[bytes]:
    """The messages in canonical JSON, one or some that are short in all at a time."""
    short: list[dict[str, object]] = []
    n_chars = 0
    for message in messages:
        fields = _fields_of(message)
        content = cast("str", fields["content"])
        is_long = len(content) >= _LONG_CHARS
        if not is_long:
            short.append(fields)
            n_chars += len(content) + sum(len(call.arguments) for call in message.tool_calls)
        if short and (is_long or n_chars > _PIECE_CHARS):
            yield _CANONICAL.encode(short).encode()[1:-1]
            short, n_chars = [], 0
        if is_long:
            del fields["content"]  # the first of the keys in their order
            yield b'{"content":%b,%b' % (_encode_text(content), _CANONICAL.encode(fields).encode()[1:])
    if short:
        yield _CANONICAL.encode(short).encode()[1:-1]


def _encode_text(text: str) -> bytes:
    """A text in canonical JSON. Logs are ASCII for the most part: then it is not gone through character by character."""
    if not text.isascii() or (encoded := text.encode()).translate(None, _USUAL):
        return _CANONICAL.encode(text).encode()
    for char, escaped in _ESCAPES.items():
        encoded = encoded.replace(char, escaped)
    return b'"%b"' % encoded


def _fields_of(value: Message | Task | Trajectory) -> dict[str, object]:
    """A value's fields by name; unlike `asdict` nothing is copied, as logs are long."""
    return {name: getattr(value, name) for name in value.__dataclass_fields__}


def digest(value: object) -> str:
    """Sixteen hex digits of a value's canonical JSON."""
    return hashlib.sha256(_CANONICAL.encode(value).encode()).hexdigest()[:16]
