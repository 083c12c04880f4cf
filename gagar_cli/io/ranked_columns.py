"""Plain rankings laid over a dump column by column; a shortcut of `io/ranked_records.py`, never another rule.

Millions of candidates take minutes one by one. Plain means: every row a graded candidate with a place and no violation,
all rows with a step or none, no correction by a person. Whatever is not plainly right makes the whole file go the slow
way, which finds the row and words the error. Of texts hashes are kept: candidates and trajectories meet by one and
must agree in another.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gagar_cli.core.judging import Verdicts
from gagar_cli.core.ranking import TIERS
from gagar_cli.io.arrays import to_series
from gagar_cli.io.row_ids import Hash, Hashes, hash_texts
from gagar_cli.io.row_table import RowTable

_PLAIN = ("step", "group_id", "trajectory_id", "tier", "rank", "status", "weighted_score")
_EMPTY = ("reason", "grader", "scores", "flags")
"""Columns that make a row more than a place, unless nothing is in them."""
_PART_ROWS = 262_144
_TEXTS = ("rationale", "input_digest", "config_digest")
_LISTS = ("findings", "unproven")
_TIERS = pl.Enum(TIERS)
_LOW_BITS = np.uint64(2**32 - 1)
_MATCHED_AT_ONCE = 65_536
"""Few enough for the processor's cache."""


def read_plain_rankings(path: str | None, *, hash_: Hash = hash_texts) -> pl.DataFrame | None:
    """The candidates of a plain rankings table: `has_step`, `group`, `key`, `check`, `tier` (as a number), `rank`.

    `group` is a hash of step and group, `key` one of the group and the trajectory, `check` another of the trajectory.
    """
    if path is None or not Path(path).is_file() or path.lower().endswith((".gz", ".zst")):
        return None
    if not path.lower().endswith((".parquet", ".pq")):
        from gagar_cli.io.ranked_lines import read_plain_lines

        return read_plain_lines(path, hash_=hash_)
    try:
        # The file of just that name: no pattern, no address, and no columns from the names of folders.
        wanted = pl.scan_parquet(Path(path).absolute(), glob=False, hive_partitioning=False)
        schema = wanted.collect_schema()
        if not {"group_id", "trajectory_id", "tier", "rank"} <= schema.keys() or not _is_known(schema):
            return None
        names = [name for name in schema if name in _PLAIN]
        others = [_says_nothing(name, schema[name]) for name in schema if _is_in_doubt(name, schema[name])]
        if others and not wanted.select(pl.all_horizontal(others)).collect().item():
            return None
        parts: list[pl.DataFrame] = []
        # Part by part: texts take more memory than all that is kept of a candidate.
        for part in wanted.select(names).collect_batches(chunk_size=_PART_ROWS):
            plain = _checked(part, hash_)
            if plain is None or (parts and plain["has_step"][0] != parts[0]["has_step"][0]):
                return None
            parts.append(plain)
    except (pl.exceptions.PolarsError, OSError):
        return None
    return pl.concat(parts, how="vertical_relaxed") if parts else None


def _is_known(schema: Iterable[str]) -> bool:
    return all(name in (*_PLAIN, *_TEXTS, *_LISTS) or _is_to_be_empty(name) for name in schema)


def _is_to_be_empty(name: str) -> bool:
    return name in _EMPTY or name.startswith(("score_", "flag_"))


def _is_in_doubt(name: str, dtype: pl.DataType) -> bool:
    return name not in _PLAIN and (name not in _TEXTS or dtype != pl.String)


def _says_nothing(name: str, dtype: pl.DataType) -> pl.Expr:
    """Whether nothing is in a column, empty lists aside: what is in it may be out of place, and nobody would look."""
    column = pl.col(name)
    if name == "findings" and dtype == pl.String:
        return column.fill_null("[]").eq("[]").all()
    if name == "unproven" and isinstance(dtype, pl.List):
        return column.list.len().fill_null(0).sum() == 0
    return column.null_count() == pl.len()


