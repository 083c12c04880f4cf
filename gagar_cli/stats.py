"""What is in a dump, and in its rankings where they are given: rates, lengths, tiers, scores, findings, cost.

Reads the scalar columns of the dump and the lines of the rankings, and calls nothing.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import polars as pl

from gagar_cli.core.batches import IntArray
from gagar_cli.core.double_double import FloatArray
from gagar_cli.core.dump_statistics import FINDING_KINDS, OF_RANKINGS, DumpStatistics, Observed, describe
from gagar_cli.core.judging import GRADINGS, Judged, judge_groups
from gagar_cli.core.ranking import FLAGS, GroupRanking
from gagar_cli.core.schema import GroupKey
from gagar_cli.core.spending import Spending, spending_of
from gagar_cli.core.summaries import by_start
from gagar_cli.errors import UsageError
from gagar_cli.grading_reading import compared_reading
from gagar_cli.io.dump import Dump, DumpReport, ReadOptions, open_dump
from gagar_cli.io.extras import extra_column
from gagar_cli.io.ranked_index import RankedIndex, lay_rankings
from gagar_cli.io.rankings import read_rankings
from gagar_cli.io.streams import show_path
from gagar_cli.progress import ProgressCallback, heard, no_progress

By = Literal["step", "policy", "repo"]
_COLUMNS: Mapping[str, str] = {"step": "step", "policy": "model_name_or_path", "repo": "repo"}
_N_PHASES = 3
MAX_PARTS = 1000
_MAX_COST = 1e12
"""Of an attempt in dollars: beyond it sums may pass the largest double."""


@dataclass(frozen=True, slots=True)
class StatsSettings:
    """One run, as the command line gives it."""

    dump: str
    rankings: str | None = None
    read: ReadOptions = field(default_factory=ReadOptions)
    by: By | None = None


@dataclass(frozen=True, slots=True)
class GradingFigures:
    """What the rankings say of groups, and what they cost."""

    n_groups: dict[str, int]
    """By grading."""
    n_by_reason: dict[str, dict[str, int]]
    """Skipped and ungraded groups by reason."""
    n_integrity_violations: int
    flags: dict[str, int]
    """Candidates by flag, as the lines in force have them."""
    scores: dict[str, dict[str, int]]
    """Candidates by score, for each dimension."""
    models: dict[str, int]
    """Lines by the model that made them."""
    n_lines: int
    spending: Spending
    """Of all lines, those that later ones replaced included: they were paid for."""

    def to_record(self) -> dict[str, object]:
        """As JSON."""
        return {
            **{f"n_{status}": n for status, n in self.n_groups.items()},
            **{f"n_{status}_by_reason": by_start(counts) for status, counts in self.n_by_reason.items()},
            "n_integrity_violations": self.n_integrity_violations,
            "n_candidates_by_flag": self.flags,
            "n_candidates_by_score": self.scores,
            "n_lines": self.n_lines,
            "n_lines_by_model": self.models,
            "spending": self.spending.to_record(),
        }


@dataclass(frozen=True, slots=True)
class StatsResult:
    """The numbers of the whole, and of its parts where asked for."""

    whole: DumpStatistics
    grading: GradingFigures | None
    by: By | None
    parts: dict[str, DumpStatistics]
    """By step, policy or repo; `(none)` for trajectories that lack it."""
    report: DumpReport

    def to_record(self) -> dict[str, object]:
        """The result as one JSON object."""
        grading = self.grading
        return {
            **self._described(self.whole),
            "n_records": self.report.n_records,
            "n_bad_records": self.report.n_bad_records,
            "group_id_source": self.report.group_id_source,
            "grading": None if grading is None else grading.to_record(),
            "by": self.by,
            "parts": {name: self._described(part) for name, part in self.parts.items()},
        }

    def _described(self, part: DumpStatistics) -> dict[str, object]:
        """The numbers, null where only rankings could tell them and none were given."""
        unknown = dict.fromkeys(OF_RANKINGS) if self.grading is None else {}
        return part.to_record() | unknown


def run(settings: StatsSettings, progress: ProgressCallback = no_progress) -> StatsResult:
    """Read and count.

    Raises:
        UsageError: the dump lacks what `--by` splits it by, or it has too many values.
        InputError: bad data in the dump or the rankings.
    """
    if settings.dump == "-" and settings.rankings == "-":
        raise UsageError("the dump and the rankings are both `-`", "only one of them can come from stdin")
    column = _COLUMNS[settings.by] if settings.by else None
    extras = ("is_truncated", "cost_usd", *([column] if column and column != "step" else []))
    progress(0, _N_PHASES, "reading the dump")
    options = replace(settings.read, extras=extras)
    with open_dump((settings.dump,), options, progress=heard(progress)) as dump:
        progress(1, _N_PHASES, "reading the rankings")
        tally = _Tally()
        read = read_rankings(settings.rankings, progress=heard(progress)) if settings.rankings else iter(())
        lines = tally.watch(read)
        with compared_reading(dump, settings.rankings, settings.read):
            ranked = lay_rankings(dump, lines, show_path(settings.rankings or ""))
        progress(2, _N_PHASES, "counting")
        rows = ranked.trajectories
        judged = judge_groups(rows, ranked.verdicts, "rankings" if settings.rankings else "nothing")
        observed = _observe(dump, ranked, judged, tally)
        parts = {}
        if settings.by and column:
            parts = _split(observed, _values(dump, ranked, column, settings.by), settings.by)
        grading = None
        if settings.rankings:
            grading = tally.figures(judged, n_violations=int(rows.is_violation.sum()))
        result = StatsResult(describe(observed), grading, settings.by, parts, dump.report)
    progress(_N_PHASES, _N_PHASES, "done")
    return result


def _observe(dump: Dump, ranked: RankedIndex, judged: Judged, tally: "_Tally") -> Observed:
    rows = ranked.trajectories
    n_findings, n_unproven = tally.lay(dump, ranked)
    is_truncated = dump.extras()[extra_column("is_truncated")]
    if is_truncated.dtype not in (pl.Boolean, pl.Null):
        raise UsageError("is_truncated holds no true and false", "map the field that says it with `--field`")
    truncated = _numbers(is_truncated, ranked)
    if ranked.segments is not None:
        # Of a trajectory in segments any may have been cut.
        known, truncated = truncated, np.full(ranked.n_trajectories, np.nan)
        np.fmax.at(truncated, ranked.trajectory_of_row, known)
    return Observed(
        group=rows.group,
        is_valid=rows.is_valid,
        is_passed=judged.is_passed,
        n_turns=_summed(dump.column("n_turns"), ranked),
        n_tokens=_summed(dump.column("n_output_tokens"), ranked),
        is_truncated=truncated,
        cost_usd=_summed(_costs(dump), ranked),
        tier=np.where(judged.is_passed, rows.tier, -1).astype(np.int8),
        score=ranked.weighted_score,
        n_findings=n_findings,
        n_unproven=n_unproven,
    )


def _costs(dump: Dump) -> pl.Series:
    costs = dump.extras()[extra_column("cost_usd")]
    hint = "map the field that says it with `--field`"
    if costs.dtype not in (pl.Float64, pl.Null):
        raise UsageError("cost_usd holds no numbers", hint)
    if costs.dtype == pl.Null:
        return costs
    wrong = costs.filter(costs.abs() > _MAX_COST)
    if len(wrong):
        raise UsageError(f"cost_usd is {wrong[0]:g}, expected at most {_MAX_COST:g}", hint)
    return costs


def _summed(column: pl.Series | None, ranked: RankedIndex) -> FloatArray:
    """(n_trajectories,) the sum over a trajectory's segments; NaN where one does not tell."""
    values = _numbers(column, ranked)
    if ranked.segments is None:
        return values
    summed = np.bincount(ranked.trajectory_of_row, weights=values, minlength=ranked.n_trajectories)
    return summed.astype(np.float64)


