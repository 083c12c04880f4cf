"""The demo: the dump that comes with the program, graded offline, redistributed, and told attempt by attempt.

Dump and repositories are copied into the folder first, so that every other command can be tried on them by hand.
"""

import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path

import polars as pl

from gagar_cli import grade, redistribute
from gagar_cli.core.ranking import RankedCandidate
from gagar_cli.errors import OutputError
from gagar_cli.grader.client import OFFLINE_MODEL, EndpointSettings
from gagar_cli.grading_summary import GradeResult
from gagar_cli.io.rankings import latest_rankings, read_rankings
from gagar_cli.progress import ProgressCallback, no_progress
from gagar_cli.redistribution_summary import RedistributeResult

DUMP_NAME = "rollouts.jsonl"
REPOSITORIES_NAME = "repos"
RANKINGS_NAME = "demo-rankings.jsonl"
ADVANTAGES_NAME = "demo-advantages.parquet"
"""What a reader makes by hand has the names of the documentation: it does not meet the demo's."""
MARK_NAME = ".gagar-demo"
"""In a folder that a demo made, and may write again."""
VIOLATION = "violation"
NOTHING_FOUND = "nothing found against it"


@dataclass(frozen=True, slots=True)
class AttemptRow:
    """What happened to one attempt, and why."""

    group_id: str
    attempt: str
    """The trajectory's id without the group's."""
    trajectory_id: str
    outcome: str
    """`pass`, `fail` or `invalid`, from the tests."""
    place: str
    """Tier and rank, `violation` of integrity, or why it has none."""
    advantage_by_tests: float | None
    """From the tests alone; None for an invalid attempt."""
    advantage_base: float | None
    """With the rewards of integrity violations made 0, and the group's mean recomputed: what is redistributed."""
    advantage: float | None
    why: str

    @property
    def is_violation(self) -> bool:
        """Whether an integrity verdict made its reward 0."""
        return self.place == VIOLATION


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
        OutputError: the folder holds something else than an earlier demo's results.
        GagarError: as `grade.run` and `redistribute.run` do.
    """
    _claim(folder)
    _lay_out(folder)
    rankings, advantages = folder / RANKINGS_NAME, folder / ADVANTAGES_NAME
    dump = (str(folder / DUMP_NAME),)
    graded = grade.run(
        grade.GradeSettings(
            dumps=dump,
            output=str(rankings),
            endpoint=EndpointSettings(OFFLINE_MODEL),
            repos=str(folder / REPOSITORIES_NAME),
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


def _claim(folder: Path) -> None:
    """Make the folder, or take one that an earlier demo made; never write into another."""
    mark = folder / MARK_NAME
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not mark.exists():
            if any(folder.iterdir()):
                raise OutputError(
                    f"{folder}: holds other files, expected no folder or an empty one",
                    "name another with `-o`",
                )
            mark.touch()
    except OSError as error:
        raise OutputError(
            f"{folder}: {(error.strerror or str(error)).lower()}", "name another folder with `-o`"
        ) from error


def _lay_out(folder: Path) -> None:
    """The dump and its repositories, as they come with the program."""
    repositories = folder / REPOSITORIES_NAME
    try:
        with as_file(files("gagar_cli").joinpath("demo_data")) as material:
            shutil.copyfile(material / "demo-rollouts.jsonl", folder / DUMP_NAME)
            shutil.rmtree(repositories, ignore_errors=True)
            shutil.copytree(
                material / "repositories", repositories, ignore=shutil.ignore_patterns("__pycache__")
            )
    except (OSError, shutil.Error) as error:
        raise OutputError(f"{folder}: the dump cannot be copied: {error}") from error


def _tell(rankings: Path, advantages: Path) -> tuple[AttemptRow, ...]:
    latest = latest_rankings(read_rankings(str(rankings))).values()
    told = {}
    for ranking in latest:
        short = {blind: _short(name, ranking.key.group_id) for blind, name in ranking.blind_ids.items()}
        for candidate in ranking.candidates:
            told[candidate.trajectory_id] = (candidate, _why(candidate, short))
    records = (
        pl.read_parquet(advantages)
        .with_columns(_reward_by_tests(told))
        .with_columns((pl.col("by_tests") - pl.col("by_tests").mean().over("group_id")).alias("by_tests"))
    )
    return tuple(_row(record, told) for record in records.iter_rows(named=True))


def _reward_by_tests(told: Mapping[str, tuple[RankedCandidate, str]]) -> pl.Expr:
    """The reward before any integrity verdict."""
    zeroed = [name for name, (candidate, _) in told.items() if candidate.is_integrity_violation]
    is_zeroed = pl.col("trajectory_id").is_in(zeroed)
    return pl.when(is_zeroed).then(1.0).otherwise(pl.col("reward_effective")).alias("by_tests")


def _row(record: Mapping[str, object], told: Mapping[str, tuple[RankedCandidate, str]]) -> AttemptRow:
    trajectory_id = str(record["trajectory_id"])
    candidate, why = told.get(trajectory_id, (None, ""))
    if record["grading"] == "invalid":
        outcome, place, why = "invalid", "left out", "infrastructure failure"
    elif candidate is not None:
        outcome = "pass"
        place = VIOLATION if candidate.is_integrity_violation else f"{candidate.tier} #{candidate.rank}"
    elif record["reward_effective"]:
        is_skipped = record["grading"] == "skipped"
        outcome, place = "pass", str(record["grading"])
        why = "every attempt passed" if is_skipped else "the group has no usable ranking"
    else:
        outcome, place, why = "fail", "-", "tests failed"
    return AttemptRow(
        group_id=str(record["group_id"]),
        attempt=_short(trajectory_id, str(record["group_id"])),
        trajectory_id=trajectory_id,
        outcome=outcome,
        place=place,
        advantage_by_tests=_number(record["by_tests"]),
        advantage_base=_number(record["advantage_base"]),
        advantage=_number(record["advantage"]),
        why=why,
    )


def _why(candidate: RankedCandidate, short: Mapping[str, str]) -> str:
    """The claims that counted, each once, with attempts by name instead of blind id."""
    claims = dict.fromkeys(finding.claim for finding in candidate.findings)
    text = "; ".join(claims) or NOTHING_FOUND
    return re.sub(r"\b[cf]\d{2,}\b", lambda match: short.get(match[0], match[0]), text)


def _short(trajectory_id: str, group_id: str) -> str:
    return trajectory_id.removeprefix(group_id).lstrip("-/") or trajectory_id


def _number(value: object) -> float | None:
    return value if isinstance(value, float) else None
