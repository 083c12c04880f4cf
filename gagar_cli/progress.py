"""How a use case tells how far it is, without knowing who listens."""

from typing import Protocol


class ProgressCallback(Protocol):
    """Called for every item done: items done, items in all, and a short note."""

    def __call__(self, n_done: int, n_total: int, note: str) -> None:
        """Report progress; must be cheap."""


def heard(progress: ProgressCallback) -> ProgressCallback | None:
    """Whom to tell; None where nobody listens, and what costs something to count need not be counted."""
    return None if progress is no_progress else progress


def no_progress(n_done: int, n_total: int, note: str) -> None:
    """For callers who do not listen."""
