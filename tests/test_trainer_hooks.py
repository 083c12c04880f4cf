"""The trainer examples against the trainers' own code: the parameters of their hooks, and what calls them.

`HOOKS` are facts about the named versions: which function calls ours, and by which parameters. Where such a package is
installed beside the environment its source is read and compared with the same facts; where the calling code can be run
without torch, it is, with our hook in it.
"""

import ast
import math
from collections import defaultdict
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.io.formats.trainer_code import lifted, source
from tests.test_trainers import TRAINERS, Bench

HOOKS: list[tuple[str, str, str, str | None, tuple[str, ...], str]] = [
    # Distribution and version, file, function, example, parameters of the hook, our function.
    ("verl 0.9.1", "verl/trainer/ppo/v1/trainer_base.py", "PPOTrainer._compute_advantage", "verl_trainer",
     ("self", "batch", "metrics"), "GagarTrainer._compute_advantage"),
    ("verl 0.9.1", "verl/trainer/ppo/v1/trainer_base.py", "register_trainer", None, ("name",), ""),
    ("trl 1.16.0", "trl/trainer/grpo_trainer.py", "GRPOTrainer._calculate_rewards", "trl_rewards",
     ("prompts", "completions", "completion_ids"), "make_gagar_reward.gagar_reward"),
    ("openrlhf 0.11.2", "openrlhf/trainer/ppo_utils/experience_maker.py",
     "RemoteExperienceMaker.compute_advantages_and_returns", "openrlhf_train", ("self", "experiences"),
     "GagarExperienceMaker.compute_advantages_and_returns"),
    ("slime 00de6b0", "slime/ray/rollout.py", "RolloutManager._post_process_rewards", "slime_rewards",
     ("args", "samples"), "post_process_rewards"),
    ("skyrl 0.3.0", "skyrl/train/trainer.py", "RayPPOTrainer.postprocess_generator_output", "skyrl_trainer",
     ("self", "generator_output", "uids", "metrics_generator_output", "metrics_uids"),
     "GagarTrainer.postprocess_generator_output"),
    ("prime-rl 039b400", "src/prime_rl/orchestrator/algo/advantage.py", "AdvantageFn", "prime_rl_advantage",
     ("inputs",), "gagar_advantage"),
    ("nemo-rl 00925dd", "nemo_rl/algorithms/advantage_estimator.py", "GRPOAdvantageEstimator.compute_advantage",
     "nemo_rl_estimator", ("self", "prompt_ids", "rewards", "mask", "valid_mask"),
     "GagarAdvantageEstimator.compute_advantage"),
]  # fmt: skip


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(tmp_path, monkeypatch)


def find_function(tree: ast.AST, name: str) -> ast.FunctionDef:
    scope, _, function = name.rpartition(".")
    nodes: Any = tree.body  # type: ignore[attr-defined]
    if scope:
        [owner] = [
            node for node in nodes if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == scope
        ]
        nodes = owner.body
    [found] = [node for node in nodes if isinstance(node, ast.FunctionDef) and node.name == function]
    return found


def parameters(function: ast.FunctionDef) -> tuple[str, ...]:
    return tuple(each.arg for each in (*function.args.posonlyargs, *function.args.args))


@pytest.mark.parametrize("hook", [hook for hook in HOOKS if hook[3]], ids=lambda hook: hook[0])
def test_example_takes_what_the_trainer_gives(hook: Any) -> None:
    *_, example, expected, name = hook
    function = find_function(ast.parse((TRAINERS / f"{example}.py").read_text()), name)
    assert parameters(function) == expected


@pytest.mark.parametrize(
    "hook", [hook for hook in HOOKS if "." in hook[0].split()[1]], ids=lambda hook: hook[2]
)
def test_hook_is_that_of_the_installed_package(hook: Any) -> None:
    (name, version), path, function, _, expected, _ = (hook[0].split(), *hook[1:])
    found = find_function(ast.parse(source(f"{name}=={version}", path).read_text()), function)
    if name != "trl":
        assert parameters(found) == expected
        return
    # TRL's reward functions are called by keyword.
    calls = [
        node
        for node in ast.walk(found)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "reward_func"
    ]
    named = {tuple(word.arg for word in call.keywords if word.arg) for call in calls}
    assert expected in named


def test_every_example_is_covered() -> None:
    names = {path.stem for path in TRAINERS.glob("*.py")}
    assert names == {hook[3] for hook in HOOKS if hook[3]} | {"gagar_step"}


def test_verl_registers_the_trainer_by_its_name(bench: Bench) -> None:
    class PPOTrainer:
        pass

    registry: dict[str, Any] = {}
    path = source("verl==0.9.1", "verl/trainer/ppo/v1/trainer_base.py")
    code = lifted(path, {"register_trainer": ()}, TRAINER_REGISTRY=registry, PPOTrainer=PPOTrainer)
    bench.load(
        "verl_trainer", torch={}, transfer_queue={}, verl__utils={"tensordict_utils": None},
        verl__trainer__ppo__v1={"PPOTrainerSync": PPOTrainer, "register_trainer": code.register_trainer},
    )  # fmt: skip
    assert list(registry) == ["gagar"]
    settings = source("verl==0.9.1", "verl/trainer/config/ppo_trainer.yaml").read_text()
    for name in ("use_v1:", "trainer_mode:", "adv_estimator:", "norm_adv_by_std_in_grpo:"):
        assert f" {name} " in settings


