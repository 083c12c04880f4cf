"""How many records, groups, passes and invalid attempts a dump has, without a copy of its index."""

from typing import NamedTuple

import numpy as np
import polars as pl

from gagar_cli.core.grouping import count_codes
from gagar_cli.io.dump import Dump


class DumpCounts(NamedTuple):
    """The counts of a dump's rows."""

    n_records: int
    n_groups: int
    n_passed: int
    n_invalid: int
    invalid_reasons: tuple[tuple[str, int], ...]
    """Most frequent first."""


def count_rows(dump: Dump) -> DumpCounts:
    """The counts over all rows of the index."""
    reasons = dump.column("invalid_reason")
    counts = None if reasons is None else reasons.drop_nulls().value_counts(sort=True)
    return DumpCounts(
        n_records=dump.n_rows,
        n_groups=int(np.count_nonzero(count_codes(_group(dump).to_numpy()))),
        n_passed=_count(dump.column("passed")),
        n_invalid=_count(dump.column("invalid")),
        invalid_reasons=()
        if counts is None
        else tuple((str(name), int(count)) for name, count in counts.iter_rows()),
    )


def count_group_sizes(dump: Dump) -> tuple[tuple[int, int], ...]:
    """Trajectories of a group, and how many groups are of that size; smallest first."""
    group, primary = _group(dump), dump.column("primary_row")
    if primary is not None:
        group = group.filter(primary == pl.int_range(len(primary), dtype=pl.UInt32, eager=True))
    n_of_size = np.bincount(count_codes(group.to_numpy()))
    return tuple((size, int(n_of_size[size])) for size in np.flatnonzero(n_of_size).tolist() if size)


def _group(dump: Dump) -> pl.Series:
    group = dump.column("group")
    return pl.Series(dtype=pl.UInt32) if group is None else group


def _count(flags: pl.Series | None) -> int:
    return 0 if flags is None else int(flags.sum())