def _numbers(column: pl.Series | None, ranked: RankedIndex) -> FloatArray:
    """(n_rows,) the values, NaN where they are not told; where none is, an array that takes no memory."""
    if column is None or column.null_count() == len(column):
        n_rows = ranked.n_trajectories if ranked.segments is None else len(ranked.trajectory_of_row)
        return np.broadcast_to(np.nan, n_rows)
    numbers = column.cast(pl.Float64)
    # Filling takes another copy, also where there is nothing to fill.
    return (numbers.fill_null(float("nan")) if numbers.has_nulls() else numbers).to_numpy()


def _values(dump: Dump, ranked: RankedIndex, column: str, by: By) -> pl.Series:
    index = dump.index
    if column == "step":
        values = index["step"]
        is_missing = values.null_count() == len(values)
    else:
        values = index[extra_column(column)]
        is_missing = column in dump.report.missing_columns
    if is_missing:
        raise UsageError(
            f"--by {by}: no record has {column}", f"say where the dump has it with `--field {column}=PATH`"
        )
    return values[ranked.primary_rows].cast(pl.String).fill_null("(none)")


def _split(observed: Observed, values: pl.Series, by: By) -> dict[str, DumpStatistics]:
    names = values.unique()
    if len(names) > MAX_PARTS:
        raise UsageError(f"--by {by} has {len(names):,} values, expected at most {MAX_PARTS:,}")
    ordered = sorted(names, key=lambda name: (not name.lstrip("-").isdecimal(), _number(name), name))
    return {name: describe(observed.part((values == name).to_numpy())) for name in ordered}


