"""Verdicts that come later than their attempts: a record counts as having come once its verdict is there."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gagar_cli.core.conditions import parse_condition
from gagar_cli.core.schema import GroupKey
from gagar_cli.errors import InputError
from gagar_cli.io.dump import ReadOptions, open_dump
from gagar_cli.io.following import FollowedDump

G, H = GroupKey(None, "g"), GroupKey(None, "h")
PATCH = "--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-x\n+y\n"


def attempt(group: str, name: str, **more: Any) -> str:
    return json.dumps({"group_id": group, "instance_id": group, "trajectory_id": name, **more}) + "\n"


def verdict(group: str, name: str, *, resolved: bool, **more: Any) -> str:
    return json.dumps({"instance_id": group, "trajectory_id": name, "resolved": resolved, **more}) + "\n"


def append(path: Path, *lines: str) -> None:
    with path.open("a") as stream:
        stream.write("".join(lines))


@pytest.fixture
def rollouts(tmp_path) -> Path:
    return tmp_path / "rollouts.jsonl"


@pytest.fixture
def verdicts(tmp_path) -> Path:
    return tmp_path / "verdicts.jsonl"


@pytest.fixture
def follow(rollouts, verdicts, request) -> Callable[..., FollowedDump]:
    def start(
        *paths: Path, joins: tuple[Path, ...] = (verdicts,), condition: Any = None, **options: Any
    ) -> FollowedDump:
        named = [str(path) for path in paths or (rollouts,)]
        dump = FollowedDump(named, ReadOptions(joins=tuple(map(str, joins)), **options), condition)
        request.addfinalizer(dump.close)
        return dump

    return start


def found(dump: FollowedDump, *, is_last: bool = False) -> list[str]:
    return [event.row.trajectory_id if event.row else event.kind for event in dump.look(is_last=is_last)]


def judged(dump: FollowedDump, key: GroupKey) -> dict[str, tuple[bool, bool]]:
    return {each.trajectory_id: (each.passed, each.invalid) for each in dump.members(key)}


def test_a_record_comes_when_its_verdict_does(rollouts, verdicts, follow):
    dump = follow()
    append(rollouts, attempt("g", "a"), attempt("g", "b"), attempt("h", "c"))
    assert found(dump) == []
    assert dump.is_awaited(G)
    append(verdicts, verdict("g", "b", resolved=False))
    assert found(dump) == ["b"]
    assert judged(dump, G) == {"a": (False, True), "b": (False, False)}
    append(verdicts, verdict("g", "a", resolved=True), verdict("h", "c", resolved=True)[:20])
    assert found(dump) == []
    append(verdicts, verdict("h", "c", resolved=True)[20:])
    assert found(dump) == ["a", "c"]
    assert judged(dump, G) == {"a": (True, False), "b": (False, False)}
    assert not dump.is_awaited(G)
    assert found(dump) == []


def test_a_verdict_may_come_before_its_attempt(rollouts, verdicts, follow):
    append(verdicts, verdict("g", "a", resolved=True))
    dump = follow()
    assert found(dump) == []
    append(rollouts, attempt("g", "a"))
    assert found(dump) == ["a"]
    assert any("--join" in note for note in dump.notes) is False


def test_patches_and_texts_of_joined_files_are_in_the_group(rollouts, verdicts, tmp_path, follow):
    predictions = tmp_path / "preds.json"
    dump = follow(joins=(verdicts, predictions))
    append(rollouts, attempt("g", "a"))
    append(verdicts, verdict("g", "a", resolved=True, test_output="1 passed"))
    predictions.write_text(
        json.dumps({"g": {"instance_id": "g", "model_patch": PATCH, "model_name_or_path": "m"}})
    )
    assert found(dump) == ["a"]
    trajectory = dump.read_group(G, dump.members(G)).trajectories[0]
    assert (trajectory.model_patch, trajectory.test_output) == (PATCH, "1 passed")


def test_a_report_that_is_written_anew_says_more(rollouts, tmp_path, follow):
    report = tmp_path / "report.json"
    dump = follow(joins=(report,))
    append(rollouts, attempt("g", "a"), attempt("h", "b"))
    report.write_text('{"resolved_ids": ["g"], "unres')
    assert found(dump) == []
    report.write_text(json.dumps({"resolved_ids": ["g"], "unresolved_ids": []}))
    assert found(dump) == ["a"]
    report.write_text(json.dumps({"resolved_ids": ["g"], "unresolved_ids": ["h"]}))
    assert found(dump) == ["b"]
    assert judged(dump, H) == {"b": (False, False)}


def test_a_verdict_that_changes_is_told_again(rollouts, tmp_path, follow):
    report = tmp_path / "report.json"
    dump = follow(joins=(report,))
    append(rollouts, attempt("g", "a"))
    report.write_text(json.dumps({"resolved_ids": [], "unresolved_ids": ["g"]}))
    assert found(dump) == ["a"]
    report.write_text(json.dumps({"resolved_ids": ["g"], "unresolved_ids": []}))
    assert found(dump) == ["a"]
    assert judged(dump, G) == {"a": (True, False)}


def test_a_folder_of_reports_is_watched(rollouts, tmp_path, follow):
    logs = tmp_path / "logs"
    logs.mkdir()
    dump = follow(joins=(logs,))
    append(rollouts, attempt("g", "a"), attempt("h", "b"))
    assert found(dump) == []
    for name in ("g", "h"):
        (logs / name).mkdir()
        (logs / name / "report.json").write_text(json.dumps({name: {"patch_exists": True, "resolved": True}}))
        assert found(dump) == [{"g": "a", "h": "b"}[name]]


def test_the_dump_has_ended_when_no_verdict_is_awaited_or_none_will_come(rollouts, verdicts, follow):
    dump = follow()
    append(rollouts, attempt("g", "a"), attempt("h", "b"), '{"end_of_dump": true}\n')
    assert (found(dump), dump.is_ended) == ([], False)
    append(verdicts, verdict("g", "a", resolved=True))
    assert (found(dump), dump.is_ended) == (["a"], False)
    append(verdicts, '{"end_of_dump": true}\n')
    assert (found(dump), dump.is_ended) == ([], True)
    assert found(dump, is_last=True) == ["b"]
    assert judged(dump, H) == {"b": (False, True)}
    with open_dump([str(rollouts)], ReadOptions(joins=(str(verdicts),))) as whole:
        assert whole.index["passed"].to_list() == [True, False]
        assert whole.index["invalid"].to_list() == [False, True]


def test_a_mark_waits_for_the_verdicts_of_its_group(rollouts, verdicts, follow):
    dump = follow()
    append(rollouts, attempt("g", "a"), '{"end_of_group": true, "group_id": "g"}\n')
    assert found(dump) == []
    append(verdicts, verdict("g", "a", resolved=True))
    assert found(dump) == ["a", "end_of_group"]


def test_what_was_not_evaluated_is_awaited_no_longer(rollouts, verdicts, follow):
    append(
        rollouts, attempt("g", "a"), attempt("g", "b", infra_failure=True), attempt("g", "c", resolved=True)
    )
    dump = follow()
    assert found(dump) == ["b", "c"]
    append(verdicts, json.dumps({"instance_id": "g", "trajectory_id": "a", "infra_failure": True}) + "\n")
    assert found(dump) == ["a"]
    assert judged(dump, G) == {"a": (False, True), "b": (False, True), "c": (True, False)}


def test_a_condition_on_the_verdict_is_asked_when_it_is_there(rollouts, verdicts, follow):
    condition = parse_condition("resolved == true", "--eligible")
    dump = follow(condition=condition, extras=("resolved",))
    append(rollouts, attempt("g", "a"))
    found(dump)
    append(verdicts, verdict("g", "a", resolved=True))
    assert found(dump) == ["a"]
    assert [each.is_eligible for each in dump.members(G)] == [True]


def test_what_speaks_of_one_attempt_and_would_go_to_two_is_refused(rollouts, verdicts, follow):
    append(rollouts, attempt("g", "a"), attempt("g", "b"))
    append(verdicts, '{"instance_id": "g", "resolved": true}\n')
    with pytest.raises(InputError, match="says one thing about this attempt and the one at"):
        found(follow())


def test_what_stays_torn_or_empty_is_told_at_the_end(rollouts, verdicts, follow):
    append(rollouts, attempt("g", "a"))
    append(verdicts, verdict("g", "a", resolved=True)[:-5])
    dump = follow()
    assert found(dump) == []
    with pytest.raises(InputError, match=r"verdicts\.jsonl"):
        found(dump, is_last=True)


def test_verdicts_are_laid_over_native_attempts_of_several_runs(tmp_path, follow):
    def log(run: str, instance: str) -> None:
        path = tmp_path / "runs" / run / instance / f"{instance}.traj.json"
        path.parent.mkdir(parents=True)
        info = {"exit_status": "Submitted", "submission": PATCH}
        path.write_text(json.dumps({"trajectory_format": "mini-swe-agent-1", "info": info, "messages": []}))

    runs, reports = tmp_path / "runs", tmp_path / "reports"
    (runs / "one").mkdir(parents=True)
    reports.mkdir()
    dump, key = follow(runs, joins=(reports,)), GroupKey(None, "a__a-1")
    log("one", "a__a-1")
    assert (found(dump), found(dump)) == ([], [])
    (reports / "one.json").write_text(json.dumps({"resolved_ids": ["a__a-1"], "unresolved_ids": []}))
    (reports / "two.json").write_text(json.dumps({"resolved_ids": [], "unresolved_ids": ["a__a-1"]}))
    log("two", "a__a-1")
    told = [*found(dump), *found(dump)]
    with open_dump([str(runs)], ReadOptions(joins=(str(reports),))) as whole:
        rows = whole.index.select("trajectory_id", "passed", "invalid").iter_rows()
        assert judged(dump, key) == {name: (passed, invalid) for name, passed, invalid in rows}
    assert set(judged(dump, key).values()) == {(True, False), (False, False)}
    assert {"one/a__a-1", "two/a__a-1"} <= set(told)


def test_what_an_earlier_reading_kept_is_given_back(rollouts, tmp_path, follow):
    predictions = tmp_path / "preds.jsonl"
    dump = follow(joins=(predictions,))
    append(rollouts, attempt("g", "a"))
    counts = []
    for number in range(4):
        row = {"instance_id": f"i-{number}", "model_patch": PATCH, "model_name_or_path": "m"}
        append(predictions, json.dumps(row) + "\n")
        found(dump)
        counts.append(len(list(Path("/proc/self/fd").iterdir())))
    assert len(set(counts)) == 1


def test_verdicts_stand_while_their_file_is_replaced(rollouts, verdicts, follow):
    append(rollouts, attempt("g", "a"), attempt("g", "b"))
    append(verdicts, verdict("g", "a", resolved=True))
    dump = follow()
    assert found(dump) == ["a"]
    verdicts.unlink()
    assert found(dump) == []
    assert [each.passed for each in dump.members(G)] == [True, False]
    append(verdicts, verdict("g", "a", resolved=False), verdict("g", "b", resolved=True))
    assert found(dump) == ["a", "b"]
    assert [each.passed for each in dump.members(G)] == [False, True]


def test_a_named_pipe_is_no_file_of_verdicts(verdicts, follow):
    os.mkfifo(verdicts)
    with pytest.raises(InputError, match=r"verdicts\.jsonl: not a regular file"):
        follow()
