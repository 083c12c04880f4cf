"""Native records with one value of another type or none: read, or refused in one line with its place; never guessed.

Read at once and followed, the same comes of it. What makes an attempt invalid does so whatever stands beside it.
"""

import copy
import json
import math
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gagar_cli.errors import InputError
from gagar_cli.io.dump import ReadOptions, open_dump
from gagar_cli.io.following import FollowedDump
from gagar_cli.io.formats import FORMATS
from gagar_cli.io.formats.files import NativeFile
from tests.io.test_following_native import mini, nemo, rllm, skyrl, trace, verifiers, verl

SLIME = {
    "group_index": 0, "index": 1, "rollout_id": 2, "prompt": "p", "response": "r", "tokens": [1], "status": "completed",
    "reward": 1.0, "remove_sample": False, "response_length": 3, "metadata": {"instance_id": "i", "grading_solved": True},
}  # fmt: skip
NEMO_RL = {
    "content": ["user\nq\nassistant\na"], "rewards": [1.0], "token_ids": [[1]], "sample_loss_mask": [1.0], "idx": 0,
}  # fmt: skip
AREAL = {
    "task_id": 7, "sample_idx": 0, "head_version": 1, "tail_version": 1, "reward": 1.0, "prompt": "p", "completion": "c",
}  # fmt: skip
R2E = {
    "trajectory_steps": [{"thought": "t", "action": "a", "observation": "o"}], "output_patch": "", "test_output": "x",
    "reward": 1.0, "docker_image": "d", "ds": {"instance_id": "i"}, "exit_reason": "agent", "exp_name": "e",
}  # fmt: skip
HARBOR = {
    "task_name": "t", "trial_name": "t__x", "task_checksum": "0", "agent_info": {"name": "a"},
    "verifier_result": {"rewards": {"reward": 1.0}}, "exception_info": {"exception_type": "AgentTimeoutError"},
}  # fmt: skip
TERMINAL_BENCH = {"task_id": "t", "is_resolved": True, "failure_mode": "unset", "trial_name": "t.1"}
OPENHANDS = {
    "instance_id": "i", "test_result": {"git_patch": "", "report": {"resolved": True, "error_eval": False}},
    "history": [{"source": "agent", "action": "run", "args": {}}], "error": None, "metadata": {"llm_config": {"model": "m"}},
}  # fmt: skip
TRACE = trace("g", 0, 1.0) | {"run": {"work": {"step": 4}}, "errors": [{"type": "X"}], "ok": True}
NEMO = nemo(0, 0, 1.0) | {
    "resolved": True,
    "metadata": {"instance_id": "i", "eval_report": {"i": {"resolved": True}}},
}
RECORDS: dict[str, tuple[str, dict[str, Any]]] = {
    "verl": ("1.jsonl", verl(1, "a", 0, uid="u_0_0", resolved=True, n_turns=3)),
    "skyrl-eval": ("d.jsonl", skyrl("a", 0, 1.0)),
    "verifiers-1": ("traces.jsonl", TRACE),
    "verifiers": ("results.jsonl", verifiers(0, 1.0) | {"info": {"instance_id": "i"}, "error": None}),
    "rllm": ("a.jsonl", rllm("g", 0, correct=True) | {"training_step": 1, "termination_reason": "env_done"}),
    "nemo-gym": ("r.jsonl", NEMO),
    "mini-swe-agent": ("a__a-1.traj.json", mini("a__a-1")),
    "slime": ("s.jsonl", SLIME),
    "nemo-rl": ("train_data_step3.jsonl", NEMO_RL),
    "areal": ("7.jsonl", AREAL),
    "r2e-gym": ("e.jsonl", R2E),
    "harbor": ("result.json", HARBOR),
    "terminal-bench": ("results.json", TERMINAL_BENCH),
    "openhands": ("output.jsonl", OPENHANDS),
}
INVALID: dict[str, tuple[str, dict[str, Any], tuple[str, ...]]] = {
    "verl": ("1.jsonl", verl(1, "a", 0, infra_failure=True), ("infra_failure",)),
    "skyrl-eval": ("d.jsonl", skyrl("a", 0, 1.0) | {"stop_reason": "error_runtime"}, ("stop_reason",)),
    "rllm": ("a.jsonl", rllm("g", 0, correct=False) | {"termination_reason": "error"}, ("termination_reason",)),
    "nemo-gym": ("r.jsonl", NEMO | {"error_kind": "sandbox"}, ("error_kind", "responses_create_params")),
    "verifiers": ("results.jsonl", verifiers(0, 0.0) | {"error": {"error": "x"}}, ("error",)),
    "slime": ("s.jsonl", SLIME | {"status": "aborted"}, ("status",)),
    "harbor": (
        "result.json",
        HARBOR | {"exception_info": {"exception_type": "EnvironmentStartTimeoutError"}},
        ("exception_info",),
    ),
    "terminal-bench": ("results.json", TERMINAL_BENCH | {"failure_mode": "agent_installation_failed"}, ("failure_mode",)),
}  # fmt: skip
DROP = object()
VALUES = (
    DROP, None, "x", "1", "", True, False, 0, -1, 10**400, 1e300, math.nan, 1.5, 2**63, [], {}, [1, None, {}], {"a": None},
    "a\0b", "\ud800",
)  # fmt: skip


