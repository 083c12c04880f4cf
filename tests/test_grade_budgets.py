"""What a grading run may spend, what it would take, and which groups are its own."""

import json
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import pytest

from gagar_cli.core.sharding import Shard
from gagar_cli.core.spending import Budget, Prices
from gagar_cli.errors import UsageError
from gagar_cli.grade import GradeSettings, run
from gagar_cli.grader.client import EndpointSettings
from gagar_cli.grading_estimate import GroupSize, estimate, guess
from gagar_cli.io.rankings import latest_rankings, read_rankings

DEMO = Path(str(files("gagar_cli").joinpath("demo_data/demo-rollouts.jsonl")))


@pytest.fixture
def settings(tmp_path) -> GradeSettings:
    output = str(tmp_path / "rankings.jsonl")
    endpoint = EndpointSettings("offline")
    return GradeSettings((str(DEMO),), output, endpoint, sandbox="inspect-only", concurrency=1)


def with_types(tmp_path: Path, kind_of) -> str:
    """The demo dump with a `kind` on each record."""
    records = [json.loads(line) for line in DEMO.read_text().splitlines()]
    path = tmp_path / "typed.jsonl"
    path.write_text("".join(json.dumps({**one, "kind": kind_of(one)}) + "\n" for one in records))
    return str(path)


def test_a_budget_stops_before_the_next_group_and_a_larger_one_goes_on(settings):
    first = run(replace(settings, budget=Budget(max_tokens=1)))
    assert (first.n_graded, first.n_not_reached) == (1, 2)
    assert first.stopped is not None
    assert first.stopped.startswith("--max-tokens-total 1 is used up")
    second = run(replace(settings, budget=Budget(max_tokens=10**9)))
    assert (second.n_graded, second.n_resumed, second.stopped) == (3, 1, None)


def test_what_earlier_runs_of_a_ledger_spent_counts(settings):
    spent = run(replace(settings, max_groups=1))
    used_up = replace(settings, budget=Budget(max_tokens=spent.n_input_tokens + spent.n_output_tokens))
    again = run(used_up)
    assert (again.n_graded, again.n_resumed, again.n_not_reached) == (1, 1, 2)


def test_cost_is_in_every_ranking_and_sums_up(settings):
    result = run(replace(settings, prices=Prices(2.0, 8.0)))
    costs = [
        ranking.grader["cost"] for ranking in read_rankings(settings.output) if ranking.status == "graded"
    ]
    expected = (result.n_input_tokens * 2 + result.n_output_tokens * 8) / 1e6
    assert result.cost == pytest.approx(expected)
    assert sum(costs) == pytest.approx(expected)


def test_a_cost_limit_stops_and_wants_prices(settings):
    stopped = run(replace(settings, prices=Prices(1.0, 1.0), budget=Budget(max_cost=1e-6)))
    assert stopped.n_graded == 1
    with pytest.raises(UsageError, match="--max-cost needs prices"):
        run(replace(settings, budget=Budget(max_cost=1.0)))


def test_shards_have_every_group_once_and_concatenate(settings, tmp_path):
    keys = []
    for number in (1, 2):
        part = replace(settings, shard=f"{number}/2", output=str(tmp_path / f"{number}.jsonl"))
        result = run(part)
        found = list(latest_rankings(read_rankings(part.output)))
        assert result.n_groups == len(found)
        assert all(Shard(number, 2).holds(key) for key in found)
        keys += found
    assert len(keys) == len(set(keys)) == 4


def test_passing_attempts_outside_a_condition_are_not_ranked(settings, tmp_path):
    outside = [json.loads(line) for line in DEMO.read_text().splitlines()]
    odd = next(one["trajectory_id"] for one in outside if one["resolved"])
    dump = with_types(tmp_path, lambda one: "chat" if one["trajectory_id"] == odd else "code")
    run(replace(settings, dumps=(dump,), eligible='kind == "code"'))
    ranked = {
        candidate.trajectory_id
        for ranking in read_rankings(settings.output)
        for candidate in ranking.candidates
    }
    assert odd not in ranked
    assert len(ranked) == 16


def test_groups_outside_a_condition_are_skipped_with_that_reason(settings, tmp_path):
    dump = with_types(tmp_path, lambda one: "code" if "44" in one["group_id"] else "chat")
    result = run(replace(settings, dumps=(dump,), eligible='kind == "code"'))
    assert (result.n_graded, result.skipped) == (1, {"not_eligible": 3})
    with pytest.raises(UsageError, match="eligible was"):
        run(replace(settings, dumps=(dump,)))


def test_a_condition_on_a_column_that_no_record_has_is_refused(settings):
    with pytest.raises(UsageError, match="--eligible names kind, which no record has"):
        run(replace(settings, eligible='kind == "code"'))


def test_a_dry_run_asks_nobody_and_writes_nothing(settings, tmp_path):
    nobody = EndpointSettings("m", "http://127.0.0.1:9/v1")
    found = estimate(replace(settings, endpoint=nobody, prices=Prices(1.0, 2.0)))
    assert (found.n_eligible, found.n_to_grade, found.n_candidates) == (3, 3, 17)
    assert found.skipped == {"all_pass": 1}
    assert found.basis == "guessed"
    assert found.n_input_tokens > found.n_calls * found.prompt_tokens
    assert found.cost == pytest.approx((found.n_input_tokens + 2 * found.n_output_tokens) / 1e6)
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_leaves_out_what_is_settled_and_learns_from_it(settings):
    done = run(replace(settings, max_groups=1))
    found = estimate(settings)
    assert (found.n_settled, found.n_to_grade, found.basis, found.n_measured) == (1, 2, "measured", 1)
    assert (found.n_calls, found.n_input_tokens) == (2 * done.n_calls, 2 * done.n_input_tokens)


def test_a_guess_sends_the_conversation_again_with_every_call():
    """One candidate, 5 calls: 5 prompts of 100, and (1000 + 5 × 120) tokens over which the calls come in evenly."""
    found = guess([GroupSize(100, 1000, 1)], 3)
    assert found.n_calls == 3 * 5
    assert found.n_input_tokens == 3 * (5 * 100 + 1600 * 4 // 2)
    assert found.n_output_tokens == 3 * (5 * 120 + 250)
