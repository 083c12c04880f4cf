"""Dense codes of groups, in the order in which they first appear, without a Python object a group.

Texts are told apart by polars' own table of categories, exactly and in a quarter of the memory of a dict. Where
records have steps, a group is a text in one step.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gagar_cli.io.arrays import to_series

Codes = NDArray[np.uint32]
_MIN_ROOM = 1024


class TextCodes:
    """Gives texts dense codes, batch by batch."""

    def __init__(self) -> None:
        # Categories live as long as a column of them does.
        self._kept: pl.Series | None = None
        self._code_of = np.full(_MIN_ROOM, -1, dtype=np.int32)
        """By number of category; others in the process may have numbers of their own in between."""
        self._texts: list[pl.Series] = []
        self._n_texts = 0

    def code(self, texts: pl.Series) -> Codes:
        """(n,) the code of each text, none of them null; those that are new get the next ones."""
        categories = texts.cast(pl.Categorical)
        if self._kept is None:
            self._kept = categories.head(1)
        numbers: Codes = categories.to_physical().to_numpy()
        self._make_room(int(numbers.max(initial=0)) + 1)
        codes = self._code_of[numbers]
        fresh = np.flatnonzero(codes < 0)
        if len(fresh):
            first = _first_of_each(numbers, fresh)
            self._code_of[numbers[first]] = np.arange(self._n_texts, self._n_texts + len(first))
            self._n_texts += len(first)
            self._texts.append(categories.gather(to_series(first)))
            codes = self._code_of[numbers]
        return codes.astype(np.uint32)

    def texts(self) -> pl.Series:
        """The texts by code, as categories: each text is held once, by polars."""
        return pl.concat(self._texts, rechunk=True) if self._texts else pl.Series(dtype=pl.Categorical)

    def _make_room(self, n_needed: int) -> None:
        n_had = len(self._code_of)
        if n_needed > n_had:
            room = np.full(max(n_needed, n_had * 2), -1, dtype=np.int32)
            room[:n_had] = self._code_of
            self._code_of = room


def _first_of_each(numbers: Codes, among: NDArray[np.int64]) -> NDArray[np.int64]:
    """The positions in `among` at which a number appears for the first time there, ascending."""
    found = numbers[among]
    least = int(found.min())
    first = np.full(int(found.max()) - least + 1, -1, dtype=np.int64)
    first[found[::-1] - least] = among[::-1]
    return np.sort(first[first >= 0])


def combine_steps(
    texts: pl.Series, codes: list[Codes], steps: Sequence[pl.Series | None]
) -> tuple[list[Codes], pl.DataFrame]:
    """Codes of (step, text) made of chunks of text codes and steps; `step` and `group_id`, a category, by code.

    A chunk whose steps are None has none.
    """
    told = [step.unique().cast(pl.Int64) for step in steps if step is not None]
    if not told:
        return codes, _groups(texts, pl.repeat(None, len(texts), dtype=pl.Int64, eager=True))
    distinct = pl.concat(told).unique().sort(nulls_last=False)
    if distinct[0] is not None:
        distinct = pl.concat((pl.Series([None], dtype=pl.Int64), distinct))

    def numbered() -> Iterator[tuple[Codes, Codes]]:
        # Made anew for each pass: the numbers of all rows are as large as their codes.
        for step, code in zip(steps, codes, strict=True):
            yield code, _step_numbers(step, distinct, len(code))

    of_text = np.zeros(len(texts), dtype=np.uint32)
    for code, number in numbered():
        of_text[code] = number
    if all((of_text[code] == number).all() for code, number in numbered()):
        return codes, _groups(texts, distinct.gather(of_text))
    return _pairs(texts, distinct, codes, [number for _, number in numbered()])


def _step_numbers(step: pl.Series | None, distinct: pl.Series, height: int) -> Codes:
    """The place of each step among the distinct ones, of which the first is null."""
    if step is None:
        return np.zeros(height, dtype=np.uint32)
    known = distinct[1:].to_numpy()
    numbers = np.searchsorted(known, step.fill_null(0).to_numpy()).astype(np.uint32) + np.uint32(1)
    numbers[step.is_null().to_numpy()] = 0
    return numbers


def _pairs(
    texts: pl.Series, distinct: pl.Series, codes: Sequence[Codes], of_rows: Sequence[Codes]
) -> tuple[list[Codes], pl.DataFrame]:
    """Codes of pairs, where a text is there in several steps."""
    shift = np.uint64(32)

    def pair(code: Codes, number: Codes) -> NDArray[np.uint64]:
        return (number.astype(np.uint64) << shift) | code

    found = []
    n_before = 0
    for code, number in zip(codes, of_rows, strict=True):
        keys, at = np.unique(pair(code, number), return_index=True)
        found.append((keys, at + n_before))
        n_before += len(code)
    keys = np.unique(np.concatenate([each for each, _ in found]))
    first = np.empty(len(keys), dtype=np.int64)
    for own, at in reversed(found):
        first[np.searchsorted(keys, own)] = at
    order = np.argsort(first)
    rank = np.empty(len(keys), dtype=np.uint32)
    rank[order] = np.arange(len(keys), dtype=np.uint32)
    made = [
        rank[np.searchsorted(keys, pair(code, number))] for code, number in zip(codes, of_rows, strict=True)
    ]
    ordered = keys[order]
    of_group = texts.gather((ordered & np.uint64(2**32 - 1)).astype(np.uint32))
    return made, _groups(of_group, distinct.gather((ordered >> shift).astype(np.uint32)))


def _groups(texts: pl.Series, steps: pl.Series) -> pl.DataFrame:
    return pl.DataFrame({"step": steps, "group_id": texts})
