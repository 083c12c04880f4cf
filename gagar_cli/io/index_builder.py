"""Collects the rows of an index and puts them together as columns.

Rows come one by one or as tables; both go to columns that grow in place and are no wider than their values, and a
column that says nothing is not kept at all. Whether a column counts as present (`resolved`, `reward`) is only known at
the end of the reading, therefore `passed` and `invalid` are worked out there, part by part, as are the codes of groups.
"""

from collections.abc import Collection

import numpy as np
import polars as pl

from gagar_cli.io.arrays import to_series
from gagar_cli.io.group_codes import Codes, TextCodes, combine_steps
from gagar_cli.io.growing import Growing
from gagar_cli.io.index_judging import judge
from gagar_cli.io.records import Scalars
from gagar_cli.io.row_ids import Hash, RowIds, hash_texts
from gagar_cli.io.row_table import FLAGS, TYPES, ZEROES, RowTable, untold
from gagar_cli.io.sources import Place

_CHUNK_ROWS = 8192
_PART_ROWS = 1_048_576
_ROW_NAMES = (
    "source", "line", "item", "offset", "length", "group_id", "trajectory_id", *Scalars._fields[2:],
)  # fmt: skip
_TEXTS = ("group_id", "trajectory_id")
_JUDGED = ("reward", "resolved", *FLAGS)