def _number(name: str) -> int:
    return int(name) if name.lstrip("-").isdecimal() else 0


class _Tally:
    """Counts the lines of a rankings file as they go by."""

    def __init__(self) -> None:
        self._last: dict[GroupKey, GroupRanking] = {}
        self._models: Counter[str] = Counter()
        self._spent = Spending()
        self._n_lines = 0

    def watch(self, rankings: Iterator[GroupRanking]) -> Iterator[GroupRanking]:
        """The same rankings, the last line of each group remembered."""
        for ranking in rankings:
            self._n_lines += 1
            self._last[ranking.key] = ranking
            grader = ranking.grader
            if grader.get("model") is not None:
                self._models[str(grader["model"])] += 1
            self._spent += spending_of(grader)
            yield ranking

    def lay(self, dump: Dump, ranked: RankedIndex) -> tuple[IntArray, IntArray]:
        """(n_trajectories, n_kinds) findings by kind, and (n_trajectories,) claims that were not proven."""
        found: dict[tuple[GroupKey, str], tuple[list[int], int]] = {}
        for key, ranking in self._last.items():
            for candidate in ranking.candidates:
                kinds: Counter[str] = Counter(finding.kind for finding in candidate.findings)
                counts = [kinds[kind] for kind in FINDING_KINDS]
                found[key, candidate.trajectory_id] = (counts, len(candidate.unproven))
        n_trajectories = ranked.n_trajectories
        if not found:
            return np.broadcast_to(0, (n_trajectories, len(FINDING_KINDS))), np.broadcast_to(
                0, n_trajectories
            )
        by_kind = np.zeros((n_trajectories, len(FINDING_KINDS)), dtype=np.int32)
        n_unproven = np.zeros(n_trajectories, dtype=np.int32)
        keys = dump.keys()[ranked.primary_rows].iter_rows()
        for place, (step, group_id, name) in enumerate(keys):
            own = found.get((GroupKey(step, group_id), name)) or found.get((GroupKey(None, group_id), name))
            if own is not None:
                by_kind[place], n_unproven[place] = own
        return by_kind, n_unproven

    def figures(self, judged: Judged, *, n_violations: int) -> GradingFigures:
        """What the lines in force and all lines come to."""
        flags: Counter[str] = Counter()
        scores: dict[str, Counter[str]] = {}
        for ranking in self._last.values():
            for candidate in ranking.candidates:
                flags.update(name for name, is_set in candidate.flags.items() if is_set)
                for name, score in candidate.scores.items():
                    scores.setdefault(name, Counter())[str(score)] += 1
        return GradingFigures(
            n_groups={name: int((judged.status == code).sum()) for code, name in enumerate(GRADINGS[:3])},
            n_by_reason={
                name: dict(
                    Counter(judged.reason[judged.status == GRADINGS.index(name)].tolist()).most_common()
                )
                for name in ("skipped", "ungraded")
            },
            n_integrity_violations=n_violations,
            flags={name: flags[name] for name in dict.fromkeys((*FLAGS, *flags))},
            scores={
                name: {score: counts[score] for score in map(str, range(1, 6))}
                for name, counts in scores.items()
            },
            models=dict(self._models.most_common()),
            n_lines=self._n_lines,
            spending=self._spent,
        )
