"""What a method reads beside rewards and ranks, from the dump's extra columns or the rankings, checked row by row.

Conditions and expressions are rarely given, and what reads them is imported where they are.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
import polars as pl

from gagar_cli.core.batches import BoolArray, IntArray
from gagar_cli.core.double_double import FloatArray
from gagar_cli.core.estimators import METHODS, Need
from gagar_cli.core.judging import Basis, Trajectories
from gagar_cli.core.redistribution import Extras
from gagar_cli.core.text import escape_untrusted, shorten
from gagar_cli.errors import InputError, UsageError
from gagar_cli.io.dump import Dump
from gagar_cli.io.extras import extra_column
from gagar_cli.io.lookups import MISSING, look_up
from gagar_cli.io.ranked_index import RankedIndex
from gagar_cli.io.records import METHOD_FIELDS

if TYPE_CHECKING:
    from gagar_cli.core.conditions import Condition
    from gagar_cli.core.expression_values import Column
    from gagar_cli.core.expressions import Expression

ProcessSource = Literal["column", "rankings"]
_KINDS = {pl.Float64: "numbers", pl.Boolean: "true and false", pl.String: "text"}

_MIN_PENALTY = 1e-30
"""Smaller ones would pass the smallest double in a product; no attempt is paid so little on purpose."""


class Inputs(NamedTuple):
    """The trajectories with all that the method reads."""

    trajectories: Trajectories
    extras: Extras
    basis: Basis
    process_from: ProcessSource | None
    """Where the process scores came from; None for methods that have none."""


class Factor(NamedTuple):
    """A penalty that is worked out from columns."""

    text: str
    expression: "Expression"
    columns: tuple[str, ...]
    """What it names."""


def wanted_columns(
    method: str, factor_column: str | None, condition: "Condition | None", factor: Factor | None = None
) -> tuple[str, ...]:
    """The extra columns to read from the dump."""
    named = () if factor is None else factor.columns
    if condition is not None:
        from gagar_cli.core.conditions import columns_of

        named = columns_of(condition) + named
    of_method = [name for name in METHODS[method].needs if name in METHOD_FIELDS]
    return tuple(dict.fromkeys((*of_method, *([factor_column] if factor_column else []), *named)))


def read_inputs(
    dump: Dump,
    ranked: RankedIndex,
    method: str,
    *,
    has_rankings: bool,
    factor_column: str | None,
    condition: "Condition | None",
    factor: Factor | None = None,
) -> Inputs:
    """The inputs of the method.

    Raises:
        InputError: a column that is needed is missing, or a row lacks its value or has one out of range.
        UsageError: `--eligible` or `--factor` names a column that is missing, or of the wrong kind.
    """
    needs = METHODS[method].needs
    reader = _Reader(dump, ranked)
    rows = ranked.trajectories
    if condition is not None:
        from gagar_cli.core.conditions import columns_of
        from gagar_cli.io.eligibility import rows_that_meet

        _require_known(reader, columns_of(condition), "--eligible")
        meets = rows_that_meet(condition, dump.extras(), "--eligible")
        rows = replace(rows, is_eligible=_of_trajectories(meets, ranked).to_numpy())
    is_subject = rows.is_valid if rows.is_eligible is None else rows.is_valid & rows.is_eligible
    is_pass = is_subject & rows.is_passed & ~rows.is_violation

    extras = Extras()
    if factor_column:
        extras = replace(extras, penalty=reader.penalties(factor_column, is_pass))
    if factor is not None:
        _require_known(reader, factor.columns, "--factor")
        extras = replace(extras, penalty=reader.computed(factor, is_pass))
    process_from: ProcessSource | None = None
    if "process_score" in needs:
        process_from = "rankings" if has_rankings and reader.is_missing("process_score") else "column"
        if process_from == "rankings":
            process = (ranked.weighted_score - 1) / 4
            reader.refuse(
                np.isnan(process) & (rows.tier >= 0) & is_pass,
                lambda _: "has no weighted_score in the rankings, from which the process score would be made",
                "grade with scores, or map a column with `--field process_score=PATH`",
            )
        else:
            process = reader.process_scores(is_pass, is_subject)
        extras = replace(extras, process=process)
    if "format_ok" in needs:
        extras = replace(extras, is_well_formed=reader.flags("format_ok", rows.is_valid))
    if "error_class" in needs and extras.is_well_formed is not None:
        is_wrong = is_subject & ~is_pass & extras.is_well_formed
        classes = reader.classes("error_class", is_wrong, rows.is_violation)
        extras = replace(extras, error_class=classes)
    return Inputs(rows, extras, _basis(needs, process_from, has_rankings=has_rankings), process_from)


def _basis(needs: tuple[Need, ...], process_from: ProcessSource | None, *, has_rankings: bool) -> Basis:
    if process_from == "rankings" or "order" in needs or ("factors" in needs and has_rankings):
        return "rankings"
    return "penalty" if "factors" in needs else "nothing"


class _Reader:
    """Reads extra columns of the trajectories and refuses what is out of place."""

    def __init__(self, dump: Dump, ranked: RankedIndex) -> None:
        self._dump = dump
        self._extras = dump.extras()
        self._ranked = ranked

    def hint_of_raw(self, name: str) -> str | None:
        """What helps where a converted dump keeps a native column that is named as it was."""
        first = next(self._dump.iter_records([name, "raw"]), {})
        is_there = look_up(first, f"raw.{name}") is not MISSING
        return f"the dump has it as raw.{_show(name)}" if is_there else None

    def is_missing(self, name: str) -> bool:
        return name in self._dump.report.missing_columns

    def penalties(self, name: str, is_pass: BoolArray) -> FloatArray:
        values = self._numbers(name, f"named by `--factor-column {_show(name)}`")
        self.refuse(
            is_pass & ~_is_penalty(values),
            lambda row: f"{_show(name)} is {_told_penalty(values[row])}",
            "every passing attempt has a penalty: 1 leaves it as it is",
        )
        return values

    def computed(self, factor: Factor, is_pass: BoolArray) -> FloatArray:
        """The penalties that an expression gives."""
        from gagar_cli.core.expression_values import evaluate

        columns = {name: self._any(name) for name in factor.columns}
        values = evaluate(factor.expression, columns, self._ranked.n_trajectories, "--factor")

        def describe(row: int) -> str:
            given = ", ".join(f"{_show(name)} is {_told_of(columns[name], row)}" for name in columns)
            return f"--factor {_show(factor.text)} is {_told_penalty(values[row])}" + (given and f": {given}")

        is_bad = is_pass & ~_is_penalty(values)
        self.refuse(
            is_bad, describe, "clip(…, 0.05, 1) bounds it, where(x is None, 1, …) fills what is missing"
        )
        return values

    def process_scores(self, is_pass: BoolArray, is_subject: BoolArray) -> FloatArray:
        hint = f"{_mapping_hint('process_score')}, or give --rankings with weighted scores"
        values = self._numbers("process_score", hint)
        is_bad = (is_pass & np.isnan(values)) | (is_subject & ((values < 0) | (values > 1)))
        self.refuse(
            is_bad,
            lambda row: f"process_score is {_told(values[row])}, expected a number from 0 to 1",
            "the method compares the passing attempts of a group by it",
        )
        return values

    def flags(self, name: str, is_needed: BoolArray) -> BoolArray:
        column = self._column(name, pl.Boolean, _mapping_hint(name))
        self.refuse(
            is_needed & column.is_null().to_numpy(),
            lambda _: f"{name} is null, expected true or false",
            _mapping_hint(name),
        )
        return column.fill_null(value=False).to_numpy()

    def classes(self, name: str, is_needed: BoolArray, is_violation: BoolArray) -> IntArray:
        """Codes of texts, compared without case and outer blanks; −1 for none.

        A violation passed its tests and so may have no error: it keeps its base, for a rare kind would be rewarded.
        """
        column = self._column(name, pl.String, _mapping_hint(name))
        self.refuse(
            is_needed & column.is_null().to_numpy() & ~is_violation,
            lambda _: f"{name} is null, expected the kind of error of a failing attempt",
            _mapping_hint(name),
        )
        texts = column.str.strip_chars().str.to_lowercase()
        return texts.rank("dense").cast(pl.Int64).fill_null(0).to_numpy() - 1

    def refuse(self, is_bad: BoolArray, describe: Callable[[int], str], hint: str) -> None:
        """Raise for the first bad trajectory, with its place and how many more there are."""
        bad = np.flatnonzero(is_bad)
        if len(bad):
            more = f" (and {len(bad) - 1:,} more like it)" if len(bad) > 1 else ""
            where = self._dump.where(int(self._ranked.primary_rows[bad[0]]))
            raise InputError(f"{where}: {describe(int(bad[0]))}{more}", hint)

    def _any(self, name: str) -> "Column":
        """A column of whatever kind it is, for expressions."""
        from gagar_cli.core.expression_values import Column

        column = _of_trajectories(self._extras[extra_column(name)], self._ranked)
        is_known = column.is_not_null().to_numpy()
        if column.dtype == pl.String:
            return Column("text", column.to_numpy().astype(object), is_known)
        if column.dtype == pl.Boolean:
            return Column("flags", column.fill_null(value=False).to_numpy(), is_known)
        values = column.cast(pl.Float64).fill_null(float("nan")).to_numpy()
        return Column("numbers", values, is_known & ~np.isnan(values))

    def _numbers(self, name: str, hint: str) -> FloatArray:
        return self._column(name, pl.Float64, hint).fill_null(float("nan")).to_numpy()

    def _column(self, name: str, dtype: type[pl.DataType], hint: str) -> pl.Series:
        if self.is_missing(name):
            told = f"{self._dump.sources[0]}: no record has {_show(name)}"
            raise InputError(told, self.hint_of_raw(name) or hint)
        column = self._extras[extra_column(name)]
        if column.dtype not in (dtype, pl.Null):
            found = _KINDS[type(column.dtype)]
            raise InputError(
                f"{self._dump.sources[0]}: {_show(name)} holds {found}, expected {_KINDS[dtype]}", hint
            )
        return _of_trajectories(column, self._ranked).cast(dtype)


def _of_trajectories(column: pl.Series, ranked: RankedIndex) -> pl.Series:
    """A column of the index, one entry a trajectory."""
    return column if ranked.segments is None else column.gather(ranked.segments.primary_rows)


def _require_known(reader: _Reader, names: tuple[str, ...], flag: str) -> None:
    for name in names:
        if reader.is_missing(name):
            raise UsageError(
                f"{flag} names {_show(name)}, which no record has",
                reader.hint_of_raw(name) or "a column or path of the dump, such as meta.task_type",
            )


def _is_penalty(values: FloatArray) -> BoolArray:
    return np.asarray((values >= _MIN_PENALTY) & (values <= 1))


def _told_penalty(value: float) -> str:
    least = f"at least {_MIN_PENALTY:g}" if 0 < value < _MIN_PENALTY else "more than 0"
    return f"{_told(value)}, expected {least} and at most 1"


def _mapping_hint(name: str) -> str:
    return f"say where the dump has it with `--field {name}=PATH`"


def _told_of(column: "Column", row: int) -> str:
    if not column.is_known[row]:
        return "null"
    value = column.values[row]
    return (
        f"{value:g}"
        if column.kind == "numbers"
        else _show(str(value).lower() if column.kind == "flags" else value)
    )


def _told(value: float) -> str:
    return "null" if np.isnan(value) else f"{value:g}"


def _show(name: str) -> str:
    return shorten(escape_untrusted(name, keep_newlines=False), 80)
