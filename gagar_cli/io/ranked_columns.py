"""A rankings table laid over a dump column by column, where it is plain; a shortcut of `_Lines`, never another rule.

A table of millions of candidates takes minutes one by one. Plain means: every row a graded candidate with a place and
no violation, all rows with a step or none, no correction by a person. Whatever is not plainly right makes the whole
table go the slow way, which finds the row and words the error.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import polars as pl

from gagar_cli.core.judging import Verdicts
from gagar_cli.core.ranking import TIERS

_PLAIN = ("step", "group_id", "trajectory_id", "tier", "rank", "status", "weighted_score")
_EMPTY = ("reason", "grader", "scores", "flags")
"""Columns that make a row more than a place, unless nothing is in them."""
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
        table = wanted.select(names).collect()
    except (pl.exceptions.PolarsError, OSError):
        return None
    return _checked(table)


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
    step = table["step"].cast(pl.Int64) if "step" in schema else pl.Series("step", [None], dtype=pl.Int64)
    score = table["weighted_score"].cast(pl.Float64) if "weighted_score" in schema else None
    ids = [table[name] for name in ("group_id", "trajectory_id")]
    status = table["status"].fill_null("graded") if "status" in schema else None
    is_plain = (
        not any(each.has_nulls() for each in (*ids, table["tier"], table["rank"]))
        and not any((each == "").any() or each.str.contains("\0", literal=True).any() for each in ids)
        and table["tier"].is_in(TIERS).all()
        and (table["rank"] >= 0).all()
        and (step.null_count() in (0, len(step)))
        and (status is None or (status == "graded").all())
        and (score is None or score.drop_nulls().is_between(1, 5).all())
    )
    if not is_plain:
        return None
    return pl.DataFrame(
        {
            "step": step
            if len(step) == table.height
            else pl.repeat(None, table.height, dtype=pl.Int64, eager=True),
            "group_id": ids[0],
            "trajectory_id": ids[1],
            "tier": table["tier"].cast(pl.Enum(TIERS)).to_physical().cast(pl.Int8),
            "rank": table["rank"].cast(pl.Int64),
            "weighted_score": score
            if score is not None
            else pl.repeat(None, table.height, dtype=pl.Float64, eager=True),
        }
    )


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
    groups = primary.select("step", "group_id", "group").unique("group", keep="any")
    has_steps = not plain["step"].has_nulls()
    keys = ["step", "group_id"] if has_steps else ["group_id"]
    if not has_steps and groups["group_id"].n_unique() < groups.height:
        return None
    lines = plain.select(keys).unique()
    known = lines.join(groups.select(*keys, "group"), on=keys, how="inner")
    if not known.height:
        return None
    candidates = plain if known.height == lines.height else plain.join(known, on=keys, how="semi")
    entries = candidates.join(known, on=keys, how="left", maintain_order="left").drop("step", "group_id")
    rows = _rows_of(entries, primary)
    if rows is None:
        return None
    is_ranked = np.zeros(groups.height, dtype=bool)
    is_ranked[known["group"].to_numpy()] = True
    nothing = np.full(groups.height, None, dtype=np.object_)
    laid = entries.select(
        pl.Series("row", rows), "tier", "rank", pl.lit(value=False).alias("is_violation"), "weighted_score"
    )
    return LaidLines(laid, Verdicts(is_ranked, nothing, nothing), lines.height - known.height)


def _rows_of(entries: pl.DataFrame, primary: pl.DataFrame) -> pl.Series | None:
    """The row of each entry's trajectory; None where one is not there, did not pass or is there twice.

    Joined by hashes, as texts are what such a join costs; that they met by their texts is checked.
    """
    key = (pl.col("trajectory_id").hash() ^ pl.col("group").cast(pl.UInt64).hash()).alias("key")
    passes = primary.filter("passed").select("row", "group", "trajectory_id")
    found = entries.select(key).join(
        passes.select(key, pl.int_range(passes.height).alias("place")),
        on="key",
        how="left",
        maintain_order="left",
    )["place"]
    if len(found) != entries.height or found.has_nulls() or found.n_unique() < len(found):
        return None
    met = passes.select(pl.col("group", "trajectory_id").gather(found))
    is_same = (met["trajectory_id"] == entries["trajectory_id"]).all() and (
        met["group"] == entries["group"]
    ).all()
    return passes["row"].gather(found) if is_same else None
