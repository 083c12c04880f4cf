"""The trainer examples: run against stand-ins of the trainers, and their hooks against the trainers' published ones.

`HOOKS` are facts about the named versions: which function calls ours, and by which parameters. Where such a package is
installed its source is read (never imported: trainers need GPUs' libraries) and compared with the same facts.
"""

import ast
import importlib.util
import json
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

TRAINERS = Path(__file__).resolve().parents[1] / "examples" / "trainers"
GAGAR = """
import json, sys
command, dump, *rest = sys.argv[1:]
out = rest[rest.index("-o") + 1]
records = [json.loads(line) for line in open(dump)]
if command == "grade":
    open(out, "w").write("x")
    sys.exit(GRADE_EXIT)
rows = [
    {
        "group_id": each["group_id"], "trajectory_id": each["trajectory_id"],
        "advantage": None if each.get("infra_failure") else number / 4,
        "reward_equivalent": None if each.get("infra_failure") else 10 + number,
    }
    for number, each in enumerate(records)
]
open(out, "w").write("".join(json.dumps(row) + "\\n" for row in rows))
"""
"""Credits of rollout i: advantage i/4, reward 10 + i."""


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


def test_step_grades_and_redistributes_for_real(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GAGAR_COMMAND", f"{sys.executable} -m gagar_cli")
    monkeypatch.setenv("GAGAR_GRADE_FLAGS", "--model offline --sandbox inspect-only")
    monkeypatch.setenv("GAGAR_FOLDER", str(tmp_path))
    monkeypatch.syspath_prepend(str(TRAINERS))
    demo = Path(__file__).resolve().parents[1] / "gagar_cli" / "demo_data" / "demo-rollouts.jsonl"
    records = [json.loads(line) for line in demo.read_text().splitlines()]
    chosen = [record for record in records if record["group_id"] == records[0]["group_id"]]
    made = importlib.import_module("gagar_step").redistribute_step(chosen)
    known = [(credit.advantage, credit.reward) for credit in made if credit.advantage is not None]
    mean = sum(reward for _, reward in known) / len(known)
    assert [reward - mean for _, reward in known] == pytest.approx([advantage for advantage, _ in known])
    passed = {advantage for (advantage, _), record in zip(known, chosen, strict=False) if record["resolved"]}
    assert len(passed) > 1


def test_step_without_a_graded_group_keeps_plain_advantages_and_a_bad_dump_stops_it(bench: Bench) -> None:
    step = bench.load("gagar_step")
    bench.install(grade_exit=1)
    assert step.redistribute_step([{"group_id": "1", "trajectory_id": "2", "resolved": True}]) == [(0.0, 10)]
    bench.install(grade_exit=3)
    with pytest.raises(Exception, match="returned non-zero exit status 3"):
        step.redistribute_step([{"group_id": "1", "trajectory_id": "2"}])


def test_slime_gets_advantages_for_all_samples(bench: Bench) -> None:
    samples = [
        SimpleNamespace(
            group_index=7,
            index=number,
            response="r",
            metadata={"model_patch": "p"},
            status=SimpleNamespace(value=status),
            get_reward_value=lambda args: 1.0,
        )
        for number, status in enumerate(("completed", "aborted", "truncated"))
    ]
    raw, trained = bench.load("slime_rewards").post_process_rewards(None, samples)
    assert (raw, trained) == ([1.0, 1.0, 1.0], [0.0, 0.0, 0.5])
    assert bench.records[0]["model_patch"] == "p"
    assert [record["infra_failure"] for record in bench.records] == [False, True, False]


def test_trl_gets_rewards_one_a_completion(bench: Bench) -> None:
    module = bench.load("trl_rewards")
    reward_function = module.make_gagar_reward(lambda completion, task: completion == "good")
    assert reward_function.__name__ == "gagar_reward"  # TRL logs under it
    completions = ["good", "bad", "good"]
    rewards = reward_function(["p"] * 3, completions, [[1]] * 3, task_id=["t", "t", "u"], trainer_state=None)
    assert rewards == [10, 11, 12]
    assert [record["trajectory_id"] for record in bench.records] == ["t-1", "t-2", "u-1"]
    assert [record["resolved"] for record in bench.records] == [True, False, True]


def test_prime_rl_gets_token_lists(bench: Bench) -> None:
    rollout = {
        "reward": 1.0,
        "prompt": [{"role": "user", "content": "u"}],
        "completion": [],
        "info": {"model_patch": "p"},
    }
    inputs = SimpleNamespace(
        rollouts=[rollout, {**rollout, "info": None}], broadcast=lambda values: [[v] * 2 for v in values]
    )
    made = bench.load("prime_rl_advantage").gagar_advantage(inputs, fields={"repo": "a/b"})
    assert made == [[0.0, 0.0], [0.25, 0.25]]
    assert (bench.records[0]["repo"], bench.records[0]["model_patch"]) == ("a/b", "p")


def test_skyrl_trainer_replaces_rewards_before_its_base_class_sees_them(bench: Bench) -> None:
    class RayPPOTrainer:
        tokenizer = SimpleNamespace(decode=str)

        def postprocess_generator_output(self, generator_output: Any, uids: Any) -> Any:
            return generator_output["rewards"], uids

    module = bench.load(
        "skyrl_trainer",
        ray={},
        skyrl__train__config={"SkyRLTrainConfig": object},
        skyrl__train__entrypoints__main_base={"BasePPOExp": object, "validate_cfg": None},
        skyrl__train__trainer={"RayPPOTrainer": RayPPOTrainer},
        skyrl__train__utils={"initialize_ray": None},
    )
    output = {"rewards": [1.0, 0.0], "response_ids": [[1], [2]], "loss_masks": None}
    assert module.GagarTrainer().postprocess_generator_output(output, ["u", "u"]) == ([10, 11], ["u", "u"])
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
        "rm_scores": Tensor([Tensor([0.0, 0.0]), Tensor([0.0, 1.0]), Tensor([0.0])]),
        "extra_fields": Tensor([{"gagar": {"model_patch": "p0"}}, {"gagar": {"model_patch": "p1"}}, None]),
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
    batch = SimpleNamespace(keys=["u_0_0", "u_0_1", "u_1_0"], partition_id="train")
    assert registered["gagar"] is module.GagarTrainer
    # Two outputs of one session, then another session: two attempts.
    assert module.GagarTrainer()._compute_advantage(batch, {}) == [[0.0, 10], [0.0, 10], [11]]
    assert [(r["trajectory_id"], r["reward"], r.get("model_patch")) for r in bench.records] == [
        ("u_0", 1.0, "p1"),
        ("u_1", 0.0, None),
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
            index=[3, 0], rewards=Tensor([1, 0]), prompts=["q", "p"], labels=['{"repo": "a/b"}', "x"]
        ),
        SimpleNamespace(index=[1, 2], rewards=Tensor([1, 1]), prompts=["p", "q"], labels=[None, ""]),
    ]
    made = module.GagarExperienceMaker().compute_advantages_and_returns(experiences)
    assert made == [[10, 11], [12, 13]]
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
    assert made == [10, 0.0, 12]
    assert [record["group_id"] for record in bench.records] == ["0", "0", "1"]
    assert bench.records[0]["messages"] == [{"role": "user", "content": "u"}]
    with pytest.raises(ValueError, match="set use_leave_one_out_baseline and normalize_rewards to false"):
        module.GagarAdvantageEstimator({**plain, "normalize_rewards": True}, None)
    module.install()
    assert grpo.GRPOAdvantageEstimator is estimators.GRPOAdvantageEstimator is module.GagarAdvantageEstimator


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
    ("skyrl 1b19b04", "examples/train/algorithms/dapo/main_dapo.py", "DAPOTrainer.postprocess_generator_output",
     "skyrl_trainer", ("self", "generator_output", "uids"), "GagarTrainer.postprocess_generator_output"),
    ("prime-rl 039b400", "src/prime_rl/orchestrator/algo/advantage.py", "AdvantageFn", "prime_rl_advantage",
     ("inputs",), "gagar_advantage"),
    ("nemo-rl 00925dd", "nemo_rl/algorithms/advantage_estimator.py", "GRPOAdvantageEstimator.compute_advantage",
     "nemo_rl_estimator", ("self", "prompt_ids", "rewards", "mask", "valid_mask"),
     "GagarAdvantageEstimator.compute_advantage"),
]  # fmt: skip


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
    try:
        package = distribution(name)
    except PackageNotFoundError:
        pytest.skip(f"{name} is not installed")
    if package.version != version:
        pytest.skip(f"the facts are those of {name} {version}")
    source = Path(str(package.locate_file(path))).read_text()
    found = find_function(ast.parse(source), function)
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
