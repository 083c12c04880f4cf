"""Validation: everything that is wrong with a dump in one pass, heavy columns included.

Every record is read the way grading would read it. The first problems are kept with their place, all are counted by
kind; a dump that cannot be indexed at all is one problem of its own.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from gagar_cli.errors import InputError
from gagar_cli.io.dump import Dump, DumpReport, ReadOptions, open_dump
from gagar_cli.io.dump_counts import DumpCounts, count_rows
from gagar_cli.io.patch_notes import PatchCount, count_patches
from gagar_cli.io.problems import hint_of, kind_of_problem
from gagar_cli.io.read_options import note_of_bad_records
from gagar_cli.io.records import HEAVY_FIELDS, TASK_FIELDS
from gagar_cli.io.scan import MAX_LISTED_PROBLEMS, NoRecordsError
from gagar_cli.progress import ProgressCallback, no_progress

_AT_ONCE = 64
_READ_FIELDS = frozenset((*TASK_FIELDS, *HEAVY_FIELDS))
"""What the index does not check; a dump without any of it is not read twice."""


@dataclass(frozen=True, slots=True)
class ValidateSettings:
    """What `gagar validate` was asked to do."""

    dumps: tuple[str, ...]
    read: ReadOptions = field(default_factory=ReadOptions)


@dataclass(frozen=True, slots=True)
class ValidateResult:
    """What is wrong, and what the dump holds beside it."""

    n_records: int
    """Those that the index has."""
    n_bad_records: int
    """Those that it cannot have."""
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
    hint: str | None = None
    """What helps with the first problem for which anything does."""

    @property
    def n_problems(self) -> int:
        """All problems."""
        return sum(count for _, count in self.kinds)

    def to_record(self) -> dict[str, object]:
        """The result as one JSON object."""
        return {
            "n_records": self.n_records,
            "n_bad_records": self.n_bad_records,
            "n_groups": self.n_groups,
            "n_passed": self.n_passed,
            "n_invalid": self.n_invalid,
            "n_invalid_by_reason": dict(self.invalid_reasons),
            "n_disagree": self.n_disagree,
            "group_id_source": self.group_id_source,
            "missing_columns": list(self.missing_columns),
            "n_problems": self.n_problems,
            "n_problems_by_kind": dict(self.kinds),
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
            changes: list[PatchCount] = []
            heavy = _heavy_problems(dump, changes, progress)
            for message in (problem.message for problem in heavy):
                kinds[kind_of_problem(message)] += 1
                if len(problems) < MAX_LISTED_PROBLEMS:
                    problems.append(message)
            result = _result(count_rows(dump), dump.report, problems, kinds)
            told = sum(changes, PatchCount()).notes(dump.report.missing_columns)
            hint = dump.report.hint or hint_of(heavy)
            return replace(result, notes=(*result.notes, *told), hint=hint)
    except NoRecordsError as error:
        problems = list(error.problems) or [error.message]
        kinds = Counter(error.kinds or {kind_of_problem(error.message): 1})
        hint = error.hint_of_problems if error.problems else error.hint
        return _without_records(problems, kinds, hint, n_bad=error.n_bad)
    except InputError as error:
        kind = kind_of_problem(error.message)
        return _without_records([error.message], Counter({kind: 1}), error.hint)


def _without_records(
    problems: Sequence[str], kinds: Counter[str], hint: str | None, *, n_bad: int = 0
) -> ValidateResult:
    told = tuple(kinds.most_common())
    return ValidateResult(0, n_bad, 0, 0, 0, (), 0, "", (), tuple(problems), told, (), hint)


def _heavy_problems(dump: Dump, changes: list[PatchCount], progress: ProgressCallback) -> list[InputError]:
    """What is wrong with messages, patches and texts, one record after the other."""
    found: list[InputError] = []
    rows = range(0 if _READ_FIELDS.issubset(dump.report.missing_columns) else dump.n_rows)
    for first in range(0, len(rows), _AT_ONCE):
        some = rows[first : first + _AT_ONCE]
        try:
            changes.append(count_patches(trajectory for _, trajectory in dump.read_trajectories(some)))
        except InputError:
            found += [problem for row in some if (problem := _problem_of(dump, row)) is not None]
        progress(min(first + _AT_ONCE, dump.n_rows), dump.n_rows, "")
    return found


def _problem_of(dump: Dump, row: int) -> InputError | None:
    try:
        dump.read_trajectories([row])
    except InputError as error:
        return error
    return None


def _result(
    counts: DumpCounts, report: DumpReport, problems: Sequence[str], kinds: Counter[str]
) -> ValidateResult:
    left_out = note_of_bad_records(report.n_bad_records, report.bad_records)  # the problems tell of them
    return ValidateResult(
        n_records=counts.n_records,
        n_bad_records=report.n_bad_records,
        n_groups=counts.n_groups,
        n_passed=counts.n_passed,
        n_invalid=counts.n_invalid,
        invalid_reasons=counts.invalid_reasons,
        n_disagree=report.n_disagree,
        group_id_source=report.group_id_source,
        missing_columns=report.missing_columns,
        problems=tuple(problems),
        kinds=tuple(kinds.most_common()),
        notes=tuple(note for note in report.notes if note != left_out),
    )
