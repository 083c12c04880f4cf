"""Trainers' dumps in the forms that their sources write."""

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from gagar_cli.errors import InputError
from gagar_cli.io.dump import Dump

CHATML = "<|im_start|>user\nfix it<|im_end|>\n<|im_start|>assistant\n"


def verdicts(dump: Dump) -> list[tuple[Any, ...]]:
    return dump.index.select(
        "step", "group_id", "trajectory_id", "segment", "reward", "passed", "invalid"
    ).rows()


def roles(dump: Dump, row: int = 0) -> list[str]:
    return [message.role for message in dump.read_trajectories([row])[0][1].messages]


def test_verl_v0_groups_by_equal_input_within_a_step(native: Any) -> None:
    def row(prompt: str, score: float, step: int) -> dict[str, Any]:
        text = f"user\n{prompt}\nassistant\n"
        return {
            "input": text,
            "output": f"answer\nuser\nmore\nassistant\nend of {prompt}",
            "gts": None,
            "score": score,
            "step": step,
        }

    files = {
        "rollouts/9.jsonl": [row("a", 1.0, 9), row("a", 0.0, 9), row("b", 1.0, 9)],
        "rollouts/10.jsonl": [row("a", 1.0, 10)],
    }
    dump = native(files, "rollouts")
    assert [(step, reward) for step, _, _, _, reward, *_ in verdicts(dump)] == [
        (9, 1.0),
        (9, 0.0),
        (9, 1.0),
        (10, 1.0),
    ]
    assert dump.index["group"].n_unique() == 3
    assert dump.report.group_id_source == "equal_prompt"
    assert roles(dump) == ["user", "assistant", "user", "assistant"]
    assert any("special tokens were dropped" in note for note in dump.report.notes)


@pytest.mark.parametrize(
    ("prompt", "output", "n_turns"),
    [
        (CHATML, "a<|im_end|>\n<|im_start|>user\nok<|im_end|>\n<|im_start|>assistant\nb<|im_end|>", 2),
        (CHATML, "a<|im_end|>", 1),
        (f"{CHATML}shown<|im_end|>\n{CHATML}", "a<|im_end|>", 1),
        ("user\nfix it\nassistant\n", "a\nuser\nmore\nassistant\nb\nuser\nmore\nassistant\nc", 3),
        ("fix it", "a text that holds any number of turns", None),
        ("user\nfix it\nassistant\n", "a text that holds any number of turns", None),
    ],
    ids=["exact", "one reply", "a reply in the prompt", "bare names", "no template", "no border"],
)
def test_turns_are_the_replies_of_a_log_that_can_be_split(
    native: Any, prompt: str, output: str, n_turns: int | None
) -> None:
    row = {"input": prompt, "output": output, "gts": None, "score": 1.0, "step": 1}
    told = {**row, "n_turns": 9}
    assert native({"1.jsonl": [row, told]}).index["n_turns"].to_list() == [n_turns, 9]


def test_verl_v1_takes_the_group_from_uid_and_outputs_as_segments(native: Any) -> None:
    def row(uid: str, score: float, output: str) -> dict[str, Any]:
        return {"input": CHATML, "output": output, "gts": {}, "score": score, "step": 3, "uid": uid}

    rows = [row("u-1_0_0", 1.0, "one"), row("u-1_0_1", 1.0, "two"), row("u-1_1_0", 0.0, "three")]
    dump = native({"3.jsonl": rows})
    assert verdicts(dump) == [
        (3, "u-1", "u-1_0", None, 1.0, True, False),
        (3, "u-1", "u-1_0", 1, 1.0, True, False),
        (3, "u-1", "u-1_1", None, 0.0, False, False),
    ]
    log = dump.read_trajectories([0])[0][1].messages
    assert [message.content for message in log if message.role == "assistant"] == ["one", "two"]


def test_a_nan_score_is_invalid_and_never_zero(native: Any) -> None:
    line = b'{"input": "x", "output": "y", "gts": null, "score": NaN, "step": 1}\n'
    dump = native({"1.jsonl": line + line.replace(b"NaN", b"1.0")})
    assert dump.index["invalid_reason"].to_list() == ["no_reward", None]


def test_skyrl_sums_a_score_a_token_and_masks_runtime_errors(native: Any) -> None:
    def row(score: Any, reason: str | None) -> dict[str, Any]:
        return {
            "input_prompt": CHATML, "output_response": "done", "score": score, "stop_reason": reason,
            "env_class": "swe", "env_extras": {"instance_id": "a__b-1"}, "data_source": "swe",
        }  # fmt: skip

    dump = native(
        {"swe.jsonl": [row([0.0, 0.0, 1.0], "stop"), row(0.0, "length"), row(0.0, "error_runtime")]}
    )
    assert dump.index["group_id"].unique().to_list() == ["a__b-1"]
    assert dump.index["reward"].to_list() == [1.0, 0.0, None]
    assert dump.index["invalid_reason"].to_list() == [None, None, "infra_failure"]
    assert [each.is_truncated for _, each in dump.read_trajectories([0, 1, 2])] == [False, True, False]


