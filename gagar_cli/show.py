"""One group's ranking to look at: its findings with the code that they cite, and the conversation behind it.

The text that a finding cites is stored in the ranking. With the dump at hand the lines around it are read again:
patches, turns and test outputs are there; the repository and the output of commands are not, and keep their quote.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import polars as pl

from gagar_cli.core.evidence import parse_coordinate
from gagar_cli.core.ranking import Finding, GroupRanking
from gagar_cli.core.schema import Group, GroupKey
from gagar_cli.core.text import fold_whitespace
from gagar_cli.errors import UsageError
from gagar_cli.grader.workspace import Workspace
from gagar_cli.grading_plan import Job
from gagar_cli.io.dump import Dump, ReadOptions, open_dump
from gagar_cli.io.ranking_records import ranking_to_record
from gagar_cli.io.reading_back import conversations_path, read_conversation, read_ranking


@dataclass(frozen=True, slots=True)
class ShowSettings:
    """What is looked at."""

    rankings: str
    group_id: str
    step: int | None = None
    dumps: tuple[str, ...] = ()
    """None: only what the ranking itself holds is shown."""
    read: ReadOptions = field(default_factory=ReadOptions)
    with_conversation: bool = False
    conversations: str | None = None
    """Where the conversations are; None: beside the ledger."""


@dataclass(frozen=True, slots=True)
class ContextLine:
    """A line around the one that a finding cites."""

    text: str
    is_cited: bool


@dataclass(frozen=True, slots=True)
class ShowResult:
    """A ranking and what was found around it."""

    ranking: GroupRanking
    contexts: Mapping[tuple[str, int], tuple[ContextLine, ...]]
    """By trajectory and the number of its finding; nothing for what could not be found again."""
    conversation: tuple[Mapping[str, Any], ...] | None
    """None where it was not asked for."""

    def to_record(self) -> dict[str, object]:
        """The result as one JSON object."""
        record: dict[str, object] = {
            "ranking": ranking_to_record(self.ranking),
            "contexts": [
                {
                    "trajectory_id": trajectory_id,
                    "finding": number,
                    "lines": [{"text": line.text, "is_cited": line.is_cited} for line in lines],
                }
                for (trajectory_id, number), lines in self.contexts.items()
            ],
        }
        if self.conversation is not None:
            record["conversation"] = [dict(message) for message in self.conversation]
        return record


def run(settings: ShowSettings) -> ShowResult:
    """Read one group's ranking back.

    Raises:
        UsageError: the rankings have no such group, or the dump does not.
        InputError: a file cannot be read or holds bad data.
    """
    ranking = read_ranking(settings.rankings, settings.group_id, settings.step)
    conversation = None
    if settings.with_conversation:
        path = settings.conversations or conversations_path(settings.rankings)
        found = read_conversation(path, ranking.key)
        if found is None:
            raise UsageError(
                f"{path}: no conversation about group {str(ranking.key)!r}",
                "groups that were skipped or graded elsewhere have none",
            )
        conversation = tuple(found)
    contexts: dict[tuple[str, int], tuple[ContextLine, ...]] = {}
    if settings.dumps:
        with open_dump(settings.dumps, settings.read) as dump:
            contexts = find_contexts(ranking, _read_group(dump, ranking.key))
    return ShowResult(ranking, contexts, conversation)


def find_contexts(ranking: GroupRanking, group: Group) -> dict[tuple[str, int], tuple[ContextLine, ...]]:
    """The lines around each finding's place, where the group has it still."""
    workspace = Workspace(group, seed=0, repository=None)
    here = {name: blind for blind, name in workspace.trajectory_ids.items()}
    names = ranking.blind_ids
    contexts = {}
    for candidate in ranking.candidates:
        for number, finding in enumerate(candidate.findings):
            owner = finding.at.partition(":")[0]
            blind = here.get(names.get(owner, ""))
            lines = _context(workspace, finding, blind) if blind is not None else ()
            if lines:
                contexts[candidate.trajectory_id, number] = lines
    return contexts


def _context(workspace: Workspace, finding: Finding, owner: str) -> tuple[ContextLine, ...]:
    try:
        place = replace(parse_coordinate(finding.at, finding.kind), owner=owner)
    except ValueError:
        return ()
    if place.line is None:  # a whole turn is no context: the quote says more
        return ()
    lines = workspace.lines_near(place)
    cited = {fold_whitespace(part) for part in (finding.quote or finding.anchor).split("\n")} - {""}
    return tuple(ContextLine(line, fold_whitespace(line) in cited) for line in lines or ())


def _read_group(dump: Dump, key: GroupKey) -> Group:
    index = dump.index.with_row_index("row").filter(
        (pl.col("row") == pl.col("primary_row"))
        & (pl.col("group_id") == key.group_id)
        & pl.col("step").eq_missing(pl.lit(key.step, dtype=pl.Int64))
        & ~pl.col("invalid")
    )
    if not index.height:
        raise UsageError(
            f"{dump.sources[0]}: group {str(key)!r} is not in the dump",
            "rankings and dump go together by step and group_id",
        )
    return Job(key, tuple(index["row"].to_list())).read(dump)
