"""What trainers' own code was found to write, in small: chats as lists, steps, tries, parts of a reward, ends of turns."""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from gagar_cli.errors import InputError
from gagar_cli.io.dump import Dump

ASK = "<|im_start|>user\nfix it<|im_end|>\n<|im_start|>assistant\n"


def log_of(dump: Dump, row: int = 0) -> list[tuple[str, str]]:
    return [(each.role, each.content) for each in dump.read_trajectories([row])[0][1].messages]


def test_trl_chats_are_lists_of_messages(native: Any, tmp_path: Path) -> None:
    pl.DataFrame(
        {
            "step": [5, 5],
            "prompt": [[{"role": "user", "content": "fix it"}]] * 2,
            "completion": [
                [{"role": "assistant", "content": "one", "tool_calls": [{"name": "ls", "arguments": {"a": "x", "b": None}}]}],
                [{"role": "assistant", "content": "two", "tool_calls": None}],
            ],
            "reward": [1.0, 0.0],
            "n_turns": [3, 4],
            "advantage": [0.5, -0.5],
        },
        strict=False,
    ).write_parquet(tmp_path / "completions_00005.parquet")  # fmt: skip
    dump = native({}, "completions_00005.parquet")
    assert dump.index.select("group", "reward").rows() == [(0, 1.0), (0, 0.0)]  # n_turns is no reward
    assert log_of(dump) == [("user", "fix it"), ("assistant", "one")]
    [call] = dump.read_trajectories([0])[0][1].messages[1].tool_calls
    assert json.loads(call.arguments) == {"a": "x"}  # b is another row's
    assert [record["n_turns"] for record in dump.iter_records()] == [3, 4]


def test_a_column_of_a_canonical_name_is_taken_where_it_has_the_type(native: Any) -> None:
    row = {"input": ASK, "output": "done", "gts": None, "score": 1.0, "step": 1}
    rows = [
        row | {"model_patch": "p", "test_output": "ok", "resolved": "True", "infra_failure": "False"},
        row | {"model_patch": 3, "resolved": "yes", "infra_failure": "True"},
    ]
    dump = native({"1.jsonl": rows})
    records = list(dump.iter_records())
    assert [record.get("model_patch") for record in records] == ["p", None]
    assert dump.index["invalid_reason"].to_list() == [None, "infra_failure"]
    assert (records[0]["resolved"], records[0]["test_output"], "resolved" in records[1]) == (
        True,
        "ok",
        False,
    )


def test_a_sample_of_slime_may_hold_the_patch_in_its_metadata(native: Any) -> None:
    told = {"instance_id": "a__b-1", "model_patch": "p", "repo": "a/b"}
    row = {
        "group_index": 1, "index": 0, "prompt": ASK, "response": "done<|im_end|>", "tokens": [1], "status": "completed",
        "reward": 1.0, "metadata": told,
    }  # fmt: skip
    dump = native({"1.jsonl": [row]})
    task, trajectory = dump.read_trajectories([0])[0]
    assert (task.repo, trajectory.model_patch) == ("a/b", "p")
    assert log_of(dump) == [("user", "fix it"), ("assistant", "done")]


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("done<|im_end|>", [("assistant", "done")]),
        ("done<|im_end|>\n<|endoftext|><|endoftext|>", [("assistant", "done")]),
        (
            "a<|im_end|>\n<|im_start|>user\nb<|im_end|>\n<|im_start|>assistant\nc<|im_end|>",
            [("assistant", "a"), ("user", "b"), ("assistant", "c")],
        ),
        ("say <|im_end|> twice", [("assistant", "say <|im_end|> twice")]),
    ],
    ids=["end", "padding", "turns", "inside"],
)
@pytest.mark.parametrize("ask", ["fix it", ASK], ids=["plain", "chatml"])
def test_the_end_of_a_turn_is_no_text(native: Any, ask: str, output: str, expected: Any) -> None:
    row = {"input_prompt": ask, "output_response": output, "score": 1.0, "env_class": "x", "env_extras": {}}
    if ask is ASK and "twice" in output:
        expected = [("assistant", "say ")]  # there it ends the turn
    assert log_of(native({"x.jsonl": [row]})) == [("user", "fix it"), *expected]


def test_steps_of_skyrl_are_one_attempt_only_where_a_prompt_goes_on(native: Any) -> None:
    def row(prompt: str, output: str, score: float, **extras: Any) -> dict[str, Any]:
        return {
            "input_prompt": prompt,
            "output_response": output,
            "score": score,
            "env_class": "x",
            "env_extras": extras,
        }

    more = f"{ASK}look<|im_end|>\n<|im_start|>user\nseen<|im_end|>\n<|im_start|>assistant\n"
    rows = [row(ASK, "look", 0.0), row(more, "done", 1.0), row(ASK, "no", 0.0), row(ASK, "look", 0.0, other=1), row(more, "x", 1.0)]  # fmt: skip
    dump = native({"x.jsonl": rows})
    assert dump.index.select("line", "group", "reward").rows() == [
        (2, 0, 1.0),
        (3, 0, 0.0),
        (4, 0, 0.0),
        (5, 1, 1.0),
    ]
    # Without a template one question may begin another one.
    plain = native({"y.jsonl": [row("1 + 1", "2", 1.0), row("1 + 12", "13", 1.0)]}, "y.jsonl")
    assert plain.index.height == 2


