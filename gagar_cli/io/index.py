"""The index of a dump: one row a record, scalar columns only, and what follows from the dump as a whole.

Rows are collected in short Python lists and packed into columns every few thousand rows, so that memory stays near
what the columns need. Whether a column counts as present (`resolved`, `reward`) is only known at the end of the
reading, therefore `passed` and `invalid` are worked out there, for all rows at once.
"""

from collections.abc import Callable, Sequence

import numpy as np
import polars as pl

from gagar_cli.core.text import escape_untrusted, shorten
from gagar_cli.errors import InputError
from gagar_cli.io.extras import extra_column
from gagar_cli.io.records import Scalars
from gagar_cli.io.sources import Place, Source

_CHUNK_ROWS = 8192
_RAW_SCHEMA: dict[str, type[pl.DataType]] = {
    "source": pl.UInt32,
    "line": pl.Int64,
    "item": pl.Int32,
    "offset": pl.Int64,
    "length": pl.Int64,
    "group": pl.UInt32,
    "step": pl.Int64,
    "trajectory_id": pl.String,
    "segment": pl.Int32,
    "reward": pl.Float64,
    "resolved": pl.Boolean,
    "infra_failure": pl.Boolean,
    "mask_sample": pl.Boolean,
    "n_turns": pl.Int64,
    "n_output_tokens": pl.Int64,
    "advantage": pl.Float64,
}
_FLAGS = ("infra_failure", "mask_sample")
"""False where nothing is told; the other columns are null then."""
INDEX_COLUMNS = (
    "source", "line", "item", "offset", "length", "group", "step", "group_id", "trajectory_id", "segment",
    "primary_row", "reward", "passed", "invalid", "invalid_reason", "n_turns", "n_output_tokens", "advantage",
)  # fmt: skip


class IndexBuilder:
    """Collects the scalars of records, in reading order."""

    def __init__(self) -> None:
        self._rows: list[tuple[object, ...]] = []
        self._chunks: list[pl.DataFrame] = []
        self._codes: dict[tuple[int | None, str], int] = {}
        self.n_rows = 0

    def add(
        self,
        source: int,
        place: Place,
        scalars: Scalars,
        *,
        item: int | None,
        group_id: str,
        trajectory_id: str,
    ) -> None:
        """Append one record; ids that the record lacks were made by the caller."""
        code = self._codes.setdefault((scalars.step, group_id), len(self._codes))
        self._rows.append(
            (
                source,
                place.line,
                item,
                place.offset,
                place.length,
                code,
                scalars.step,
                trajectory_id,
                scalars.segment,
                scalars.reward,
                scalars.resolved,
                scalars.infra_failure,
                scalars.mask_sample,
                scalars.n_turns,
                scalars.n_output_tokens,
                scalars.advantage,
            )
        )
        self.n_rows += 1
        if len(self._rows) >= _CHUNK_ROWS:
            self._pack()

    def add_table(
        self, source: int, first_line: int, scalars: pl.DataFrame, spans: pl.DataFrame | None = None
    ) -> None:
        """Append neighbouring records whose scalars are clean: the columns of `Scalars`, with the key as `group_id`.

        `spans` has their `offset` and `length` where they are lines.
        """
        self._pack()
        placed = scalars.with_columns(
            self._coded(scalars),
            pl.lit(source, dtype=pl.UInt32).alias("source"),
            pl.int_range(first_line, first_line + scalars.height, dtype=pl.Int64).alias("line"),
            *(() if spans is None else spans.get_columns()),
        )
        self._keep(placed)
        self.n_rows += placed.height

    def _coded(self, scalars: pl.DataFrame) -> pl.Series:
        """The code of every row's group; groups that are new get the next ones."""
        names = ["step", "group_id"] if scalars["step"].null_count() < scalars.height else ["group_id"]
        keys = scalars.select(names).unique(maintain_order=True)
        # By columns: rows of a frame come ten times as slowly as the items of two lists.
        steps = keys["step"].to_list() if len(names) > 1 else [None] * keys.height
        codes = self._codes
        told = zip(steps, keys["group_id"].to_list(), strict=True)
        made = [codes.setdefault(key, len(codes)) for key in told]
        keys = keys.with_columns(pl.Series("group", made, dtype=pl.UInt32))
        return scalars.select(names).join(
            keys, on=names, how="left", nulls_equal=True, maintain_order="left"
        )["group"]

    def finish(
        self, *, has_resolved: bool, pass_threshold: float, by_reward: Sequence[int] = ()
    ) -> tuple[pl.DataFrame, int]:
        """The index but for `primary_row`, and how many valid rows have a reward that contradicts `resolved`.

        `by_reward`: the sources without a verdict in a dump of which others have one.
        """
        self._pack()
        raw = _concatenated(self._chunks)
        self._chunks = []
        group_ids = pl.Series("group_id", [group_id for _, group_id in self._codes], dtype=pl.String)
        frame = raw.with_columns(group_ids.gather(raw["group"]).alias("group_id"))
        told = pl.lit(has_resolved) & ~pl.col("source").is_in(list(by_reward))
        frame = _judge(frame, told if by_reward else pl.lit(has_resolved), pass_threshold=pass_threshold)
        disagree = ~pl.col("invalid") & ((pl.col("reward") >= pass_threshold) != pl.col("resolved"))
        return frame, int(frame.select(disagree.sum()).item() or 0)

    def _pack(self) -> None:
        if self._rows:
            self._keep(pl.DataFrame(self._rows, schema=_RAW_SCHEMA, orient="row"))
            self._rows = []

    def _keep(self, chunk: pl.DataFrame) -> None:
        told = [name for name in _RAW_SCHEMA if name in chunk.columns and _is_told(chunk[name])]
        self._chunks.append(chunk.select(told))


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
    frame = index.with_columns(_row_numbers(index).alias("primary_row"))
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
    if np.bincount(index["group"].to_numpy(), minlength=1).max() <= max_group_size:
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


