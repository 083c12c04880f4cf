"""The rows of an index as columns that say something, and the whole index made of them.

What is the same for all rows, follows from the row's number or belongs to its group is not held once a row.
"""

from dataclasses import dataclass

import polars as pl

from gagar_cli.io.extras import extra_column
from gagar_cli.io.row_ids import RowIds

_SCHEMA: dict[str, type[pl.DataType]] = {
    "source": pl.UInt32,
    "line": pl.Int64,
    "item": pl.Int32,
    "offset": pl.Int64,
    "length": pl.Int64,
    "group": pl.UInt32,
    "step": pl.Int64,
    "group_id": pl.String,
    "trajectory_id": pl.String,
    "segment": pl.Int32,
    "primary_row": pl.UInt32,
    "reward": pl.Float64,
    "passed": pl.Boolean,
    "invalid": pl.Boolean,
    "invalid_reason": pl.String,
    "n_turns": pl.Int64,
    "n_output_tokens": pl.Int64,
    "advantage": pl.Float64,
    "resolved": pl.Boolean,
    "infra_failure": pl.Boolean,
    "mask_sample": pl.Boolean,
}
INDEX_COLUMNS = tuple(_SCHEMA)[:18]
FLAGS = ("infra_failure", "mask_sample", "invalid", "passed")
ZEROES = ("source", *FLAGS)
"""False or 0 where nothing is told; the others are null then."""
_MADE = ("trajectory_id", "primary_row")


def untold(name: str, height: int) -> pl.Series:
    """What a column holds that says nothing."""
    value = None if name not in ZEROES else False if name in FLAGS else 0
    return pl.repeat(value, height, dtype=_SCHEMA[name], eager=True).alias(name)


@dataclass(slots=True)
class RowTable:
    """The rows of an index without texts, the groups, and the ids."""

    frame: pl.DataFrame
    """`group`, and any of the other columns; integers as narrow as they can be."""
    groups: pl.DataFrame
    """`step` and `group_id`, a category, by code."""
    ids: RowIds

    def column(self, name: str) -> pl.Series | None:
        """A column that is held; None where it says nothing, or is to be made."""
        return self.frame[name] if name in self.frame.columns else None

    def keys(self, start: int = 0, stop: int | None = None) -> pl.DataFrame:
        """`step`, `group_id` and `trajectory_id` of the rows from `start` to before `stop`."""
        of_group = self.groups[self.frame["group"][start:stop]]
        return of_group.with_columns(
            pl.col("group_id").cast(pl.String), trajectory_id=self.ids.texts(start, stop)
        )

    def part(self, start: int = 0, stop: int | None = None) -> pl.DataFrame:
        """Some rows with every column of an index but `trajectory_id`, and `primary_row`, which is the row; extras last.

        Made so that it costs little for millions of rows: integers stay narrow, and groups are categories.
        """
        rows = self.frame[start:stop]
        group = rows["group"]
        columns: list[pl.Series | pl.Expr] = []
        for name in INDEX_COLUMNS:
            if name in rows.columns:
                columns.append(pl.col(name))
            elif name == "line":
                first = start + 1
                columns.append(
                    pl.int_range(first, first + rows.height, dtype=pl.UInt32, eager=True).alias(name)
                )
            elif name == "group_id":
                columns.append(self.groups[name].gather(group))
            elif name == "step":
                columns.append(self._step(group))
            elif name not in _MADE:
                columns.append(_literal(name))
        return rows.select(*columns, *self._extras())

    def whole(self) -> pl.DataFrame:
        """The whole index in the types of its columns, but for `primary_row`: what it takes with all texts in memory."""
        line = pl.int_range(1, self.frame.height + 1, dtype=pl.Int64, eager=True).alias("line")
        made: dict[str, pl.Series | pl.Expr] = {
            "line": line,
            "step": self._step(self.frame["group"]),
            "group_id": self.groups["group_id"].cast(pl.String).gather(self.frame["group"]),
            "trajectory_id": self.ids.texts().alias("trajectory_id"),
        }
        columns = [
            pl.col(name).cast(_SCHEMA[name]) if name in self.frame.columns else made.get(name, _literal(name))
            for name in INDEX_COLUMNS
            if name != "primary_row"
        ]
        return self.frame.select(*columns, *self._extras())

    def _step(self, group: pl.Series) -> pl.Series | pl.Expr:
        step = self.groups["step"]
        return step.gather(group) if step.null_count() < len(step) else _literal("step")

    def _extras(self) -> list[str]:
        return [name for name in self.frame.columns if name.startswith(extra_column(""))]


def _literal(name: str) -> pl.Expr:
    value = None if name not in ZEROES else False if name in FLAGS else 0
    return pl.lit(value, dtype=_SCHEMA[name]).alias(name)