def test_nemo_rl_opens_lists_of_one(native: Any) -> None:
    def row(answer: str, reward: float, mask: float, index: int) -> dict[str, Any]:
        content = f"{CHATML}{answer}<|im_end|>"
        return {
            "content": [content], "rewards": [reward], "token_ids": [[1, 2]], "sample_loss_mask": [mask],
            "advantages": [[0.5]], "idx": index,
        }  # fmt: skip

    dump = native(
        {"train_data_step12.jsonl": [row("a", 1.0, 1.0, 0), row("b", 0.0, 1.0, 1), row("c", 0.0, 0.0, 2)]}
    )
    assert dump.index["group"].n_unique() == 1
    assert dump.index["step"].to_list() == [12, 12, 12]
    assert dump.index["invalid_reason"].to_list() == [None, None, "mask_sample"]


def test_areal_groups_by_its_task_number(native: Any) -> None:
    def row(sample: int, reward: float) -> dict[str, Any]:
        return {
            "task_id": 7, "sample_idx": sample, "seqlen": 9, "prompt_len": 4, "head_version": 2, "tail_version": 3,
            "reward": reward, "prompt": CHATML, "completion": "x<|im_end|>",
        }  # fmt: skip

    dump = native({"7.jsonl": [row(0, 1.0), row(1, 0.0)]})
    assert verdicts(dump) == [
        (3, "7", "7-0", None, 1.0, True, False),
        (3, "7", "7-1", None, 0.0, False, False),
    ]


def test_trl_adds_up_its_reward_functions_and_keeps_each(native: Any, tmp_path: Path) -> None:
    path = tmp_path / "completions_00005.parquet"
    pl.DataFrame(
        {
            "step": [5, 5, 5],
            "prompt": ["p", "p", "q"],
            "completion": ["a", "b", "c"],
            "tests": [1.0, 0.0, float("nan")],
            "format": [0.5, 0.5, float("nan")],
            "advantage": [0.7, -0.7, 0.0],
        }
    ).write_parquet(path)
    dump = native({}, path.name)
    assert dump.index["reward"].to_list() == [1.5, 0.5, None]
    assert dump.index["group"].to_list() == [0, 0, 1]
    assert next(dump.iter_records())["rewards"] == {"tests": 1.0, "format": 0.5}
    assert any("the reward is the sum of tests, format" in note for note in dump.report.notes)
    one = native({}, path.name, format="trl", fields={"reward": "rewards.tests"})
    assert one.index["reward"].to_list() == [1.0, 0.0, None]


def test_r2e_gym_has_everything_in_one_row(native: Any) -> None:
    row = {
        "trajectory_steps": [
            {"thought": "look", "action": "<function=ls>", "observation": "a.py", "step_idx": 0},
            {"thought": "", "action": "submit", "observation": "", "step_idx": 1},
        ],
        "problem_statement": "it breaks", "docker_image": "namanjain12/x:1", "exp_name": "run-a", "reward": 1.0,
        "ds": {"repo": "x", "base_commit": "abc"}, "exit_reason": "max_step_limit", "output_patch": "diff --git a/a b/a\n",
        "test_output": "ok",
    }  # fmt: skip
    dump = native({"run-a.jsonl": [row, row | {"reward": 0.0}]})
    task, trajectory = dump.read_trajectories([0])[0]
    assert (task.docker_image, task.base_commit, task.problem_statement) == (
        "namanjain12/x:1",
        "abc",
        "it breaks",
    )
    assert (trajectory.test_output, trajectory.is_truncated, trajectory.passed) == ("ok", True, True)
    assert [message.role for message in trajectory.messages] == ["assistant", "tool", "assistant", "tool"]
    assert trajectory.messages[0].tool_calls[0].arguments == "<function=ls>"


def test_rllm_takes_the_log_of_the_last_step(native: Any) -> None:
    def episode(number: int, reason: str, *, correct: bool) -> dict[str, Any]:
        steps = [
            {"chat_completions": [{"role": "user", "content": "u"}]},
            {"chat_completions": [{"role": "user", "content": "u"}, {"role": "assistant", "content": "a"}]},
        ]
        return {
            "training_step": 4, "epoch": 0, "episode_id": f"task-1:{number}", "task": {"question": "why"}, "task_hash": "h",
            "is_correct": correct, "termination_reason": reason, "trajectories": [{"reward": float(correct), "steps": steps}],
        }  # fmt: skip

    files = {
        "episodes/train_step_4_epoch_0/episode_hashx_idtask-1_0.json": episode(0, "env_done", correct=True),
        "episodes/train_step_4_epoch_0/episode_hashx_idtask-1_1.json": episode(
            1, "max_turns_exceeded", correct=False
        ),
        "episodes/train_step_4_epoch_0/episode_hashx_idtask-1_2.json": episode(2, "error", correct=False),
    }
    dump = native(files, "episodes")
    assert verdicts(dump) == [
        (4, "task-1", "task-1:0", None, 1.0, True, False),
        (4, "task-1", "task-1:1", None, 0.0, False, False),
        (4, "task-1", "task-1:2", None, None, False, True),
    ]
    assert roles(dump) == ["user", "assistant"]


