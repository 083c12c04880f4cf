"""The rows of an index as columns that say something, and the whole index made of them.

What is the same for all rows, follows from the row's number or belongs to its group is not held once a row.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import NamedTuple

import polars as pl

from gagar_cli.io.extras import extra_column
from gagar_cli.io.row_ids import RowIds

TYPES: dict[str, type[pl.DataType]] = {
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
"""Of the columns of an index, and of the scalars that it is made of: the only table of them."""
INDEX_COLUMNS = tuple(TYPES)[:18]
FLAGS = ("infra_failure", "mask_sample", "invalid", "passed")
ZEROES = ("source", *FLAGS)
"""False or 0 where nothing is told; the others are null then."""
_NOTHING: Mapping[str, int] = {"source": 0, **dict.fromkeys(FLAGS, False)}
_PLACE = ("source", "line", "offset", "length", "item")


class ChosenRow(NamedTuple):
    """What the index has of a row that is to be read."""

    source: int
    line: int
    offset: int | None
    length: int | None
    item: int | None
    trajectory_id: str
    reward: float | None
    passed: bool


def chosen_rows(index: pl.DataFrame, rows: Sequence[int]) -> list[ChosenRow]:
    """A few rows of a whole index."""
    return _chosen(index, rows, {})


def _chosen(
    frame: pl.DataFrame, rows: Sequence[int], made: Mapping[str, Sequence[object]]
) -> list[ChosenRow]:
    # Column by column: a frame would wake all threads for a group's few rows.
    at = pl.Series(rows, dtype=pl.UInt32)
    columns: list[Iterable[object]] = []
    for name in ChosenRow._fields:
        if name in frame.columns:
            columns.append(frame[name][at].to_list())
        else:
            columns.append(made.get(name) or repeat(_NOTHING.get(name), len(rows)))
    return [ChosenRow(*each) for each in zip(*columns, strict=True)]


def untold(name: str, height: int) -> pl.Series:
    """What a column holds that says nothing."""
    value = _NOTHING.get(name)
    return pl.repeat(value, height, dtype=TYPES[name], eager=True).alias(name)


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
        """Some rows with every column of an index but `trajectory_id`, extras last.

        Made so that it costs little for millions of rows: integers stay narrow, and groups are categories.
        """
        rows = self.frame[start:stop]
        number = pl.int_range(start, start + rows.height, dtype=pl.UInt32, eager=True)
        made: dict[str, pl.Series | pl.Expr] = {
            "line": (number + 1).alias("line"),
            "step": self._step(rows["group"]),
            "group_id": self.groups["group_id"].gather(rows["group"]),
            "primary_row": number.alias("primary_row"),
        }
        names = [name for name in INDEX_COLUMNS if name != "trajectory_id"]
        return rows.select(*_columns(rows, made, names), *self._extras())

    def places(self, start: int = 0, stop: int | None = None) -> pl.DataFrame:
        """Where the records of some rows lie: their `source`, `line`, `offset`, `length` and `item`."""
        rows = self.frame[start:stop]
        line = pl.int_range(start + 1, start + 1 + rows.height, dtype=pl.UInt32, eager=True).alias("line")
        return rows.select(_columns(rows, {"line": line}, _PLACE))

    def chosen(self, rows: Sequence[int]) -> list[ChosenRow]:
        """What is needed to read a few rows, in the order given."""
        made: dict[str, Sequence[object]] = {
            "line": [row + 1 for row in rows],
            "trajectory_id": self.ids.texts_of(rows),
        }
        return _chosen(self.frame, rows, made)

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
            pl.col(name).cast(TYPES[name]) if name in self.frame.columns else made.get(name, _literal(name))
            for name in INDEX_COLUMNS
            if name != "primary_row"
        ]
        return self.frame.select(*columns, *self._extras())

    def _step(self, group: pl.Series) -> pl.Series | pl.Expr:
        step = self.groups["step"]
        return step.gather(group) if step.null_count() < len(step) else _literal("step")

    def _extras(self) -> list[str]:
        return [name for name in self.frame.columns if name.startswith(extra_column(""))]


def _columns(
    held: pl.DataFrame, made: Mapping[str, pl.Series | pl.Expr], names: Sequence[str]
) -> list[pl.Series | pl.Expr]:
    """The columns of the names: those that are held, else as made, else what one holds that says nothing."""
    return [pl.col(name) if name in held.columns else made.get(name, _literal(name)) for name in names]


def _literal(name: str) -> pl.Expr:
    return pl.lit(_NOTHING.get(name), dtype=TYPES[name]).alias(name)
