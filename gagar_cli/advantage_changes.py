"""What a redistribution changed, from the file that it wrote: in all, and of each candidate of some rankings."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import NamedTuple

import polars as pl

from gagar_cli.core.ranking import GroupRanking
from gagar_cli.core.schema import GroupKey
from gagar_cli.core.summaries import renamed
from gagar_cli.core.text import counted
from gagar_cli.errors import InputError, UsageError
from gagar_cli.io.streams import show_path

SUFFIXES = (".parquet", ".pq", ".jsonl")
_NEEDED = ("advantage", "advantage_base")
_KEY = ("step", "group_id", "trajectory_id")
_HINT = (
    "rankings and advantages go together by step, group_id and trajectory_id: give what `gagar redistribute` made of "
    "these rankings"
)


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


class MatchedAdvantages(NamedTuple):
    """The rows that are about some rankings."""

    frame: pl.DataFrame
    notes: tuple[str, ...]
    """What the rankings or the file have and the other lacks."""


def match_advantages(frame: pl.DataFrame, rankings: Sequence[GroupRanking], path: str) -> MatchedAdvantages:
    """The rows of the rankings' groups; `path`: of the advantages, for messages.

    Raises:
        InputError: the file has none of these groups, or none of their candidates.
    """
    name = show_path(path)
    if not {"group_id", "trajectory_id"} <= set(frame.columns):
        told = f"{name}: has no group_id and trajectory_id: whether it is of these rankings cannot be told"
        return MatchedAdvantages(frame, (told,))
    named = _with_keys(frame)
    present = [GroupKey(*key) for key in named.select("step", "group_id").unique().iter_rows()]
    found = _find_groups(present, [one.key for one in rankings])
    whole = f"of {counted(len(rankings), 'group')}"
    if not found:
        raise InputError(f"{name}: none {whole} of the rankings is in it", _HINT)
    rows = named.join(_keys_frame(found.values()), on=["step", "group_id"], how="semi", nulls_equal=True)
    asked = [
        (found[one.key], candidate.trajectory_id)
        for one in rankings
        if one.key in found
        for candidate in one.candidates
    ]
    n_missing = _count_missing(asked, rows)
    if asked and n_missing == len(asked):
        raise InputError(
            f"{name}: none of {counted(len(asked), 'candidate')} of the rankings is in it", _HINT
        )
    n_lacking, n_others = len(rankings) - len(found), len(present) - len(found)
    notes = [
        (n_lacking, f"{name}: {n_lacking:,} {whole} of the rankings {_are(n_lacking)} not in it"),
        (
            n_missing,
            f"{name}: {n_missing:,} of {counted(len(asked), 'candidate')} {_are(n_missing)} not in it",
        ),
        (n_others, f"{name}: {counted(n_others, 'group')} without a ranking here {_are(n_others)} left out"),
    ]
    return MatchedAdvantages(rows, tuple(note for n, note in notes if n))


def _find_groups(present: Sequence[GroupKey], wanted: Sequence[GroupKey]) -> dict[GroupKey, GroupKey]:
    """The file's group for each of the rankings that has one; without a step that of any, where only one has it."""
    by_id: dict[str, list[GroupKey]] = {}
    for key in present:
        by_id.setdefault(key.group_id, []).append(key)
    found = {}
    for key in wanted:
        same_id = by_id.get(key.group_id, [])
        if key in same_id:
            found[key] = key
        elif key.step is None and len(same_id) == 1:
            found[key] = same_id[0]
    return found


def _count_missing(asked: Sequence[tuple[GroupKey, str]], rows: pl.DataFrame) -> int:
    """How many of these candidates have no row."""
    candidates = _keys_frame(key for key, _ in asked).with_columns(
        pl.Series("trajectory_id", [trajectory_id for _, trajectory_id in asked], dtype=pl.String)
    )
    return candidates.join(rows, on=_KEY, how="anti", nulls_equal=True).height


def _keys_frame(keys: Iterable[GroupKey]) -> pl.DataFrame:
    return pl.DataFrame(list(keys), schema={"step": pl.Int64, "group_id": pl.String}, orient="row")


def _with_keys(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame with the columns of `_KEY` as rankings have them; a step that is none is null."""
    steps = pl.col("step") if "step" in frame.columns else pl.lit(None)
    return frame.with_columns(
        steps.cast(pl.Int64, strict=False).alias("step"),
        pl.col("group_id").cast(pl.String),
        pl.col("trajectory_id").cast(pl.String),
    )


def _are(n: int) -> str:
    return "is" if n == 1 else "are"


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
    keys = {*groups}
    named = _with_keys(frame).select(*_KEY, *_NEEDED)
    named = named.filter(pl.col("group_id").is_in({group.group_id for group in keys}))
    present = [GroupKey(*key) for key in named.select("step", "group_id").unique().iter_rows()]
    asked: dict[GroupKey, list[GroupKey]] = {}
    for group, of_file in _find_groups(present, list(keys)).items():
        asked.setdefault(of_file, []).append(group)
    changes: dict[tuple[GroupKey, str], Change] = {}
    for step, group_id, trajectory_id, after, before in named.iter_rows():
        for key in asked.get(GroupKey(step, group_id), ()):
            changes.setdefault((key, trajectory_id), Change(before, after))
    return changes
