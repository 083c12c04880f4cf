"""Where a grading run keeps what is done: its ledger and conversations, or standard output; and what earlier runs left.

A group is settled when an earlier run graded it under the same settings from the same input, or when it met a verdict
that asking again would not change. A correction by a person stands as long as the group's input does.
"""

import asyncio
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import Any, NamedTuple, Self

from gagar_cli.core.overriding import overridden_reason
from gagar_cli.core.ranking import GroupRanking
from gagar_cli.core.schema import GroupKey
from gagar_cli.core.spending import Spending
from gagar_cli.core.text import escape_untrusted, shorten
from gagar_cli.errors import InputError, OutputError
from gagar_cli.grading_digest import digest
from gagar_cli.grading_kept import KeptRanking
from gagar_cli.io.conversations import ConversationLog
from gagar_cli.io.ledger import Ledger, Place
from gagar_cli.io.patient_stdout import PatientStdout
from gagar_cli.io.rankings import ranking_from_record, ranking_to_record
from gagar_cli.io.read_options import ReadOptions

Messages = Sequence[Mapping[str, Any]]

_REASON_CHARS = 300


class _Pending(NamedTuple):
    """A ranking that is not written yet."""

    kept: KeptRanking
    messages: Messages
    is_new: bool
    """Whether the ledger does not have it as it is."""


class RunRecord:
    """What a run has done, and what it found done. A context manager."""

    def __init__(self, output: str, ledger_path: str | None, *, overwrite: bool) -> None:
        self.rankings: dict[GroupKey, KeptRanking] = {}
        """Of this run, resumed ones too, in the order in which they came."""
        self.done: dict[GroupKey, KeptRanking] = {}
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

    def open(self, config: Mapping[str, object], reading: Mapping[str, object] | None = None) -> None:
        """Open the ledger of a run with these settings and read what is in it.

        `reading`: how the run reads its dump, for those who use the rankings.

        Raises:
            UsageError: it was written under other ones.
            OutputError: it is locked, or cannot be written.
            InputError: a line of it is damaged.
        """
        self.config_digest = digest(config)
        path = self.ledger_path
        if path is None:
            return
        self._ledger = self._stack.enter_context(
            Ledger.open(path, config=config, overwrite=self._overwrite, reading=reading, take=self._take)
        )
        self.notes = self._ledger.notes
        self._conversations = self._stack.enter_context(
            ConversationLog(f"{path}.conversations.jsonl.zst", overwrite=self._overwrite)
        )

    def _take(self, record: dict[str, object], place: Place) -> None:
        kept = KeptRanking.of(ranking_from_record(record), place=place)
        self.done[kept.key] = kept
        if not kept.is_amendment:
            self.spent += kept.spending

    def read(self, kept: KeptRanking) -> GroupRanking:
        """All of a ranking that this record keeps.

        Raises:
            InputError: the ledger cannot be read.
            OutputError: it is closed.
        """
        ranking, ledger, place = kept.ranking, self._ledger, kept.place
        if ranking is not None:
            return ranking
        assert ledger is not None  # noqa: S101 - for the type checker
        assert place is not None  # noqa: S101 - for the type checker
        return ranking_from_record(ledger.read(place))

    def read_done(self) -> Iterator[GroupRanking]:
        """What the ledger says, the last line of each group, one after the other.

        Raises:
            InputError: the ledger cannot be read.
            OutputError: it is closed.
        """
        return map(self.read, self.done.values())

    def settled(self, key: GroupKey, input_digest: str, *, owed: Collection[str] = ()) -> KeptRanking | None:
        """The ranking that an earlier run settled this group with, from this input; None where it is to be graded.

        `owed`: further starts of reasons that are tried again.
        """
        earlier = self.done.get(key)
        if earlier is None:
            return None
        if earlier.is_overridden:
            is_same = earlier.input_digest == input_digest
            if is_same and not earlier.is_owed(owed):
                return earlier
            why = "trajectories arrived since" if is_same else "its input changed"
            self._note_lost(key, why)
            return None
        if earlier.config_digest != self.config_digest or earlier.input_digest != input_digest:
            return None
        return None if earlier.is_owed(owed) else earlier

    async def keep(self, ranking: GroupRanking, messages: Messages = ()) -> KeptRanking:
        """Put a ranking where it belongs, once, with its conversation where it is new; it is there on return.

        Written in a thread, as a disk that takes its time would stop all groups; what others finish meanwhile goes
        with the next write. Once begun a write is waited for, whatever else is cancelled.

        Raises:
            OutputError: it cannot be written.
            BrokenPipeError: nobody reads standard output any more.
        """
        kept = self._note(ranking, messages)
        await self._flush()
        return kept

    async def keep_settled(self, earlier: KeptRanking) -> KeptRanking:
        """The same for what `settled` or `done` gave: the ledger has it.

        Raises:
            BrokenPipeError: nobody reads standard output any more.
        """
        self.rankings[earlier.key] = earlier
        if self._stdout is not None:
            self._pending.append(_Pending(earlier, (), is_new=False))
            await self._flush()
        return earlier

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

    def _note(self, ranking: GroupRanking, messages: Messages) -> KeptRanking:
        earlier, kept = self.done.get(ranking.key), KeptRanking.of(ranking)
        is_new = earlier is None or not self._is_same(earlier, kept, ranking)
        if is_new or earlier is None:
            kept.ranking = ranking
        else:
            kept = earlier
        if messages:
            self.spent += kept.spending
        self.rankings[kept.key] = self.done[kept.key] = kept
        if is_new or messages or self._stdout is not None:
            self._pending.append(_Pending(kept, messages, is_new))
        return kept

    def _note_lost(self, key: GroupKey, why: str) -> None:
        self.notes.append(f"group {key}: was overridden, but {why}: the correction no longer holds")

    def _is_same(self, earlier: KeptRanking, kept: KeptRanking, ranking: GroupRanking) -> bool:
        """Whether a ranking is the earlier one, which is only read where it may be; or one that a person corrected."""
        if earlier.is_overridden and ranking.status == "skipped" and not kept.has_grader:
            if earlier.reason == overridden_reason(ranking.reason):
                return True
            self._note_lost(ranking.key, "its input changed")
            return False
        is_alike = earlier.status == kept.status and earlier.input_digest == kept.input_digest
        return is_alike and self.read(earlier) == ranking

    def _write(self) -> None:
        pending, self._pending = self._pending, []
        wanted = [each for each in pending if each.is_new or self._stdout is not None]
        records = [(each, ranking_to_record(self.read(each.kept))) for each in wanted]
        failure: OutputError | None = None
        try:
            for each in pending:
                if each.messages and self._conversations is not None:
                    self._conversations.append(each.kept.key, each.messages)
        except OutputError as error:
            # What was paid for is kept as long as its ranking finds room.
            failure = error
        new = [(each.kept, record) for each, record in records if each.is_new]
        if self._ledger is not None and new:
            places = self._ledger.append(*(record for _, record in new))
            for (kept, _), place in zip(new, places, strict=True):
                kept.place = place  # first: others may be reading it
                kept.ranking = None
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
