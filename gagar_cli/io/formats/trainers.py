"""Trainers' rollout dumps that are plain rows: verl, AReaL, NeMo-RL, TRL, R2E-Gym.

None but R2E-Gym holds the patch. Most have no key for the group: rows of equal prompts in one step are one. Text that a
chat template made is split into turns where that is exact; where special tokens were dropped it is said.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from gagar_cli.core.messages import chat_messages
from gagar_cli.core.messages_agents import action_messages
from gagar_cli.core.messages_templates import split_template
from gagar_cli.io.formats.base import Lift, Record, known
from gagar_cli.io.formats.files import Sample
from gagar_cli.io.formats.parts import attempt_id, prompt_key
from gagar_cli.io.formats.rows import RowPlace, has, row_format
from gagar_cli.io.formats.trl import FORMAT as TRL
from gagar_cli.io.formats.values import reward_of
from gagar_cli.io.formats.verl import FORMAT as VERL
from gagar_cli.io.records import MISSING, checked_identifier

_NEMO_RL_BESIDE = frozenset({"content", "token_ids", "input_lengths"})
_R2E_EXITS = {
    "agent": "completed",
    "max_step_limit": "truncated_turns",
    "agent_max_step_limit": "truncated_turns",
    "abs_step_limit": "truncated_turns",
    "token_limit": "truncated_context",
    "traj_time_limit": "truncated_time",
}


def _detect_nemo_rl(sample: Sample) -> str | None:
    # Validation, and training before tokens were logged, has nothing else; with replies logged elsewhere content is missing.
    keys = sample.keys - {"agent_ref"}
    is_row = sample.container == "lines" and {"rewards", "idx"} <= keys and _NEMO_RL_BESIDE & keys
    if is_row and all(
        isinstance(sample.first[name], list) and len(sample.first[name]) == 1 for name in keys - {"idx"}
    ):
        return f"rows of lists of one: {', '.join(sorted(({'rewards'} | _NEMO_RL_BESIDE) & keys))}"
    return None


def _detect_areal(sample: Sample) -> str | None:
    return has("task_id", "sample_idx", "head_version", "tail_version")(sample)


def _areal(lift: Lift, place: RowPlace) -> Record:
    task = checked_identifier(lift.take("task_id"), "task_id")
    prompt, completion = lift.take("prompt"), lift.take("completion")
    return {
        "group_id": task,
        "group_id_source": "field:task_id",
        "trajectory_id": f"{task}-{lift.peek('sample_idx')}"
        if lift.peek("sample_idx") is not None
        else str(place.number),
        "reward": lift.take("reward"),
        "messages": place.log(prompt, completion),
        **known(step=lift.integer("tail_version")),
    }


def _nemo_rl(lift: Lift, place: RowPlace) -> Record:
    def only(name: str) -> Any:
        value = lift.peek(name)
        return lift.take(name)[0] if isinstance(value, list) and len(value) == 1 else value

    content = only("content")
    if isinstance(content, list):
        place.templates.add("messages")
        messages = chat_messages(content)
    else:
        split = split_template(content if isinstance(content, str) else "", role="unknown")
        place.templates.add(split.template)
        messages = split.messages
    prompt = list(_before_reply(messages))
    step = re.search(r"step_?(\d+)", place.stem)
    mask = only("sample_loss_mask")
    return {
        "group_id": prompt_key(prompt or content, "content", place.context),
        "group_id_source": "equal_prompt",
        "trajectory_id": f"{place.stem}-{lift.peek('idx')}-{place.number}",
        "reward": reward_of(_nemo_rl_reward(only, place), "rewards"),
        "messages": messages,
        **known(step=int(step[1]) if step else None, mask_sample=True if mask == 0 else None),
    }


def _nemo_rl_reward(only: Callable[[str], Any], place: RowPlace) -> Any:
    """The reward of the row.

    With dynamic sampling `rewards` has those of all that was generated, in that order, and `filtered_rewards` those of what
    was kept, as every other column has it (github.com/NVIDIA-NeMo/RL/pull/3794).
    """
    rewards, kept = only("rewards"), only("filtered_rewards")
    if kept is None:
        return rewards
    if place.number == 1:
        place.context.notes.append(
            f"{place.file.name}: the reward is filtered_rewards: after dynamic sampling rewards are those of other rows"
        )
    return kept


def _before_reply(messages: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for message in messages:
        if message["role"] == "assistant":
            return
        yield message


def _r2e(lift: Lift, place: RowPlace) -> Record:
    image = lift.text("docker_image")
    dataset = lift.peek("ds")
    dataset = dataset if isinstance(dataset, Mapping) else {}
    instance = next(
        (dataset[key] for key in ("instance_id", "docker_image") if isinstance(dataset.get(key), str)), image
    )
    steps = lift.take("trajectory_steps")
    steps = steps if isinstance(steps, list) else []
    reason = lift.text("exit_reason")
    termination = _R2E_EXITS.get(reason or "", "unknown")
    run = lift.peek("exp_name")
    instance_id = str(
        instance or prompt_key(lift.peek("problem_statement", MISSING), "problem_statement", place.context)
    )
    return {
        "group_id": instance_id,
        "group_id_source": "field:ds.instance_id" if "instance_id" in dataset else "field:docker_image",
        "instance_id": instance_id,
        "trajectory_id": attempt_id(place.context, run if isinstance(run, str) else place.stem, place.number),
        "reward": lift.take("reward"),
        "messages": action_messages(steps),
        **known(
            docker_image=image,
            problem_statement=lift.text("problem_statement"),
            repo=_text(dataset.get("repo") or dataset.get("repo_name")),
            base_commit=_text(dataset.get("base_commit")),
            model_patch=lift.text("output_patch"),
            test_output=lift.text("test_output"),
            exit_status=reason,
            termination=termination,
            is_truncated=termination.startswith("truncated"),
            n_turns=len(steps),
        ),
    }


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


FORMATS = (
    row_format(
        "r2e-gym",
        "R2E-Gym and DeepSWE trajectories",
        "<traj_dir>/<exp_name>.jsonl, one trajectory a line",
        has("trajectory_steps", "output_patch"),
        _r2e,
        {
            "group_id, instance_id": "ds.instance_id, else docker_image",
            "trajectory_id": "exp_name and line",
            "reward": "reward",
            "messages": "trajectory_steps (thought, action, observation)",
            "model_patch, test_output": "output_patch, test_output",
            "is_truncated": "exit_reason",
        },
        keys=("trajectory_steps", "reward"),
        needs="",
    ),
    VERL,
    row_format(
        "areal",
        "AReaL rollouts",
        "<trial>/rollout/<version>/<task_id>.jsonl",
        _detect_areal,
        _areal,
        {
            "group_id": "task_id",
            "trajectory_id": "task_id and sample_idx",
            "reward": "reward",
            "step": "tail_version",
        },
        keys=("task_id", "completion"),
    ),
    row_format(
        "nemo-rl",
        "NeMo-RL training data",
        "exp_NNN/train_data_step<N>.jsonl, val_data_step<N>.jsonl, every value a list of one",
        _detect_nemo_rl,
        _nemo_rl,
        {
            "group_id": "equal prompt (the messages before the first reply)",
            "step": "the file's name",
            "reward": "filtered_rewards[0] where there is one (dynamic sampling), else rewards[0]",
            "mask_sample": "sample_loss_mask[0] is 0",
            "messages": "content[0], text or a list of messages",
        },
        keys=("content", "rewards"),
    ),
    TRL,
)
