"""A person's correction in a rankings file: appended, honoured by resumes and by redistribution, counted."""

import json
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import polars as pl
import pytest

from gagar_cli import grade_following, redistribute
from gagar_cli.errors import InputError, OutputError, UsageError
from gagar_cli.grade import GradeSettings, run
from gagar_cli.grade_following import FollowOptions
from gagar_cli.grader.client import EndpointSettings
from gagar_cli.io.ledger import Ledger
from gagar_cli.io.rankings import latest_rankings, read_rankings
from gagar_cli.override import OverrideSettings
from gagar_cli.override import run as override

DEMO = Path(str(files("gagar_cli").joinpath("demo_data/demo-rollouts.jsonl")))
GROUP = "shelfmark__shelfmark-44"
BEST, WORST = f"{GROUP}-08", f"{GROUP}-02"


@pytest.fixture(scope="module")
def graded_once(tmp_path_factory) -> Path:
    """A folder with the demo's dump, and what `gagar grade` leaves of it."""
    folder = tmp_path_factory.mktemp("graded")
    (folder / "dump.jsonl").write_bytes(DEMO.read_bytes())
    run(settings_in(folder))
    return folder


def settings_in(folder: Path) -> GradeSettings:
    dump, output = (str(folder / name) for name in ("dump.jsonl", "rankings.jsonl"))
    return GradeSettings((dump,), output, EndpointSettings("offline"), sandbox="inspect-only")


@pytest.fixture
def graded(graded_once, tmp_path) -> GradeSettings:
    for made in graded_once.iterdir():
        (tmp_path / made.name).write_bytes(made.read_bytes())
    return settings_in(tmp_path)


@pytest.fixture
def dump(graded) -> Path:
    return Path(graded.dumps[0])


def correction(path: str, trajectory_id: str = BEST, tier: str = "T3") -> OverrideSettings:
    return OverrideSettings(path, GROUP, trajectory_id, tier, "it was not so good", "ada")


def tier_of(path: str, trajectory_id: str = BEST) -> str | None:
    return next(
        candidate.tier
        for ranking in latest_rankings(read_rankings(path)).values()
        for candidate in ranking.candidates
        if candidate.trajectory_id == trajectory_id
    )


def test_a_correction_is_one_more_line_and_the_lines_before_it_stay(graded):
    before = Path(graded.output).read_bytes()
    override(correction(graded.output))
    after = Path(graded.output).read_bytes()
    assert after.startswith(before)
    assert after[len(before) :].count(b"\n") == 1
    assert tier_of(graded.output) == "T3"


def test_a_run_that_goes_on_neither_undoes_nor_regrades_a_correction(graded):
    override(correction(graded.output))
    before = Path(graded.output).read_bytes()
    result = run(graded)
    assert (result.n_resumed, result.n_overridden) == (3, 1)
    assert Path(graded.output).read_bytes() == before


def test_a_corrected_group_whose_input_changed_is_graded_again_and_that_is_told(graded, dump):
    override(correction(graded.output))
    records = [json.loads(line) for line in dump.read_text().splitlines()]
    for record in records:
        if record["trajectory_id"] == WORST:
            record["model_patch"] += "\n"
    dump.write_text("".join(json.dumps(record) + "\n" for record in records))
    result = run(graded)
    assert result.n_overridden == 0
    assert any("was overridden, but its input changed" in note for note in result.notes)
    assert tier_of(graded.output) == "T1"


def test_redistribution_follows_a_correction_and_counts_it(graded, dump, tmp_path):
    def advantage_of(name: str) -> tuple[float, int]:
        settings = redistribute.RedistributeSettings(
            (str(dump),), graded.output, str(tmp_path / "out.parquet"), overwrite=True
        )
        result = redistribute.run(settings)
        frame = pl.read_parquet(settings.output)
        return frame.filter(pl.col("trajectory_id") == name)["advantage"].item(), result.n_overridden

    before, n_before = advantage_of(BEST)
    override(correction(graded.output))
    after, n_after = advantage_of(BEST)
    assert (n_before, n_after) == (0, 1)
    assert after < before


def test_a_correction_costs_nothing_again(graded):
    spent = run(graded)
    override(correction(graded.output))
    assert run(graded).n_input_tokens == spent.n_input_tokens


def test_a_run_that_holds_the_file_keeps_corrections_out(graded):
    with Ledger.open(graded.output, config=None), pytest.raises(OutputError, match="locked"):
        override(correction(graded.output))


def test_rankings_made_by_hand_can_be_corrected(tmp_path):
    path = tmp_path / "by-hand.jsonl"
    candidates = [
        {"trajectory_id": "a", "tier": "T1", "rank": 1},
        {"trajectory_id": "b", "tier": "T1", "rank": 2},
    ]
    path.write_text(json.dumps({"group_id": "g", "candidates": candidates}) + "\n")
    override(OverrideSettings(str(path), "g", "a", "T2", "because", "ada"))
    assert (tier_of(str(path), "a"), tier_of(str(path), "b")) == ("T2", "T1")
    assert not Path(f"{path}.run.json").exists()


def test_a_file_without_a_last_newline_is_left_alone(tmp_path):
    path = tmp_path / "torn.jsonl"
    text = json.dumps({"group_id": "g", "candidates": [{"trajectory_id": "a", "tier": "T1", "rank": 1}]})
    path.write_text(text)
    with pytest.raises(InputError, match="the last line has no newline"):
        override(OverrideSettings(str(path), "g", "a", "T2", "because", "ada"))
    assert path.read_text() == text


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"group_id": "nope"}, UsageError, 'group "nope" is not there'),
        ({"step": 41}, UsageError, "is not there at step 41"),
        ({"trajectory_id": "nobody"}, UsageError, "ranks no trajectory"),
        ({"tier": "T4"}, UsageError, "expected T1, T2, T3, violation"),
        ({"reason": "  "}, UsageError, "--reason has 0 characters"),
        ({"tier": "violation", "rank": 1}, UsageError, "a violation has none"),
        ({"rankings": "r.parquet"}, UsageError, "expected plain JSON lines"),
        ({"rankings": "absent.jsonl"}, InputError, "no such file"),
    ],
)
def test_what_cannot_be_corrected_is_told_and_changes_nothing(graded, changes, error, message):
    before = Path(graded.output).read_bytes()
    with pytest.raises(error, match=message):
        override(replace(correction(graded.output), **changes))
    assert Path(graded.output).read_bytes() == before


def test_a_corrected_group_that_got_a_late_rollout_is_graded_again_by_the_next_run(graded, dump):
    """A mark of lateness is not a correction: the group is owed, and that its correction is gone is told."""
    override(correction(graded.output))
    one = next(json.loads(line) for line in dump.read_text().splitlines() if BEST in line)
    with dump.open("a") as stream:
        stream.write(json.dumps({**one, "trajectory_id": "late"}) + "\n")
    marked = grade_following.run(graded, FollowOptions(idle_seconds=0.0))
    assert (marked.n_late, marked.ungraded) == (1, {"late": 1})
    result = run(graded)
    assert (result.n_graded, result.n_ungraded, result.n_overridden) == (3, 0, 0)
    assert any("was overridden, but trajectories arrived since" in note for note in result.notes)
