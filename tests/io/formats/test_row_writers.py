"""Dumps of rows as verl, TRL, SkyRL, AReaL and NeMo-Gym write them: their own writers, on made-up rollouts."""

import asyncio
import json
import math
import os
import subprocess
import sys
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.io.formats.trainer_code import ASK, PATCH, Words, lifted, logs_of, rows_of, source

pytestmark = pytest.mark.slow

VERL, TRL, SKYRL, AREAL, GYM = "verl==0.9.1", "trl==1.16.0", "skyrl==0.3.0", "areal==1.0.4", "nemo-gym==0.4.0"
DUMPING = (
    "_write_generations", "_dump_generations", "_init_dump_executor", "_shutdown_dump_executor", "_log_rollout_data",
)  # fmt: skip


class Tensor(np.ndarray):
    """As much of a tensor as the writers use, over numpy."""

    def cpu(self) -> "Tensor":
        return self

    def sum(self, axis: Any = None, dim: Any = None, **more: Any) -> Any:
        return super().sum(axis=dim if axis is None else axis, **more)

    def to_padded_tensor(self, padding: int) -> "Tensor":
        return self


def tensor(values: Any) -> Tensor:
    return np.asarray(values).view(Tensor)


def dump_verl(folder: Path, prompts: list[str], answers: list[str], scores: list[Any], extra: Any) -> None:
    """One step's rollouts as verl's v0 trainer logs them."""
    code = lifted(
        source(VERL, "verl/trainer/ppo/ray_trainer.py"), {"RayPPOTrainer": DUMPING},
        os=os, json=json, ThreadPoolExecutor=ThreadPoolExecutor, marked_timer=lambda *_, **__: nullcontext(),
    )  # fmt: skip

    class Batch(list):  # type: ignore[type-arg]
        batch: dict[str, Any]
        non_tensor_batch: dict[str, Any]

    trainer = code.RayPPOTrainer()
    trainer.tokenizer, trainer.global_steps = Words(), 7
    batch = Batch(SimpleNamespace(non_tensor_batch={"reward_model": {"ground_truth": "g"}}) for _ in prompts)
    batch.batch = {
        "prompts": [trainer.tokenizer.ids(each) for each in prompts],
        "responses": [trainer.tokenizer.ids(each) for each in answers],
        "token_level_scores": tensor(scores),
    }
    batch.non_tensor_batch = {"request_id": np.array(answers, dtype=object)}
    trainer._init_dump_executor()
    trainer._log_rollout_data(batch, extra, {}, str(folder))
    trainer._shutdown_dump_executor()


def test_verl_v0(native: Any, tmp_path: Path) -> None:
    extra = {
        "model_patch": np.array([PATCH, "", PATCH], dtype=object),
        "acc": np.array([True, False, True]),
        "infra_failure": [False, np.bool_(True), False],  # as text in the file: "True"
    }
    prompts, answers = [ASK, ASK, ASK.replace("fix", "mend")], ["one<|im_end|>", "two", "three"]
    dump_verl(tmp_path / "rollouts", prompts, answers, [[0.0, 1.0], [0.0, 0.0], [0.5, 0.5]], extra)
    dump = native({}, "rollouts")
    assert dump.forms[0][0] == "verl"
    assert rows_of(dump, "step", "reward", "passed", "group", "invalid_reason") == [
        (7, 1.0, True, 0, None), (7, None, False, 0, "infra_failure"), (7, 1.0, True, 1, None),
    ]  # fmt: skip
    assert logs_of(dump)[0] == [("user", "fix it"), ("assistant", "one")]
    assert [each.model_patch for _, each in dump.read_trajectories([0, 1, 2])] == [PATCH, "", PATCH]


