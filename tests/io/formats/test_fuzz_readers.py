"""Any bytes under any name: a dump, or an error of the input in one line. Never a traceback, never a hang."""

import json
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gagar_cli.errors import GagarError
from gagar_cli.io.dump import ReadOptions, open_dump
from gagar_cli.io.formats import FORMATS
from gagar_cli.io.native_files import find_native

NAMES = (
    "x.jsonl",
    "x.json",
    "x.traj",
    "a__b-1.traj.json",
    "preds.json",
    "result.json",
    "x.parquet",
    "x.jsonl.gz",
    "x.pkl",
)
KEYS = sorted(
    {
        "trajectory", "history", "info", "messages", "instance_id", "model_patch", "model_name_or_path", "test_result",
        "trajectory_format", "responses_create_params", "response", "reward", "output", "input", "score", "step", "uid",
        "task_name", "trial_name", "task_checksum", "verifier_result", "schema_version", "steps", "is_resolved",
        "failure_mode", "task_id", "results", "traces", "nodes", "parent", "message", "env", "task", "group", "rewards",
        "episode_id", "task_hash", "trajectories", "is_correct", "example_id", "completion", "prompt", "timing",
        "input_prompt", "output_response", "env_class", "content", "token_ids", "idx", "sample_idx", "head_version",
        "tail_version", "trajectory_steps", "output_patch", "traj_id", "resolved", "run_id", "target", "generated_patch",
        "kind", "id", "timestamp", "source", "issue", "git_patch", "success", "attempts", "replay_config", "exit_status",
        "role", "text", "segment", "raw", "group_id", "resolved_ids", "patch_exists", "calls", "metadata",
    }
)  # fmt: skip
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.floats()
    | st.sampled_from(["", "a__b-1", "ATIF-v1.7", "\ud800", "mini-swe-agent-1"])
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5),
    max_leaves=10,
)
RECORDS = st.dictionaries(st.sampled_from(KEYS), VALUES, min_size=1, max_size=9)
DETECTABLE: dict[str, Any] = {
    "swe-agent": {"trajectory": [], "history": [], "info": {}},
    "mini-swe-agent": {"trajectory_format": "mini-swe-agent-1", "messages": []},
    "harbor": {"task_name": "t", "trial_name": "t__x", "task_checksum": "0"},
    "atif": {"schema_version": "ATIF-v1.7", "steps": []},
    "terminal-bench": {"task_id": "t", "is_resolved": None, "failure_mode": "unset"},
    "nemo-gym": {"responses_create_params": {}, "response": {}, "reward": 0.0},
    "openhands": {"instance_id": "i", "test_result": {}, "history": []},
    "verl": {"input": "", "output": "", "score": 0.0, "step": 0},
    "verifiers": {"example_id": 0, "completion": [], "reward": 0.0, "timing": {}},
    "verifiers-1": {"traces": [], "task": {}, "env": {}},
    "rllm": {"episode_id": "a:0", "task_hash": "h", "trajectories": []},
    "r2e-gym": {"trajectory_steps": [], "output_patch": ""},
    "skyrl-eval": {"input_prompt": "", "output_response": "", "env_class": ""},
    "nebius-swe-agent": {"trajectory": [], "target": True, "generated_patch": "", "instance_id": "i"},
    "predictions": {"instance_id": "i", "model_patch": "", "model_name_or_path": "m"},
}


def outcome_of(name: str, data: bytes, **options: Any) -> str:
    """What reading some bytes comes to: `read`, or the message of the refusal."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(data)
        try:
            with open_dump([str(path)], ReadOptions(**options)) as dump:
                dump.read_trajectories(range(dump.index.height))
                for record in dump.iter_records():
                    json.dumps(record, default=str)
        except GagarError as error:
            return error.message
    return "read"


@settings(max_examples=60)
@given(st.sampled_from(NAMES), st.binary(max_size=400))
def test_any_bytes_are_read_or_refused(name: str, data: bytes) -> None:
    assert outcome_of(name, data)


@settings(max_examples=50)
@given(st.sampled_from(NAMES), st.lists(RECORDS, min_size=1, max_size=3), st.sampled_from([None, 2]))
def test_any_records_are_read_or_refused(name: str, records: list[Any], indent: int | None) -> None:
    data = b"".join(json.dumps(record, indent=indent).encode() + b"\n" for record in records)
    assert outcome_of(name, data, on_bad_record="skip")


@settings(max_examples=60)
@given(st.sampled_from(sorted(DETECTABLE)), RECORDS)
def test_a_known_format_with_anything_inside_is_read_or_refused(name: str, more: Any) -> None:
    document = DETECTABLE[name] | more
    assert outcome_of("x.traj.json", json.dumps(document).encode(), format=name)
    assert outcome_of("x.jsonl", json.dumps(more | DETECTABLE[name]).encode() + b"\n")


@pytest.mark.parametrize("name", sorted(DETECTABLE))
def test_the_smallest_file_of_a_format_is_recognised(name: str) -> None:
    data = json.dumps(DETECTABLE[name]).encode() + b"\n"
    assert FORMATS[name].read is not None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.jsonl"
        path.write_bytes(data)
        with ExitStack() as stack:
            found, others, _ = find_native([str(path)], None, stack)
    assert ([each.format.name for each in found], others) == ([name], [])


@pytest.mark.parametrize(
    "data",
    [
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"trajectory_format": "mini-swe-agent-1", "messages": ' + b"[" * 2000 + b"]" * 2000 + b"}",
        b'{"score": ' + b"9" * 100_000 + b"}",
        b"\x00" * 1000,
        b"\xff\xfe{\x00}\x00",
        b"PAR1" + b"\x00" * 100 + b"PAR1",
    ],
)
def test_hostile_documents_are_refused_in_one_short_message(data: bytes) -> None:
    for name in ("x.json", "x.traj.json", "x.jsonl", "x.parquet"):
        message = outcome_of(name, data)
        assert message != "read"
        assert len(message) < 2000
