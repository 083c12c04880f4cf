"""What a dump holds, at a glance: the form of each file and why, columns, group sizes, the first records."""

from dataclasses import dataclass, field
from typing import Any

from gagar_cli.core.text import counted, shorten
from gagar_cli.errors import InputError
from gagar_cli.io.dump import Dump, ReadOptions, open_dump
from gagar_cli.io.dump_counts import count_group_sizes, count_rows
from gagar_cli.io.jsonl import show_value
from gagar_cli.io.patch_notes import count_patches

_MAX_TEXT = 200
_MAX_FILES = 20
_MAX_PASSING = 64
"""Attempts whose patches are looked at: with their messages they may be long."""


@dataclass(frozen=True, slots=True)
class HeadSettings:
    """What `gagar head` was asked to show."""

    dumps: tuple[str, ...]
    n_records: int = 3
    read: ReadOptions = field(default_factory=ReadOptions)


@dataclass(frozen=True, slots=True)
class HeadResult:
    """What the dump holds."""

    files: tuple[tuple[str, str, str], ...]
    """The first files: path, format, why."""
    n_files: int
    n_records: int
    n_groups: int
    n_passed: int
    n_invalid: int
    invalid_reasons: tuple[tuple[str, int], ...]
    group_id_source: str
    group_sizes: tuple[tuple[int, int], ...]
    """Trajectories of a group, and how many groups are of that size."""
    columns: tuple[tuple[str, str], ...]
    """Names in the first records and what is in them."""
    missing_columns: tuple[str, ...]
    records: tuple[dict[str, Any], ...]
    """The first ones, long texts cut."""
    notes: tuple[str, ...]

    def to_record(self) -> dict[str, object]:
        """The result as one JSON object."""
        return {
            "files": [{"path": path, "format": name, "why": why} for path, name, why in self.files],
            "n_files": self.n_files,
            "n_records": self.n_records,
            "n_groups": self.n_groups,
            "n_passed": self.n_passed,
            "n_invalid": self.n_invalid,
            "n_invalid_by_reason": dict(self.invalid_reasons),
            "group_id_source": self.group_id_source,
            "n_groups_by_size": {str(size): count for size, count in self.group_sizes},
            "columns": dict(self.columns),
            "missing_columns": list(self.missing_columns),
            "records": list(self.records),
            "notes": list(self.notes),
        }


def run(settings: HeadSettings) -> HeadResult:
    """Look at a dump.

    Raises:
        InputError: it cannot be read.
        UsageError: flags that contradict each other.
    """
    with open_dump(settings.dumps, settings.read) as dump:
        files = [(name, *form) for name, form in zip(dump.sources, dump.forms, strict=True)]
        records: list[dict[str, Any]] = []
        for record in dump.iter_records():
            if len(records) == settings.n_records:
                break
            records.append(record)
        counts = count_rows(dump)
        return HeadResult(
            files=tuple(files[:_MAX_FILES]),
            n_files=len(files),
            n_records=counts.n_records,
            n_groups=counts.n_groups,
            n_passed=counts.n_passed,
            n_invalid=counts.n_invalid,
            invalid_reasons=counts.invalid_reasons,
            group_id_source=dump.report.group_id_source,
            group_sizes=count_group_sizes(dump),
            columns=tuple(_columns(records)),
            missing_columns=dump.report.missing_columns,
            records=tuple({name: _cut(value) for name, value in record.items()} for record in records),
            notes=(*dump.report.notes, *_patch_notes(dump)),
        )


def _patch_notes(dump: Dump) -> list[str]:
    """What is told of the first passing attempts that have no patch, or an empty one; where none has one, a column is missing."""
    passed = dump.column("passed")
    if passed is None or "model_patch" in dump.report.missing_columns:
        return []
    rows = passed.arg_true().head(_MAX_PASSING + 1).to_list()
    try:
        read = dump.read_trajectories(rows[:_MAX_PASSING])
    except InputError:  # `gagar validate` tells of it
        return []
    found = count_patches(trajectory for _, trajectory in read)
    return found.notes(is_part=len(rows) > _MAX_PASSING)


def _columns(records: list[dict[str, Any]]) -> list[tuple[str, str]]:
    names = dict.fromkeys(name for record in records for name in record)
    told = []
    for name in names:
        value = next((record[name] for record in records if record.get(name) is not None), None)
        told.append((name, _kind(value)))
    return told


def _kind(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, str):
        return f"text, {counted(len(value), 'character')}"
    if isinstance(value, list):
        return f"list of {len(value):,}"
    return f"object of {len(value):,}" if isinstance(value, dict) else type(value).__name__


def _cut(value: object) -> Any:
    """A value as it fits into a few lines: texts shortened, the first and the number of what a list holds."""
    if isinstance(value, str):
        return shorten(value, _MAX_TEXT)
    if isinstance(value, list) and value:
        more = [f"… {len(value) - 1:,} more"] if len(value) > 1 else []
        return [_cut(value[0]), *more]
    if isinstance(value, dict):
        return {name: _cut(each) for name, each in list(value.items())[:20]}
    return value if isinstance(value, bool | int | float | None) and value == value else show_value(value)
