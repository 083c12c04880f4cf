"""Trainers' rollout dumps that are plain rows: verl, AReaL, NeMo-RL, TRL, R2E-Gym.

None but R2E-Gym holds the patch. Most have no key for the group: rows of equal prompts in one step are one. Text that a
chat template made is split into turns where that is exact; where special tokens were dropped it is said.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from gagar_cli.core.messages_agents import action_messages
from gagar_cli.core.messages_templates import split_template
from gagar_cli.io.formats.base import Lift, Record, known
from gagar_cli.io.formats.files import Sample
from gagar_cli.io.formats.parts import attempt_id, number_or_none, prompt_key, total
from gagar_cli.io.formats.rows import RowPlace, has, row_format
from gagar_cli.io.records import CANONICAL_FIELDS, MISSING, checked_identifier
from gagar_cli.io.streams import show_path

_VERL_UID = re.compile(r"(.+)_(\d+)_(\d+)")
_NO_REWARDS = {*CANONICAL_FIELDS} - {"reward"}
_R2E_EXITS = {
    "agent": "completed",
    "max_step_limit": "truncated_turns",
    "agent_max_step_limit": "truncated_turns",
    "abs_step_limit": "truncated_turns",
    "token_limit": "truncated_context",
    "traj_time_limit": "truncated_time",
}


def _detect_nemo_rl(sample: Sample) -> str | None:
    names = ("content", "rewards", "token_ids")
    is_row = sample.container == "lines" and {*names, "idx"} <= sample.keys
    if is_row and all(
        isinstance(sample.first[name], list) and len(sample.first[name]) == 1 for name in names
    ):
        return "rows of lists of one: content, rewards, token_ids"
    return None


def _detect_areal(sample: Sample) -> str | None:
    return has("task_id", "sample_idx", "head_version", "tail_version")(sample)


def _verl(lift: Lift, place: RowPlace) -> Record:
    prompt = lift.take("input", MISSING)
    output = lift.take("output")
    uid = lift.text("uid")
    found = _VERL_UID.fullmatch(uid) if uid else None
    step = lift.integer("step")
    if found:
        group, source, segment = found[1], "field:uid", int(found[3])
        trajectory_id = f"{found[1]}_{found[2]}"
    else:
        group = uid or prompt_key(prompt, "input", place.context)
        source, segment = "field:uid" if uid else "equal_prompt", None
        trajectory_id = place.attempt_id
    return {
        "group_id": group,
        "group_id_source": source,
        "trajectory_id": trajectory_id,
        "reward": lift.take("score"),
        "messages": place.log(prompt, output),
        **known(step=step, segment=segment or None, instance_id=_instance(lift)),
    }


def _instance(lift: Lift) -> str | None:
    value = lift.peek("instance_id")
    return value if isinstance(value, str) and value else None


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
    split = split_template(content if isinstance(content, str) else "", role="unknown")
    place.templates.add(split.template)
    prompt = list(_before_reply(split.messages))
    step = re.search(r"step_?(\d+)", place.stem)
    mask = only("sample_loss_mask")
    return {
        "group_id": prompt_key(prompt or content, "content", place.context),
        "group_id_source": "equal_prompt",
        "trajectory_id": f"{place.stem}-{lift.peek('idx')}-{place.number}",
        "reward": only("rewards"),
        "messages": split.messages,
        **known(step=int(step[1]) if step else None, mask_sample=True if mask == 0 else None),
    }


def _before_reply(messages: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for message in messages:
        if message["role"] == "assistant":
            return
        yield message


def _trl(lift: Lift, place: RowPlace) -> Record:
    prompt, completion = _pruned(lift.take("prompt", MISSING)), _pruned(lift.take("completion"))
    advantage = lift.take("advantage")
    step = lift.integer("step")
    numbers = {
        name: number
        for name, value in lift.rest.items()
        if name not in _NO_REWARDS and (number := number_or_none(value)) is not None
    }
    if place.number == 1 and len(numbers) > 1:
        place.context.notes.append(
            f"{place.file.name}: the reward is the sum of {', '.join(map(show_path, numbers))}: "
            "one of them alone is read with `--format trl --field reward=rewards.NAME`"
        )
    valid = [value for value in numbers.values() if value == value]
    return {
        "group_id": prompt_key(prompt, "prompt", place.context),
        "group_id_source": "equal_prompt",
        "trajectory_id": place.attempt_id,
        "reward": total(valid),
        "rewards": numbers,
        "messages": place.log(prompt, completion),
        **known(step=step, advantage=advantage if advantage == advantage else None),
    }


def _pruned(value: Any) -> Any:
    """Messages as a table holds them, without the fields that only other rows have: Parquet gives all the same ones."""
    if isinstance(value, list):
        return [_pruned(each) for each in value]
    if isinstance(value, Mapping):
        return {name: _pruned(each) for name, each in value.items() if each is not None}
    return value


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
    row_format(
        "verl",
        "verl rollouts, v0 and v1 trainer",
        "<rollout_data_dir>/<step>.jsonl, one response (v1: one segment) a line",
        has("input", "output", "score", "step"),
        _verl,
        {
            "group_id": "uid without its last two numbers (v1), else equal input",
            "trajectory_id": "uid without its last number (v1), else file and line",
            "segment": "the last number of uid (v1)",
            "reward": "score",
            "step": "step",
            "messages": "input and output, split at the chat template or at bare role names",
        },
        keys=("output", "score"),
    ),
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
        "exp_NNN/train_data_step<N>.jsonl, every value a list of one",
        _detect_nemo_rl,
        _nemo_rl,
        {
            "group_id": "equal prompt (the messages before the first reply)",
            "step": "the file's name",
            "reward": "rewards[0]",
            "mask_sample": "sample_loss_mask[0] is 0",
            "messages": "content[0]",
        },
        keys=("content", "rewards"),
    ),
    row_format(
        "trl",
        "TRL completions",
        "completions/completions_<step>.parquet",
        has("step", "prompt", "completion", "advantage", container="parquet"),
        _trl,
        {
            "group_id": "equal prompt",
            "reward, rewards": "the sum of the columns of numbers; each by its name",
            "step, advantage": "step, advantage",
            "messages": "prompt and completion",
        },
        keys=("completion",),
    ),
)