def _checked(table: pl.DataFrame, hash_: Hash) -> pl.DataFrame | None:
    schema = table.schema
    is_typed = (
        schema["group_id"] == schema["trajectory_id"] == schema["tier"] == pl.String
        and schema["rank"].is_integer()
        and (schema.get("step", pl.Null) == pl.Null or schema["step"].is_integer())
        and schema.get("status", pl.String) in (pl.String, pl.Null)
        and schema.get("weighted_score", pl.Float64) in (pl.Float64, pl.Null)
    )
    if not is_typed or not table.height:
        return None
    step = table["step"].cast(pl.Int64) if "step" in schema else None
    score = table["weighted_score"].cast(pl.Float64) if "weighted_score" in schema else None
    ids = [table[name] for name in ("group_id", "trajectory_id")]
    status = table["status"].fill_null("graded") if "status" in schema else None
    tier = table["tier"].cast(_TIERS, strict=False)
    is_plain = (
        not any(each.has_nulls() for each in (*ids, tier, table["rank"]))
        and not any((each == "").any() or each.str.contains("\0", literal=True).any() for each in ids)
        and (table["rank"] >= 0).all()
        and (step is None or step.null_count() in (0, len(step)))
        and (status is None or (status == "graded").all())
        and (score is None or score.drop_nulls().is_between(1, 5).all())
    )
    if not is_plain:
        return None
    return hash_candidates(
        table.select("group_id", "trajectory_id", tier, "rank").with_columns(
            _or_nothing(step, "step", pl.Int64), _or_nothing(score, "weighted_score", pl.Float64)
        ),
        hash_,
    )


def _or_nothing(column: pl.Series | None, name: str, dtype: type[pl.DataType]) -> pl.Series | pl.Expr:
    """The column, or one null for all rows where it says nothing."""
    if column is None or column.null_count() == len(column):
        return pl.lit(None, dtype=dtype).alias(name)
    return column.alias(name)


def hash_candidates(table: pl.DataFrame, hash_: Hash) -> pl.DataFrame:
    """What `read_plain_rankings` gives, of `step`, `group_id`, `trajectory_id`, `tier`, `rank` and `weighted_score`."""
    has_step = not table["step"].has_nulls()
    group = _hash_groups(table, hash_, has_step=has_step)
    ids = hash_(table["trajectory_id"])
    return table.select(
        has_step=pl.lit(has_step),
        group=to_series(group.key),
        key=to_series(_in_group(ids.key, group.key)),
        check=to_series(ids.check ^ group.check),
        tier=pl.col("tier").cast(_TIERS).to_physical().cast(pl.Int8),
        rank=table["rank"].cast(pl.Int64).shrink_dtype(),
        weighted_score="weighted_score",
    )


def _hash_groups(groups: pl.DataFrame, hash_: Hash, *, has_step: bool) -> Hashes:
    """Hashes of `group_id`, and `step` where it counts."""
    hashes = hash_(groups["group_id"].cast(pl.String))
    if not has_step:
        return hashes
    steps = hash_(groups["step"].cast(pl.Int64))
    return Hashes(_in_group(hashes.key, steps.key), hashes.check ^ steps.check)


