"""The key of an audit: which policy each attempt is of, and what the dumps tell of the attempts at shared tasks.

It is written apart from the judgments, which know attempts by ids that say nothing, and joined with them only for the
report. With both files a report can be made again, without dumps or endpoint.
"""

import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gagar_cli.errors import InputError
from gagar_cli.io.streams import show_path

VERSION = 1


@dataclass(frozen=True, slots=True)
class KeyedAttempt:
    """One valid attempt at a shared task."""

    attempt_id: str
    policy: str
    trajectory_id: str
    passed: bool
    is_sampled: bool
    n_turns: int | None
    n_output_tokens: int | None
    patch_lines: int | None
    """Lines added and removed; known of sampled attempts."""


@dataclass(frozen=True, slots=True)
class KeyedTask:
    """One shared task."""

    task_id: str
    is_sampled: bool
    attempts: tuple[KeyedAttempt, ...]

    def is_solved_by(self, policies: Collection[str]) -> bool:
        """Whether each of the policies has a passing attempt."""
        return {one.policy for one in self.attempts if one.passed} >= set(policies)


@dataclass(frozen=True, slots=True)
class AuditKey:
    """Everything of an audit but its judgments."""

    policies: tuple[str, ...]
    judges: tuple[str, ...]
    judgment_files: tuple[str, ...]
    """Beside the key, one a judge."""
    tasks: tuple[KeyedTask, ...]
    seed: int
    shows: str
    is_pairwise: bool
    n_tasks_by_policy: Mapping[str, int]
    scrubbed: tuple[str, ...]
    """The names that were taken out."""
    dimensions: tuple[str, ...]
    """Of the rubric, in its order."""
    notes: tuple[str, ...]

    def to_record(self) -> dict[str, Any]:
        """The key as JSON."""
        return {"version": VERSION, **asdict(self)}


def read_key(path: Path) -> AuditKey:
    """The key of an audit's directory.

    Raises:
        InputError: it is missing, or no key that this version wrote.
    """
    name = show_path(path)
    try:
        record = json.loads(path.read_bytes())
        version = record.pop("version")
        if version != VERSION:
            raise InputError(f"{name}: version is {version!r}, expected {VERSION}", "run the audit again")
        tasks = tuple(
            KeyedTask(
                str(task["task_id"]),
                bool(task["is_sampled"]),
                tuple(KeyedAttempt(**attempt) for attempt in task["attempts"]),
            )
            for task in record.pop("tasks")
        )
        listed = {
            key: tuple(record.pop(key))
            for key in ("policies", "judges", "judgment_files", "scrubbed", "dimensions", "notes")
        }
        key = AuditKey(tasks=tasks, **{**record, **listed})
        _check(key)
        return key
    except FileNotFoundError as error:
        raise InputError(f"{name}: no such file", "`gagar audit A B -o DIR` makes it") from error
    except OSError as error:
        raise InputError(f"{name}: cannot be read: {(error.strerror or str(error)).lower()}") from error
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise InputError(f"{name}: is no key of an audit: {type(error).__name__}: {error}") from error


def _check(key: AuditKey) -> None:
    """Refuse what no audit writes: figures are made from a key as it stands.

    Raises:
        ValueError: a value is not of its kind, or two do not fit together.
    """
    texts = (*key.policies, *key.judges, *key.judgment_files, *key.scrubbed, *key.notes, key.shows)
    _expect(all(isinstance(one, str) for one in texts), "a name is no text")
    _expect(len(set(key.policies)) == len(key.policies) > 1, "policies are not two different ones or more")
    _expect(len(key.judges) == len(key.judgment_files) > 0, "judges and judgment_files are not as many")
    for one in key.judgment_files:
        is_path = "/" in one or "\0" in one or one in ("", ".", "..")
        _expect(not is_path, "judgment_files has a path, expected names beside the key")
    _expect(_is_count(abs(key.seed)) and isinstance(key.is_pairwise, bool), "seed or is_pairwise is no such")
    _expect(all(_is_count(n) for n in key.n_tasks_by_policy.values()), "n_tasks_by_policy is no count")
    for attempt in (one for task in key.tasks for one in task.attempts):
        names = (attempt.attempt_id, attempt.trajectory_id, attempt.policy)
        _expect(all(isinstance(one, str) for one in names), "an attempt's name is no text")
        _expect(attempt.policy in key.policies, "an attempt is of a policy that is not listed")
        _expect(
            isinstance(attempt.passed, bool) and isinstance(attempt.is_sampled, bool), "passed is no bool"
        )
        counts = (attempt.n_turns, attempt.n_output_tokens, attempt.patch_lines)
        _expect(all(n is None or _is_count(n) for n in counts), "a count of an attempt is no number")


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _expect(is_so: bool, complaint: str) -> None:
    if not is_so:
        raise ValueError(complaint)
