"""What is told of a dump that was read without an error and may not be what it seems."""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl

from gagar_cli.core.grouping import count_codes
from gagar_cli.core.text import counted, escape_untrusted, shorten
from gagar_cli.io.read_options import ReadOptions
from gagar_cli.io.row_table import RowTable
from gagar_cli.io.sources import Source

IntArray = np.ndarray[Any, np.dtype[Any]]
_MAX_SHOWN = 3
_PART_ROWS = 1_048_576
_VALUES = re.compile(r'"(?:[^"\\]|\\.)*…?"?|\S*(?:/|\.(?=[a-z]))\S*|-?\d[\d.,e+-]*')
"""What differs between notes of one kind: quoted values, paths and names of files, numbers."""
_OF_ONE_FILE = ("equal_prompt", "field:uid", "field:group_index")
"""How native formats group where a file holds whole groups; an instance comes back in the files of other runs."""
NO_PATCH = (
    "no record has a patch (model_patch): a grader sees only what the attempts say of their change; join predictions with "
    "`--join FILE`, or map the column with `--field model_patch=PATH`"
)


def once_a_kind(notes: Iterable[str]) -> list[str]:
    """The first note of each kind, with the number of its like: files are many, and say the same of themselves.

    A kind is the note without the place at its beginning, and without other paths, numbers and quoted values.

    >>> once_a_kind(["a/1.jsonl: 3 rows repeat", "a/2.jsonl: 5 rows repeat", "1 group", "b/3.jsonl: 4 rows repeat"])
    ['a/1.jsonl: 3 rows repeat (and 2 more notes of this kind)', '1 group']
    """
    alike: dict[str, list[str]] = {}
    for note in notes:
        place, colon, told = note.partition(": ")
        # Those of joined files have their place after the option; without any the number is the note.
        told = f"{place}: {told}" if place == "--join" else told
        kind = _VALUES.sub("…", told) if colon else note
        alike.setdefault(kind, []).append(note)
    return [_with_like(same) for same in alike.values()]


def _with_like(notes: Sequence[str]) -> str:
    n_more = len(set(notes)) - 1
    return notes[0] + (f" (and {counted(n_more, 'more note')} of this kind)" if n_more else "")


def notes_of_rows(
    rows: RowTable,
    sources: Sequence[Source],
    options: ReadOptions,
    group_field: str | None,
    *,
    is_by_reward: bool,
) -> Iterator[str]:
    """What the rows of a dump give reason to tell; `is_by_reward`: their reward alone says whether they passed."""
    rewards, source = rows.column("reward"), rows.column("source")
    if is_by_reward and rewards is not None:
        yield from note_of_shaped_rewards(rewards, options.pass_threshold)
    if source is None or rows.groups["step"].null_count() < rows.groups.height:
        return
    owned = (getattr(each, "group_id_source", None) for each in sources)
    is_whole = [holds_whole_groups(own, group_field, options.group_by) for own in owned]
    group = rows.frame["group"]
    if not all(is_whole):
        chosen = source.is_in([number for number, each in enumerate(is_whole) if each])
        group, source = group.filter(chosen), source.filter(chosen)
    yield from note_of_spread_groups(group, source, rows.groups["group_id"], [each.name for each in sources])


def note_of_untold_files(names: Sequence[str], n_all: int) -> Iterator[str]:
    """What is told of files without a verdict in a dump of which others have one."""
    if names:
        shown = ", ".join(names[:_MAX_SHOWN])
        yield f"{len(names):,} of {n_all:,} files have no resolved: their attempts pass by reward: {shown}"