def _in_group(key: NDArray[np.uint64], group: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """One hash of two, whose order counts."""
    return np.asarray(key ^ ((group << np.uint64(1)) | (group >> np.uint64(63))))


class LaidLines(NamedTuple):
    """What the lines of rankings say of a dump's groups and trajectories."""

    entries: pl.DataFrame
    """`row`, `tier`, `rank`, `is_violation`, `weighted_score` of the candidates of the lines in force."""
    verdicts: Verdicts
    n_unknown_groups: int
    n_superseded: int = 0
    n_overridden: int = 0


def lay_plain(
    plain: pl.DataFrame, primary: pl.DataFrame | RowTable, *, hash_: Hash = hash_texts
) -> LaidLines | None:
    """A plain table over the trajectories of a dump; None where a group or a candidate is in doubt.

    `primary` has a row a trajectory, with `group`, `step`, `group_id`, `trajectory_id`, `passed` and `row`.
    """
    groups = primary.groups if isinstance(primary, RowTable) else _groups(primary)
    frame = primary.frame if isinstance(primary, RowTable) else primary
    if "key" not in plain.columns:
        plain = hash_candidates(plain, hash_)
    has_step = bool(plain["has_step"][0])
    if groups.select(["step", "group_id"] if has_step else "group_id").n_unique() < groups.height:
        return None
    of_groups = _hash_groups(groups, hash_, has_step=has_step)
    hashes = primary.ids.take_hashes() if isinstance(primary, RowTable) else hash_(primary["trajectory_id"])
    group = frame["group"].to_numpy()
    passes = np.flatnonzero(frame["passed"].to_numpy())
    key = _in_group(hashes.key[passes], of_groups.key[group[passes]])
    check = hashes.check[passes] ^ of_groups.check[group[passes]]
    del hashes
    others = Hashes(key, check)
    n_unknown = 0
    found = match(Hashes(plain["key"].to_numpy(), plain["check"].to_numpy()), others)
    if found is None:
        known = to_series(of_groups.key).implode()
        unknown = plain.filter(~pl.col("group").is_in(known))
        n_unknown = unknown["group"].n_unique()
        plain = plain.filter(pl.col("group").is_in(known))
        # Nobody else looks at candidates of unknown groups, which must not be named twice either.
        if not n_unknown or not plain.height or unknown["key"].n_unique() < unknown.height:
            return None
        found = match(Hashes(plain["key"].to_numpy(), plain["check"].to_numpy()), others)
    if found is None:
        return None
    rows = passes[found]
    is_ranked = np.zeros(groups.height, dtype=bool)
    is_ranked[group[rows]] = True
    nothing = np.full(groups.height, None, dtype=np.object_)
    row = to_series(rows.astype(np.uint32), "row")
    if "row" in frame.columns:
        row = frame["row"].gather(row)
    violation = pl.lit(value=False).alias("is_violation")
    laid = plain.select(row, "tier", "rank", violation, "weighted_score")
    return LaidLines(laid, Verdicts(is_ranked, nothing, nothing), n_unknown)


def _groups(primary: pl.DataFrame) -> pl.DataFrame:
    """`step` and `group_id` by code."""
    first = primary.select("step", "group_id", "group")[primary["group"].arg_unique()]
    return first.sort("group").select("step", "group_id")


def match(wanted: Hashes, hashes: Hashes) -> NDArray[np.uint32] | None:
    """Where each of some texts is among others, told by their hashes.

    None where one is not there, two are at the same place, or the first hash does not tell the others apart.
    """
    others, sought = _ordered(hashes.key), _ordered(wanted.key)
    found = np.empty(len(sought), dtype=np.uint32)
    start = 0
    while start < len(sought):
        last = sought[min(start + _MATCHED_AT_ONCE, len(sought)) - 1] | _LOW_BITS
        stop = int(np.searchsorted(sought, last, side="right"))
        first = int(np.searchsorted(others, sought[start] & ~_LOW_BITS))
        end = int(np.searchsorted(others, last, side="right"))
        own = (sought[start:stop] & _LOW_BITS).astype(np.uint32)
        at = _match_few(own, (others[first:end] & _LOW_BITS).astype(np.uint32), wanted, hashes)
        if at is None:
            return None
        found[own] = at
        start = stop
    return found


def _ordered(keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The numbers of keys in the order of their upper halves, each below its half.

    A sort of plain numbers takes a sixth of the time of `argsort`.
    """
    ordered = keys & ~_LOW_BITS
    ordered |= np.arange(len(keys), dtype=np.uint64)
    ordered.sort()
    return ordered


def _match_few(
    sought: NDArray[np.uint32], others: NDArray[np.uint32], wanted: Hashes, hashes: Hashes
) -> NDArray[np.uint32] | None:
    keys = hashes.key[others]
    order = np.argsort(keys)
    keys, others = keys[order], others[order]
    own = wanted.key[sought]
    at = np.searchsorted(keys, own)
    if not len(keys) or (keys[1:] == keys[:-1]).any() or at.max(initial=0) == len(keys):
        return None
    found = others[at]
    is_met = np.zeros(len(keys), dtype=bool)
    is_met[at] = True
    is_right = (keys[at] == own).all() and (hashes.check[found] == wanted.check[sought]).all()
    return found if is_right and is_met.sum() == len(at) else None
