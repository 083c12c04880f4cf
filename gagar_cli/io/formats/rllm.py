"""rLLM episodes: the training log and the evaluation store, one episode a document.

An episode may hold several trajectories: each is a row, told apart by `segment`. Every step repeats the whole prefix of
its conversation: the last step's is taken.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gagar_cli.core.messages import chat_messages
from gagar_cli.errors import InputError
from gagar_cli.io.formats.base import Context, Format, Lift, Record, Row, known
from gagar_cli.io.formats.files import NativeFile, Sample
from gagar_cli.io.formats.parts import (
    attempt_id,
    finished,
    instance_of,
    objects,
    prompt_key,
    statement_of,
    text_or_none,
)
from gagar_cli.io.formats.values import as_written, flag_of, reward_of
from gagar_cli.io.jsonl import show_value
from gagar_cli.io.records import MISSING, placed

_ENDS: dict[str, Record] = {
    "env_done": {"termination": "completed", "is_truncated": False},
    "max_turns_exceeded": {"termination": "truncated_turns", "is_truncated": True},
    "max_prompt_length_exceeded": {"termination": "truncated_context", "is_truncated": True},
    "max_response_length_exceeded": {"termination": "truncated_context", "is_truncated": True},
    "timeout": {"termination": "truncated_time", "is_truncated": True},
    "unknown": {"termination": "unknown"},
}


def _ended(reason: str | None) -> Record:
    if reason == "error" or (reason or "").endswith("_error"):  # the model's, the sandbox's, the grading's
        return {
            "termination": "aborted",
            "infra_failure": True,
            "infra_failure_reason": f"termination_reason is {reason}",
        }
    return _ENDS.get(reason or "", {})


def _detect(sample: Sample) -> str | None:
    if sample.container in ("document", "lines"):
        if {"episode_id", "task_hash"} <= sample.keys:
            return "episode_id and task_hash: rLLM's training log"
        if {"trajectories", "is_correct"} <= sample.keys:
            return "trajectories and is_correct: an episode of rLLM"
    return None


def _parts(trajectories: Any) -> list[Mapping[str, Any]]:
    """The trajectories of an episode; none where it broke before there was one.

    Raises:
        InputError: something else.
    """
    if trajectories is None:
        return []
    if not isinstance(trajectories, list) or not all(isinstance(each, Mapping) for each in trajectories):
        raise InputError(f"trajectories is {show_value(trajectories)}, expected a list of objects")
    return trajectories


def _read(file: NativeFile, context: Context) -> Iterator[Row]:
    for number, value, error in objects(file, "an episode of rLLM"):
        if error is not None:
            yield Row(number, error)
            continue
        lift = Lift(value)
        episode = lift.text("episode_id") or lift.text("id") or Path(file.own_name).stem
        task = lift.peek("task", MISSING)
        step = lift.integer("training_step")
        reason = lift.text("termination_reason")
        trajectories = lift.take("trajectories")
        named = lift.peek("task_hash")
        try:
            correct = flag_of(as_written(lift.take("is_correct")), "is_correct")
            parts = _parts(trajectories)
            reward = reward_of(
                as_written(parts[0].get("reward")) if parts else None, "trajectories[0].reward"
            )
            group = episode.rpartition(":")[0] or (text_or_none(named) or prompt_key(task, "task", context))
        except InputError as problem:
            yield Row(number, placed(problem, f"{file.name}:{number}"))
            continue
        whole: Record = {
            "group_id": group,
            "group_id_source": "field:episode_id"
            if ":" in episode
            else "field:task_hash"
            if named
            else "equal_prompt",
            "trajectory_id": episode if step is not None or ":" in episode else attempt_id(context, episode),
            **known(
                instance_id=instance_of(task),
                problem_statement=statement_of(task),
                step=step,
                exit_status=reason,
            ),
            **_ended(reason),
            "resolved": correct,
            "source_format": "rllm",
        }
        for segment, part in enumerate(parts or [{}]):
            steps = part.get("steps")
            last = steps[-1] if isinstance(steps, list) and steps and isinstance(steps[-1], Mapping) else {}
            log = last.get("chat_completions")
            record = whole | {
                "messages": chat_messages(log if isinstance(log, list) else []),
                **known(
                    n_turns=len(steps) if isinstance(steps, list) else None,
                    segment=segment or None,
                    reward=reward,
                ),
            }
            own = Lift(lift.rest | {"trajectory": dict(part)}, {**value, "trajectory": part})
            yield Row(number, finished(record, own, context))


FORMAT = Format(
    name="rllm",
    title="rLLM episodes: training log and evaluation store",
    container="episodes/train_step_S_epoch_E/episode_*.json, <run>/episodes/episode_*.json",
    detect=_detect,
    read=_read,
    needs_join="patches and test outputs",
    mapping={
        "group_id": "episode_id before the colon, else task_hash",
        "trajectory_id": "episode_id",
        "segment": "the place among trajectories",
        "resolved, reward": "is_correct, trajectories[0].reward",
        "step": "training_step",
        "infra_failure, is_truncated": "termination_reason",
        "messages": "chat_completions of the last step",
    },
)
