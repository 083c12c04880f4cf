"""What a grading run may spend, what it would take, and which groups are its own."""

import json
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import pytest

from gagar_cli.core.schema import GroupKey
from gagar_cli.core.sharding import Shard
from gagar_cli.core.spending import Budget, Prices
from gagar_cli.errors import UsageError
from gagar_cli.grade import GradeSettings, run
from gagar_cli.grader.client import EndpointSettings
from gagar_cli.grader.rules import GradingRules
from gagar_cli.grading_estimate import estimate
from gagar_cli.grading_sizes import Talk, guess
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


def test_a_dry_run_refuses_a_ledger_of_other_settings_as_the_run_would(settings):
    run(replace(settings, max_groups=1))
    with pytest.raises(UsageError, match="was written with other settings: repeats was 1, is 2"):
        estimate(replace(settings, rules=GradingRules(repeats=2)))
    anew = estimate(replace(settings, rules=GradingRules(repeats=2), overwrite=True))
    assert (anew.n_settled, anew.basis) == (0, "guessed")


def test_a_guess_sends_the_conversation_again_with_every_call():
    """One candidate, 5 calls: 5 prompts of 100, and (1000 + 5 × 120) tokens over which the calls come in evenly."""
    found = guess([[Talk(100, 1000, n_calls=5, n_judged=1)]], 3)
    assert found.n_calls == 3 * 5
    assert found.n_input_tokens == 3 * (5 * 100 + 1600 * 4 // 2)
    assert found.n_output_tokens == 3 * (5 * 120 + 250)


def test_a_guess_of_one_call_sends_its_prompt_once_and_gets_a_submission():
    """Two conversations a group, 10 groups of which 2 were measured alike."""
    talk = Talk(7000, 0, n_calls=1, n_judged=4)
    found = guess([[talk, talk], [talk, talk]], 10)
    assert (found.n_calls, found.n_input_tokens, found.n_output_tokens) == (20, 140_000, 20 * 4 * 250)


@pytest.mark.parametrize(
    ("rules", "calls"),
    [
        (GradingRules("agentic"), 3 * 4 + 17),
        (GradingRules("agentic", repeats=3), 3 * (3 * 4 + 17)),
        (GradingRules("groupwise-static", integrity="off"), 3),
        (GradingRules("groupwise-static", integrity="off", repeats=2), 6),
        (GradingRules("pointwise-static", integrity="off"), 17),
        (GradingRules("pointwise-agentic"), 17 * 5),
    ],
    ids=lambda value: f"{value.mode}-{value.repeats}" if isinstance(value, GradingRules) else "",
)
def test_a_dry_run_counts_the_conversations_of_its_mode(settings, rules, calls):
    """Three eligible groups with 17 candidates; a judge with tools takes 4 calls and one a candidate."""
    found = estimate(replace(settings, rules=rules))
    assert (found.n_calls, found.mode, found.repeats) == (calls, rules.mode, rules.repeats)


def many_small_groups(tmp_path: Path, n_groups: int) -> str:
    """Groups of two that pass and one that does not, with little to read."""
    path = tmp_path / "small.jsonl"
    records = [
        {
            "group_id": f"g{group}",
            "trajectory_id": f"{group}-{n}",
            "reward": float(n < 2),
            "test_output": f"{n} passed",
        }
        for group in range(n_groups)
        for n in range(3)
    ]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return str(path)


@pytest.mark.parametrize("share", [0.5, 0.02])
def test_a_dry_run_counts_exactly_the_groups_that_are_drawn_for_repeats(settings, tmp_path, share):
    """A grading of two attempts takes 4 + 2 calls; of the 120 groups at most 50 are measured."""
    rules = GradingRules(repeats=3, repeat_share=share)
    keys = [GroupKey(None, f"g{n}") for n in range(120)]
    n_gradings = sum(rules.of_group(key).repeats for key in keys)
    assert 120 < n_gradings < 3 * 120
    found = estimate(replace(settings, dumps=(many_small_groups(tmp_path, 120),), rules=rules))
    assert (found.n_to_grade, found.n_measured, found.n_calls) == (120, 50, 6 * n_gradings)


def test_a_measured_dry_run_knows_which_groups_are_drawn_for_repeats(settings, tmp_path):
    rules = GradingRules(repeats=2, repeat_share=0.5)
    repeats = [rules.of_group(GroupKey(None, f"g{n}")).repeats for n in range(12)]
    assert 5 < sum(repeats[:5]) < 10
    small = replace(settings, dumps=(many_small_groups(tmp_path, 12),), rules=rules)
    done = run(replace(small, max_groups=5))
    found = estimate(small)
    expected = done.n_calls * sum(repeats[5:]) / sum(repeats[:5])
    assert (found.basis, found.n_to_grade, found.n_calls) == ("measured", 7, round(expected))


def test_a_dry_run_tells_the_share_of_groups_that_is_repeated(settings):
    found = estimate(replace(settings, rules=GradingRules(repeats=2, repeat_share=0.25)))
    assert found.to_record()["repeat_share"] == 0.25


def test_a_static_dry_run_measures_what_is_really_sent(settings):
    """With one call a group, the prompt is all of the input; the offline model counts 4 characters a token, no schemas."""
    rules = GradingRules("groupwise-static", integrity="off")
    planned = estimate(replace(settings, rules=rules))
    done = run(replace(settings, rules=rules))
    assert planned.n_calls == done.n_calls
    assert 1.0 <= planned.n_input_tokens / (done.n_input_tokens * 4 / 3.5) <= 1.15


def with_lone_pass(tmp_path: Path, command: str) -> str:
    """The demo dump with a further group: one attempt passes, in whose log `command` was run, and one fails."""
    first = json.loads(DEMO.read_text().splitlines()[0])
    call = {
        "id": "1",
        "type": "function",
        "function": {"name": "bash", "arguments": json.dumps({"command": command})},
    }
    log = [
        {"role": "user", "content": "fix it"},
        {"role": "assistant", "content": "look", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": "commit 1234\n+    return value"},
    ]
    lone = {**first, "group_id": "lone", "messages": log, "infra_failure": False, "mask_sample": False}
    more = [
        {**lone, "trajectory_id": f"lone-{passed}", "resolved": passed, "reward": float(passed)}
        for passed in (True, False)
    ]
    path = tmp_path / "lone.jsonl"
    path.write_text(DEMO.read_text() + "".join(json.dumps(one) + "\n" for one in more))
    return str(path)


def test_a_dry_run_counts_the_checks_of_groups_that_cannot_be_ranked(settings, tmp_path):
    """A lone pass with a lead takes one vote of 5 calls; without one it takes none."""
    base = estimate(settings)
    suspect = replace(settings, dumps=(with_lone_pass(tmp_path, "git log -p --all"),))
    found = estimate(suspect)
    assert (found.n_to_check, found.n_votes, found.n_calls - base.n_calls) == (1, 1, 5)
    off = estimate(replace(suspect, rules=GradingRules(integrity="off")))
    assert (off.n_to_check, off.n_votes, off.n_calls) == (0, 0, base.n_calls)
    calm = estimate(replace(settings, dumps=(with_lone_pass(tmp_path, "ls"),)))
    assert (calm.n_to_check, calm.n_votes, calm.n_calls) == (1, 0, base.n_calls)
