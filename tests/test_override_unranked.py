"""A charge by a person in a group that was not ranked: every command that follows takes it as it takes a grader's."""

import json
from pathlib import Path

import polars as pl
import pytest

from gagar_cli import redistribute
from gagar_cli.core.integrity_action import IntegrityAction
from gagar_cli.errors import UsageError
from gagar_cli.grade import GradeSettings, run
from gagar_cli.grader.client import EndpointSettings
from gagar_cli.io.rankings import latest_rankings, read_rankings
from gagar_cli.override import OverrideSettings
from gagar_cli.override import run as override

REWARDS = {"all": (1.0, 1.0, 1.0), "lone": (1.0, 0.0, 0.0), "none": (0.0, 0.0)}


@pytest.fixture
def graded(tmp_path) -> GradeSettings:
    records = [
        {"group_id": group, "trajectory_id": f"{group}-{number}", "reward": reward, "model_patch": "diff"}
        for group, rewards in REWARDS.items()
        for number, reward in enumerate(rewards)
    ]
    dump = tmp_path / "dump.jsonl"
    dump.write_text("".join(json.dumps(each) + "\n" for each in records))
    settings = GradeSettings(
        (str(dump),), str(tmp_path / "rankings.jsonl"), EndpointSettings("offline"), sandbox="inspect-only"
    )
    run(settings)
    return settings


def charge(settings: GradeSettings, group: str, number: int = 0, tier: str = "violation") -> None:
    override(OverrideSettings(settings.output, group, f"{group}-{number}", tier, "copied", "ada"))


def advantages(settings: GradeSettings, group: str, action: IntegrityAction = "zero") -> list[float]:
    output = f"{settings.output}.parquet"
    redistribute.run(
        redistribute.RedistributeSettings(
            settings.dumps, settings.output, output, overwrite=True, integrity_action=action
        )
    )
    return pl.read_parquet(output).filter(pl.col("group_id") == group)["advantage"].round(9).to_list()


def lines(settings: GradeSettings) -> dict[str, tuple[str, str | None]]:
    rankings = latest_rankings(read_rankings(settings.output)).values()
    return {one.key.group_id: (one.status, one.reason) for one in rankings}


def test_a_charge_withdraws_the_reward_and_nothing_else(graded):
    assert advantages(graded, "all") == [0.0, 0.0, 0.0]
    charge(graded, "all", 1)
    assert lines(graded)["all"] == ("skipped", "overridden: all_pass")
    assert advantages(graded, "all") == [round(1 / 3, 9), round(-2 / 3, 9), round(1 / 3, 9)]
    assert advantages(graded, "all", "t3") == advantages(graded, "all", "report") == [0.0, 0.0, 0.0]


def test_a_lone_pass_that_is_charged_leaves_nothing_to_learn(graded):
    assert advantages(graded, "lone") == [round(2 / 3, 9), round(-1 / 3, 9), round(-1 / 3, 9)]
    charge(graded, "lone")
    assert advantages(graded, "lone") == [0.0, 0.0, 0.0]


def test_a_tier_lifts_the_charge(graded):
    charge(graded, "lone")
    charge(graded, "lone", tier="T2")
    assert advantages(graded, "lone") == [round(2 / 3, 9), round(-1 / 3, 9), round(-1 / 3, 9)]


def test_a_run_that_goes_on_keeps_the_charges_and_counts_them(graded):
    charge(graded, "all")
    charge(graded, "lone")
    before = Path(graded.output).read_bytes()
    result = run(graded)
    assert Path(graded.output).read_bytes() == before
    assert (result.n_overridden, result.n_integrity_violations, result.skipped["overridden"]) == (2, 2, 2)
    assert not any("no longer holds" in note for note in result.notes)


def test_a_charge_of_a_group_that_became_another_no_longer_holds_and_that_is_told(graded):
    charge(graded, "all")
    with Path(graded.dumps[0]).open("a") as stream:
        failed = {"group_id": "all", "trajectory_id": "all-3", "reward": 0.0, "model_patch": "diff"}
        stream.write(json.dumps(failed) + "\n")
    result = run(graded)
    assert any("was overridden, but its input changed" in note for note in result.notes)
    assert lines(graded)["all"][0] != "skipped"


def test_show_stats_and_report_tell_of_the_charge(graded, gagar, tmp_path):
    charge(graded, "all")
    shown = gagar("show", graded.output, "all")
    assert "violation" in shown.stdout
    assert "override: all-0 from no place to violation" in shown.stdout
    assert "by ada: copied" in shown.stdout
    stats = json.loads(gagar("stats", *graded.dumps, graded.output, "--json").stdout)
    assert stats["grading"]["n_skipped_by_reason"]["overridden"] == 1
    page = tmp_path / "page.html"
    report = json.loads(gagar("report", graded.output, "-o", str(page), "--json").stdout)
    assert (report["n_overridden"], report["n_candidates_by_tier"]["violation"]) == (1, 1)
    assert "Not graded: overridden: all_pass" in page.read_text()


def test_where_nobody_passed_or_has_a_place_other_corrections_are_refused(graded):
    before = Path(graded.output).read_bytes()
    with pytest.raises(UsageError, match="is skipped, not graded: all_fail"):
        charge(graded, "none")
    with pytest.raises(UsageError, match="is skipped, not graded: all_pass") as refused:
        charge(graded, "all", tier="T1")
    assert "`--tier violation` charges a passing attempt" in str(refused.value.hint)
    # What the grader saw of a lone pass is in its line.
    with pytest.raises(UsageError, match='has no trajectory "lone-7"'):
        charge(graded, "lone", 7)
    assert Path(graded.output).read_bytes() == before
