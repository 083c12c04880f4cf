"""A training step through the real commands: what it is paid, and that no grader can stop it."""

import importlib
import json
import logging
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.test_trainers import TRAINERS, Bench

PATCH = "--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-a = 0\n+a = {}\n"
WORSE = PATCH.format("0\n+print(a)").replace("+1 @@", "+1,2 @@")
OFFLINE = "--model offline --sandbox inspect-only"


@pytest.fixture
def step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setenv("GAGAR_COMMAND", f"{sys.executable} -m gagar_cli")
    monkeypatch.setenv("GAGAR_FOLDER", str(tmp_path))
    monkeypatch.syspath_prepend(str(TRAINERS))
    module = importlib.import_module("gagar_step")
    monkeypatch.setattr(module, "_noted", set())
    return module


def attempts(*rewards: object, **more: object) -> list[dict[str, object]]:
    """A group's records, with patches that the offline grader tells apart."""
    return [
        {
            "group_id": "g",
            "trajectory_id": str(place),
            "reward": reward,
            "model_patch": PATCH.format(place),
            **more,
        }
        for place, reward in enumerate(rewards)
    ]


SHAPED = attempts(0.9, 0.9, -0.1, -0.1)


def rankings_of(folder: Path) -> list[dict[str, object]]:
    [path] = folder.glob("*/rankings.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_flags_of_reading_reach_both_commands(
    step: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("GAGAR_GRADE_FLAGS", OFFLINE)
    monkeypatch.setenv("GAGAR_READ_FLAGS", "--pass-threshold 0.5")
    made = step.redistribute_step(SHAPED)
    assert [credit.advantage for credit in made[2:]] == [-0.5, -0.5]
    assert sum(credit.advantage for credit in made[:2]) == pytest.approx(1.0)
    assert rankings_of(tmp_path)[0]["status"] == "graded"
    assert (
        json.loads(next(tmp_path.glob("*/advantages.jsonl")).read_text().splitlines()[0])["tier"] is not None
    )
    assert not caplog.records


def test_rankings_that_do_not_fit_leave_plain_advantages_and_a_warning(
    step: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Graded by one threshold and redistributed by another."""
    monkeypatch.setenv("GAGAR_GRADE_FLAGS", f"{OFFLINE} --pass-threshold 0.5")
    monkeypatch.setenv("GAGAR_REDISTRIBUTE_FLAGS", "--cap none")
    metrics: dict[str, float] = {}
    with caplog.at_level(logging.WARNING):
        made = step.redistribute_step(SHAPED, metrics)
    assert (metrics["gagar/graded_share"], metrics["gagar/moved_share"]) == (0.0, 0.0)
    assert [credit.advantage for credit in made] == pytest.approx([0.5, 0.5, -0.5, -0.5])
    assert rankings_of(tmp_path)[0]["status"] == "graded"
    assert caplog.messages[0].endswith(": no rankings that fit the records: all keep their plain advantages")


def test_a_wrong_flag_stops_the_first_step(step: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GAGAR_GRADE_FLAGS", OFFLINE)
    monkeypatch.setenv("GAGAR_READ_FLAGS", "--pass-threshold 0.5")
    monkeypatch.setenv("GAGAR_REDISTRIBUTE_FLAGS", "--cap nine")
    with pytest.raises(subprocess.CalledProcessError) as caught:
        step.redistribute_step(SHAPED)
    assert caught.value.returncode == 2


def test_an_endpoint_that_is_not_there_leaves_plain_advantages(
    step: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = "--model m --base-url http://127.0.0.1:9/v1 --sandbox inspect-only --call-attempts 1"
    monkeypatch.setenv("GAGAR_GRADE_FLAGS", flags)
    monkeypatch.setenv("GAGAR_READ_FLAGS", "--pass-threshold 0.5")
    monkeypatch.setenv("GAGAR_REDISTRIBUTE_FLAGS", "--cap none")
    metrics: dict[str, float] = {}
    made = step.redistribute_step(SHAPED, metrics)
    assert [credit.advantage for credit in made] == pytest.approx([0.5, 0.5, -0.5, -0.5])
    assert metrics == {
        "gagar/graded_share": 0.0, "gagar/eligible_share": 1.0, "gagar/ungraded_share": 1.0, "gagar/capped_share": 0.0,
        "gagar/moved_share": 0.0, "gagar/violations": 0, "gagar/bad_records": 0, "gagar/tokens_in": 0,
        "gagar/tokens_out": 0,
    }  # fmt: skip


def test_step_grades_and_redistributes_for_real(step: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GAGAR_GRADE_FLAGS", OFFLINE)
    demo = Path(__file__).resolve().parents[1] / "gagar_cli" / "demo_data" / "demo-rollouts.jsonl"
    records = [json.loads(line) for line in demo.read_text().splitlines()]
    chosen = [record for record in records if record["group_id"] == records[0]["group_id"]]
    metrics = {"trainer/epoch": 1.0}
    made = step.redistribute_step(chosen, metrics)
    known = [(credit.advantage, credit.reward) for credit in made if credit.advantage is not None]
    mean = sum(reward for _, reward in known) / len(known)
    assert [reward - mean for _, reward in known] == pytest.approx([advantage for advantage, _ in known])
    passed = {advantage for (advantage, _), record in zip(known, chosen, strict=False) if record["resolved"]}
    assert len(passed) > 1
    assert metrics.pop("trainer/epoch") == 1.0
    base = [2 / 7, -5 / 7]  # five of seven passed
    moved = sum(
        abs(value - base[not record["resolved"]])
        for (value, _), record in zip(made, chosen, strict=True)
        if value is not None
    )
    assert metrics.pop("gagar/moved_share") == pytest.approx(moved / 2 / (5 * base[0]))
    assert metrics.pop("gagar/tokens_in") > metrics.pop("gagar/tokens_out") > 100
    assert metrics == {
        "gagar/graded_share": 1.0, "gagar/eligible_share": 1.0, "gagar/ungraded_share": 0.0, "gagar/capped_share": 0.0,
        "gagar/violations": 0, "gagar/bad_records": 0,
    }  # fmt: skip


def test_step_without_a_graded_group_keeps_plain_advantages_and_a_bad_dump_stops_it(
    step: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(tmp_path, monkeypatch)
    bench.install(grade_exit=1)
    assert step.redistribute_step([{"group_id": "1", "trajectory_id": "2", "resolved": True}]) == [(0.0, 10)]
    bench.install(grade_exit=3)
    with pytest.raises(Exception, match="returned non-zero exit status 3"):
        step.redistribute_step([{"group_id": "1", "trajectory_id": "2"}])


def test_an_invalid_rollout_does_not_move_the_mean_that_a_trainer_subtracts(
    step: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GAGAR_GRADE_FLAGS", OFFLINE)
    records = attempts(1.0, 1.0, 0.0, 0.0)
    records[1]["model_patch"] = WORSE
    records[3]["infra_failure"] = True
    other = [{**record, "group_id": "h"} for record in attempts(5.0, 1.0)]
    made = step.redistribute_step([*records, *other])
    rewards = step.redistribute_rewards([*records, *other])
    mean = sum(rewards[:4]) / 4
    meant = [credit.advantage for credit in made]
    assert meant[0] > meant[1] > 0
    assert meant[2:4] == [pytest.approx(-2 / 3), None]
    assert [reward - mean for reward in rewards[:4]] == pytest.approx([*meant[:3], 0.0])
    assert rewards[4:] == [5.0, 1.0]


def test_a_group_of_invalid_rollouts_gets_no_advantage(
    step: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GAGAR_GRADE_FLAGS", OFFLINE)
    assert step.redistribute_rewards(attempts(1.0, 0.0, infra_failure=True)) == [0.0, 0.0]


def test_advantages_that_no_rewards_give_are_refused_to_those_that_take_rewards(
    step: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GAGAR_GRADE_FLAGS", OFFLINE)
    monkeypatch.setenv("GAGAR_REDISTRIBUTE_FLAGS", "--method downweight")
    with pytest.raises(ValueError, match="take `--method gagar`"):
        step.redistribute_rewards(
            [*attempts(1.0, 0.0), {**attempts(1.0)[0], "trajectory_id": "w", "model_patch": WORSE}]
        )


def test_equal_ids_of_two_steps_are_told_apart_and_equal_records_refused(
    step: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GAGAR_GRADE_FLAGS", OFFLINE)
    first, second = attempts(1.0, 1.0, 0.0, 0.0, step=1), attempts(0.0, 0.0, 0.0, 1.0, step=2)
    made = [credit.advantage for credit in step.redistribute_step([*first, *second])]
    assert sum(made[:2]) == pytest.approx(1.0)
    assert made[2:] == [-0.5, -0.5, -0.25, -0.25, -0.25, 0.75]
    with pytest.raises(ValueError, match="two records of a group have the same trajectory_id"):
        step.redistribute_step([*first, first[0]])


def test_a_bad_record_that_is_skipped_gets_no_credit_and_a_warning(
    step: ModuleType, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("GAGAR_GRADE_FLAGS", OFFLINE)
    monkeypatch.setenv("GAGAR_READ_FLAGS", "--on-bad-record skip")
    metrics: dict[str, float] = {}
    made = step.redistribute_step(attempts(1.0, "oops", 0.0, 0.0), metrics)
    assert [credit.advantage for credit in made] == pytest.approx([2 / 3, None, -1 / 3, -1 / 3])
    assert metrics["gagar/bad_records"] == 1
    assert caplog.messages[-1].endswith(": bad records, which get no credit: 1 of 4")


def test_a_gate_that_is_not_met_is_logged_and_the_rankings_hold(
    step: ModuleType, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("GAGAR_GRADE_FLAGS", f"{OFFLINE} --min-graded 5")
    monkeypatch.setenv("GAGAR_REDISTRIBUTE_FLAGS", "--min-graded 5")
    metrics: dict[str, float] = {}
    step.redistribute_step(attempts(1.0, 1.0, 0.0, 0.0), metrics)
    assert metrics["gagar/graded_share"] == 1.0
    told = [message.partition(": ")[2] for message in caplog.messages]
    assert told == ["gagar grade: a gate is not met", "gagar redistribute: a gate is not met"]


def test_notes_are_logged_once_of_a_kind(
    step: ModuleType, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("GAGAR_GRADE_FLAGS", OFFLINE)
    metrics: dict[str, float] = {}
    step.redistribute_step(attempts(0.95, 0.9, 0.0, 0.0), metrics)
    step.redistribute_step(attempts(0.85, 0.9, 0.7, 0.0), metrics)
    assert (metrics["gagar/eligible_share"], metrics["gagar/ungraded_share"]) == (0.0, 0.0)
    told = [message.partition(": ")[2] for message in caplog.messages]
    assert told[0].startswith("2 rewards lie between 0 and the pass threshold 1.0 (0.95, 0.9)")
    assert told[1].startswith("no group can be ranked, so rankings move nothing (all_fail 1)")
    assert len(told) == 2


def test_a_rollout_tells_of_its_attempt_but_not_which_it_is_or_what_it_is_worth(step: ModuleType) -> None:
    record = {"group_id": "g", "trajectory_id": "0", "reward": 1.0, "messages": [], "infra_failure": True}
    told = {"group_id": "h", "trajectory_id": "1", "step": 4, "reward": 0.0, "input": "p", "output": "r"}
    made = step.with_facts(record, {**told, "model_patch": PATCH, "resolved": 1, "infra_failure": False})
    assert made == {**record, "model_patch": PATCH, "resolved": 1, "metadata": told}
    assert step.with_facts({"reward": 1.0}, {"infra_failure": True}) == {"reward": 1.0, "infra_failure": True}
