"""What older and newer writers of the same trainers leave: columns that came later, files beside the rollouts."""

from typing import Any

import pytest

from gagar_cli.errors import InputError

CHATML = "<|im_start|>user\nfix it<|im_end|>\n<|im_start|>assistant\n"


def test_nemo_rl_rows_of_older_writers_and_of_validation_are_read(native: Any) -> None:
    """Before tokens were logged there were none; validation has only the conversation, as messages."""
    old = [
        {
            "content": [f"{CHATML}{answer}<|im_end|>"], "rewards": [reward], "input_lengths": [9],
            "generation_logprobs": [[0.0]], "prev_logprobs": [[0.0]], "idx": number,
        }
        for number, (answer, reward) in enumerate([("a", 1.0), ("b", 0.0)])
    ]  # fmt: skip
    log = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]
    validated = [
        {"content": [log], "rewards": [reward], "accuracy": [reward], "idx": 0} for reward in (1.0, 0.0)
    ]
    dump = native({"train_data_step3.jsonl": old, "val_data_step4.jsonl": validated})
    assert {form[0] for form in dump.forms} == {"nemo-rl"}
    assert dump.index.select("step", "passed").rows() == [(3, True), (3, False), (4, True), (4, False)]
    assert dump.index["group"].n_unique() == 2
    messages = dump.read_trajectories([2])[0][1].messages
    assert [(each.role, each.content) for each in messages] == [("user", "q"), ("assistant", "a")]


def test_after_dynamic_sampling_the_reward_of_nemo_rl_is_the_filtered_one(native: Any) -> None:
    """`rewards` has those of all that was generated: the first of them, of other rows (NVIDIA-NeMo/RL pull 3794)."""
    row = {"content": [f"{CHATML}a<|im_end|>"], "token_ids": [[1]]}
    rows = [
        row | {"rewards": [generated], "filtered_rewards": [kept], "idx": number}
        for number, (generated, kept) in enumerate([(0.0, 1.0), (0.0, 0.0), (1.0, 1.0)])
    ]
    dump = native({"train_data_step1.jsonl": rows})
    assert dump.index["reward"].to_list() == [1.0, 0.0, 1.0]
    assert any("the reward is filtered_rewards" in note for note in dump.report.notes)


def test_nemo_rl_without_its_conversation_is_refused_with_what_is_missing(native: Any) -> None:
    row = {"rewards": [1.0], "input_lengths": [9], "token_ids": [[1]], "idx": 0}
    with pytest.raises(InputError, match=r"step1\.jsonl:1: content is missing, expected a record of nemo-rl"):
        native({"train_data_step1.jsonl": [row]})


def test_updates_beside_the_traces_of_prime_rl_are_no_attempts(native: Any) -> None:
    update = {"version": 1, "trace_id": "t", "info": {"train": {"effective": True}}, "branches": []}
    nodes = [{"message": {"role": "user", "content": "q"}}]
    episode = {
        "env": {"id": "e"}, "task": {"key": "k"}, "group": {"id": "g"}, "ok": True,
        "traces": [{"id": "t", "nodes": nodes, "rewards": {"r": {"score": 1.0, "weight": 1.0}}, "ok": True}],
    }  # fmt: skip
    files = {
        "run/traces/step_7/train/traces.jsonl": [episode],
        "run/traces/step_7/train/annotations/orchestrator.jsonl": [update],
    }
    dump = native(files, "run")
    assert dump.index.select("step", "trajectory_id", "passed").rows() == [(7, "t", True)]
    assert any("prime-rl's updates of traces" in note for note in dump.report.notes)
    with pytest.raises(InputError, match="it says what was learnt of traces later"):
        native({}, "run/traces/step_7/train/annotations/orchestrator.jsonl")
