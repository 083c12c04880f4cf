"""The page of a grading run: what the rankings say, what they cost, and what redistribution moved because of them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from gagar_cli.core.ranking import FLAGS, TIERS, GroupRanking, RankedCandidate
from gagar_cli.core.spending import Spending, spending_of
from gagar_cli.errors import InputError, UsageError
from gagar_cli.io.rankings import latest_rankings, read_rankings
from gagar_cli.io.streams import show_path
from gagar_cli.io.writers import refuse_existing, write_atomically
from gagar_cli.report.grading_page import grading_page

ADVANTAGE_SUFFIXES = (".parquet", ".pq", ".jsonl")


@dataclass(frozen=True, slots=True)
class ReportSettings:
    """What `gagar report` was asked to do."""

    rankings: str
    output: str
    advantages: str | None = None
    """What `gagar redistribute` wrote for these rankings: Parquet or JSON lines."""
    title: str | None = None
    max_groups: int = 300
    """Groups that are shown one by one."""
    overwrite: bool = False


@dataclass(frozen=True, slots=True)
class MovedAdvantage:
    """What a redistribution did, from its output."""

    n_rows: int
    n_changed: int
    moved: float
    """Half the sum of |advantage − advantage_base|: what was taken from some and given to others."""
    total: float
    """Sum of positive base advantages."""
    n_capped_groups: int


@dataclass(frozen=True, slots=True)
class GradingReport:
    """What the page tells."""

    n_groups: Mapping[str, int]
    """By status."""
    reasons: Mapping[str, int]
    """Of skipped and ungraded groups, by the part before the colon."""
    tiers: Mapping[str, int]
    """Candidates by tier, `violation` last."""
    mean_scores: Mapping[str, float]
    flags: Mapping[str, int]
    findings: Mapping[str, int]
    """By kind."""
    n_unproven: int
    """Claims that had no proof and did not count."""
    n_overridden: int
    models: Mapping[str, int]
    spending: Spending
    advantage: MovedAdvantage | None


def run(settings: ReportSettings) -> GradingReport:
    """Read rankings, and advantages where given, and write the page.

    Raises:
        InputError: a file cannot be read.
        OutputError: the page exists or cannot be written.
        UsageError: the advantages are of another kind of file.
    """
    refuse_existing(settings.output, overwrite=settings.overwrite)
    rankings = list(latest_rankings(read_rankings(settings.rankings)).values())
    if not rankings:
        raise InputError(f"{show_path(settings.rankings)}: no rankings", "`gagar grade` writes them")
    advantage = read_moved(settings.advantages) if settings.advantages is not None else None
    report = describe(rankings, advantage)
    page = grading_page(
        report, rankings, title=settings.title or "Grading report", max_groups=settings.max_groups
    )
    with write_atomically(settings.output) as stream:
        stream.write(page.encode("utf-8", "backslashreplace"))
    return report


def describe(rankings: Sequence[GroupRanking], advantage: MovedAdvantage | None = None) -> GradingReport:
    """The figures of rankings."""
    candidates = [one for ranking in rankings for one in ranking.candidates]
    scores: dict[str, list[int]] = {}
    for one in candidates:
        for name, score in one.scores.items():
            scores.setdefault(name, []).append(score)
    reasons = Counter(
        (ranking.reason or "not said").partition(":")[0] for ranking in rankings if ranking.status != "graded"
    )
    tiers = Counter(_class_of(one) for one in candidates)
    return GradingReport(
        n_groups=Counter(ranking.status for ranking in rankings),
        reasons=dict(reasons.most_common()),
        tiers={name: tiers[name] for name in (*TIERS, "violation")},
        mean_scores={name: float(np.mean(values)) for name, values in scores.items()},
        flags={name: sum(bool(one.flags.get(name)) for one in candidates) for name in FLAGS},
        findings=dict(Counter(finding.kind for one in candidates for finding in one.findings).most_common()),
        n_unproven=sum(len(one.unproven) for one in candidates),
        n_overridden=sum(bool(ranking.grader.get("overrides")) for ranking in rankings),
        models=dict(
            Counter(
                str(one.grader.get("model") or "unknown") for one in rankings if one.status != "skipped"
            ).most_common()
        ),
        spending=sum((spending_of(ranking.grader) for ranking in rankings), Spending()),
        advantage=advantage,
    )


def read_moved(path: str) -> MovedAdvantage:
    """What a redistribution moved, from the file that it wrote.

    Raises:
        InputError: it cannot be read, or lacks `advantage` and `advantage_base`.
        UsageError: its name has another ending.
    """
    if not path.lower().endswith(ADVANTAGE_SUFFIXES):
        raise UsageError(f"--advantages is {show_path(path)}, expected {', '.join(ADVANTAGE_SUFFIXES)}")
    wanted = ("step", "group_id", "advantage", "advantage_base", "capped")
    try:
        scan = pl.scan_ndjson(path) if path.lower().endswith(".jsonl") else pl.scan_parquet(path)
        present = scan.collect_schema().names()
        frame = scan.select([name for name in wanted if name in present]).collect()
    except (OSError, pl.exceptions.PolarsError) as error:
        first = str(error).splitlines()[0]
        raise InputError(f"{show_path(path)}: cannot be read: {first}") from error
    missing = [name for name in wanted[2:4] if name not in frame.columns]
    if missing:
        raise InputError(
            f"{show_path(path)}: has no column {', '.join(missing)}",
            "it must be what `gagar redistribute` wrote",
        )
    new, base = (frame[name].cast(pl.Float64).fill_null(0.0) for name in ("advantage", "advantage_base"))
    keys = [name for name in ("step", "group_id") if name in frame.columns]
    n_capped = 0
    if "capped" in frame.columns and keys:
        n_capped = frame.filter(pl.col("capped").fill_null(value=False)).select(keys).n_unique()
    return MovedAdvantage(
        n_rows=frame.height,
        n_changed=int((new != base).sum()),
        moved=float((new - base).abs().sum()) / 2,
        total=float(base.filter(base > 0).sum()),
        n_capped_groups=n_capped,
    )


def _class_of(candidate: RankedCandidate) -> str:
    return "violation" if candidate.is_integrity_violation else candidate.tier or "violation"