def test_evaluations_of_skyrl_at_two_steps_are_two_groups(native: Any) -> None:
    row = {"input_prompt": ASK, "output_response": "a", "score": 1.0, "env_class": "x", "env_extras": {}}
    files = {f"evals/global_step_{step}_evals/x.jsonl": [row, row] for step in (4, 10)} | {
        "evals/eval_only/x.jsonl": [row]
    }
    dump = native(files, "evals")
    assert dump.index.select("step", "group").unique().height == dump.index["group"].n_unique() == 3


def test_several_parts_of_a_reward_want_a_choice(native: Any) -> None:
    row = {
        "group_index": 1, "index": 0, "prompt": "p", "response": "r", "tokens": [1], "status": "completed",
        "reward": {"acc": 1.0, "style": 0.25},
    }  # fmt: skip
    with pytest.raises(InputError, match=r"x\.jsonl:1: reward has several parts \(acc, style\)") as raised:
        native({"x.jsonl": [row]})
    assert "`--format slime --field reward=rewards.acc`" in str(raised.value.hint)
    chosen = native({}, "x.jsonl", format="slime", fields={"reward": "rewards.style"})
    assert chosen.index["reward"].to_list() == [0.25]
    judged = native({"y.jsonl": [row | {"metadata": {"grading_solved": True}}]}, "y.jsonl")
    assert judged.index.select("reward", "passed").rows() == [(1.0, True)]


def test_an_error_that_was_tried_again_breaks_no_trace(native: Any) -> None:
    def episode(number: int, **trace: Any) -> dict[str, Any]:
        nodes = [
            {"message": {"role": "user", "content": "u"}},
            {"parent": 0, "message": {"role": "assistant", "content": "a"}},
        ]
        made = {
            "id": f"t{number}",
            "nodes": nodes,
            "calls": [],
            "rewards": {"r": {"score": 1.0}},
            "ok": True,
            **trace,
        }
        return {
            "id": f"e{number}",
            "env": {},
            "task": {},
            "group": {"id": "g"},
            "ok": made["ok"],
            "traces": [made],
        }

    gone = [{"type": "SandboxError", "message": "gone"}]
    episodes = [
        episode(0, errors=gone), episode(1, errors=gone, ok=False), episode(2, stop_condition="scoring_timeout"),
        episode(3, stop_condition="max_total_tokens", info={"patch": ""}), episode(4, agent={"name": "judge", "trainable": False}),
        episode(5, calls=[{"finish_reason": "length"}, {"error": {}, "finish_reason": None}]),
        episode(6) | {"ok": False, "errors": gone},
    ]  # fmt: skip
    dump = native({"traces.jsonl": episodes})
    assert dump.index["invalid_reason"].to_list() == [
        None, "infra_failure", "infra_failure", None, "mask_sample", None, "infra_failure",
    ]  # fmt: skip
    records = list(dump.iter_records())
    assert [record.get("is_truncated") for record in records] == [None, None, None, True, None, None, None]
    assert records[3]["model_patch"] == ""


def test_effective_episodes_of_prime_rl_are_read_once_and_one_without_traces_is_an_attempt(
    native: Any,
) -> None:
    trace = {"id": "t0", "nodes": [], "calls": [], "rewards": {"r": {"score": 1.0}}, "ok": True}
    done = {"id": "e0", "env": {}, "task": {}, "group": {"id": "g"}, "ok": True, "traces": [trace]}
    lost = {
        "id": "e1",
        "env": {},
        "task": {},
        "group": {"id": "g"},
        "ok": False,
        "traces": [],
        "errors": [{"type": "TimeoutError"}],
    }
    step = "rollouts/step_0/train"
    dump = native(
        {f"{step}/all/traces.jsonl": [done, lost], f"{step}/effective/traces.jsonl": [done]}, "rollouts"
    )
    assert dump.index.select("step", "trajectory_id", "reward", "invalid_reason").rows() == [
        (0, "t0", 1.0, None),
        (0, "e1", None, "infra_failure"),
    ]
    assert [record.get("infra_failure_reason") for record in dump.iter_records()] == [None, "TimeoutError"]
    assert any("effective episodes, which are among all" in note for note in dump.report.notes)
    alone = native({}, f"{step}/effective")
    assert alone.index["trajectory_id"].to_list() == ["t0"]