def test_verifiers_results_group_by_example(native: Any) -> None:
    def row(example: int, reward: float, error: Any = None) -> dict[str, Any]:
        return {
            "example_id": example, "prompt": [{"role": "user", "content": "u"}], "reward": reward, "error": error,
            "completion": [{"role": "assistant", "content": "a"}], "timing": {}, "is_completed": True,
            "is_truncated": False, "stop_condition": None, "metrics": {},
        }  # fmt: skip

    dump = native(
        {"results.jsonl": [row(3, 1.0), row(4, 0.0), row(3, 0.0, {"error": "SandboxError", "message": "x"})]}
    )
    assert dump.index["group_id"].to_list() == ["3", "4", "3"]
    assert dump.index["invalid_reason"].to_list() == [None, None, "infra_failure"]


def test_each_branch_of_a_trace_is_a_segment(native: Any) -> None:
    def node(parent: int | None, role: str, text: str) -> dict[str, Any]:
        return {"parent": parent, "message": {"role": role, "content": text}, "sampled": role == "assistant"}

    nodes = [node(None, "user", "u"), node(0, "assistant", "first"), node(0, "assistant", "second")]
    trace = {
        "id": "t1",
        "nodes": nodes,
        "rewards": {"tests": {"score": 1.0, "weight": 0.5}},
        "ok": True,
        "errors": [],
    }
    unscored = trace | {"id": "t2", "rewards": {"tests": None}}
    episode = {
        "id": "e",
        "env": {"id": "swe"},
        "task": {"key": "k"},
        "group": {"id": "g"},
        "ok": True,
        "traces": [trace, unscored],
    }
    dump = native({"traces.jsonl": [episode]}, pass_threshold=0.5)
    assert dump.index.select("group_id", "trajectory_id", "segment", "reward").rows() == [
        ("g", "t1", None, 0.5), ("g", "t1", 1, 0.5), ("g", "t2", None, None), ("g", "t2", 1, None),
    ]  # fmt: skip
    assert dump.index["passed"].to_list() == [True, True, False, False]
    assert [record["messages"][-1]["content"] for record in dump.iter_records()] == ["first", "second"] * 2


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("0.pt", b"PK\x03\x04rest", "may run any code"),
        ("step.pkl", b"\x80\x05rest", "may run any code"),
        (
            "rank_0.jsonl",
            [{"token_ids": [1], "loss_mask": [1], "inference_logprobs": [0.0]}],
            "token ids only",
        ),
        ("tasks.jsonl", [{"responses_create_params": {"input": []}}], "these are tasks"),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_reason(
    native: Any, name: str, content: Any, reason: str
) -> None:
    with pytest.raises(InputError, match=reason):
        native({name: content})


def test_a_copy_of_a_sibling_is_recognised_in_an_evaluation_of_skyrl(native: Any) -> None:
    row = {"input_prompt": "fix it", "output_response": "done", "score": 1.0, "stop_reason": "stop", "env_class": "x", "env_extras": {}}  # fmt: skip
    rows = [row, row | {"stop_reason": "error_runtime"}, row | {"output_response": "other"}]
    dump = native({"x.jsonl": rows})
    assert dump.index["invalid_reason"].to_list() == [None, "infra_failure", None]
    assert [record.get("infra_failure_reason") for record in dump.iter_records()] == [
        None, "error_runtime: a copy of row 1", None
    ]  # fmt: skip
    assert any("1 row repeats an earlier one word for word" in note for note in dump.report.notes)


@pytest.mark.parametrize(
    "row",
    [
        {"task_name": "t", "trial_name": "t__x", "task_checksum": "0", "verifier_result": {"rewards": {"r": 10**400}}},
        {"input_prompt": "p", "output_response": "o", "env_class": "x", "score": [10**400, 0.5]},
        {"traces": [{"id": "a", "rewards": {"r": {"score": 10**400, "weight": 0.5}}, "nodes": []}], "task": {"key": "t"}, "env": {}},
        {"group_index": 1, "response": "r", "tokens": [1], "status": "completed", "reward": 10**400},
    ],
    ids=["harbor", "skyrl", "verifiers", "slime"],
)  # fmt: skip
def test_a_reward_that_no_number_holds_is_refused_with_its_place(native: Any, row: Any) -> None:
    with pytest.raises(InputError, match=r"x\.jsonl:1: reward is 1000.*, number out of range"):
        native({"x.jsonl": [row]})
