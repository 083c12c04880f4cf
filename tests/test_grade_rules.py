"""Modes, repeats, integrity and rubrics over whole dumps, with the offline model and with a real endpoint."""

import json
from collections import Counter
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import polars as pl
import pytest

from gagar_cli.core.rubric import PAPER
from gagar_cli.errors import UsageError
from gagar_cli.grade import GradeSettings, run
from gagar_cli.grader.client import EndpointSettings
from gagar_cli.grader.rules import GradingRules
from gagar_cli.grading_estimate import estimate
from gagar_cli.io.rankings import latest_rankings, read_rankings
from gagar_cli.io.rubrics import read_rubric
from gagar_cli.redistribute import RedistributeSettings
from gagar_cli.redistribute import run as redistribute

DUMP = Path(str(files("gagar_cli").joinpath("demo_data/demo-rollouts.jsonl")))
RUBRIC = Path(__file__).parents[1] / "examples" / "library_rubric.toml"
COPIED = "shelfmark__shelfmark-44-01"
"""The demo's one attempt that read its fix from the history."""


def demo_records() -> list[dict]:
    return [json.loads(line) for line in DUMP.read_text().splitlines()]


def write(path: Path, records: list[dict]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


@pytest.fixture
def settings(tmp_path) -> GradeSettings:
    return GradeSettings(
        (str(DUMP),), str(tmp_path / "rankings.jsonl"), EndpointSettings("offline"), sandbox="inspect-only"
    )


def rankings_of(settings: GradeSettings) -> dict:
    return {key.group_id: ranking for key, ranking in latest_rankings(read_rankings(settings.output)).items()}


def lone_pass_records() -> list[dict]:
    """The demo with one passing attempt left in the group of the copied one: the copied one."""
    kept = (COPIED, "shelfmark__shelfmark-44-04", "shelfmark__shelfmark-44-07")
    return [
        record
        for record in demo_records()
        if "-44-" not in record["trajectory_id"] or record["trajectory_id"] in kept
    ]


@pytest.mark.parametrize("mode", ["groupwise-static", "pointwise-static", "pointwise-agentic"])
def test_every_mode_ranks_the_same_attempts_and_redistributes(settings, tmp_path, mode):
    run(replace(settings, output=str(tmp_path / "agentic.jsonl")))
    result = run(replace(settings, rules=GradingRules(mode=mode)))
    assert (result.n_graded, result.n_ungraded, result.n_integrity_violations) == (3, 0, 1)
    agentic = rankings_of(replace(settings, output=str(tmp_path / "agentic.jsonl")))
    for name, ranking in rankings_of(settings).items():
        ids = {one.trajectory_id for one in ranking.candidates}
        assert ids == {one.trajectory_id for one in agentic[name].candidates}
        assert ranking.status == "skipped" or ranking.grader["mode"] == mode
    advantages = redistribute(
        RedistributeSettings((str(DUMP),), settings.output, str(tmp_path / "advantages.parquet"), check=True)
    )
    assert advantages.n_groups["graded"] == 3


def test_a_static_judge_finds_what_the_patches_show(settings, tmp_path):
    """The offline model's rules on patches need no tools, so groupwise ranks do not depend on them in the demo."""
    run(settings)
    static = replace(
        settings, output=str(tmp_path / "static.jsonl"), rules=GradingRules(mode="groupwise-static")
    )
    result = run(static)
    places = [
        {one.trajectory_id: (one.tier, one.rank) for ranking in found.values() for one in ranking.candidates}
        for found in (rankings_of(settings), rankings_of(static))
    ]
    assert places[0] == places[1]
    # A call for each group, and two votes of four replies each on the one attempt with a lead.
    assert result.n_calls == 3 + 2 * 4


@pytest.mark.parametrize("mode", ["groupwise-static", "pointwise-agentic"])
@pytest.mark.parametrize("protocol", ["json-schema", "text"])
def test_modes_work_under_every_protocol(settings, mode, protocol):
    endpoint = EndpointSettings("offline", protocol=protocol)
    result = run(replace(settings, endpoint=endpoint, rules=GradingRules(mode=mode)))
    assert (result.n_graded, result.n_integrity_violations) == (3, 1)
    graded = [ranking for ranking in rankings_of(settings).values() if ranking.status == "graded"]
    assert {ranking.grader["protocol"] for ranking in graded} == {protocol}


def test_repeats_agree_where_the_grader_is_a_rule(settings):
    result = run(replace(settings, rules=GradingRules(repeats=3)))
    assert (result.consistency.n_repeated, result.consistency.rank_agreement) == (3, 1.0)
    assert result.consistency.tier_agreement == 1.0
    shown = Counter(
        place
        for ranking in rankings_of(settings).values()
        for repeat in ranking.grader.get("repeats", ())
        for place in [repeat["candidates"][min(repeat["candidates"])]["blind_id"]]
    )
    assert len(shown) > 1
    assert result.to_record()["consistency"]["rank_agreement"] == 1.0


@pytest.mark.parametrize(
    ("share", "repeated", "calls"), [(0.0, 0, 29), (0.25, 1, 29 + 2 * 9), (1.0, 3, 3 * 29)]
)
def test_a_share_of_the_groups_is_graded_again(settings, share, repeated, calls):
    """Of three groups with 17 candidates, that of five is drawn first; a grading takes 4 calls and one a candidate."""
    settings = replace(settings, rules=GradingRules(repeats=3, repeat_share=share))
    assert estimate(settings).n_calls == calls
    result = run(settings)
    assert (result.n_graded, result.consistency.n_repeated) == (3, repeated)


def test_repeats_and_their_first_grading_rank_alike_for_a_rule(settings, tmp_path):
    run(settings)
    thrice = replace(settings, output=str(tmp_path / "thrice.jsonl"), rules=GradingRules(repeats=3))
    run(thrice)
    once, again = rankings_of(settings), rankings_of(thrice)
    for name, ranking in once.items():
        assert [(one.trajectory_id, one.tier, one.rank, one.scores) for one in ranking.candidates] == [
            (one.trajectory_id, one.tier, one.rank, one.scores) for one in again[name].candidates
        ]


def test_a_lone_pass_that_copied_loses_its_reward(settings, tmp_path):
    dump = write(tmp_path / "dump.jsonl", lone_pass_records())
    settings = replace(settings, dumps=(str(dump),))
    result = run(settings)
    assert (result.n_eligible, result.n_integrity_violations, result.skipped["all_fail"]) == (2, 1, 1)
    output = tmp_path / "advantages.parquet"
    redistribute(RedistributeSettings((str(dump),), settings.output, str(output)))
    rows = pl.read_parquet(output).filter(pl.col("group_id") == "shelfmark__shelfmark-44")
    assert rows.filter(pl.col("trajectory_id") == COPIED)["reward_effective"].to_list() == [0.0]
    assert rows["advantage"].to_list() == [0.0, 0.0, 0.0]


def test_a_checked_lone_pass_is_not_asked_about_again(settings, tmp_path):
    dump = write(tmp_path / "dump.jsonl", lone_pass_records())
    settings = replace(settings, dumps=(str(dump),))
    run(settings)
    before = Path(settings.output).read_bytes()
    again = run(settings)
    assert Path(settings.output).read_bytes() == before
    assert again.n_resumed == 3


def test_what_was_found_in_a_lone_pass_holds_in_a_run_over_fewer_groups(settings, tmp_path):
    dump = write(tmp_path / "dump.jsonl", lone_pass_records())
    settings = replace(settings, dumps=(str(dump),))
    first = run(replace(settings, max_groups=1))
    assert (first.n_integrity_violations, first.skipped) == (0, {"lone_pass": 1, "all_pass": 1})
    assert run(settings).n_integrity_violations == 1
    before = Path(settings.output).read_bytes()
    fewer = run(replace(settings, max_groups=1))
    assert (fewer.n_integrity_violations, fewer.skipped) == (1, {"all_fail": 1, "all_pass": 1})
    assert Path(settings.output).read_bytes() == before


def test_integrity_off_leaves_lone_passes_alone(settings, tmp_path):
    dump = write(tmp_path / "dump.jsonl", lone_pass_records())
    result = run(replace(settings, dumps=(str(dump),), rules=GradingRules(integrity="off")))
    assert (result.n_integrity_violations, result.skipped["lone_pass"]) == (0, 1)


def test_an_all_pass_group_is_checked_only_where_asked_for(settings, tmp_path):
    records = [
        record for record in demo_records() if "-44-" in record["trajectory_id"] and record["resolved"]
    ]
    settings = replace(settings, dumps=(str(write(tmp_path / "dump.jsonl", records)),))
    assert run(settings).skipped == {"all_pass": 1}
    asked = replace(settings, output=str(tmp_path / "all.jsonl"), rules=GradingRules(integrity="all"))
    result = run(asked)
    assert (result.n_graded, result.n_integrity_violations) == (1, 1)


@pytest.mark.parametrize(
    ("rules", "named"),
    [
        (GradingRules(mode="pointwise-static"), "mode was"),
        (GradingRules(repeats=2), "repeats was 1, is 2"),
        (GradingRules(integrity="all"), "integrity was"),
        (GradingRules(integrity_votes=3), "integrity_votes was 2, is 3"),
        (GradingRules(rubric=replace(PAPER, t1_min_score=5)), "rubric was"),
    ],
)
def test_a_ledger_does_not_go_on_under_other_rules(settings, rules, named):
    run(replace(settings, max_groups=1))
    with pytest.raises(UsageError, match=named):
        run(replace(settings, rules=rules))


def test_a_teams_rubric_is_scored_recorded_and_read_back(settings, tmp_path):
    rubric = read_rubric(str(RUBRIC))
    table = replace(settings, output=str(tmp_path / "rankings.parquet"), rules=GradingRules(rubric=rubric))
    assert run(table).n_graded == 3
    run(replace(settings, rules=GradingRules(rubric=rubric)))
    lines, rows = rankings_of(settings), rankings_of(table)
    graded = [name for name, ranking in lines.items() if ranking.status == "graded"]
    assert [rows[name].candidates for name in graded] == [lines[name].candidates for name in graded]
    ranking = lines[graded[0]]
    assert ranking.grader["rubric"] == {
        "name": "library",
        "hash": rubric.digest,
        "dimensions": ["approach", "compatibility", "minimality", "own_tests"],
    }
    for one in ranking.candidates:
        assert set(one.scores) == set(rubric.dimensions)
        # No rule of the offline model knows this dimension.
        assert one.scores["own_tests"] == 4
