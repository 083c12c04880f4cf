"""The one pass over a dump that makes its index.

The first record decides what groups all of them; from then on a record that cannot be grouped that way is bad, and
never quietly put elsewhere. Bad records are collected, so that one run tells the first 20 of them.
"""

import hashlib
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import polars as pl

from gagar_cli.core.text import counted
from gagar_cli.errors import InputError
from gagar_cli.io.columns import clean_scalars
from gagar_cli.io.extras import ExtraColumns
from gagar_cli.io.formats.facts import is_inferred
from gagar_cli.io.group_field import GroupField
from gagar_cli.io.index import checked_index, describe_copy, find_copies, is_simple, locate
from gagar_cli.io.index_builder import IndexBuilder
from gagar_cli.io.markers import is_marker
from gagar_cli.io.mistaken import MistakenError
from gagar_cli.io.near_names import explained, refuse_unseen
from gagar_cli.io.problems import hint_of, kind_of_problem
from gagar_cli.io.read_options import DumpReport as DumpReport
from gagar_cli.io.read_options import ReadOptions as ReadOptions
from gagar_cli.io.read_options import note_of_bad_records
from gagar_cli.io.read_progress import ReadProgress
from gagar_cli.io.read_progress import Report as Report
from gagar_cli.io.reading_notes import note_of_untold_files, notes_of_rows
from gagar_cli.io.records import MISSING, Fields, attempts_of, exploded, placed, read_scalars
from gagar_cli.io.row_ids import Hash, hash_texts
from gagar_cli.io.row_table import RowTable
from gagar_cli.io.sources import Place, Scanned, ScannedTable, Source

MAX_LISTED_PROBLEMS = 20
_MAX_KINDS = 1000


class NoRecordsError(InputError):
    """Nothing is left of a dump: `problems` are the first that were skipped, `kinds` counts all."""

    def __init__(
        self, message: str, problems: Sequence[InputError], kinds: Mapping[str, int], n_bad: int = 0
    ) -> None:
        nothing = "nothing is written there yet, or only blank lines and the marks of a writer"
        super().__init__(message, "every record was skipped as bad" if problems else nothing)
        self.problems = tuple(problem.message for problem in problems)
        self.kinds = dict(kinds)
        self.n_bad = n_bad
        self.hint_of_problems = hint_of(problems)


