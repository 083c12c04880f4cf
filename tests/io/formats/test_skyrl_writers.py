"""SkyRL's dumps as its own code writes them, on made-up rollouts: evaluations, also step by step, and the training batch."""

import json
import pickle
import sys
import types
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gagar_cli.sandbox.unpickle import Budget, RefusedError, load, plain, records
from tests.io.formats.trainer_code import ASK, Words, lifted, logs_of, rows_of, source

pytestmark = pytest.mark.slow

SKYRL = "skyrl==0.3.0"


def dump_skyrl(folder: Path, words: Words, extras: list[dict[str, Any]], output: dict[str, Any]) -> None:
    silent = SimpleNamespace(info=lambda text: None)
    code = lifted(
        source(SKYRL, "skyrl/train/utils/trainer_utils.py"),
        {"dump_per_dataset_eval_results": (), "sanitize_data_source": ()}, json=json, logger=silent,
    )  # fmt: skip
    folder.mkdir(parents=True)
    sources = [each.get("data_source") for each in extras]
    metrics = {"eval/all/avg_score": 0.5}
    code.dump_per_dataset_eval_results(folder, words, output, sources, ["swe"] * len(extras), extras, metrics)


def test_skyrl_evaluation(native: Any, tmp_path: Path) -> None:
    words = Words()
    ids = words.ids(ASK, "one<|im_end|>", "two<|im_end|>", "two<|im_end|>")
    extras = [{"instance": {"instance_id": "a__b-1", "repo": "a/b"}, "data_source": "swe/verified"}] * 3
    output = {
        "prompt_token_ids": [[ids[0]]] * 3, "response_ids": [[each] for each in ids[1:]],
        "rewards": [[0.0, 0.0, 1.0], 0.0, 0.0], "stop_reasons": ["stop", "length", "error_runtime"],
    }  # fmt: skip
    dump_skyrl(tmp_path / "dumped_evals" / "global_step_4_evals", words, extras, output)
    dump = native({}, "dumped_evals")
    assert dump.forms[0][0] == "skyrl-eval"
    assert rows_of(dump, "step", "group_id", "reward", "passed", "invalid_reason") == [
        (4, "a__b-1", 1.0, True, None), (4, "a__b-1", 0.0, False, None), (4, "a__b-1", None, False, "infra_failure"),
    ]  # fmt: skip
    assert logs_of(dump)[0] == [("user", "fix it"), ("assistant", "one")]
    task, trajectory = dump.read_trajectories([1])[0]
    assert (task.repo, trajectory.is_truncated) == ("a/b", True)
    assert any("aggregated_results.jsonl" in note for note in dump.report.notes)


def test_skyrl_evaluation_step_by_step(native: Any, tmp_path: Path) -> None:
    words = Words()
    seen = "<|im_start|>user\nseen<|im_end|>\n<|im_start|>assistant\n"
    ask, look, more, end, fail = words.ids(ASK, "look<|im_end|>\n", seen, "done<|im_end|>", "no<|im_end|>")
    output = {
        "prompt_token_ids": [[ask], [ask, look, more], [ask]],
        "response_ids": [[look], [end], [fail]],
        "rewards": [[0.0], [1.0], [0.0]],
        "stop_reasons": ["stop"] * 3,
    }
    dump_skyrl(tmp_path / "evals", words, [{"data_source": None}] * 3, output)
    dump = native({}, "evals/unknown.jsonl")
    assert rows_of(dump, "group", "reward") == [(0, 1.0), (0, 0.0)]
    expected = [("user", "fix it"), ("assistant", "look"), ("user", "seen"), ("assistant", "done")]
    assert logs_of(dump)[0] == expected
    assert next(dump.iter_records())["n_turns"] == 2
    assert any("1 row is an earlier step" in note for note in dump.report.notes)


def test_skyrl_training_batch_is_refused_by_what_it_lacks(tmp_path: Path) -> None:
    """The class pickles itself; it is told by its own name and reduction, without being imported on reading."""

    class Values(np.ndarray):
        device = None

        def numpy(self) -> Any:
            return self.view(np.ndarray)

        def contiguous(self) -> "Values":
            return self

    path = source(SKYRL, "skyrl/backends/skyrl_train/training_batch.py")
    name = "skyrl.backends.skyrl_train.training_batch"
    torch = SimpleNamespace(Tensor=Values, device=str)
    code = lifted(
        path,
        {"_serialize_tensor": (), "_rebuild_tensor_batch": (), "TensorBatch": ("__reduce__", "__getstate__", "save")},
        Base=dict, torch=torch, pickle=pickle, TensorList=type("TensorList", (), {}),
    )  # fmt: skip
    module = types.ModuleType(name)
    for each in ("_rebuild_tensor_batch", "TensorBatch"):
        made = getattr(code, each)
        made.__module__ = name
        setattr(module, each, made)
    parents = [".".join(name.split(".")[:n]) for n in range(1, 4)]
    code.TensorBatch.contiguous = lambda self: self
    batch = code.TensorBatch({"sequences": np.ones((2, 3)).view(Values), "values": None})
    batch._batch_size, batch._device, batch.metadata = 2, None, {"response_length": 3}
    with pytest.MonkeyPatch.context() as patch:
        for parent in parents:
            patch.setitem(sys.modules, parent, types.ModuleType(parent))
        patch.setitem(sys.modules, name, module)
        batch.save(tmp_path / "global_step_4_training_input.pkl")
    stream = (tmp_path / "global_step_4_training_input.pkl").open("rb")
    with stream, pytest.raises(RefusedError, match="SkyRL's batch of sequences, values: token ids only"):
        list(records(plain(load(stream), Budget(10_000))))