def _judge(frame: pl.DataFrame, has_resolved: pl.Expr, *, pass_threshold: float) -> pl.DataFrame:
    """Adds `invalid_reason`, `invalid`, `passed`, and makes `reward` the effective one."""
    if frame["reward"].has_nulls():
        # A file may have verdicts only, and the next one rewards only.
        is_unpaid = pl.col("reward").is_null().all().over("source")
        verdict = pl.col("resolved").cast(pl.Float64)
        frame = frame.with_columns(pl.when(is_unpaid).then(verdict).otherwise("reward").alias("reward"))
    usable = pl.col("reward").is_not_null() & pl.col("reward").is_not_nan()
    reason = (
        pl.when("infra_failure").then(pl.lit("infra_failure"))
        .when("mask_sample").then(pl.lit("mask_sample"))
        .when(has_resolved & pl.col("resolved").is_null()).then(pl.lit("not_evaluated"))
        .when(~usable).then(pl.lit("no_reward"))
        .otherwise(pl.lit(None, dtype=pl.String))
    )  # fmt: skip
    is_bad = pl.col("infra_failure") | pl.col("mask_sample") | ~usable
    is_bad |= has_resolved & pl.col("resolved").is_null()
    passed = pl.when(has_resolved).then("resolved").otherwise(pl.col("reward") >= pass_threshold)
    if not frame.select(is_bad.any()).item():
        # One value for all rows: columns of a large dump that say nothing cost as much as those that do.
        nothing = pl.lit(None, dtype=pl.String).alias("invalid_reason")
        return frame.with_columns(nothing, pl.lit(value=False).alias("invalid"), passed.alias("passed"))
    frame = frame.with_columns(reason.alias("invalid_reason"))
    frame = frame.with_columns(pl.col("invalid_reason").is_not_null().alias("invalid"))
    return frame.with_columns(
        (~pl.col("invalid") & passed).fill_null(value=False).alias("passed"),
        pl.when(~pl.col("invalid")).then("reward").alias("reward"),
    )


def locate(index: pl.DataFrame, sources: Sequence[Source], row: int) -> str:
    """The place of a row as messages tell it: `dump.jsonl:12`, `dump.jsonl:12[3]` for an exploded attempt."""
    number, line, item = index.select("source", "line", "item").row(row)
    return f"{sources[number].name}:{line}" + ("" if item is None else f"[{item}]")


def _is_told(column: pl.Series) -> bool:
    """Whether a column says anything: a large one that does not costs memory for nothing."""
    return bool(column.any()) if column.name in _FLAGS else column.null_count() < len(column)


def _concatenated(chunks: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """One frame of all columns; what no chunk tells is a single value, not one a row."""
    told = [name for name in _RAW_SCHEMA if any(name in chunk.columns for chunk in chunks)]
    untold = {name: _nothing(name) for name in _RAW_SCHEMA}
    filled = (
        chunk.with_columns(untold[name] for name in told if name not in chunk.columns).select(told)
        for chunk in chunks
    )
    raw = pl.concat(filled) if chunks else pl.DataFrame(schema=_RAW_SCHEMA)
    return raw.with_columns(untold[name] for name in _RAW_SCHEMA if name not in raw.columns)


def _nothing(name: str) -> pl.Expr:
    return pl.lit(False if name in _FLAGS else None, dtype=_RAW_SCHEMA[name]).alias(name)


def _row_numbers(frame: pl.DataFrame) -> pl.Series:
    return pl.int_range(frame.height, dtype=pl.UInt32, eager=True).alias("primary_row")


def _quote(value: object) -> str:
    return f'"{shorten(escape_untrusted(str(value), keep_newlines=False), 80)}"'