class Scan:
    """The one pass over all sources that makes the index."""

    def __init__(
        self,
        sources: Sequence[Source],
        fields: Fields,
        options: ReadOptions,
        *,
        hash_: Hash = hash_texts,
        report: Report | None = None,
    ) -> None:
        self._sources = sources
        self._progress = None if report is None else ReadProgress(sources, report)
        self._fields = fields
        self._options = options
        # Rankings are laid over the ids of a dump that is read for its index only.
        self._builder = IndexBuilder(options.max_ids_in_memory, hash_=hash_, is_sought=options.is_index_only)
        self._extras = ExtraColumns(options.extras, fields)
        self._grouped_by = GroupField(options, fields)
        self._has_prompt_column = False
        self._first: tuple[int, Place] | None = None
        self._judged: set[int] = set()
        self._by_reward: set[int] = set()
        self._inferred: set[int] = set()
        """Sources that have `resolved`, those with records and without it, and of these the ones where it is inferred."""
        self._n_unnamed = 0
        self._n_bad = 0
        self._problems: list[InputError] = []
        self._kinds: Counter[str] = Counter()

    def close(self) -> None:
        """Give back the file of ids, where there is one."""
        self._builder.ids.close()

    def run(self) -> tuple[pl.DataFrame, DumpReport]:
        """The index and what is to be told about it.

        Raises:
            InputError: a bad record (unless skipped), clashing ids, a group that is too large, no records.
        """
        found, report = self.run_apart()
        return found if isinstance(found, pl.DataFrame) else found.whole(), report

    def run_apart(self) -> tuple[pl.DataFrame | RowTable, DumpReport]:
        """The same; the rows without their texts where these went to a file and nothing asks for them.

        Raises:
            InputError: as above.
        """
        for number, source in enumerate(self._sources):
            pieces = source.scan(self._fields)
            for piece in pieces if self._progress is None else self._progress.follow(number, pieces):
                if isinstance(piece, Scanned):
                    self._take(number, piece)
                else:
                    self._take_table(number, piece)
        self._raise_problems()
        if not self._builder.n_rows:
            if self._problems and isinstance(self._problems[0], MistakenError):
                raise self._problems[0]
            names = ", ".join(source.name for source in self._sources[:3])
            raise NoRecordsError(f"{names}: no records", self._problems, self._kinds, self._n_bad)
        refuse_unseen(self._fields, self._sources, self._first)
        # Joined files are to bring the verdicts: where neither they nor the dump say anything, none was evaluated.
        is_untold = any(getattr(source, "is_untold", False) for source in self._sources)
        has_resolved = is_untold or "resolved" not in self._fields.unseen
        rows, n_disagree = self._builder.finish(
            has_resolved=has_resolved,
            pass_threshold=self._options.pass_threshold,
            by_reward=sorted(self._by_reward) if has_resolved and not is_untold else (),
        )
        if self._options.extras:
            rows.frame = pl.concat((rows.frame, self._extras.finish()), how="horizontal")
        max_group_size = self._options.max_group_size
        is_apart = rows.ids.is_in_file and is_simple(rows, max_group_size)
        found = rows if is_apart else checked_index(rows, self._sources, self._without_copies, max_group_size)
        reasons = rows.column("invalid_reason")
        if reasons is not None and isinstance(found, pl.DataFrame):
            reasons = found["invalid_reason"]
        report = DumpReport(
            n_records=(found if isinstance(found, pl.DataFrame) else found.frame).height,
            n_bad_records=self._n_bad,
            bad_records=tuple(error.message for error in self._problems),
            n_disagree=n_disagree,
            missing_columns=tuple(sorted(self._fields.unseen | set(self._extras.missing))),
            group_id_source=self._group_id_source(),
            notes=tuple(self._notes(rows, reasons, has_resolved=has_resolved)),
            problem_kinds=tuple(self._kinds.most_common()),
            hint=hint_of(self._problems),
        )
        return found, report

    def _take_table(self, number: int, piece: ScannedTable) -> None:
        # The first records settle what groups all of them, one by one.
        clean = (
            clean_scalars(piece.table, self._fields, self._grouped_by.name)
            if self._grouped_by.is_settled
            else None
        )
        extras = None if clean is None else self._extras.clean(piece.table)
        if clean is not None and extras is not None:
            if number not in self._judged:
                self._note_verdict(number, dict.fromkeys(piece.table.columns))
            self._builder.add_table(number, piece.first_line, clean, piece.spans)
            self._extras.add_table(extras)
            return
        for scanned in piece.records():
            self._take(number, scanned)

    def _take(self, number: int, scanned: Scanned) -> None:
        place, record = scanned
        if isinstance(record, InputError):
            self._reject(record)
            return
        if is_marker(record):
            return
        where = f"{self._sources[number].name}:{place.line}"
        if self._options.explode is None:
            self._add(number, place, record, where=where, item=None)
            return
        try:
            items = attempts_of(record, self._options.explode)
        except InputError as error:
            self._reject(placed(error, where))
            return
        for item in range(len(items)):
            try:
                merged = exploded(record, self._options.explode, item)
            except InputError as error:
                self._reject(placed(error, f"{where}[{item}]"))
                continue
            self._add(number, place, merged, where=f"{where}[{item}]", item=item)

    def _add(
        self, number: int, place: Place, record: Mapping[str, object], *, where: str, item: int | None
    ) -> None:
        if self._options.group_by == "directory" and "directory" not in record:
            record = {**record, "directory": Path(self._sources[number].name).resolve().parent.name}
        self._first = self._first or (number, place)
        try:
            if self._fields.unseen:
                self._fields.note_seen(record)
            if not self._grouped_by.is_settled:
                self._has_prompt_column = "prompt" in record
            self._grouped_by.settle(record)
            scalars = read_scalars(record, self._fields, self._grouped_by.name)
            extras = self._extras.read(record)
        except InputError as error:
            if not self._builder.n_rows and not self._problems and item is None:
                error = explained(error, record, self._fields, self._sources[number], place)
            self._reject(placed(error, where))
            return
        if number not in self._judged:
            self._note_verdict(number, record)
        source = os.path.normpath(self._sources[number].name)
        self._n_unnamed += scalars.trajectory_id is None
        self._builder.add(
            number,
            place,
            scalars,
            item=item,
            group_id=scalars.group or f"{source}:{place.line}",
            trajectory_id=scalars.trajectory_id or _made_id(source, place.line, item),
        )
        if extras:
            self._extras.add(extras)

    def _note_verdict(self, number: int, record: Mapping[str, object]) -> None:
        if is_inferred(record, is_native=getattr(self._sources[number], "form", None) is not None):
            self._inferred.add(number)
        elif self._fields.find(record, "resolved") is not MISSING:
            self._judged.add(number)
            self._by_reward.discard(number)
            return
        self._by_reward.add(number)

    def _reject(self, error: InputError) -> None:
        self._n_bad += 1
        if isinstance(error, MistakenError) and self._n_bad == 1 and self._options.on_bad_record == "fail":
            raise error  # the others are alike
        if len(self._kinds) < _MAX_KINDS:
            self._kinds[kind_of_problem(error.message)] += 1
        if self._n_bad <= MAX_LISTED_PROBLEMS:
            self._problems.append(error)
        if self._options.on_bad_record == "fail" and self._n_bad > MAX_LISTED_PROBLEMS:
            self._raise_problems()

    def _raise_problems(self) -> None:
        if not self._problems or self._options.on_bad_record == "skip":
            return
        lines = [error.message for error in self._problems]
        if self._n_bad > len(lines):
            lines.append(f"… stopped reading after {len(lines)} bad records")
        hint = self._problems[0].hint or "`--on-bad-record skip` leaves bad records out and counts them"
        raise InputError("\n".join(lines), hint) from self._problems[0]

    def _without_copies(self, index: pl.DataFrame) -> pl.DataFrame:
        copies = find_copies(index)
        if not copies.height:
            return index
        for row, first in copies.iter_rows():
            self._reject(describe_copy(index, row, first, lambda each: locate(index, self._sources, each)))
        self._raise_problems()
        is_copy = pl.int_range(index.height, dtype=pl.UInt32, eager=True).is_in(copies["row"].implode())
        return index.filter(~is_copy)

    def _group_id_source(self) -> str:
        own = [
            made for source in self._sources if (made := getattr(source, "group_id_source", None)) is not None
        ]
        if own and self._grouped_by.name == "group_id":
            return ", ".join(dict.fromkeys(own))
        if self._grouped_by.name is None:
            return "record"
        if self._grouped_by.name == "directory":
            return "directory"
        if self._grouped_by.name == "prompt" and not self._has_prompt_column:
            return "equal_prompt"
        return f"field:{self._fields.mapping.get(self._grouped_by.name, self._grouped_by.name)}"

    def _notes(self, rows: RowTable, reasons: pl.Series | None, *, has_resolved: bool) -> Iterator[str]:
        for source in self._sources:
            yield from source.notes
        if self._n_unnamed:
            yield f"{counted(self._n_unnamed, 'record has', 'records have')} no trajectory_id: it is made from the path and row"
        is_regrouped = any(getattr(source, "group_id_source", None) for source in self._sources)
        if self._options.group_by and self._grouped_by.name != self._options.group_by and not is_regrouped:
            yield f"--group-by {self._options.group_by} is not used: the records have group_id"
        if (self._judged or self._inferred) and has_resolved:
            untold = [self._sources[number].name for number in sorted(self._by_reward - self._inferred)]
            yield from note_of_untold_files(untold, len(self._judged | self._by_reward))
        if has_resolved and reasons is not None and reasons.eq_missing("not_evaluated").all():
            yield "resolved is null in every record: none counts as evaluated; reports are joined with `--join FILE`"
        yield from notes_of_rows(
            rows, self._sources, self._options, self._grouped_by.name, is_by_reward=not has_resolved
        )
        if self._n_bad:
            yield note_of_bad_records(self._n_bad, [error.message for error in self._problems])


def _made_id(source: str, line: int, item: int | None) -> str:
    place = [source, line] if item is None else [source, line, item]
    return hashlib.sha256(repr(place).encode()).hexdigest()[:16]
