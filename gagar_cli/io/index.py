"""The index of a dump: one row a record, scalar columns only, and what must hold for the dump as a whole."""

from collections.abc import Callable, Sequence

import numpy as np
import polars as pl

from gagar_cli.core.grouping import count_codes
from gagar_cli.core.text import escape_untrusted, shorten
from gagar_cli.errors import InputError
from gagar_cli.io.extras import extra_column
from gagar_cli.io.row_table import INDEX_COLUMNS, RowTable
from gagar_cli.io.sources import Source


def is_simple(rows: RowTable, max_group_size: int) -> bool:
    """Whether every row is a trajectory of its own and no group is larger."""
    group = rows.frame["group"].to_numpy()
    if count_codes(group, 1).max() > max_group_size:
        return False
    return rows.ids.are_distinct(group)


def checked_index(
    rows: RowTable,
    sources: Sequence[Source],
    without_copies: Callable[[pl.DataFrame], pl.DataFrame],
    max_group_size: int,
) -> pl.DataFrame:
    """The whole index, after everything that can be wrong with it was looked for.

    `without_copies` refuses records that repeat a trajectory, or leaves them out.

    Raises:
        InputError: clashing ids, segments that disagree, a group that is too large.
    """
    index = rows.whole()
    has_segments = has_repeats(index)
    index = number_trajectories(without_copies(index) if has_segments else index, has_segments=has_segments)

    def where(row: int) -> str:
        return locate(index, sources, row)

    if has_segments:
        refuse_split_verdicts(index, where)
    refuse_large_groups(index, max_group_size, where)
    return index


def has_repeats(index: pl.DataFrame) -> bool:
    """Whether a trajectory occurs more than once; the cheap answer is enough for most dumps."""
    # Hashes that differ are proof; those that meet are looked into.
    keys = index.select(pl.col("trajectory_id").hash() ^ pl.col("group").cast(pl.UInt64).hash()).to_series()
    ordered = np.sort(keys.to_numpy())
    if not (ordered[1:] == ordered[:-1]).any():
        return False
    return bool(index.select(pl.struct("group", "trajectory_id").n_unique()).item() != index.height)


def find_copies(index: pl.DataFrame) -> pl.DataFrame:
    """Records that repeat a trajectory without another `segment`: columns `row` and `first`, where it was before."""
    numbered = index.select("group", "trajectory_id", "segment", _row_numbers(index).alias("row"))
    key = ("group", "trajectory_id", pl.col("segment").fill_null(-(2**31)))
    first = numbered.with_columns(pl.col("row").min().over(key).alias("first"))
    return first.filter(pl.col("row") != pl.col("first")).select("row", "first")


def number_trajectories(index: pl.DataFrame, *, has_segments: bool) -> pl.DataFrame:
    """Adds `primary_row`, the first row of the same trajectory, and puts the columns in their order, extras last."""
    frame = index.with_columns(_row_numbers(index))
    if has_segments:
        frame = frame.with_columns(pl.col("primary_row").min().over("group", "trajectory_id"))
    extras = [name for name in index.columns if name.startswith(extra_column(""))]
    return frame.select(*INDEX_COLUMNS, *extras)


def describe_copy(index: pl.DataFrame, row: int, first: int, where: Callable[[int], str]) -> InputError:
    """Why a trajectory that occurs twice cannot be read, with both locations."""
    trajectory_id = _quote(index["trajectory_id"][row])
    message = f"{where(row)}: trajectory {trajectory_id} occurs twice in its group: see {where(first)}"
    return InputError(
        message, "parts of one trajectory differ in `segment`; separate attempts need separate ids"
    )


def refuse_split_verdicts(index: pl.DataFrame, where: Callable[[int], str]) -> None:
    """Segments of one trajectory that contradict each other.

    Raises:
        InputError: with both locations.
    """
    numbered = index.with_columns(_row_numbers(index).alias("row"))
    parts = numbered.filter(pl.col("primary_row").is_duplicated())
    for column in ("invalid", "passed", "reward"):
        split = parts.filter(pl.col(column).n_unique().over("primary_row") > 1)
        if split.height:
            first = split.row(0, named=True)
            others = split.filter(pl.col("primary_row") == first["primary_row"])
            row = others.filter(pl.col(column).ne_missing(pl.lit(first[column])))["row"][0]
            raise InputError(
                f"{where(row)}: a segment of trajectory {_quote(first['trajectory_id'])} disagrees in {column}: "
                f"see {where(first['row'])}",
                "segments of one trajectory share its reward",
            )


def refuse_large_groups(index: pl.DataFrame, max_group_size: int, where: Callable[[int], str]) -> None:
    """Groups with more trajectories than a mistake in the group key would explain.

    Raises:
        InputError: naming the group and its first record.
    """
    # Counted by rows first: few dumps have segments, and no group is larger than its rows.
    if count_codes(index["group"].to_numpy(), 1).max() <= max_group_size:
        return
    numbered = index.select("group", "group_id", "primary_row", _row_numbers(index).alias("row"))
    primary = numbered.filter(pl.col("row") == pl.col("primary_row"))
    sizes = primary.group_by("group").agg(pl.len(), pl.col("group_id").first(), pl.col("row").first())
    large = sizes.filter(pl.col("len") > max_group_size).sort("row")
    if large.height:
        group = large.row(0, named=True)
        raise InputError(
            f"{where(group['row'])}: group {_quote(group['group_id'])} has {group['len']:,} trajectories, "
            f"expected at most {max_group_size:,}",
            "it is more likely a wrong group key: name the right one with `--group-by FIELD` or `--field group_id=PATH`",
        )


def locate(index: pl.DataFrame, sources: Sequence[Source], row: int) -> str:
    """The place of a row as messages tell it: `dump.jsonl:12`, `dump.jsonl:12[3]` for an exploded attempt."""
    number, line, item = index.select("source", "line", "item").row(row)
    return f"{sources[number].name}:{line}" + ("" if item is None else f"[{item}]")


def _row_numbers(frame: pl.DataFrame) -> pl.Series:
    return pl.int_range(frame.height, dtype=pl.UInt32, eager=True).alias("primary_row")


def _quote(value: object) -> str:
    return f'"{shorten(escape_untrusted(str(value), keep_newlines=False), 80)}"'


def segments_of(index: pl.DataFrame) -> dict[int, list[int]]:
    """For each first row of a trajectory in several records: all its rows in the order of `segment`."""
    rows = pl.int_range(index.height, dtype=pl.UInt32, eager=True).alias("row")
    if (index["primary_row"] == rows).all():
        return {}
    parts = index.select("primary_row", "segment", rows).filter(pl.col("primary_row").is_duplicated())
    grouped: dict[int, list[int]] = {}
    for primary, row in parts.sort("segment", "row").select("primary_row", "row").iter_rows():
        grouped.setdefault(primary, []).append(row)
    return grouped
