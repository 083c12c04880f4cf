"""The files of a growing dump: which there are, what each of them is, and what they got since the last look.

A file is taken up once its content tells its form: lines with the first whole one, any other file when its size and time
have stayed from one look to the next and it can be read. A whole file that changes afterwards is read again, and what
it gave before is withdrawn. Forms, attempts of their own and the labels of runs are those of a whole dump
(`io/native_files.py`, `io/native.py`): where a new file changes the label of an earlier one, that one is read again too.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import NamedTuple

from gagar_cli.errors import UsageError
from gagar_cli.io.followed_forms import (
    first_id,
    first_record,
    form_of_lines,
    form_of_whole,
)
from gagar_cli.io.followed_inputs import FollowedFile, Input, check_path, new_files
from gagar_cli.io.formats import FORMATS
from gagar_cli.io.formats.base import Context
from gagar_cli.io.markers import END_OF_DUMP, is_marker
from gagar_cli.io.native import NativeSource, Spool, label_runs, patches_beside
from gagar_cli.io.native_companions import without_companions
from gagar_cli.io.native_files import natural_order
from gagar_cli.io.native_found import Found, Other, refuse
from gagar_cli.io.piped import PipedLines
from gagar_cli.io.problems import kind_of_problem
from gagar_cli.io.read_options import forced_format
from gagar_cli.io.records import Fields
from gagar_cli.io.scan import ReadOptions
from gagar_cli.io.sources import Scanned, Source
from gagar_cli.io.streams import SHARD_SUFFIXES, show_path
from gagar_cli.io.tails import GrowingFile, LineFeed, NativeLines, Tail, WholeFile


class Piece(NamedTuple):
    """One thing that a look found: a record of a file, or that all it gave before is withdrawn."""

    tail: Tail
    scanned: Scanned | None


class FollowedFiles:
    """The inputs of a followed run. Used from one thread at a time."""

    def __init__(self, paths: Sequence[str], options: ReadOptions, fields: Fields) -> None:
        """Look for the named files and folders.

        Raises:
            UsageError: no such format, an address of another machine, or standard input twice.
            InputError: a path that is not there, in a folder that is not there either.
        """
        self._forced = forced_format(options)
        if self._forced not in (None, "canonical", *FORMATS):
            raise UsageError(f"--format is {self._forced!r}, expected canonical, {', '.join(FORMATS)}")
        if not paths or list(paths).count("-") > 1:
            raise UsageError("a dump is files, folders, or `-` once")
        for path in paths:
            check_path(path)
        self._options = options
        self._fields = fields
        self._resources = ExitStack()
        self._spool: Spool | None = None
        self._inputs = [Input(path) for path in paths]
        self._files: dict[str, FollowedFile] = {}
        for each in self._inputs:
            if each.path == "-":
                each.piped = PipedLines()
                self._resources.callback(each.piped.close)
                self._files["-"] = FollowedFile("-", each, is_inside=False)

    @property
    def is_ended(self) -> bool:
        """Whether every input has said that no more comes."""
        return all(each.is_ended for each in self._inputs)

    @property
    def has_more(self) -> bool:
        """Whether another look finds something at once."""
        is_flowing = any(each.piped is not None and each.piped.has_more for each in self._inputs)
        return is_flowing or any(
            file.tail is not None and file.tail.has_more for file in self._files.values()
        )

    @property
    def runs(self) -> list[str]:
        """The run directories of the native files."""
        return [file.tail.run for file in self._files.values() if file.tail is not None and file.tail.run]

    @property
    def notes(self) -> list[str]:
        """What is to be told about the files."""
        tails = [file.tail for file in self._files.values() if file.tail is not None]
        told = [note for each in self._inputs for note in each.notes]
        return list(dict.fromkeys([*told, *(note for tail in tails for note in tail.notes)]))

    def close(self) -> None:
        """Close what is open."""
        for file in self._files.values():
            if file.tail is not None:
                file.tail.close()
        self._resources.close()

    def look(self, *, is_last: bool) -> Iterator[Piece]:
        """What came since the last look, in order; with `is_last` nothing more is expected.

        Raises:
            InputError: a file that was replaced, cannot be read, or holds no attempts.
        """
        for each in self._inputs:
            self._appear(each, is_last=is_last)
        is_new = False
        for file in list(self._files.values()):
            tail = file.tail
            if tail is not None and isinstance(tail, WholeFile) and file.state() not in (file.seen, None):
                yield from self._withdraw(file)
                file.found = None
            if file.tail is None and not file.is_left_out and file.found is None:
                is_new = self._take_up(file, is_last=is_last or file.input.is_ended) or is_new
        if is_new:
            yield from self._settle_native()
        for file in list(self._files.values()):
            if file.tail is None:
                continue
            for scanned in file.tail.look(is_last=is_last or file.input.is_ended):
                if isinstance(scanned.record, dict) and scanned.record.get(END_OF_DUMP) is True:
                    file.input.is_ended = True
                else:
                    yield Piece(file.tail, scanned)

    def _appear(self, each: Input, *, is_last: bool) -> None:
        """Take in new files of an input, and whether it has ended."""
        if each.piped is not None:
            each.piped.take_in()
            each.is_ended = each.is_ended or each.piped.is_ended
            return
        for file in new_files(each, is_deep=self._forced != "canonical", must_list=is_last):
            self._files.setdefault(file.path, file)

    def _withdraw(self, file: FollowedFile) -> Iterator[Piece]:
        if file.tail is not None:
            yield Piece(file.tail, None)
            file.tail.close()
            file.tail = None

    def _take_up(self, file: FollowedFile, *, is_last: bool) -> bool:
        """Find out what a file is, as soon as that can be told; whether it is a native one."""
        if file.is_lines is None:
            # One that is named may hold lines whatever it is called; in a folder the name tells.
            may_be_lines = file.is_json and not file.is_inside
            file.is_lines = not file.is_whole or (
                may_be_lines and isinstance(first_record(file, self._options, is_last=False), Scanned)
            )
        one: Found | Other | Source | None
        if file.is_lines:
            one = form_of_lines(file, self._forced, self._options, is_last=is_last)
            # Of a pipe the end is told, and what came before it cannot be opened by name.
            is_connected = isinstance(one, Found) and one.format.is_connected and file.input.piped is None
            file.is_lines = not is_connected
        if not file.is_lines:
            one = form_of_whole(file, self._forced, self._options, self._resources, is_last=is_last)
        if isinstance(one, Found):
            file.found = one
            return True
        if one is None:
            file.is_lines = None if file.is_json else file.is_lines
        elif self._is_end(file, one) or self._is_wanted(file):
            file.tail = self._canonical(file, one)
            file.tail.order = (1, self._inputs.index(file.input), file.path)
        return False

    def _is_end(self, file: FollowedFile, one: Other | Source) -> bool:
        """Whether a file of lines begins with the end of the dump: of a folder of any kind."""
        if not file.is_inside or not isinstance(one, Other):
            return False
        first = first_record(file, self._options, is_last=False)
        record = first.record if isinstance(first, Scanned) else None
        return isinstance(record, dict) and is_marker(record)

    def _is_wanted(self, file: FollowedFile) -> bool:
        """Whether a file that is not native is read: in a folder the first file tells which kind is."""
        if not file.is_inside:
            return True
        is_shard = file.is_direct and file.path.endswith(SHARD_SUFFIXES)
        is_other_wanted = (
            is_shard and self._forced in (None, "canonical") and file.input.is_native is not True
        )
        if is_other_wanted:
            file.input.is_native = False
        else:
            file.is_left_out = True
            file.input.notes.append(f"{show_path(file.path)}: of no native format and not read")
        return is_other_wanted

    def _canonical(self, file: FollowedFile, one: Other | Source) -> Tail:
        if isinstance(one, Other):
            return GrowingFile(file.place, self._options, name=show_path(file.path))
        return WholeFile(one, self._fields)

    def _settle_native(self) -> Iterator[Piece]:
        """Sort the native files anew: which are attempts of their own, and the labels of their runs."""
        for each in self._inputs:
            yield from self._sort(each)
        kept = [file for file in self._files.values() if file.found is not None and not file.is_left_out]
        labels = label_runs([file.found for file in kept if file.found is not None])
        for file, label in zip(kept, labels, strict=True):
            if (
                file.tail is not None
                and label != file.label
                and first_id(file, label, self._options) != first_id(file, file.label, self._options)
            ):
                yield from self._withdraw(file)
            if file.tail is None:
                file.tail = self._native(file, label)
                file.tail.order = (0, self._inputs.index(file.input), natural_order(file.path))
            file.label = label

    def _sort(self, each: Input) -> Iterator[Piece]:
        files = [file for file in self._files.values() if file.input is each and file.found is not None]
        found = [file.found for file in files if file.found is not None]
        if not files:
            return
        if not files[0].is_inside:
            if found[0].format.role in ("refused", "verdicts"):
                refuse(found[0])
            return
        notes: list[str] = []
        paths = {one.path for one in without_companions(found, notes, each.path)}
        if not paths and all(one.format.role == "refused" for one in found):
            refuse(found[0])
        for file, one in zip(files, found, strict=True):
            is_other = each.is_native is False or self._forced not in (None, one.format.name)
            is_attempt = one.path in paths and not is_other
            if is_other and one.path in paths and not file.is_left_out:
                notes.append(
                    f"{show_path(file.path)}: {one.format.title}, not what this folder is read as: not read"
                )
            if not is_attempt:
                yield from self._withdraw(file)
            file.is_left_out = not is_attempt
            each.is_native = True if is_attempt else each.is_native
        # Their counts grow: the last note of a kind is the one that holds.
        each.notes = [*{kind_of_problem(note): note for note in (*each.notes, *notes)}.values()]

    def _native(self, file: FollowedFile, label: str) -> Tail:
        assert file.found is not None  # noqa: S101 - only native files come here
        if self._spool is None:
            self._spool = Spool()
            self._resources.callback(self._spool.close)
        found, name, is_lines = file.found, show_path(file.path), bool(file.is_lines)
        feed = LineFeed(file.path, name)
        source = NativeSource(
            replace(found, file=feed) if is_lines else found,
            self._spool,
            Context(
                run=label,
                keep_raw=self._options.keep_raw,
                fields=self._options.fields,
                pass_threshold=self._options.pass_threshold,
                columns=self._options.extras,
            ),
            group_by=self._options.group_by,
            patches=self._patches_for(found),
        )
        # What was kept expanded is closed once it is read.
        file.found = replace(found, file=None)
        if is_lines:
            lines = GrowingFile(file.place, self._options, name=name, is_native=True)
            return NativeLines(lines, feed, source, self._fields)
        return WholeFile(source, self._fields)

    def _patches_for(self, found: Found) -> dict[str, str | None]:
        """What predictions beside agents' logs say by now."""
        if found.format.name not in ("mini-swe-agent", "swe-agent"):
            return {}
        return patches_beside(found.run_directory)
