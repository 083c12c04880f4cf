"""Conversion: a dump in any form in, canonical records out, as Parquet with a fixed schema or as JSON lines.

Nothing is lost: what has no canonical field is kept as JSON text under `raw`, a null is never turned into false or 0,
and as many records go out as came in.
"""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gagar_cli.errors import InputError, OutputError, UsageError
from gagar_cli.io.canonical import canonical_record, write_parquet
from gagar_cli.io.dump import Dump, DumpReport, ReadOptions, open_dump
from gagar_cli.io.jsonl import dump_line
from gagar_cli.io.records import Fields
from gagar_cli.io.writers import refuse_existing, write_atomically, write_lines
from gagar_cli.progress import ProgressCallback, no_progress

SUFFIXES = (".parquet", ".pq", ".jsonl", ".jsonl.gz", ".jsonl.zst")
_PROGRESS_EVERY = 256


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
    if settings.output != "-" and not settings.output.endswith(SUFFIXES):
        raise UsageError(f"-o is {settings.output!r}, expected one of {', '.join(SUFFIXES)}, or -")
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
        if settings.output.endswith((".parquet", ".pq")):
            with write_atomically(settings.output) as stream:
                n_records = write_parquet(stream, records, dump.report.missing_columns)
        else:
            n_records = write_lines(settings.output, (dump_line(record) for record in records))
        index = dump.index
        if n_records != index.height and settings.output != "-":
            raise OutputError(f"{n_records:,} of {index.height:,} records were written")
        return ConvertResult(
            n_records=n_records,
            n_groups=index["group"].n_unique(),
            n_passed=int(index["passed"].sum()),
            n_invalid=int(index["invalid"].sum()),
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
    columns = dump.index.select("group_id", "trajectory_id", "step", "source", "line").iter_rows(named=True)
    total = dump.index.height
    for number, (record, row) in enumerate(zip(dump.iter_records(), columns, strict=True), 1):
        settled = {
            "group_id": row["group_id"],
            "group_id_source": dump.report.group_id_source,
            "trajectory_id": row["trajectory_id"],
            "step": row["step"],
            "source_format": "canonical",
            "source_path": Path(dump.sources[row["source"]]).as_posix(),
            "source_row": row["line"],
        }
        if record.get("source_path") in made_of:
            record["source_path"] = made_of[str(record["source_path"])]
        yield canonical_record(record, fields, settled, dump.report.missing_columns)
        if number % _PROGRESS_EVERY == 0 or number == total:
            progress(number, total, "")
