"""What a dump holds, at a glance: the form of each file and why, columns, group sizes, the first records."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from gagar_cli.core.text import counted, shorten
from gagar_cli.io.dump import ReadOptions, open_dump
from gagar_cli.io.jsonl import show_value

_MAX_TEXT = 200
_MAX_FILES = 20


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
            "invalid_reasons": dict(self.invalid_reasons),
            "group_id_source": self.group_id_source,
            "group_sizes": {str(size): count for size, count in self.group_sizes},
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
        index = dump.index
        records: list[dict[str, Any]] = []
        for record in dump.iter_records():
            if len(records) == settings.n_records:
                break
            records.append(record)
        sizes = index.filter(pl.int_range(pl.len()) == pl.col("primary_row")).group_by("group").len()["len"]
        reasons = index["invalid_reason"].drop_nulls().value_counts(sort=True)
        return HeadResult(
            files=tuple(files[:_MAX_FILES]),
            n_files=len(files),
            n_records=index.height,
            n_groups=index["group"].n_unique(),
            n_passed=int(index["passed"].sum()),
            n_invalid=int(index["invalid"].sum()),
            invalid_reasons=tuple((str(name), int(count)) for name, count in reasons.iter_rows()),
            group_id_source=dump.report.group_id_source,
            group_sizes=tuple(sorted(Counter(sizes.to_list()).items())),
            columns=tuple(_columns(records)),
            missing_columns=dump.report.missing_columns,
            records=tuple({name: _cut(value) for name, value in record.items()} for record in records),
            notes=dump.report.notes,
        )


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