def test_agents_of_one_episode_are_compared_with_their_own_kind(native: Any) -> None:
    def trace(name: str, agent: str, *, trainable: bool = True) -> dict[str, Any]:
        told = {"name": agent, "trainable": trainable}
        return {
            "id": name,
            "nodes": [],
            "calls": [],
            "rewards": {"r": {"score": 1.0}},
            "ok": True,
            "agent": told,
        }

    traces = [trace("a", "proposer"), trace("b", "solver"), trace("c", "judge", trainable=False)]
    pair = {"env": {}, "task": {"key": "k"}, "group": {"id": "g"}, "traces": traces}
    alone = {
        "env": {},
        "task": {"key": "k"},
        "group": {"id": "h"},
        "traces": [trace("d", "solver"), traces[2] | {"id": "e"}],
    }
    dump = native({"traces.jsonl": [pair, alone]})
    assert dump.index["group_id"].to_list() == ["g/proposer", "g/solver", "g/judge", "h", "h"]


def test_results_of_verifiers_hold_calls_and_errors_as_text(native: Any) -> None:
    call = json.dumps({"id": "c", "function": {"name": "ls", "arguments": '{"a": 1}'}})
    row = {
        "example_id": 3, "prompt": "u", "reward": 1.0, "timing": {}, "is_completed": True, "metrics": {}, "patch": "",
        "completion": [{"role": "assistant", "content": "", "tool_calls": [call]}],
        "token_usage": {"input_tokens": 12.0, "output_tokens": 7.5}, "info": '{"instance_id": "a__b-1"}',
    }  # fmt: skip
    dump = native({"results.jsonl": [row, row | {"error": "ToolError('x')"}, row | {"error": ""}]})
    assert dump.index["invalid_reason"].to_list() == [None, "infra_failure", None]
    [made] = dump.read_trajectories([0])[0][1].messages[1].tool_calls
    assert (made.name, made.arguments) == ("ls", '{"a": 1}')
    record = next(dump.iter_records())
    assert (record["instance_id"], record["model_patch"], record["n_input_tokens"]) == ("a__b-1", "", 12)
    assert "n_output_tokens" not in record  # 7.5 tokens are none


def test_inputs_beside_rollouts_of_nemo_gym_are_none_and_tries_are_told_apart(native: Any) -> None:
    asked = {"responses_create_params": {"input": []}, "agent_ref": {"name": "a"}, "_ng_task_index": 0}
    failed = asked | {"_ng_rollout_index": 1, "response": {}, "reward": 0.0, "_ng_failure_class": "transient"}
    files = {
        "out/r.jsonl": [asked | {"_ng_rollout_index": 0, "response": {}, "reward": 1.0}],
        "out/r_failures.jsonl": [failed, failed],
        "out/r_materialized_inputs.jsonl": [asked | {"_ng_rollout_index": number} for number in (0, 1)],
    }
    dump = native(files, "out")
    assert [name.rpartition("task-0/")[2] for name in dump.index["trajectory_id"]] == ["0", "1", "1/try-2"]
    assert dump.index["invalid_reason"].to_list() == [None, "infra_failure", "infra_failure"]
    with pytest.raises(InputError, match="these are tasks"):
        native({}, "out/r_materialized_inputs.jsonl")


@pytest.mark.parametrize("reason", ["error", "model_error", "sandbox_error"])
def test_rllm_tells_whose_error_ended_an_episode(native: Any, reason: str) -> None:
    episode = {
        "id": "x:0", "task": {"id": "a__b-1", "instruction": "fix it"}, "is_correct": False, "termination_reason": reason,
        "trajectories": [{"reward": 0.0, "steps": []}],
    }  # fmt: skip
    dump = native({"episode_000000_x.json": episode})
    assert dump.index["invalid_reason"].to_list() == ["infra_failure"]
    record = next(dump.iter_records())
    assert (record["infra_failure_reason"], record["problem_statement"]) == (
        f"termination_reason is {reason}",
        "fix it",
    )


def test_a_run_of_mini_swe_agent_that_was_killed_did_not_fail(native: Any) -> None:
    document = {
        "trajectory_format": "mini-swe-agent-1.1", "messages": [{"role": "user", "content": "u"}], "instance_id": "a__b-1",
        "info": {"exit_status": "", "submission": ""},
    }  # fmt: skip
    dump = native({"a__b-1.traj.json": document})
    record = next(dump.iter_records())
    assert (record["termination"], record["infra_failure_reason"]) == ("unknown", "the run did not end")
    assert dump.index["invalid_reason"].to_list() == ["infra_failure"]


@pytest.mark.parametrize("keeps", [True, False])
def test_a_trial_of_harbor_says_itself_what_its_exception_leaves(native: Any, keeps: bool) -> None:
    trial = {
        "task_name": "t", "trial_name": "t__x", "task_checksum": "0", "verifier_result": {"rewards": {"reward": 1.0}},
        "step_results": [{"exception_info": {"exception_type": "DockerError", "policy": {"has_valid_reward": keeps}}}],
    }  # fmt: skip
    dump = native({"result.json": trial})
    assert dump.index.select("reward", "invalid_reason").rows() == [
        (1.0, None) if keeps else (None, "infra_failure")
    ]