def places(value: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, child in pairs:
        yield (*above, name)
        yield from places(child, (*above, name))


def changed(record: dict[str, Any], place: tuple[Any, ...], value: Any) -> dict[str, Any]:
    made = copy.deepcopy(record)
    holder: Any = made
    for name in place[:-1]:
        holder = holder[name]
    if value is DROP:
        del holder[place[-1]]
    else:
        holder[place[-1]] = value
    return made


def whole(path: str) -> Any:
    with open_dump([path], ReadOptions()) as dump:
        rows = dump.index.with_row_index("at").filter(pl.col("at") == pl.col("primary_row"))
        list(dump.read_trajectories(rows["at"].to_list()))
        columns = ("step", "group_id", "trajectory_id", "passed", "invalid", "reward")
        return sorted(map(repr, rows.select(columns).iter_rows()))


def followed(path: str) -> Any:
    dump = FollowedDump([path], ReadOptions())
    try:
        keys = {event.key for is_last in (False, False, True) for event in dump.look(is_last=is_last)}
        found = [(key, member) for key in keys for member in dump.members(key)]
        for key in keys:
            dump.read_group(key, dump.members(key))
    finally:
        dump.close()
    return sorted(
        repr((*key, each.trajectory_id, each.passed, each.invalid, None if each.invalid else each.reward))
        for key, each in found
    )


def outcome(read: Any, path: str) -> Any:
    """What reading comes to: the attempts, or the first line of the refusal."""
    try:
        return read(path)
    except InputError as error:
        return error.message.splitlines()[0]


def written(folder: str, name: str, record: dict[str, Any]) -> str:
    path = Path(folder, name)
    path.write_text(json.dumps(record) + "\n")
    return str(path)


@pytest.mark.parametrize("name", RECORDS)
@given(data=st.data())
@settings(max_examples=50)
def test_a_value_of_another_type_is_read_or_refused_with_its_place(name: str, data: st.DataObject) -> None:
    file, record = RECORDS[name]
    place = data.draw(st.sampled_from(list(places(record))))
    made = changed(record, place, data.draw(st.sampled_from(VALUES)))
    with tempfile.TemporaryDirectory() as folder:
        path = written(folder, file, made)
        found = outcome(whole, path)
        assert isinstance(found, list) or f"{file}:1" in found
        assert outcome(followed, path) == found


@pytest.mark.parametrize("name", INVALID)
@given(data=st.data())
@settings(max_examples=30)
def test_what_infrastructure_broke_stays_invalid_whatever_stands_beside_it(
    name: str, data: st.DataObject
) -> None:
    file, record, kept = INVALID[name]
    place = data.draw(st.sampled_from([each for each in places(record) if each[0] not in kept]))
    made = changed(record, place, data.draw(st.sampled_from(VALUES)))
    with tempfile.TemporaryDirectory() as folder:
        path = written(folder, file, made)
        try:
            with open_dump([path], ReadOptions()) as dump:
                assert dump.index["invalid"].all()
        except InputError:
            pass


@pytest.mark.parametrize("name", RECORDS)
def test_a_record_is_taken_by_its_own_format_and_by_no_other(name: str, tmp_path: Path) -> None:
    file, record = RECORDS[name]
    sample = NativeFile(written(str(tmp_path), file, record)).sample()
    assert [each.name for each in FORMATS.values() if each.detect(sample)] == [name]


@pytest.mark.parametrize(
    ("file", "record", "more"),
    [
        ("1.jsonl", verl(1, "a", 0, 0.0), {"resolved": None}),
        ("r.jsonl", nemo(0, 0, 0.0), {"resolved": None}),
        ("s.jsonl", SLIME | {"reward": 0.0}, {"metadata": {"grading_solved": None}}),
    ],
    ids=["verl", "nemo-gym", "slime"],
)
def test_a_verdict_that_is_null_is_no_failure(
    file: str, record: dict[str, Any], more: Any, tmp_path: Path
) -> None:
    path = written(str(tmp_path), file, record | more)
    with open_dump([path], ReadOptions()) as dump:
        assert dump.index.select("passed", "invalid", "invalid_reason").rows() == [
            (False, True, "not_evaluated")
        ]


@pytest.mark.parametrize("error", [["boom"], True, {"code": 3}], ids=["list", "flag", "object"])
def test_an_error_of_verifiers_counts_in_any_form(error: Any, tmp_path: Path) -> None:
    path = written(str(tmp_path), "results.jsonl", verifiers(0, 0.0) | {"error": error})
    with open_dump([path], ReadOptions()) as dump:
        assert dump.index["invalid_reason"].to_list() == ["infra_failure"]
