"""What a redistribution changed, from the file that it wrote: in all, and of each candidate of some rankings."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import NamedTuple

import polars as pl

from gagar_cli.core.schema import GroupKey
from gagar_cli.core.summaries import renamed
from gagar_cli.errors import InputError, UsageError
from gagar_cli.io.streams import show_path

SUFFIXES = (".parquet", ".pq", ".jsonl")
_NEEDED = ("advantage", "advantage_base")
_KEY = ("step", "group_id", "trajectory_id")


class Change(NamedTuple):
    """One candidate's advantage; None where the file has none for it."""

    before: float | None
    """From its group's rewards, those of integrity violations already changed."""
    after: float | None


Changes = Mapping[tuple[GroupKey, str], Change]
"""Of (group, trajectory id)."""


@dataclass(frozen=True, slots=True)
class MovedAdvantage:
    """What a redistribution did in all."""

    n_rows: int
    n_changed: int
    moved: float
    """Half the sum of |advantage − advantage_base|: what was taken from some and given to others."""
    total: float
    """Sum of positive base advantages."""
    n_capped_groups: int

    @property
    def moved_share(self) -> float | None:
        """What was moved, of what passing attempts had; None where they had nothing."""
        return self.moved / self.total if self.total else None

    def to_record(self) -> dict[str, object]:
        """As JSON."""
        names = {"n_rows": "n_trajectories", "moved": "moved_advantage", "total": "base_advantage"}
        return renamed(asdict(self), names) | {"moved_share": self.moved_share}


def read_advantages(path: str) -> pl.DataFrame:
    """The columns that tell what was changed, of a Parquet or JSON lines file.

    Raises:
        InputError: it cannot be read, or lacks `advantage` and `advantage_base`.
        UsageError: its name has another ending.
    """
    if not path.lower().endswith(SUFFIXES):
        raise UsageError(f"--advantages is {show_path(path)}, expected {', '.join(SUFFIXES)}")
    try:
        scan = pl.scan_ndjson(path) if path.lower().endswith(".jsonl") else pl.scan_parquet(path)
        present = scan.collect_schema().names()
        frame = scan.select([name for name in (*_KEY, *_NEEDED, "capped") if name in present]).collect()
    except (OSError, pl.exceptions.PolarsError) as error:
        first = str(error).splitlines()[0]
        raise InputError(f"{show_path(path)}: cannot be read: {first}") from error
    missing = [name for name in _NEEDED if name not in frame.columns]
    if missing:
        raise InputError(
            f"{show_path(path)}: has no column {', '.join(missing)}",
            "it must be what `gagar redistribute` wrote",
        )
    wrong = [name for name in _NEEDED if not frame[name].dtype.is_numeric() and frame[name].dtype != pl.Null]
    if wrong:
        raise InputError(
            f"{show_path(path)}: {wrong[0]} holds {frame[wrong[0]].dtype}, expected one number a row",
            "advantages by turn or token are not shown; give the file that has one a trajectory",
        )
    return frame.with_columns(pl.col(_NEEDED).cast(pl.Float64).fill_nan(None))


def sum_changes(frame: pl.DataFrame) -> MovedAdvantage:
    """The changes of all rows together."""
    new, base = (frame[name].fill_null(0.0) for name in _NEEDED)
    keys = [name for name in ("step", "group_id") if name in frame.columns]
    n_capped = 0
    if "capped" in frame.columns and keys:
        n_capped = frame.filter(pl.col("capped").fill_null(value=False)).select(keys).n_unique()
    return MovedAdvantage(
        n_rows=frame.height,
        n_changed=int((new != base).sum()),
        moved=float((new - base).abs().sum()) / 2,
        total=float(base.filter(base > 0).sum()),
        n_capped_groups=n_capped,
    )


def changes_of(frame: pl.DataFrame, groups: Iterable[GroupKey]) -> dict[tuple[GroupKey, str], Change]:
    """The change of each trajectory of these groups; empty where the file lacks their ids.

    A group without a step is that of any step, where only one step has it.
    """
    if not {"group_id", "trajectory_id"} <= set(frame.columns):
        return {}
    wanted = {group.group_id: group for group in groups if group.step is None}
    keys = {*groups}
    steps = pl.col("step") if "step" in frame.columns else pl.lit(None)
    named = frame.select(
        steps.cast(pl.Int64, strict=False).alias("step"),
        pl.col("group_id").cast(pl.String),
        pl.col("trajectory_id").cast(pl.String),
        *_NEEDED,
    ).filter(pl.col("group_id").is_in({group.group_id for group in keys}))
    n_steps = dict(named.group_by("group_id").agg(pl.col("step").n_unique()).iter_rows())
    changes: dict[tuple[GroupKey, str], Change] = {}
    for step, group_id, trajectory_id, after, before in named.iter_rows():
        key = GroupKey(step, group_id)
        if key not in keys and n_steps[group_id] == 1:
            key = wanted.get(group_id, key)
        if key in keys:
            changes.setdefault((key, trajectory_id), Change(before, after))
    return changes