def test_what_verl_wrote_is_headed_validated_converted_graded_and_redistributed(tmp_path: Path) -> None:
    left = "--- /dev/null\n+++ b/debug_x.py\n@@ -0,0 +1,2 @@\n+import x\n+print('DEBUG', x)\n"
    patches = [PATCH, PATCH + left, PATCH.replace("+2", "+4"), ""]
    scores = [[1.0], [1.0], [1.0], [0.0]]
    answers = [f"{number} done" for number in range(4)]
    dump_verl(tmp_path / "rollouts", [ASK] * 4, answers, scores, {"model_patch": patches})

    def gagar(*arguments: str) -> Any:
        made = subprocess.run(
            [sys.executable, "-m", "gagar_cli", *arguments, "--json"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )
        assert made.returncode == 0, made.stderr
        return json.loads(made.stdout)

    head = gagar("head", "rollouts")
    assert ([each["format"] for each in head["files"]], head["n_passed"]) == (["verl"], 3)
    assert gagar("validate", "rollouts")["n_problems"] == 0
    assert gagar("convert", "rollouts", "-o", "c.parquet")["n_records"] == 4
    grade = ("--model", "offline", "--sandbox", "inspect-only", "-o")
    for name in ("rollouts", "c.parquet"):
        graded = gagar("grade", name, *grade, f"{name}.rankings.jsonl")
        assert graded["n_graded"] == 1
        gagar("redistribute", name, "--rankings", f"{name}.rankings.jsonl", "-o", f"{name}.advantages.jsonl")
    made = [
        [json.loads(line) for line in (tmp_path / f"{name}.advantages.jsonl").read_text().splitlines()]
        for name in ("rollouts", "c.parquet")
    ]
    advantages = [[row["advantage"] for row in rows] for rows in made]
    assert advantages[0] == advantages[1]
    assert sum(advantages[0]) == pytest.approx(0.0)
    assert advantages[0][0] > advantages[0][1] > advantages[0][3]


def test_verl_v1(native: Any, tmp_path: Path) -> None:
    words = Words()
    ids = words.ids(ASK, "one", "two", "three")
    keys = ["u-1_1_0", "u-1_0_1", "u-1_0_0"]
    columns = {
        "uid": np.array(["u-1"] * 3),
        "prompts": tensor([[ids[0]]] * 3),
        "responses": tensor([[each] for each in ids[1:]]),
        "rm_scores": tensor([[0.0, 0.0], [0.0, 1.0], [0.0, 1.0]]),
        "reward_model": np.array([{"ground_truth": np.int64(4)}] * 3),
    }
    code = lifted(
        source(VERL, "verl/trainer/ppo/v1/trainer_base.py"), {"PPOTrainer": DUMPING},
        os=os, json=json, np=np, ThreadPoolExecutor=ThreadPoolExecutor, marked_timer=lambda *_, **__: nullcontext(),
        tq=SimpleNamespace(kv_batch_get=lambda keys, partition_id, select_fields: {n: columns[n] for n in select_fields}),
    )  # fmt: skip
    trainer = code.PPOTrainer()
    trainer.tokenizer, trainer.global_steps = words, 3
    trainer._init_dump_executor()
    trainer._log_rollout_data(
        SimpleNamespace(keys=keys, partition_id="train"), {}, str(tmp_path / "rollouts")
    )
    trainer._shutdown_dump_executor()
    dump = native({}, "rollouts/3.jsonl")
    assert rows_of(dump, "group_id", "trajectory_id", "segment", "reward") == [
        ("u-1", "u-1_0", None, 1.0), ("u-1", "u-1_0", 1, 1.0), ("u-1", "u-1_1", None, 0.0),
    ]  # fmt: skip
    assert logs_of(dump)[2] == [("user", "fix it"), ("assistant", "one")]


@pytest.mark.parametrize("is_chat", [False, True], ids=["text", "chat"])
def test_trl(native: Any, tmp_path: Path, is_chat: bool) -> None:
    class Base:
        def log(self, logs: Any, start_time: Any) -> None:
            pass

    strip = lifted(source(TRL, "trl/trainer/utils.py"), {"strip_images_from_messages": ()})
    code = lifted(
        source(TRL, "trl/trainer/grpo_trainer.py"), {"GRPOTrainer": ("log", "_log_completion_extra")}, Base=Base,
        math=math, os=os, pd=pd, is_rich_available=lambda: False,
        strip_images_from_messages=strip.strip_images_from_messages,
    )  # fmt: skip
    trainer = code.GRPOTrainer()
    trainer.model, trainer.state = SimpleNamespace(training=True), SimpleNamespace(global_step=5)
    trainer.args = SimpleNamespace(output_dir=str(tmp_path), report_to=None)
    trainer.accelerator, trainer.log_completions = SimpleNamespace(is_main_process=True), True
    trainer._metrics, trainer._pending_extra_logs = {"train": {}}, defaultdict(list)
    trainer._log_completion_extra("model_patch", [PATCH, "", None])
    call = {"type": "function", "function": {"name": "bash", "arguments": {"command": "ls"}}}
    answers: list[Any] = ["one", "two", "three"]
    prompts: list[Any] = ["fix it", "fix it", "mend it"]
    if is_chat:
        prompts = [[{"role": "user", "content": each}] for each in prompts]
        answers = [
            [
                {"role": "assistant", "content": "", "tool_calls": [call]},
                {"role": "tool", "name": "bash", "content": "x"},
                {"role": "assistant", "content": "one"},
            ],
            *([{"role": "assistant", "content": each}] for each in answers[1:]),
        ]
    trainer._logs = {
        "prompt": prompts, "completion": answers, "images": [], "extra": dict(trainer._pending_extra_logs),
        "rewards": {"tests": [1.0, 0.0, math.nan], "format": [0.5, 0.5, math.nan]}, "advantages": [0.7, -0.7, 0.0],
    }  # fmt: skip
    (tmp_path / "completions").mkdir()
    trainer.log({})
    dump = native({}, "completions")
    assert dump.forms[0][0] == "trl"
    assert rows_of(dump, "step", "group", "reward", "invalid") == [
        (5, 0, 1.5, False), (5, 0, 0.5, False), (5, 1, None, True),
    ]  # fmt: skip
    logs = logs_of(dump)
    assert logs[1:] == [
        [("user", "fix it"), ("assistant", "two")],
        [("user", "mend it"), ("assistant", "three")],
    ]
    first = dump.read_trajectories([0])[0][1]
    assert (first.model_patch, logs[0][-1]) == (PATCH, ("assistant", "one"))
    if is_chat:
        assert [each.role for each in first.messages] == ["user", "assistant", "tool", "assistant"]
        [called] = first.messages[1].tool_calls
        assert (called.name, json.loads(called.arguments)) == ("bash", {"command": "ls"})


def test_areal(native: Any, tmp_path: Path) -> None:
    sys_path = str(source("aiofiles==25.1.0", "aiofiles/__init__.py").parents[1])
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(sys_path)
        import aiofiles
        import aiofiles.os
    code = lifted(
        source(AREAL, "areal/infra/workflow_executor.py"), {"WorkflowExecutor": ("_dump_trajectory",)},
        os=os, json=json, aiofiles=aiofiles, RTensor=SimpleNamespace(localize=lambda each: each),
    )  # fmt: skip
    words = Words()
    ask, one, two = words.ids(ASK, "one<|im_end|>", "two<|im_end|>")
    executor = code.WorkflowExecutor()
    executor._get_dump_dir = lambda is_eval: str(tmp_path / ("eval-rollout" if is_eval else "rollout"))
    executor._get_tokenizer = lambda: words
    trajectory = {
        "input_ids": np.array([[ask, one], [ask, two], [ask, 0]]), "rewards": np.array([1.0, 0.0, 0.0]),
        "loss_mask": np.array([[0, 1], [0, 1], [0, 0]]), "attention_mask": np.array([[1, 1], [1, 1], [1, 0]]),
        "versions": np.array([[-1, 3], [-1, 4], [-1, 4]]),
    }  # fmt: skip
    assert asyncio.run(executor._dump_trajectory(trajectory, 7, is_eval=False)) == (True, "")
    dump = native({}, "rollout/4/7.jsonl")
    assert rows_of(dump, "step", "group_id", "trajectory_id", "reward") == [
        (4, "7", "7-0", 1.0), (4, "7", "7-1", 0.0),
    ]  # fmt: skip
    assert logs_of(dump)[1] == [("user", "fix it"), ("assistant", "two")]


def gym_reply(text: str) -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": []}
    message = {"id": "m", "type": "message", "role": "assistant", "status": "completed", "content": [part]}
    call = {
        "id": "c",
        "type": "function_call",
        "call_id": "c1",
        "name": "bash",
        "arguments": '{"command": "ls"}',
    }
    result = {"type": "function_call_output", "call_id": "c1", "output": "x"}
    return {"object": "response", "model": "m-1", "output": [call, result, message]}


def test_nemo_gym(native: Any, tmp_path: Path) -> None:
    """Rollouts, failures (one of them tried twice) and inputs lie in one folder."""
    orjson = pytest.importorskip("orjson")
    path = source(GYM, "nemo_gym/rollout_collection.py")
    names = {"RolloutCollectionHelper": ("run_from_config",), "_failures_path_for": ()}
    keys = {f"{name}_KEY_NAME": value for name, value in (
        ("TASK_INDEX", "_ng_task_index"), ("ROLLOUT_INDEX", "_ng_rollout_index"), ("AGENT_REF", "agent_ref"),
        ("SKILLS_REF", "skills_ref"),
    )}  # fmt: skip
    code = lifted(
        path, names, Path=Path, orjson=orjson, nullcontext=nullcontext, Counter=Counter, NG_NO_PERSIST_KEY="_ng_no_persist",
        NG_FAILURE_CLASS_KEY="_ng_failure_class", tqdm=SimpleNamespace(write=lambda text: None), **keys,
    )  # fmt: skip
    asked = {"input": [{"role": "user", "content": "fix it"}], "metadata": {"instance_id": "a__b-1"}}
    rows = [
        {"responses_create_params": asked, "agent_ref": {"name": "swe"}, "_ng_task_index": 0, "_ng_rollout_index": number}
        for number in (0, 1, 2, 2)
    ]  # fmt: skip
    made = [
        {"responses_create_params": asked, "response": gym_reply("done"), "reward": 1.0, "model_patch": PATCH},
        {"responses_create_params": asked, "response": gym_reply("no"), "reward": 0.0},
        *({"responses_create_params": asked, "response": gym_reply("Failed"), "reward": 0.0, "_ng_failure_class": "transient"}
          for _ in range(2)),
    ]  # fmt: skip

    async def answered(row: Any, result: Any) -> Any:
        return row, result

    helper = code.RolloutCollectionHelper()
    helper._preprocess_rows_from_config = lambda config: rows
    helper.run_examples = lambda rows, semaphore: [answered(*each) for each in zip(rows, made, strict=True)]
    folder = tmp_path / "out"
    folder.mkdir()
    config = SimpleNamespace(
        output_jsonl_fpath=str(folder / "r.jsonl"), materialized_jsonl_fpath=folder / "r_materialized_inputs.jsonl",
        resume_from_cache=False, num_samples_in_parallel=None, upload_rollouts_to_wandb=False, disable_aggregation=True,
    )  # fmt: skip
    asyncio.run(helper.run_from_config(config))
    dump = native({}, "out")
    assert {form[0] for form in dump.forms} == {"nemo-gym"}
    assert rows_of(dump, "group_id", "reward", "passed", "invalid_reason") == [
        ("a__b-1", 1.0, True, None), ("a__b-1", 0.0, False, None),
        ("a__b-1", None, False, "infra_failure"), ("a__b-1", None, False, "infra_failure"),
    ]  # fmt: skip
    first = dump.read_trajectories([0])[0][1]
    assert [each.role for each in first.messages] == ["user", "assistant", "tool", "assistant"]
    assert (first.model_patch, first.messages[-1].content) == (PATCH, "done")
    assert any("NeMo-Gym tasks" in note for note in dump.report.notes)
