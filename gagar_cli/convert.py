"""Conversion: a dump in any form in, canonical records out, as Parquet with a fixed schema or as JSON lines.

Nothing is lost: what has no canonical field is kept as JSON text under `raw`, a null is never turned into false or 0,
and as many records go out as came in.
"""

from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gagar_cli.errors import InputError, OutputError
from gagar_cli.io.canonical import canonical_record, write_parquet
from gagar_cli.io.dump import Dump, DumpReport, ReadOptions, open_dump
from gagar_cli.io.dump_counts import count_rows
from gagar_cli.io.jsonl import dump_line
from gagar_cli.io.records import MISSING, Fields
from gagar_cli.io.writers import (
    TABLE_SUFFIXES,
    refuse_existing,
    refuse_other_ending,
    write_atomically,
    write_lines,
)
from gagar_cli.own_inputs import refuse_own_inputs
from gagar_cli.progress import ProgressCallback, no_progress

_PROGRESS_EVERY = 256
_PART_ROWS = 65_536


@dataclass(frozen=True, slots=True)
class ConvertSettings:
    """What `gagar convert` was asked to do."""

    dumps: tuple[str, ...]
    output: str
    """`.parquet`, `.jsonl` (`.gz`, `.zst`), or `-` for JSON lines."""
    read: ReadOptions = field(default_factory=ReadOptions)
    overwrite: bool = False
    unsafe_pickle: bool = False
    """Read pickles too, each in a sandbox."""


@dataclass(frozen=True, slots=True)
class ConvertResult:
    """What was written."""

    n_records: int
    n_groups: int
    n_passed: int
    n_invalid: int
    report: DumpReport

    def to_record(self) -> dict[str, object]:
        """The summary as one JSON object."""
        return {
            "n_records": self.n_records,
            "n_groups": self.n_groups,
            "n_passed": self.n_passed,
            "n_invalid": self.n_invalid,
            "n_bad_records": self.report.n_bad_records,
            "group_id_source": self.report.group_id_source,
            "missing_columns": list(self.report.missing_columns),
            "notes": list(self.report.notes),
        }


def run(settings: ConvertSettings, progress: ProgressCallback = no_progress) -> ConvertResult:
    """Convert a dump.

    Raises:
        UsageError: an output of another kind.
        InputError: bad data in the dump.
        OutputError: the output exists or cannot be written.
    """
    refuse_other_ending(settings.output, TABLE_SUFFIXES)
    refuse_own_inputs(settings.output, (*settings.dumps, *settings.read.joins))
    if settings.output != "-":
        refuse_existing(settings.output, overwrite=settings.overwrite)
    with ExitStack() as stack:
        dumps = {path: path for path in settings.dumps}
        if settings.unsafe_pickle:
            # Sandboxes are slow to import, and rarely asked for.
            from gagar_cli.unpickling import unpickled

            dumps = unpickled(settings.dumps, stack)
        dump = stack.enter_context(_opened(dumps, replace(settings.read, keep_raw=True)))
        records = _records(dump, Fields(settings.read.fields), progress, dumps)
        if settings.output.lower().endswith((".parquet", ".pq")):
            with write_atomically(settings.output) as stream:
                n_records = write_parquet(stream, records, dump.report.missing_columns)
        else:
            n_records = write_lines(settings.output, (dump_line(record) for record in records))
        counts = count_rows(dump)
        if n_records != counts.n_records and settings.output != "-":
            raise OutputError(f"{n_records:,} of {counts.n_records:,} records were written")
        return ConvertResult(
            n_records=n_records,
            n_groups=counts.n_groups,
            n_passed=counts.n_passed,
            n_invalid=counts.n_invalid,
            report=dump.report,
        )


def _opened(dumps: Mapping[str, str], options: ReadOptions) -> Dump:
    """The dump, its messages about what was made of another file as messages about that."""

    def told(text: str) -> str:
        for path, made_of in dumps.items():
            text = text.replace(path, made_of) if path != made_of else text
        return text

    try:
        dump = open_dump(tuple(dumps), options)
    except InputError as error:
        raise InputError(told(error.message), error.hint) from error
    dump.report = replace(dump.report, notes=tuple(map(told, dump.report.notes)))
    return dump


def _records(
    dump: Dump, fields: Fields, progress: ProgressCallback, made_of: Mapping[str, str]
) -> Iterator[dict[str, Any]]:
    """The records; `made_of` tells of files that are temporary what they were made of."""
    total = dump.n_rows
    for number, (record, row) in enumerate(zip(dump.iter_records(), _rows(dump), strict=True), 1):
        settled = {
            "group_id": row["group_id"],
            "group_id_source": dump.report.group_id_source,
            "trajectory_id": row["trajectory_id"],
            "step": row["step"],
            "source_format": "canonical",
            "source_path": Path(dump.sources[row["source"]]).as_posix(),
            "source_row": row["line"],
        }
        settled |= _counted(record, fields, row, dump.report.missing_columns)
        if record.get("source_path") in made_of:
            record["source_path"] = made_of[str(record["source_path"])]
        yield canonical_record(record, fields, settled, dump.report.missing_columns)
        if number % _PROGRESS_EVERY == 0 or number == total:
            progress(number, total, "")


def _counted(
    record: Mapping[str, object], fields: Fields, row: Mapping[str, Any], missing: Collection[str]
) -> dict[str, object]:
    """What a valid record counts as and does not say itself, where others say it.

    Records without verdicts pass by reward in files of their own, and those without rewards are worth their verdict; in
    one file with others a null would say that they were not evaluated.
    """
    if row["invalid"]:
        return {}
    counts = {"resolved": row["passed"], "reward": row["reward"]}
    return {
        name: value
        for name, value in counts.items()
        if name not in missing and fields.find(record, name) in (MISSING, None)
    }


def _rows(dump: Dump) -> Iterator[dict[str, Any]]:
    """What the index has settled of each record."""
    verdicts = {name: dump.column(name) for name in ("passed", "invalid", "reward")}
    for start in range(0, dump.n_rows, _PART_ROWS):
        stop = start + _PART_ROWS
        columns = dump.keys(start, stop).with_columns(dump.places(start, stop).select("source", "line"))
        told = [column[start:stop].alias(name) for name, column in verdicts.items() if column is not None]
        nothing = {name: None for name, column in verdicts.items() if column is None}
        yield from (nothing | row for row in columns.with_columns(told).iter_rows(named=True))
