"""SkyRL's evaluation dumps: one response a line, or one step a line where it generates step by step.

Every step repeats the prompt of the one before and goes on, and only the last one has the reward: a line whose prompt the
next one extends is no attempt of its own, and its text is in the last one's.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from gagar_cli.core.messages_templates import split_template
from gagar_cli.core.text import counted
from gagar_cli.io.formats.base import Context, Format, Lift, Record, Row, known
from gagar_cli.io.formats.files import NativeFile, Numbered
from gagar_cli.io.formats.parts import prompt_key
from gagar_cli.io.formats.rows import NAMED, NAMED_PLACES, RowPlace, has, read_rows
from gagar_cli.io.formats.values import reward_of, total
from gagar_cli.io.lookups import MISSING

NAME = "skyrl-eval"
_KEYS = ("output_response", "score")
_BROKEN = ("error_runtime", "error_initialization", "error_evaluation", "cmd_timeout")
"""Such a run, where it has no log, is written as a copy of a sibling, even of another task's."""
_FOLDER = re.compile(r"global_step_(\d{1,18})_evals")
_STEPS = "steps before"
_FIRST = "first prompt"


def _read(file: NativeFile, context: Context) -> Iterator[Row]:
    yield from read_rows(_record, NAME, file, context, _whole(file.values(), file, context), keys=_KEYS)


def _whole(values: Iterable[Numbered], file: NativeFile, context: Context) -> Iterator[Numbered]:
    """The last step of every attempt, with the number of steps before it and the prompt that it began with."""
    before: Numbered | None = None
    n_steps = n_all = 0
    first: Any = None
    for each in values:
        if before is not None and _goes_on(before.record, each.record):
            first = before.record["input_prompt"] if n_steps == 0 else first
            n_steps, n_all = n_steps + 1, n_all + 1
        else:
            if before is not None:
                yield _marked(before, n_steps, first)
            n_steps = 0
        before = each
    if before is not None:
        yield _marked(before, n_steps, first)
    if n_all:
        context.notes.append(
            f"{file.name}: {counted(n_all, 'row is an earlier step', 'rows are earlier steps')}, which a later row repeats whole"
        )


def _goes_on(before: Any, after: Any) -> bool:
    """Whether a row is the next step of the one before: the same task, and its prompt begins with the whole other one."""
    if not isinstance(before, Mapping) or not isinstance(after, Mapping):
        return False
    asked, more = before.get("input_prompt"), after.get("input_prompt")
    return (
        isinstance(asked, str)
        and isinstance(more, str)
        and len(more) > len(asked) > 0
        and more.startswith(asked)
        and before.get("env_extras") == after.get("env_extras")
        and split_template(asked).template not in ("none", "bare")
    )


def _marked(row: Numbered, n_steps: int, first: Any) -> Numbered:
    return Numbered(row.line, row.record | {_STEPS: n_steps, _FIRST: first}) if n_steps else row


def _record(lift: Lift, place: RowPlace) -> Record:
    prompt = lift.take("input_prompt", MISSING)
    n_steps, first_prompt = lift.take(_STEPS, 0), lift.take(_FIRST, prompt)
    score = lift.take("score")
    reason = lift.text("stop_reason")
    instance = next(
        (
            found
            for path in ("env_extras.instance_id", "env_extras.instance.instance_id")
            if isinstance(found := lift.peek(path), str) and found
        ),
        None,
    )
    if isinstance(score, list):
        numbers = [reward_of(each, "score") for each in score]
        score = None if None in numbers else total([each for each in numbers if each is not None])
    is_broken = reason in _BROKEN
    # The same tasks are evaluated again and again: attempts of different policies are no group.
    step = _FOLDER.fullmatch(Path(place.file.path).parent.name)
    output = lift.take("output_response")
    first = place.first_like(prompt, output)
    return {
        "group_id": instance or prompt_key(first_prompt, "input_prompt", place.context),
        "group_id_source": "field:env_extras.instance_id" if instance else "equal_prompt",
        "trajectory_id": place.attempt_id,
        "reward": score,
        "messages": place.log(prompt, output),
        "is_truncated": reason == "length" if reason else None,
        **known(
            instance_id=instance,
            step=int(step[1]) if step else None,
            n_turns=n_steps + 1 if n_steps else None,
            exit_status=reason,
            infra_failure=True if is_broken else None,
            infra_failure_reason=(reason if first is None else f"{reason}: a copy of row {first}")
            if is_broken
            else None,
        ),
    }


FORMAT = Format(
    name=NAME,
    title="SkyRL evaluation dumps",
    container="dumped_evals/global_step_N_evals/<data_source>.jsonl",
    detect=has("input_prompt", "output_response", "env_class"),
    read=_read,
    is_connected=True,
    needs_join="patches, logs and test outputs of the agent",
    mapping={
        "group_id": "env_extras.instance_id or .instance.instance_id, else equal input_prompt (of the first step)",
        "step": "the folder, global_step_N_evals",
        "reward": "score; a score a token is summed; of several steps the last one's",
        "is_truncated": "stop_reason is length",
        "infra_failure": "stop_reason error_runtime, error_initialization, error_evaluation, cmd_timeout",
        "messages": "input_prompt and output_response",
        "n_turns": "the steps of one attempt",
        NAMED: NAMED_PLACES,
    },
)