def note_of_shaped_rewards(rewards: pl.Series, pass_threshold: float) -> Iterator[str]:
    """What is told of rewards that are neither nothing nor a pass, where nothing else says who passed."""
    n_between, largest = 0, pl.Series(dtype=pl.Float64)
    for start in range(0, len(rewards), _PART_ROWS):
        part = rewards[start : start + _PART_ROWS].cast(pl.Float64)
        between = part.filter((part > 0) & (part < pass_threshold))
        n_between += len(between)
        largest = pl.concat((largest, between)).unique().top_k(_MAX_SHOWN + 1)
    if not n_between:
        return
    values = largest.sort(descending=True).to_list()
    shown = ", ".join(f"{value:.9g}" for value in values[:_MAX_SHOWN]) + (
        ", …" if len(values) > _MAX_SHOWN else ""
    )
    lie = counted(n_between, "reward lies", "rewards lie")
    yield (
        f"{lie} between 0 and the pass threshold {_number(pass_threshold)} ({shown}): such attempts count as failed: set "
        "`--pass-threshold`, or map a verdict with `--field resolved=PATH`"
    )


def note_of_spread_groups(
    group: pl.Series, source: pl.Series, names: pl.Series, files: Sequence[str]
) -> Iterator[str]:
    """What is told of groups that lie in several files where no record has a step.

    `group` and `source` are codes of `names` and of `files`, row by row. A group that a writer of shards cut at the border
    of two is none of them: its rows follow each other, and it is no larger than those that lie in one file.
    """
    codes = group.to_numpy()
    spread = _without_cut(_spread_codes(codes, source.to_numpy(), len(names)), codes, len(names))
    if not len(spread):
        return
    where = source.filter(group == int(spread[0])).unique(maintain_order=True).head(2)
    shown = ", ".join(files[number] for number in where)
    name = escape_untrusted(shorten(str(names[int(spread[0])]), 80), keep_newlines=False)
    lie = counted(len(spread), "group lies in several files", "groups lie in several files")
    yield (
        f"{lie}, and no record has step: attempts at different training steps may be taken for one group ({name}: {shown}); "
        "map it with `--field step=PATH`"
    )


def _spread_codes(group: IntArray, source: IntArray, n_groups: int) -> IntArray:
    """The groups that lie in several sources, part by part: a dump may have more rows than fit into memory as pairs."""
    last = np.full(n_groups, -1, dtype=np.int64)
    is_spread = np.zeros(n_groups, dtype=bool)
    borders = np.flatnonzero(source[1:] != source[:-1]) + 1
    for start, stop in pairwise([0, *borders.tolist(), len(source)]):
        for first in range(start, stop, _PART_ROWS):
            codes = group[first : min(first + _PART_ROWS, stop)]
            number = int(source[first])
            before = last[codes]
            is_spread[codes[(before >= 0) & (before != number)]] = True
            last[codes] = number
    return np.flatnonzero(is_spread)


def _without_cut(spread: IntArray, group: IntArray, n_groups: int) -> IntArray:
    """Of the groups that lie in several sources those that no border of shards explains."""
    sizes = count_codes(group, n_groups)
    is_whole = sizes > 0
    is_whole[spread] = False
    if not len(spread) or not is_whole.any():
        return spread
    n_runs = np.zeros(n_groups, dtype=np.int64)
    for first in range(0, len(group), _PART_ROWS):
        part = group[max(0, first - 1) : first + _PART_ROWS]
        begins = part[1:][part[1:] != part[:-1]]
        n_runs += count_codes(begins if first else np.concatenate((part[:1], begins)), n_groups)
    is_cut = (n_runs[spread] == 1) & (sizes[spread] <= sizes[is_whole].max())
    kept: IntArray = spread[~is_cut]
    return kept


def holds_whole_groups(own: str | None, group_field: str | None, group_by: str | None) -> bool:
    """Whether a file has all attempts of a group, were it not for steps.

    `own`: how a native file groups its records; the others are grouped by `group_field`. An instance comes back in the
    files of other runs, and so may what the user groups native files by.
    """
    if own not in (None, "None"):
        return own in _OF_ONE_FILE and group_by is None
    return group_field not in (None, "instance_id", "directory", "prompt")


def _number(value: float) -> str:
    """A threshold as it is written on the command line.

    >>> _number(1.0), _number(0.25)
    ('1.0', '0.25')
    """
    return str(float(value))
