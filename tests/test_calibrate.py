import json
import re
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import pytest

from gagar_cli.calibrate import CalibrateSettings, plan_calibration, run
from gagar_cli.core.rubric import DIMENSIONS
from gagar_cli.errors import InputError, OutputError, UsageError
from gagar_cli.grader.client import EndpointSettings
from gagar_cli.group_grading import GroupGraderSettings
from gagar_cli.io.dump import ReadOptions, open_dump
from gagar_cli.io.kept_texts import KeptText

DUMP = Path(str(files("gagar_cli").joinpath("demo_data"))) / "demo-rollouts.jsonl"
OFFLINE = EndpointSettings("offline")
USELESS = {"choices": [{"message": {"content": "no"}, "finish_reason": "stop"}]}
"""A reply that makes no use of any protocol."""


@pytest.fixture
def settings(tmp_path) -> CalibrateSettings:
    return CalibrateSettings(
        dumps=(str(DUMP),),
        output=str(tmp_path / "calibration"),
        grader=GroupGraderSettings(OFFLINE),
        models=(OFFLINE,),
        flaws_per_group=6,
    )


def test_the_offline_models_card_on_the_demo(settings):
    result = run(settings)
    card = result.cards[0]
    assert (card.n_groups, card.n_ungraded) == (4, 0)
    assert card.detection.value >= 0.8
    assert (card.false_alarms.n_true, card.injection_flips.n_true, card.slander_flips.n_true) == (0, 0, 0)
    assert sum(result.n_planted.values()) == card.detection.n
    written = json.loads((Path(settings.output) / "card.json").read_text())
    assert written["detection"]["value"] == card.detection.value
    assert written["verdict"] == written["graders"][0]["verdict"]
    assert "Calibration of offline" in (Path(settings.output) / "report.html").read_text()


def test_long_test_outputs_are_out_of_memory_and_shared_by_the_copies(settings, tmp_path):
    records = [
        json.loads(line) | {"test_output": "1 passed\n" * 150_000} for line in DUMP.read_text().splitlines()
    ]
    path = tmp_path / "long.jsonl"
    path.write_text("\n".join(map(json.dumps, records)))
    with open_dump([str(path)], ReadOptions()) as dump:
        (first, *_) = plan_calibration(dump, settings)
    outputs = [one._test_output for one in first.group.trajectories]
    assert len(outputs) > 5
    assert all(isinstance(one, KeptText) for one in outputs)
    assert len(set(outputs)) <= 3
    assert first.group.trajectories[0].test_output == "1 passed\n" * 150_000


def test_modes_meet_the_same_groups_side_by_side(settings):
    result = run(replace(settings, modes=("agentic", "pointwise-static")))
    assert [card.grader for card in result.cards] == ["offline, agentic", "offline, pointwise-static"]
    assert result.cards[0].detection.n == result.cards[1].detection.n
    names = {path.name for path in Path(settings.output).iterdir()}
    assert {"rankings.jsonl", "rankings-2.jsonl"} <= names


def test_repeats_tell_how_stable_the_grader_is(settings):
    again = replace(
        settings, grader=replace(settings.grader, rules=replace(settings.grader.rules, repeats=2))
    )
    card = run(again).cards[0]
    assert card.repeats.value == pytest.approx(1.0, abs=0.2)
    assert (card.repeats.n_tasks, card.place_effect.n_tasks) == (4, 4)
    assert card.to_record()["rank_agreement"]["value"] == card.repeats.value


def test_the_same_command_goes_on_and_gives_the_same_card(settings):
    first = run(settings)
    path = Path(settings.output) / "rankings.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:2]))
    again = run(settings)
    assert len(path.read_bytes().splitlines()) == 4
    assert again.cards[0].by_kind == first.cards[0].by_kind


def test_a_grader_that_answers_nothing_usable_is_called_unusable(settings, serve, chat):
    endpoint = serve(*[chat(content="I like them all")] * 60)
    model = EndpointSettings("m", endpoint.base_url, max_attempts=1, call_seconds=5, protocol="tools")
    record = run(replace(settings, models=(model,), n_originals=2)).to_record()
    assert record["verdict"] == "unusable: it graded no group (most often: verdict)"
    assert record["detection"] == {"value": None, "ci_low": None, "ci_high": None, "n_cases": 0}
    assert record["ungraded_share"]["value"] == 1.0


