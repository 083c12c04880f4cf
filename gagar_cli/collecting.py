"""The cyclic garbage collector while many groups are graded: it runs seldom, and leaves alone what was there before."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

N_OBJECTS = 3_000
"""New objects, less those that went, at which young ones are looked through: several conversations make so many."""

_before: tuple[int, int, int] = gc.get_threshold()
_n_inside = 0
_has_frozen = False


@contextmanager
def rare_collections() -> Iterator[None]:
    """Inside, little time goes into collecting; of several at a time the last one puts things back as they were."""
    global _before, _n_inside, _has_frozen  # noqa: PLW0603 - there is one collector in a process
    if _n_inside == 0:
        _before = gc.get_threshold()
        gc.set_threshold(N_OBJECTS, *_before[1:])
        # Modules and their classes, hundreds of thousands of objects, are not gone through again and again.
        # What a program that calls this has frozen already is its own, and stays so.
        _has_frozen = gc.get_freeze_count() == 0
        if _has_frozen:
            gc.freeze()
    _n_inside += 1
    try:
        yield
    finally:
        _n_inside -= 1
        if _n_inside == 0:
            if _has_frozen:
                gc.unfreeze()
            gc.set_threshold(*_before)
