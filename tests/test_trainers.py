"""The trainer examples, run against stand-ins of the trainers."""

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

TRAINERS = Path(__file__).resolve().parents[1] / "examples" / "trainers"
GAGAR = """
import json, sys
command, dump, *rest = sys.argv[1:]
out = rest[rest.index("-o") + 1]
records = [json.loads(line) for line in open(dump)]
if command == "grade":
    open(out, "w").write("x")
    print(json.dumps({"spending": {"n_input_tokens": 700, "n_output_tokens": 30}}))
    sys.exit(GRADE_EXIT)
rows = [
    {
        "group_id": each["group_id"], "trajectory_id": each["trajectory_id"],
        "advantage": None if each.get("infra_failure") else number / 4, "advantage_base": 0.25,
        "reward_equivalent": None if each.get("infra_failure") else 10 + number,
    }
    for number, each in enumerate(records)
]
open(out, "w").write("".join(json.dumps(row) + "\\n" for row in rows))
counts = {"n_graded": 1, "n_skipped": 2, "n_ungraded": 1, "n_eligible": 2, "n_integrity_violations": 3, "n_bad_records": 0}
print(json.dumps({**counts, "n_left_by_reason": {"endpoint": 1}, "capped_share": None}))
"""
"""Credits of rollout i: advantage i/4, reward 10 + i."""
METRICS = {
    "gagar/graded_share": 0.25, "gagar/eligible_share": 0.5, "gagar/ungraded_share": 0.5, "gagar/capped_share": 0.0,
    "gagar/violations": 3, "gagar/bad_records": 0, "gagar/tokens_in": 700, "gagar/tokens_out": 30,
}  # fmt: skip
"""Without the share that moved, which depends on the number of rollouts."""