def test_a_grader_that_cannot_be_reached_is_unusable_and_says_why(settings):
    model = EndpointSettings("m", "http://127.0.0.1:9/v1", max_attempts=1, call_seconds=2)
    record = run(replace(settings, models=(model,), n_originals=2)).to_record()
    (reason,) = record["n_ungraded_by_reason"]
    assert record["verdict"] == f"unusable: it graded no group (most often: {reason})"
    assert reason.startswith("endpoint")


def test_a_grader_that_ties_everything_sees_nothing(settings, serve, chat):
    def reply(body):
        names = sorted(set(re.findall(r"\bc\d\d\b", json.dumps(body["messages"]))))
        entry = {"scores": dict.fromkeys(DIMENSIONS, 5), "flags": {}, "findings": [], "rationale": "fine"}
        return {"candidates": [{"id": name, **entry} for name in names]}

    endpoint = serve(*[chat(("overview", {}))] * 9)
    first = EndpointSettings("m", endpoint.base_url, max_attempts=1, call_seconds=5, protocol="tools")
    one = replace(settings, models=(first,), n_originals=1)
    run(one)
    ranking = reply(endpoint.requests[1])
    endpoint = serve(chat(("submit_ranking", ranking)))
    model = EndpointSettings("m", endpoint.base_url, max_attempts=1, call_seconds=5, protocol="tools")
    record = run(replace(one, models=(model,), overwrite=True)).to_record()
    assert record["ungraded_share"]["value"] == 0.0
    assert record["detection"]["value"] == 0.0
    assert record["verdict"] == "not fit for use: it sees 0% of planted flaws (80% wanted)"


def test_gates_are_checked_before_and_after(settings):
    with pytest.raises(UsageError, match=r"has no detection\.rate"):
        run(replace(settings, gates=("detection.rate>0.5",)))
    assert not (Path(settings.output) / "rankings.jsonl").exists()
    with pytest.raises(UsageError, match=r"has no graders\.1"):
        run(replace(settings, gates=("graders.1.detection.value>0.5",)))
    result = run(replace(settings, gates=("detection.value>0.5", "by_kind.scratch_file.value<0.5")))
    assert [gate.is_met for gate in result.gates] == [True, False]


def test_what_cannot_be_calibrated_is_told(settings, tmp_path):
    dump = tmp_path / "d.jsonl"
    dump.write_text('{"group_id": "g", "resolved": true, "model_patch": ""}\n')
    with pytest.raises(InputError, match="in which a flaw could be planted"):
        run(replace(settings, dumps=(str(dump),)))
    with pytest.raises(OutputError, match="is no directory that can be used"):
        run(replace(settings, output=str(dump)))


def test_what_was_learnt_of_the_endpoint_is_told_and_kept(settings, serve):
    strange = EndpointSettings("strange", serve(*[USELESS] * 60).base_url)
    note = "protocol json-schema: the endpoint does not take tools (3 replies made no use of it)"
    result = run(replace(settings, models=(strange,), n_originals=1))
    assert result.notes.count(note) == 1
    assert note in json.loads((Path(settings.output) / "card.json").read_text())["notes"]


def test_with_several_graders_it_is_told_of_which_endpoint_a_note_is(settings, serve):
    strange = EndpointSettings("strange", serve(*[USELESS] * 60).base_url)
    result = run(replace(settings, models=(OFFLINE, strange), n_originals=1))
    (first, *_) = [one for one in result.notes if "protocol" in one]
    assert first.startswith("strange: protocol json-schema: the endpoint does not take tools")


def test_a_gate_may_be_for_the_second_grader_or_an_injection(settings):
    gates = ("graders.1.detection.value>=0", "by_injection.praise_patch.value<=0")
    one = replace(settings, modes=("agentic", "pointwise-static"), n_originals=4, gates=gates)
    assert [gate.gate.path[0] for gate in run(one).gates] == ["graders", "by_injection"]