class IndexBuilder:
    """Collects the scalars of records, in reading order.

    Ids beyond `max_ids_in_memory` go to a file; None keeps all in memory. `is_sought`: whether they are found by hash.
    """

    def __init__(
        self, max_ids_in_memory: int | None = None, *, hash_: Hash = hash_texts, is_sought: bool = True
    ) -> None:
        self._rows: list[tuple[object, ...]] = []
        self._columns: dict[str, Growing] = {}
        """Those that say something, but for texts; shorter ones say nothing from there on."""
        self._group = Growing("group", is_narrow=False)
        """Codes of the texts that group the rows."""
        self._is_run = True
        """Whether every row is the line of its own number, and of the first source."""
        self._codes = TextCodes()
        self._paid: set[int] = set()
        """Sources that have a reward somewhere."""
        self.ids = RowIds(max_ids_in_memory, hash_=hash_, is_sought=is_sought)
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
        self._rows.append(
            (
                source,
                place.line,
                item,
                place.offset,
                place.length,
                group_id,
                trajectory_id,
                *scalars[2:],
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
        columns = [*scalars.get_columns(), *(() if spans is None else spans.get_columns())]
        if source:
            columns.append(pl.repeat(source, scalars.height, dtype=pl.UInt32, eager=True).alias("source"))
        if scalars["reward"].null_count() < scalars.height:
            self._paid.add(source)
        if source or first_line != len(self._group) + 1:
            self._spell_out_lines()
        if not self._is_run:
            columns.append(pl.int_range(first_line, first_line + scalars.height, eager=True).alias("line"))
        self._keep(columns)
        self.n_rows += scalars.height

    def finish(
        self, *, has_resolved: bool, pass_threshold: float, by_reward: Collection[int] = ()
    ) -> tuple[RowTable, int]:
        """The rows, and how many valid ones have a reward on the other side of the threshold than `resolved`.

        `by_reward`: the sources without a verdict of their own in a dump of which others have one.
        """
        self._pack()
        for column in self._columns.values():
            self._fill(column)
        n_rows = len(self._group)
        judged = {name: self._columns.pop(name) for name in _JUDGED if name in self._columns}
        reward = judged.setdefault("reward", Growing("reward"))
        reward.extend(pl.Series(dtype=pl.Float64))  # what verdicts are worth, where there is nothing else
        self._fill(reward)
        source = self._columns.get("source")
        reasons: list[pl.Series | None] = []
        n_disagree = 0
        for start in range(0, n_rows, _PART_ROWS):
            stop = min(start + _PART_ROWS, n_rows)
            found = judge(
                {name: column.series(start, stop) for name, column in judged.items()},
                None if source is None else source.series(start, stop),
                stop - start,
                has_resolved=has_resolved,
                by_reward=by_reward,
                paid=self._paid,
                pass_threshold=pass_threshold,
            )
            n_disagree += found.n_disagree
            reward.assign(start, found.columns["reward"])
            self._column("passed", start).extend(found.columns["passed"])
            if "invalid" in found.columns:
                self._column("invalid", start).extend(found.columns["invalid"])
            reasons.append(found.columns.get("invalid_reason"))
        self._columns["reward"] = reward
        del judged, source, reward
        groups = self._settle_groups()
        made = []
        while self._columns:
            name = next(iter(self._columns))
            self._fill(self._columns[name])
            made.append(self._columns.pop(name).series())
        if any(reason is not None for reason in reasons):
            made.append(_spelt_out(reasons, n_rows))
        return RowTable(pl.DataFrame(made), groups, self.ids), n_disagree

    def _settle_groups(self) -> pl.DataFrame:
        """Makes the codes those of step and text; `step` and `group_id` by code."""
        step = self._columns.pop("step", None)
        codes: Codes = self._group.values().view(np.uint32)
        starts = range(0, len(codes), _PART_ROWS)
        parts = [codes[start : start + _PART_ROWS] for start in starts]
        steps = [None if step is None else step.series(start, start + _PART_ROWS) for start in starts]
        texts, self._codes = self._codes.texts(), TextCodes()
        found, groups = combine_steps(texts, parts, steps)
        for part, own in zip(parts, found, strict=True):
            if own is not part:
                part[:] = own
        self._columns["group"] = self._group
        return groups

    def _pack(self) -> None:
        if not self._rows:
            return
        frame = pl.DataFrame(self._rows, schema={name: TYPES[name] for name in _ROW_NAMES}, orient="row")
        self._rows = []
        self._paid.update(frame.filter(pl.col("reward").is_not_null())["source"].unique())
        expected = np.arange(len(self._group) + 1, len(self._group) + 1 + frame.height)
        if (frame["source"] != 0).any() or (frame["line"].to_numpy() != expected).any():
            self._spell_out_lines()
        self._keep((frame.drop("line") if self._is_run else frame).get_columns())

    def _keep(self, columns: list[pl.Series]) -> None:
        named = {column.name: column for column in columns}
        n_before = len(self._group)
        for name, column in named.items():
            if name not in _TEXTS and _is_told(column):
                self._column(name, n_before).extend(column)
        self._group.extend(to_series(self._codes.code(named["group_id"])))
        self.ids.append(named["trajectory_id"])

    def _column(self, name: str, n_rows: int) -> Growing:
        """A column, as long as so many rows."""
        column = self._columns.setdefault(name, Growing(name))
        self._fill(column, n_rows)
        return column

    def _fill(self, column: Growing, n_rows: int | None = None) -> None:
        n_missing = (len(self._group) if n_rows is None else n_rows) - len(column)
        column.skip(n_missing, is_null=column.name not in ZEROES)

    def _spell_out_lines(self) -> None:
        if self._is_run:
            self._is_run = False
            self._column("line", 0).extend(pl.int_range(1, len(self._group) + 1, eager=True))


def _spelt_out(reasons: list[pl.Series | None], n_rows: int) -> pl.Series:
    """One column of parts, of which some have nothing to say."""
    starts = range(0, n_rows, _PART_ROWS)
    filled = [
        untold("invalid_reason", min(_PART_ROWS, n_rows - start)) if reason is None else reason
        for start, reason in zip(starts, reasons, strict=True)
    ]
    return pl.concat(filled).alias("invalid_reason")


def _is_told(column: pl.Series) -> bool:
    """Whether a column says anything: a large one that does not costs memory for nothing."""
    if column.name == "source":
        return bool((column != 0).any())
    if column.name in FLAGS:
        return bool(column.any())
    return column.null_count() < len(column)
