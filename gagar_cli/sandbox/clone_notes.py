"""What is told of clones that did not give a task's commit: one line for each clone and reason, however many tasks."""

import threading
from dataclasses import dataclass, field

from gagar_cli.core.text import escape_untrusted, shorten
from gagar_cli.sandbox.clones import Clone

_MAX_COMMITS = 3
_COMMIT_CHARS = 12


@dataclass(slots=True)
class _Failure:
    hint: str | None
    commits: dict[str, None] = field(default_factory=dict)
    has_files: bool = False


class CloneNotes:
    """The notes of a run. Safe to use from several threads."""

    def __init__(self) -> None:
        self._failures: dict[tuple[str, str], _Failure] = {}
        self._lock = threading.Lock()

    def add(self, clone: Clone, commit: str, why: str, hint: str | None = None) -> None:
        """A commit that a clone did not give."""
        with self._lock:
            failure = self._failures.setdefault((clone.name, why), _Failure(hint))
            failure.commits.setdefault(commit)

    def add_files(self, clone: Clone, commit: str) -> None:
        """The work tree was taken in the commit's place."""
        with self._lock:
            for (name, _), failure in self._failures.items():
                failure.has_files |= name == clone.name and commit in failure.commits

    def lines(self) -> tuple[str, ...]:
        """The notes, in the order in which they came up."""
        with self._lock:
            return tuple(_line(name, why, failure) for (name, why), failure in self._failures.items())


def _line(name: str, why: str, failure: _Failure) -> str:
    shown = [_show(commit[:_COMMIT_CHARS]) for commit in list(failure.commits)[:_MAX_COMMITS]]
    n_more = len(failure.commits) - len(shown)
    commits = ", ".join(shown) + (f" and {n_more} more" if n_more else "")
    instead = "; the files that lie there are taken as they are" if failure.has_files else ""
    hint = f" ({failure.hint})" if failure.hint else ""
    return f"clone {_show(name)}: {commits} cannot be taken out of it: {why}{instead}{hint}"


def _show(text: str) -> str:
    return shorten(escape_untrusted(text, keep_newlines=False), 80)
