"""The demo: the dump that comes with the program, graded offline, redistributed, and told attempt by attempt."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path

import polars as pl

from gagar_cli import grade, redistribute
from gagar_cli.core.ranking import RankedCandidate
from gagar_cli.grader.client import OFFLINE_MODEL, EndpointSettings
from gagar_cli.grading_summary import GradeResult
from gagar_cli.io.rankings import latest_rankings, read_rankings
from gagar_cli.progress import ProgressCallback, no_progress
from gagar_cli.redistribution_summary import RedistributeResult

RANKINGS_NAME = "rankings.jsonl"
ADVANTAGES_NAME = "advantages.parquet"
NOTHING_FOUND = "nothing found against it"


@dataclass(frozen=True, slots=True)
class AttemptRow:
    """What happened to one attempt, and why."""

    group_id: str
    trajectory_id: str
    outcome: str
    """`pass`, `fail` or `invalid`, from the tests."""
    place: str
    """Tier and rank, `integrity violation`, or why it has none."""
    advantage_base: float | None
    """With the reward as the tests gave it; None for an invalid attempt."""
    advantage: float | None
    why: str


@dataclass(frozen=True, slots=True)
class DemoResult:
    """The two steps' summaries and one row an attempt, in the order of the dump."""

    graded: GradeResult
    redistributed: RedistributeResult
    attempts: tuple[AttemptRow, ...]
    folder: Path

    def to_record(self) -> dict[str, object]:
        """The result as one JSON object."""
        return {
            "grade": self.graded.to_record(),
            "redistribute": self.redistributed.to_record(),
            "attempts": [
                {name: getattr(row, name) for name in AttemptRow.__dataclass_fields__}
                for row in self.attempts
            ],
            "folder": str(self.folder),
        }


def run(
    folder: Path,
    *,
    sandbox: str = "auto",
    sandbox_image: str | None = None,
    progress: ProgressCallback = no_progress,
) -> DemoResult:
    """Run both steps into a folder and gather what they did.

    Raises:
        GagarError: as `grade.run` and `redistribute.run` do.
    """
    rankings, advantages = folder / RANKINGS_NAME, folder / ADVANTAGES_NAME
    with as_file(files("gagar_cli").joinpath("demo_data")) as material:
        dump = (str(material / "demo-rollouts.jsonl"),)
        graded = grade.run(
            grade.GradeSettings(
                dumps=dump,
                output=str(rankings),
                endpoint=EndpointSettings(OFFLINE_MODEL),
                repos=str(material / "repositories"),
                sandbox=sandbox,
                sandbox_image=sandbox_image,
                concurrency=4,
                overwrite=True,
            ),
            progress,
        )
        redistributed = redistribute.run(
            redistribute.RedistributeSettings(
                dumps=dump, rankings=str(rankings), output=str(advantages), overwrite=True
            )
        )
    return DemoResult(graded, redistributed, _tell(rankings, advantages), folder)


def _tell(rankings: Path, advantages: Path) -> tuple[AttemptRow, ...]:
    candidates = {
        (ranking.key, candidate.trajectory_id): candidate
        for ranking in latest_rankings(read_rankings(str(rankings))).values()
        for candidate in ranking.candidates
    }
    by_id = {name: candidate for (_, name), candidate in candidates.items()}
    return tuple(_row(record, by_id) for record in pl.read_parquet(advantages).iter_rows(named=True))


def _row(record: Mapping[str, object], candidates: Mapping[str, RankedCandidate]) -> AttemptRow:
    trajectory_id = str(record["trajectory_id"])
    candidate = candidates.get(trajectory_id)
    base, advantage = record["advantage_base"], record["advantage"]
    is_violation = candidate is not None and candidate.is_integrity_violation
    if record["grading"] == "invalid":
        outcome, place = "invalid", "left out"
    elif is_violation:
        outcome, place = "pass", "integrity violation"
    elif candidate is not None:
        outcome, place = "pass", f"{candidate.tier} #{candidate.rank}"
    else:
        outcome = "pass" if record["reward_effective"] else "fail"
        place = "group " + str(record["grading"]) if record["grading"] != "graded" else "-"
    return AttemptRow(
        group_id=str(record["group_id"]),
        trajectory_id=trajectory_id,
        outcome=outcome,
        place=place,
        advantage_base=base if isinstance(base, float) else None,
        advantage=advantage if isinstance(advantage, float) else None,
        why=_why(candidate, outcome),
    )


def _why(candidate: RankedCandidate | None, outcome: str) -> str:
    if candidate is None:
        return {"invalid": "infrastructure failure", "fail": "tests failed"}.get(
            outcome, "every attempt passed"
        )
    if not candidate.findings:
        return NOTHING_FOUND
    return "; ".join(
        dict.fromkeys(f"{finding.claim} ({finding.at.partition(':')[2]})" for finding in candidate.findings)
    )
