"""A rankings table laid over a dump column by column, where it is plain; a shortcut of `_Lines`, never another rule.

A table of millions of candidates takes minutes one by one. Plain means: every row a graded candidate with a place and
no violation, all rows with a step or none, no correction by a person. Whatever is not plainly right makes the whole
table go the slow way, which finds the row and words the error.
"""

from collections.abc import Iterable
from functools import reduce
from operator import xor
from typing import NamedTuple

import numpy as np
import polars as pl

from gagar_cli.core.judging import Verdicts
from gagar_cli.core.ranking import TIERS

_PLAIN = ("step", "group_id", "trajectory_id", "tier", "rank", "status", "weighted_score")
_EMPTY = ("reason", "grader", "scores", "flags")
"""Columns that make a row more than a place, unless nothing is in them."""
_PART_ROWS = 262_144
_IGNORED = ("findings", "unproven", "rationale", "input_digest", "config_digest")


def read_plain_rankings(path: str | None) -> pl.DataFrame | None:
    """The candidates of a plain rankings table: `step`, `group_id`, `trajectory_id`, `tier` (as a number), `rank`."""
    if path is None or not path.lower().endswith((".parquet", ".pq")):
        return None
    try:
        schema = pl.read_parquet_schema(path)
        if not {"group_id", "trajectory_id", "tier", "rank"} <= schema.keys() or not _is_known(schema):
            return None
        names = [name for name in schema if name in _PLAIN]
        wanted = pl.scan_parquet(path)
        others = [pl.col(name).null_count() == pl.len() for name in schema if _is_to_be_empty(name)]
        if others and not wanted.select(pl.all_horizontal(others)).collect().item():
            return None
        parts: list[pl.DataFrame] = []
        # Part by part: text of tiers takes more memory than all that is kept of a candidate but its ids.
        for part in wanted.select(names).collect_batches(chunk_size=_PART_ROWS):
            plain = _checked(part)
            if plain is None or (parts and plain["step"].has_nulls() != parts[0]["step"].has_nulls()):
                return None
            parts.append(plain)
    except (pl.exceptions.PolarsError, OSError):
        return None
    return pl.concat(parts) if parts else None


def _is_known(schema: Iterable[str]) -> bool:
    return all(name in (*_PLAIN, *_IGNORED) or _is_to_be_empty(name) for name in schema)


def _is_to_be_empty(name: str) -> bool:
    return name in _EMPTY or name.startswith(("score_", "flag_"))


def _checked(table: pl.DataFrame) -> pl.DataFrame | None:
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
    is_plain = (
        not any(each.has_nulls() for each in (*ids, table["tier"], table["rank"]))
        and not any((each == "").any() or each.str.contains("\0", literal=True).any() for each in ids)
        and table["tier"].is_in(TIERS).all()
        and (table["rank"] >= 0).all()
        and (step is None or step.null_count() in (0, len(step)))
        and (status is None or (status == "graded").all())
        and (score is None or score.drop_nulls().is_between(1, 5).all())
    )
    if not is_plain:
        return None
    return pl.DataFrame(ids).with_columns(
        _or_nothing(step, "step", pl.Int64),
        table["tier"].cast(pl.Enum(TIERS)).to_physical().cast(pl.Int8).alias("tier"),
        table["rank"].cast(pl.Int64).alias("rank"),
        _or_nothing(score, "weighted_score", pl.Float64),
    )


def _or_nothing(column: pl.Series | None, name: str, dtype: type[pl.DataType]) -> pl.Series | pl.Expr:
    """The column, or one null for all rows where it says nothing."""
    if column is None or column.null_count() == len(column):
        return pl.lit(None, dtype=dtype).alias(name)
    return column.alias(name)


class LaidLines(NamedTuple):
    """What the lines of rankings say of a dump's groups and trajectories."""

    entries: pl.DataFrame
    """`row`, `tier`, `rank`, `is_violation`, `weighted_score` of the candidates of the lines in force."""
    verdicts: Verdicts
    n_unknown_groups: int
    n_superseded: int = 0
    n_overridden: int = 0


def lay_plain(plain: pl.DataFrame, primary: pl.DataFrame) -> LaidLines | None:
    """A plain table over the trajectories of a dump; None where a group or a candidate is in doubt.

    `primary` has a row a trajectory, with `group`, `step`, `group_id`, `trajectory_id`, `passed` and `row`.
    """
    groups = primary.select("step", "group_id", "group")[primary["group"].arg_unique()]
    keys = ["step", "group_id"] if not plain["step"].has_nulls() else ["group_id"]
    line_keys = plain.select(_hash(*keys).alias("key"), pl.int_range(pl.len(), dtype=pl.UInt32).alias("at"))
    group_keys = groups.select(_hash(*keys).alias("key"), "group")
    if group_keys["key"].n_unique() < groups.height:
        return None
    known = line_keys.join(group_keys, on="key", how="inner", maintain_order="left")
    n_unknown = 0
    if known.height < plain.height:
        n_unknown = line_keys.join(group_keys, on="key", how="anti")["key"].n_unique()
        plain = plain[known["at"]]
    codes = known["group"]
    del line_keys, known
    order = groups.with_row_index("place").sort("group")["place"]
    told = groups.select(keys)[order.gather(codes)]
    if not plain.height or not all(told[name].eq(plain[name]).all() for name in keys):
        return None
    rows = _rows_of(codes, plain["trajectory_id"], primary)
    if rows is None:
        return None
    is_ranked = np.zeros(groups.height, dtype=bool)
    is_ranked[codes.to_numpy()] = True
    nothing = np.full(groups.height, None, dtype=np.object_)
    laid = plain.select(
        rows.alias("row"), "tier", "rank", pl.lit(value=False).alias("is_violation"), "weighted_score"
    )
    return LaidLines(laid, Verdicts(is_ranked, nothing, nothing), n_unknown)


def _rows_of(codes: pl.Series, ids: pl.Series, primary: pl.DataFrame) -> pl.Series | None:
    """The row of each entry's trajectory; None where one is not there, did not pass or is there twice.

    Joined by hashes, as texts are what such a join costs; that they met by their texts is checked.
    """
    entries = pl.DataFrame({"group": codes, "trajectory_id": ids})
    key = _hash("group", "trajectory_id").alias("key")
    place = pl.int_range(pl.len(), dtype=pl.UInt32).alias("place")
    numbered = primary.lazy().select("group", "trajectory_id", "passed", place).filter("passed")
    passes = numbered.select(key, "place").collect(engine="streaming")
    found = entries.select(key).join(passes, on="key", how="left", maintain_order="left")["place"]
    if len(found) != entries.height or found.has_nulls():
        return None
    is_met = np.zeros(primary.height, dtype=bool)
    is_met[found.to_numpy()] = True
    if is_met.sum() < len(found):
        return None
    is_same = all(primary[name].gather(found).eq(entries[name]).all() for name in entries.columns)
    return primary["row"].gather(found) if is_same else None


def _hash(*names: str) -> pl.Expr:
    """One hash of several columns, which the order of the columns does not leave unchanged."""
    hashes = [pl.col(name).hash(seed) for seed, name in enumerate(names)]
    return reduce(xor, hashes)
