"""Validation: everything that is wrong with a dump in one pass, heavy columns included.

Every record is read the way grading would read it. The first problems are kept with their place, all are counted by
kind; a dump that cannot be indexed at all is one problem of its own.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import polars as pl

from gagar_cli.errors import InputError
from gagar_cli.io.dump import Dump, DumpReport, ReadOptions, open_dump
from gagar_cli.io.problems import kind_of_problem
from gagar_cli.io.read_options import note_of_bad_records
from gagar_cli.io.scan import MAX_LISTED_PROBLEMS, NoRecordsError
from gagar_cli.progress import ProgressCallback, no_progress

_AT_ONCE = 64


@dataclass(frozen=True, slots=True)
class ValidateSettings:
    """What `gagar validate` was asked to do."""

    dumps: tuple[str, ...]
    read: ReadOptions = field(default_factory=ReadOptions)


@dataclass(frozen=True, slots=True)
class ValidateResult:
    """What is wrong, and what the dump holds beside it."""

    n_records: int
    n_groups: int
    n_passed: int
    n_invalid: int
    invalid_reasons: tuple[tuple[str, int], ...]
    n_disagree: int
    group_id_source: str
    missing_columns: tuple[str, ...]
    problems: tuple[str, ...]
    """The first 20, each with its place."""
    kinds: tuple[tuple[str, int], ...]
    notes: tuple[str, ...]

    @property
    def n_problems(self) -> int:
        """All problems."""
        return sum(count for _, count in self.kinds)

    def to_record(self) -> dict[str, object]:
        """The result as one JSON object."""
        return {
            "n_records": self.n_records,
            "n_groups": self.n_groups,
            "n_passed": self.n_passed,
            "n_invalid": self.n_invalid,
            "invalid_reasons": dict(self.invalid_reasons),
            "n_disagree": self.n_disagree,
            "group_id_source": self.group_id_source,
            "missing_columns": list(self.missing_columns),
            "n_problems": self.n_problems,
            "problem_kinds": dict(self.kinds),
            "problems": list(self.problems),
            "notes": list(self.notes),
        }


def run(settings: ValidateSettings, progress: ProgressCallback = no_progress) -> ValidateResult:
    """Read a whole dump and tell what is wrong with it.

    Raises:
        UsageError: flags that contradict each other.
    """
    try:
        with open_dump(settings.dumps, replace(settings.read, on_bad_record="skip")) as dump:
            problems = list(dump.report.bad_records)
            kinds = Counter(dict(dump.report.problem_kinds))
            for message in _heavy_problems(dump, progress):
                kinds[kind_of_problem(message)] += 1
                if len(problems) < MAX_LISTED_PROBLEMS:
                    problems.append(message)
            return _result(dump.index, dump.report, problems, kinds)
    except NoRecordsError as error:
        problems = list(error.problems) or [error.message]
        kinds = Counter(error.kinds or {kind_of_problem(error.message): 1})
        return _without_records(problems, kinds)
    except InputError as error:
        kind = kind_of_problem(error.message)
        return _without_records([error.message], Counter({kind: 1}))


def _without_records(problems: Sequence[str], kinds: Counter[str]) -> ValidateResult:
    return ValidateResult(0, 0, 0, 0, (), 0, "", (), tuple(problems), tuple(kinds.most_common()), ())


def _heavy_problems(dump: Dump, progress: ProgressCallback) -> list[str]:
    """What is wrong with messages, patches and texts, one record after the other."""
    found = []
    rows = range(dump.index.height)
    for first in range(0, dump.index.height, _AT_ONCE):
        some = list(rows[first : first + _AT_ONCE])
        try:
            dump.read_trajectories(some)
        except InputError:
            found += [message for row in some if (message := _problem_of(dump, row)) is not None]
        progress(min(first + _AT_ONCE, dump.index.height), dump.index.height, "")
    return found


def _problem_of(dump: Dump, row: int) -> str | None:
    try:
        dump.read_trajectories([row])
    except InputError as error:
        return error.message
    return None


def _result(
    index: pl.DataFrame, report: DumpReport, problems: Sequence[str], kinds: Counter[str]
) -> ValidateResult:
    reasons = index["invalid_reason"].drop_nulls().value_counts(sort=True)
    left_out = note_of_bad_records(report.n_bad_records, report.bad_records)  # the problems tell of them
    return ValidateResult(
        n_records=index.height,
        n_groups=index["group"].n_unique(),
        n_passed=int(index["passed"].sum()),
        n_invalid=int(index["invalid"].sum()),
        invalid_reasons=tuple((str(name), int(count)) for name, count in reasons.iter_rows()),
        n_disagree=report.n_disagree,
        group_id_source=report.group_id_source,
        missing_columns=report.missing_columns,
        problems=tuple(problems),
        kinds=tuple(kinds.most_common()),
        notes=tuple(note for note in report.notes if note != left_out),
    )
