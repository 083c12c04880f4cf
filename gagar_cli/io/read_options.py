"""What is asked of the reader of a dump, and what it tells about it."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from gagar_cli.core.text import counted
from gagar_cli.errors import UsageError
from gagar_cli.io.jsonl import MAX_RECORD_BYTES


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How a dump is to be read."""

    fields: Mapping[str, str] = field(default_factory=dict)
    """Canonical name to the dotted path under which this dump has it."""
    explode: str | None = None
    """A list of attempts in each record: one row an attempt."""
    group_by: str | None = None
    """The field that groups records, where there is no group_id."""
    pass_threshold: float = 1.0
    """The smallest reward that passes, where there is no `resolved`."""
    on_bad_record: Literal["fail", "skip"] = "fail"
    max_record_bytes: int = MAX_RECORD_BYTES
    max_group_size: int = 4096
    """More trajectories than this are taken for a wrong group key."""
    format: str | None = None
    """The native format of all files (`gagar_cli.io.formats`), `canonical` for none; None: told by content."""
    joins: tuple[str, ...] = ()
    """Files or folders with verdicts, patches or test outputs of these attempts."""
    keep_raw: bool = False
    """Keep what no canonical field takes of a native record, as JSON text under `raw`."""
    is_index_only: bool = False
    """Long JSON lines are read by their ends where that is enough for the index (`io/jsonl_edges.py`)."""
    max_ids_in_memory: int = 262_144
    """The trajectory ids of more rows than these lie in a temporary file (`io/row_ids.py`)."""
    extras: tuple[str, ...] = ()
    """Further scalar columns to read, by canonical name or by the dump's own path (`io/extras.py`)."""
    lists: tuple[str, ...] = ()
    """Paths of lists that will be looked for in the records (`io/list_columns.py`); native ones are read once."""

    def __post_init__(self) -> None:
        # Nothing is as large as NaN: every attempt would have failed, without a word.
        if not math.isfinite(self.pass_threshold):
            raise UsageError(f"--pass-threshold is {self.pass_threshold}, expected a finite number")


def forced_format(options: ReadOptions) -> str | None:
    """The format that no content has to tell: the named one; records that hold their attempts are of no native format."""
    return "canonical" if options.format is None and options.explode else options.format


@dataclass(frozen=True, slots=True)
class DumpReport:
    """What was found on reading, for summaries."""

    n_records: int
    """Rows of the index: records, or attempts with `explode`."""
    n_bad_records: int
    bad_records: tuple[str, ...]
    """The first 20 messages, each with its place."""
    n_disagree: int
    """Valid rows whose reward contradicts `resolved` (`io/contradictions.py`)."""
    missing_columns: tuple[str, ...]
    """Canonical fields, and extra columns, that no record has."""
    group_id_source: str
    """`field:PATH`, `equal_prompt`, `directory`, `file_name`, or `record` where every exploded record is its own group."""
    notes: tuple[str, ...]
    problem_kinds: tuple[tuple[str, int], ...] = ()
    """How many bad records there are of each kind: the message without place and values, most frequent first."""
    hint: str | None = None
    """What helps with the first of the listed bad records for which anything does."""

    @property
    def passes_by_reward(self) -> bool:
        """Whether no record has `resolved`, so that the threshold decides who passed."""
        return "resolved" in self.missing_columns


def note_of_bad_records(n_bad: int, listed: Sequence[str]) -> str:
    """How many records were left out, and the first of them line by line.

    >>> print(note_of_bad_records(3, ["dump.jsonl:2: reward is 'high'", "dump.jsonl:5: no group_id"]))
    3 bad records were left out:
      dump.jsonl:2: reward is 'high'
      dump.jsonl:5: no group_id
      … and 1 more
    """
    lines = [f"{counted(n_bad, 'bad record was', 'bad records were')} left out:", *listed]
    if n_bad > len(listed):
        lines.append(f"… and {n_bad - len(listed):,} more")
    return "\n  ".join(lines)
