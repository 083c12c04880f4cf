"""Which run of a dump a joined file is about: the one that it names, lies nearest to, or names in its path.

Rows that name an attempt by its `trajectory_id` need no run.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from gagar_cli.io.formats.facts import Fact, Unit
from gagar_cli.io.lookups import MISSING

_BORDERS = "_-. "


def parts_by_run(unit: Unit, runs: Sequence[str], *, n_named: int) -> Iterator[tuple[Unit, object]]:
    """The parts of a unit, each with its run as `run_of` tells it.

    Rows with a `trajectory_id` are about any run where the file's own cannot be told, or where the id begins with
    another run of the dump, as ids made from the place do; the others are about the file's.
    """
    run = run_of(unit, runs, n_named=n_named)
    if len(runs) < 2 or unit.run is not None or run is None:
        yield unit, run
        return
    others = (
        {ending for each in runs if each != run for ending in _endings(each)} if run is not MISSING else set()
    )

    def is_free(fact: Fact) -> bool:
        if fact.trajectory_id is None:
            return False
        return run is MISSING or any(beginning in others for beginning in _beginnings(fact.trajectory_id))

    free = _part(unit, is_free)
    if free is None:
        yield unit, run
        return
    yield free, None
    if (bound := _part(unit, lambda fact: not is_free(fact))) is not None:
        yield bound, run


def _part(unit: Unit, is_wanted: Callable[[Fact], bool]) -> Unit | None:
    """The unit with some of its facts; None where there are none."""
    facts = {name: kept for name, each in unit.facts.items() if (kept := [*filter(is_wanted, each)])}
    attempts = {name: kept for name, each in unit.attempts.items() if (kept := [*filter(is_wanted, each)])}
    return replace(unit, facts=facts, attempts=attempts) if facts or attempts else None


def _endings(run: str) -> Iterator[str]:
    parts = Path(run).parts
    yield from ("/".join(parts[-n:]) for n in range(1, len(parts)))


def _beginnings(trajectory_id: str) -> Iterator[str]:
    parts = trajectory_id.split("/")
    yield from ("/".join(parts[:n]) for n in range(1, len(parts)))


def run_of(unit: Unit, runs: Sequence[str], *, n_named: int) -> object:
    """The run directory that a unit is about, None for any run, `MISSING` where it cannot be told.

    `runs`: run directories of the dump; `n_named`: how many runs the unit's file names.
    """
    if not runs:
        return None if n_named <= 1 else MISSING
    if unit.run is not None:
        found = [run for run in runs if _are_alike(unit.run, Path(run).name)]
        if len(found) == 1:
            return found[0]
        return None if len(runs) == 1 and n_named == 1 else MISSING
    if len(runs) == 1:
        return None
    parts = Path(unit.path).resolve().parts
    depths = [_n_common(parts, Path(run).resolve().parts) for run in runs]
    if depths.count(max(depths)) == 1:
        return runs[depths.index(max(depths))]
    names = [*parts[:-1], *Path(parts[-1]).name.split(".")]
    found = [run for run in runs if any(_are_alike(name, Path(run).name) for name in names)]
    return found[0] if len(found) == 1 else MISSING


def _n_common(first: Sequence[str], second: Sequence[str]) -> int:
    n = 0
    for one, other in zip(first, second, strict=False):
        if one != other:
            break
        n += 1
    return n


def _are_alike(name: str, run: str) -> bool:
    """Whether a name is a run's, or its ending or beginning at a border."""
    shorter, longer = sorted((name.lower(), run.lower()), key=len)
    if not shorter:
        return False
    if shorter == longer:
        return True
    return len(shorter) > 2 and (
        (longer.endswith(shorter) and longer[-len(shorter) - 1] in _BORDERS)
        or (longer.startswith(shorter) and longer[len(shorter)] in _BORDERS)
    )
