"""The index of a dump: one row a record, scalar columns only, and what follows from the dump as a whole.

Rows are collected in short Python lists and packed into columns every few thousand rows, so that memory stays near
what the columns need. Whether a column counts as present (`resolved`, `reward`) is only known at the end of the
reading, therefore `passed` and `invalid` are worked out there, for all rows at once.
"""

from collections.abc import Callable, Sequence

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

    def add_table(self, source: int, first_line: int, scalars: pl.DataFrame) -> None:
        """Append neighbouring records whose scalars are clean: the columns of `Scalars`, with the key as `group_id`."""
        self._pack()
        keys = scalars.select("step", "group_id").unique(maintain_order=True)
        codes = [self._codes.setdefault(key, len(self._codes)) for key in keys.iter_rows()]
        coded = scalars.join(
            keys.with_columns(pl.Series("group", codes, dtype=pl.UInt32)),
            on=["step", "group_id"],
            how="left",
            nulls_equal=True,
            maintain_order="left",
        )
        placed = coded.with_columns(
            pl.lit(source, dtype=pl.UInt32).alias("source"),
            pl.int_range(first_line, first_line + coded.height, dtype=pl.Int64).alias("line"),
            *(pl.lit(None, dtype=_RAW_SCHEMA[name]).alias(name) for name in ("item", "offset", "length")),
        )
        self._chunks.append(placed.select(*_RAW_SCHEMA))
        self.n_rows += coded.height

    def finish(self, *, has_resolved: bool, pass_threshold: float) -> tuple[pl.DataFrame, int]:
        """The index but for `primary_row`, and how many valid rows have a reward that contradicts `resolved`."""
        self._pack()
        raw = pl.concat(self._chunks) if self._chunks else pl.DataFrame(schema=_RAW_SCHEMA)
        self._chunks = []
        group_ids = pl.Series("group_id", [group_id for _, group_id in self._codes], dtype=pl.String)
        frame = raw.with_columns(group_ids.gather(raw["group"]).alias("group_id"))
        frame = _judge(frame, has_resolved=has_resolved, pass_threshold=pass_threshold)
        disagree = ~pl.col("invalid") & ((pl.col("reward") >= pass_threshold) != pl.col("resolved"))
        return frame, int(frame.select(disagree.sum()).item() or 0)

    def _pack(self) -> None:
        if self._rows:
            self._chunks.append(pl.DataFrame(self._rows, schema=_RAW_SCHEMA, orient="row"))
            self._rows = []


def find_copies(index: pl.DataFrame) -> pl.DataFrame:
    """Records that repeat a trajectory without another `segment`: columns `row` and `first`, where it was before."""
    numbered = index.select("group", "trajectory_id", "segment", _row_numbers(index).alias("row"))
    if not _has_repeats(index):
        return numbered.head(0).select("row", pl.col("row").alias("first"))
    key = ("group", "trajectory_id", pl.col("segment").fill_null(-(2**31)))
    first = numbered.with_columns(pl.col("row").min().over(key).alias("first"))
    return first.filter(pl.col("row") != pl.col("first")).select("row", "first")


def number_trajectories(index: pl.DataFrame) -> pl.DataFrame:
    """Adds `primary_row`, the first row of the same trajectory, and puts the columns in their order, extras last."""
    frame = index.with_columns(_row_numbers(index).alias("primary_row"))
    if _has_repeats(index):
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


def _judge(frame: pl.DataFrame, *, has_resolved: bool, pass_threshold: float) -> pl.DataFrame:
    """Adds `invalid_reason`, `invalid`, `passed`, and makes `reward` the effective one."""
    if frame["reward"].null_count() == frame.height:
        frame = frame.with_columns(pl.col("resolved").cast(pl.Float64).alias("reward"))
    usable = pl.col("reward").is_not_null() & pl.col("reward").is_not_nan()
    reason = (
        pl.when("infra_failure").then(pl.lit("infra_failure"))
        .when("mask_sample").then(pl.lit("mask_sample"))
        .when(pl.lit(has_resolved) & pl.col("resolved").is_null()).then(pl.lit("not_evaluated"))
        .when(~usable).then(pl.lit("no_reward"))
        .otherwise(pl.lit(None, dtype=pl.String))
    )  # fmt: skip
    frame = frame.with_columns(reason.alias("invalid_reason"))
    frame = frame.with_columns(pl.col("invalid_reason").is_not_null().alias("invalid"))
    passed = pl.col("resolved") if has_resolved else pl.col("reward") >= pass_threshold
    return frame.with_columns(
        (~pl.col("invalid") & passed).fill_null(value=False).alias("passed"),
        pl.when(~pl.col("invalid")).then("reward").alias("reward"),
    )


def locate(index: pl.DataFrame, sources: Sequence[Source], row: int) -> str:
    """The place of a row as messages tell it: `dump.jsonl:12`, `dump.jsonl:12[3]` for an exploded attempt."""
    number, line, item = index.select("source", "line", "item").row(row)
    return f"{sources[number].name}:{line}" + ("" if item is None else f"[{item}]")


def _has_repeats(index: pl.DataFrame) -> bool:
    """Whether a trajectory may occur more than once; the cheap answer is enough for most dumps."""
    key = pl.struct("group", "trajectory_id")
    if index.select(key.hash().n_unique()).item() == index.height:
        return False
    return bool(index.select(key.n_unique()).item() != index.height)


def _row_numbers(frame: pl.DataFrame) -> pl.Series:
    return pl.int_range(frame.height, dtype=pl.UInt32, eager=True).alias("primary_row")


def _quote(value: object) -> str:
    return f'"{shorten(escape_untrusted(str(value), keep_newlines=False), 80)}"'