class Bench:
    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.monkeypatch = monkeypatch
        self.install(grade_exit=0)
        monkeypatch.setenv("GAGAR_FOLDER", str(folder / "steps"))
        monkeypatch.syspath_prepend(str(TRAINERS))

    def install(self, grade_exit: int) -> None:
        script = self.folder / "fake.py"
        script.write_text(GAGAR.replace("GRADE_EXIT", str(grade_exit)))
        self.monkeypatch.setenv("GAGAR_COMMAND", f"{sys.executable} -S -E {script}")

    def load(self, name: str, **stand_ins: Any) -> Any:
        """An example's module, with what it imports of a trainer stood in for."""
        for path, names in stand_ins.items():
            parts = path.split("__")
            for depth in range(1, len(parts) + 1):
                full = ".".join(parts[:depth])
                known = sys.modules.get(full)
                module = (
                    known
                    if isinstance(known, ModuleType) and hasattr(known, "stand_in")
                    else ModuleType(full)
                )
                module.stand_in = True  # type: ignore[attr-defined]
                self.monkeypatch.setitem(sys.modules, full, module)
                if depth > 1:
                    setattr(sys.modules[".".join(parts[: depth - 1])], parts[depth - 1], module)
            for key, value in names.items():
                setattr(sys.modules[".".join(parts)], key, value)
        spec = importlib.util.spec_from_file_location(f"example_{name}", TRAINERS / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    @property
    def records(self) -> list[dict[str, Any]]:
        [dump] = (self.folder / "steps").glob("*/dump.jsonl")
        return [json.loads(line) for line in dump.read_text().splitlines()]


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(tmp_path, monkeypatch)


class Tensor(list):  # type: ignore[type-arg]
    """As much of a tensor as the examples use."""

    def tolist(self) -> list[Any]:
        return [each.tolist() if isinstance(each, Tensor) else each for each in self]

    def new_tensor(self, values: list[Any]) -> "Tensor":
        return Tensor(values)

    def float(self) -> "Tensor":
        return Tensor(map(float, self))

    def unbind(self) -> list[Any]:
        return list(self)

    def sum(self) -> Any:
        return sum(self)


def test_slime_gets_advantages_for_all_samples(bench: Bench) -> None:
    def sample(number: int, run: int | None, status: str, *, removed: bool = False) -> SimpleNamespace:
        told = {"model_patch": "p", "n_turns": np.int64(3), "step": number, "reward": -1.0}
        return SimpleNamespace(
            group_index=7, index=number, rollout_id=run, response=f"r{number}", metadata=told,
            status=SimpleNamespace(value=status), remove_sample=removed, get_reward_value=lambda args: 1.0,
        )  # fmt: skip

    samples = [sample(0, None, "completed"), sample(1, None, "aborted"), sample(2, 9, "truncated"), sample(3, 9, "completed"),
               sample(4, None, "completed", removed=True)]  # fmt: skip
    raw, trained = bench.load("slime_rewards").post_process_rewards(None, samples)
    assert (raw, trained) == ([1.0] * 5, [0.0, 0.0, 0.5, 0.5, 0.0])
    assert [record["trajectory_id"] for record in bench.records] == ["0", "1", "9", "4"]
    assert [record["infra_failure"] for record in bench.records] == [False, True, False, True]
    assert [each["content"] for each in bench.records[2]["messages"]] == ["r2", "r3"]
    assert (bench.records[0]["model_patch"], bench.records[0]["n_turns"]) == ("p", 3)
    assert {(record["reward"], record.get("step")) for record in bench.records} == {(1.0, None)}


def test_trl_gets_rewards_one_a_completion(bench: Bench) -> None:
    module = bench.load("trl_rewards")
    reward_function = module.make_gagar_reward(lambda completion, task: completion == "good")
    assert reward_function.__name__ == "gagar_reward"  # TRL logs under it
    completions = ["good", "bad", "good"]
    logged: dict[str, float] = {}
    rewards = reward_function(
        ["p"] * 3, completions, [[1]] * 3, task_id=["t", "t", "u"], trainer_state=None, log_metric=logged.__setitem__
    )  # fmt: skip
    # |0 − 1/4| + 0 + |2/4 − 1/4| over two, of 3/4.
    assert logged == METRICS | {"gagar/moved_share": pytest.approx(1 / 3)}
    assert rewards == [10, 11, 12]
    assert [record["trajectory_id"] for record in bench.records] == ["t-1", "t-2", "u-1"]
    assert [record["resolved"] for record in bench.records] == [True, False, True]


def test_prime_rl_gets_token_lists(bench: Bench) -> None:
    reply = {"role": "assistant", "content": "", "tool_calls": ['{"name": "ls", "arguments": "{}"}']}
    rollout = {"reward": 1.0, "prompt": "u", "completion": [reply], "info": {"model_patch": "p"}}
    broken = {**rollout, "info": None, "completion": None, "error": {"error": "SandboxError"}}
    inputs = SimpleNamespace(
        rollouts=[rollout, rollout, broken], broadcast=lambda values: [[v] * 2 for v in values]
    )
    made = bench.load("prime_rl_advantage").gagar_advantage(inputs, fields={"repo": "a/b"})
    assert made == [[0.0, 0.0], [0.25, 0.25], [0.0, 0.0]]
    first = bench.records[0]
    assert (first["repo"], first["model_patch"], first["infra_failure"]) == ("a/b", "p", False)
    assert first["messages"][0] == {"role": "user", "content": "u"}
    assert first["messages"][1]["tool_calls"] == [{"name": "ls", "arguments": "{}"}]


def test_skyrl_trainer_replaces_rewards_before_its_base_class_sees_them(bench: Bench) -> None:
    class RayPPOTrainer:
        tokenizer = SimpleNamespace(decode=str)

        def __init__(self) -> None:
            self.all_metrics: dict[str, float] = {}

        def postprocess_generator_output(self, generator_output: Any, uids: Any, *measured: Any) -> Any:
            return generator_output["rewards"], uids, measured

    module = bench.load(
        "skyrl_trainer",
        ray={},
        skyrl__train__config={"SkyRLTrainConfig": object},
        skyrl__train__entrypoints__main_base={"BasePPOExp": object, "validate_cfg": None},
        skyrl__train__trainer={"RayPPOTrainer": RayPPOTrainer},
        skyrl__train__utils={"initialize_ray": None},
    )
    output = {"rewards": [1.0, 0.0], "response_ids": [[1], [2]], "loss_masks": None}
    trainer = module.GagarTrainer()
    made = trainer.postprocess_generator_output(output, ["u", "u"])
    assert trainer.all_metrics == METRICS | {"gagar/moved_share": 0.25}
    assert made == ([10, 11], ["u", "u"], (output, ["u", "u"]))
    made = module.GagarTrainer().postprocess_generator_output(output, ["u", "u"], {"rewards": [0.0]}, ["v"])
    assert made[2] == ({"rewards": [0.0]}, ["v"])
    assert output["rewards"] == [1.0, 0.0]
    with pytest.raises(ValueError, match="turn off step_wise_trajectories"):
        module.GagarTrainer().postprocess_generator_output({**output, "rewards": [[1.0]]}, ["u"])


def test_verl_trainer_writes_rewards_to_the_last_token_of_every_output(bench: Bench) -> None:
    registered: dict[str, Any] = {}
    written: dict[str, Any] = {}

    class PPOTrainerSync:
        def _compute_advantage(self, batch: Any, metrics: Any) -> Any:
            return written["rm_scores"]

    columns = {
        "uid": Tensor(["u", "u", "u"]),
        "rm_scores": Tensor([Tensor([0.0, 1.0]), Tensor([0.0, 0.0]), Tensor([0.0])]),
        "extra_fields": Tensor([{"gagar": {"model_patch": "p0"}}, None, {"gagar": {"infra_failure": True}}]),
    }
    module = bench.load(
        "verl_trainer",
        torch={
            "zeros_like": lambda values: Tensor([0.0] * len(values)),
            "nested": SimpleNamespace(as_nested_tensor=lambda rows, layout: rows),
            "jagged": None,
        },
        transfer_queue={
            "kv_batch_get": lambda keys, partition_id, select_fields: {
                name: columns[name] for name in select_fields
            },
            "kv_batch_put": lambda keys, partition_id, fields: written.update(fields),
        },
        verl__trainer__ppo__v1={
            "PPOTrainerSync": PPOTrainerSync,
            "register_trainer": lambda name: lambda cls: registered.setdefault(name, cls),
        },
        verl__utils={"tensordict_utils": SimpleNamespace(get_tensordict=dict)},
    )
    batch = SimpleNamespace(keys=["u_0_10", "u_0_9", "u_1_0"], partition_id="train")
    assert registered["gagar"] is module.GagarTrainer
    # Two outputs of one session, the last one first, then another session, which is invalid: two attempts.
    metrics: dict[str, float] = {}
    assert module.GagarTrainer()._compute_advantage(batch, metrics) == [[0.0, 11], [0.0, 11], [11]]
    assert metrics == METRICS | {"gagar/moved_share": 0.0}
    assert [(r["trajectory_id"], r["reward"], r.get("model_patch")) for r in bench.records] == [
        ("u_1", 0.0, None),
        ("u_0", 1.0, "p0"),
    ]


def test_openrlhf_maker_replaces_rewards_in_the_order_of_the_prompts(bench: Bench) -> None:
    class RemoteExperienceMaker:
        strategy = SimpleNamespace(args=SimpleNamespace(rollout=SimpleNamespace(n_samples_per_prompt=2)))

        def compute_advantages_and_returns(self, experiences: Any) -> Any:
            return [each.rewards for each in experiences]

    module = bench.load(
        "openrlhf_train",
        openrlhf__trainer__ppo_utils__experience_maker={"RemoteExperienceMaker": RemoteExperienceMaker},
        openrlhf__trainer__ppo_trainer={"RemoteExperienceMaker": RemoteExperienceMaker},
    )
    experiences = [
        SimpleNamespace(
            index=[3, 0], rewards=Tensor([1, 0]), prompts=["q", "p"], labels=['{"repo": "a/b"}', "x"], info={}
        ),
        SimpleNamespace(index=[1, 2], rewards=Tensor([1, 1]), prompts=["p", "q"], labels=[None, ""], info={}),
    ]
    made = module.GagarExperienceMaker().compute_advantages_and_returns(experiences)
    assert made == [[10, 11], [12, 13]]
    expected = METRICS | {"gagar/moved_share": 0.5}
    assert experiences[1].info == {name: [value] * 2 for name, value in expected.items()}
    assert [(r["group_id"], r["trajectory_id"]) for r in bench.records] == [
        ("1", "3"),
        ("0", "0"),
        ("0", "1"),
        ("1", "2"),
    ]
    assert [record.get("repo") for record in bench.records] == ["a/b", None, None, None]
    assert sys.modules["openrlhf.trainer.ppo_trainer"].RemoteExperienceMaker is module.GagarExperienceMaker  # type: ignore[attr-defined]


def test_nemo_rl_estimator_replaces_rewards_and_refuses_other_scales(bench: Bench) -> None:
    class GRPOAdvantageEstimator:
        def __init__(self, estimator_config: Any, loss_config: Any) -> None:
            self.use_leave_one_out_baseline = estimator_config["use_leave_one_out_baseline"]
            self.normalize_rewards = estimator_config["normalize_rewards"]

        def compute_advantage(
            self, prompt_ids: Any, rewards: Any, mask: Any, valid_mask: Any = None, **kwargs: Any
        ) -> Any:
            return rewards

    grpo = SimpleNamespace(GRPOAdvantageEstimator=GRPOAdvantageEstimator)
    estimators = SimpleNamespace(GRPOAdvantageEstimator=GRPOAdvantageEstimator)
    module = bench.load(
        "nemo_rl_estimator", nemo_rl__algorithms={"advantage_estimator": estimators, "grpo": grpo}
    )
    plain = {"use_leave_one_out_baseline": False, "normalize_rewards": False}
    made = module.GagarAdvantageEstimator(plain, None).compute_advantage(
        Tensor([Tensor([5, 6]), Tensor([5, 6]), Tensor([7, 8])]),
        Tensor([1.0, 0.0, 1.0]),
        None,
        valid_mask=Tensor([1.0, 0.0, 1.0]),
        repeated_batch={"message_log": [[{"role": "user", "content": "u", "token_ids": 1}]] * 3},
    )
    assert made == [10, 10, 12]  # the invalid second one gets what does not move the mean of its group
    assert [record["group_id"] for record in bench.records] == ["0", "0", "1"]
    assert bench.records[0]["messages"] == [{"role": "user", "content": "u"}]
    with pytest.raises(ValueError, match="set use_leave_one_out_baseline and normalize_rewards to false"):
        module.GagarAdvantageEstimator({**plain, "normalize_rewards": True}, None)
    module.install()
    assert grpo.GRPOAdvantageEstimator is estimators.GRPOAdvantageEstimator is module.GagarAdvantageEstimator