def test_skyrl_spreads_our_rewards_over_tokens_and_measures_its_own(bench: Bench) -> None:
    metrics = lifted(
        source("skyrl==0.3.0", "skyrl/train/generators/utils.py"), {"get_metrics_from_generator_output": ()},
        np=np, defaultdict=defaultdict, MetricsOutput=dict,
    )  # fmt: skip
    code = lifted(
        source("skyrl==0.3.0", "skyrl/train/trainer.py"), {"RayPPOTrainer": ("postprocess_generator_output",)},
        logger=SimpleNamespace(info=lambda text: None),
        get_metrics_from_generator_output=metrics.get_metrics_from_generator_output,
    )  # fmt: skip
    module = bench.load(
        "skyrl_trainer", ray={}, skyrl__train__config={"SkyRLTrainConfig": object},
        skyrl__train__entrypoints__main_base={"BasePPOExp": object, "validate_cfg": None},
        skyrl__train__trainer={"RayPPOTrainer": code.RayPPOTrainer}, skyrl__train__utils={"initialize_ray": None},
    )  # fmt: skip
    trainer = module.GagarTrainer()
    trainer.tokenizer, trainer.all_metrics = SimpleNamespace(decode=str), {}
    algorithm = SimpleNamespace(zero_variance_filter=False)
    trainer.cfg = SimpleNamespace(
        trainer=SimpleNamespace(algorithm=algorithm),
        generator=SimpleNamespace(step_wise_trajectories=False, merge_stepwise_output=False, n_samples_per_prompt=2),
    )  # fmt: skip
    output = {"rewards": [1.0, 0.0], "response_ids": [[1, 2], [3]], "loss_masks": [[1, 1], [1]]}
    made, uids = trainer.postprocess_generator_output(output, ["u", "u"])
    assert (made["rewards"], uids) == ([[0.0, 10.0], [11.0]], ["u", "u"])
    assert trainer.all_metrics["reward/avg_raw_reward"] == 0.5
    assert trainer.all_metrics["gagar/graded_share"] == 0.25


class Array(np.ndarray):
    """As much of a tensor as TRL's rewards use, over numpy."""

    def all(self, axis: Any = None, dim: Any = None, **more: Any) -> Any:
        return super().all(axis=dim if axis is None else axis, **more)


def test_trl_calls_the_reward_function_by_its_names(bench: Bench) -> None:
    class Base:
        pass

    def array(values: Any, **_: Any) -> Any:
        return np.asarray(values, dtype=float).view(Array)

    torch = SimpleNamespace(
        zeros=lambda *shape, device: array(np.zeros(shape)),
        tensor=array,
        isnan=np.isnan,
        nan=math.nan,
        float32=None,
    )
    code = lifted(
        source("trl==1.16.0", "trl/trainer/grpo_trainer.py"), {"GRPOTrainer": ("_calculate_rewards",)}, Base=Base,
        torch=torch, nn=SimpleNamespace(Module=type("Module", (), {})), is_async_callable=lambda function: False,
        profiling_context=lambda *_: nullcontext(), gather=lambda values: values,
    )  # fmt: skip
    reward = bench.load("trl_rewards").make_gagar_reward(lambda completion, task: completion == "good")
    trainer = code.GRPOTrainer()
    trainer.accelerator, trainer.state, trainer.environments = SimpleNamespace(device="cpu"), None, None
    logged: dict[str, float] = {}
    trainer._log_completion_extra, trainer._log_metric = lambda *_: None, logged.__setitem__
    trainer.reward_funcs, trainer.reward_processing_classes = [reward], [None]
    trainer.reward_func_names = [reward.__name__]
    inputs = [{"prompt": "p", "task_id": "t"}] * 2
    rewards = trainer._calculate_rewards(inputs, ["p", "p"], ["good", "bad"], [[1], [2]])
    assert rewards.tolist() == [[10.0], [11.0]]
    assert logged["gagar/graded_share"] == 0.25
    assert [record["resolved"] for record in bench.records] == [True, False]


def test_openrlhf_has_what_the_example_reads_of_a_sample() -> None:
    path = source("openrlhf==0.11.2", "openrlhf/trainer/ppo_utils/experience.py")
    [experience] = [
        each for each in ast.parse(path.read_text()).body if getattr(each, "name", "") == "Experience"
    ]
    assert isinstance(experience, ast.ClassDef)
    fields = {ast.unparse(each.target) for each in experience.body if isinstance(each, ast.AnnAssign)}
    assert {"index", "rewards", "prompts", "labels"} <= fields
    trainer = source("openrlhf==0.11.2", "openrlhf/trainer/ppo_trainer.py").read_text()
    assert "self.experience_maker = RemoteExperienceMaker(" in trainer  # the name that the example replaces
    maker = source("openrlhf==0.11.2", "openrlhf/trainer/ppo_utils/experience_maker.py").read_text()
    assert '["reinforce_baseline", "dr_grpo"]' in maker
    actor = source("openrlhf==0.11.2", "openrlhf/trainer/ray/ppo_actor.py").read_text()
    assert "for k, v in experience.info.items():" in actor  # what is logged
    assert "reshape(-1, args.rollout.n_samples_per_prompt)" in maker
