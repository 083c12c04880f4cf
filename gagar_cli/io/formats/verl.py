"""verl's rollouts: one response, or one segment of one, a line.

The score is what the policy was paid. What DAPO's reward manager subtracts for length is in it, and what the reward
function came to is beside it, under `acc` (`verl/experimental/reward_loop/reward_manager/dapo.py`), which the trainer itself
takes for the accuracy in validation (`verl/trainer/ppo/ray_trainer.py`).
"""

import re
from collections.abc import Iterator

from gagar_cli.core.text import counted
from gagar_cli.io.formats.base import Context, Lift, Record, known
from gagar_cli.io.formats.facts import INFERRED
from gagar_cli.io.formats.files import Sample
from gagar_cli.io.formats.parts import prompt_key
from gagar_cli.io.formats.rows import RowPlace, has, is_named, row_format
from gagar_cli.io.formats.values import as_written, flag_or_none
from gagar_cli.io.records import MISSING

_UID = re.compile(r"(.+)_(\d+)_(\d+)")
_MAX_DIGITS = 19
_SHAPED = "shaped acc"
_UNREAD = "unread acc"
_JUDGED = "acc"
_WITHOUT = "no acc"


def _verl(lift: Lift, place: RowPlace) -> Record:
    prompt = lift.take("input", MISSING)
    output = lift.take("output")
    uid = lift.text("uid")
    found = _UID.fullmatch(uid) if uid else None
    step = lift.integer("step")
    if step is None and place.stem.isdecimal() and len(place.stem) < _MAX_DIGITS:
        step = int(place.stem)  # the writer names its files so
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
        **_verdict(lift, place.context),
    }


def _instance(lift: Lift) -> str | None:
    value = lift.peek("instance_id")
    return value if isinstance(value, str) and value else None


def _verdict(lift: Lift, context: Context) -> Record:
    """What `acc` says where nothing else does: the reward function's own word, or its score before it was shaped.

    Of a row without it nothing is said: by its score it passes, whatever the others have.
    """
    if is_named(lift, "resolved") or "resolved" in context.fields:
        return {}
    value = as_written(lift.peek("acc"))
    if value is None or value != value:
        context.count(_WITHOUT, None)
        return {}
    if not isinstance(value, int | float):
        context.count(_UNREAD, value)
        return {}
    threshold = context.pass_threshold
    flag = flag_or_none(value)
    if flag is None or (threshold > 1 and not isinstance(value, bool)):
        flag = value >= threshold
        if 0 < value < threshold:
            context.count(_SHAPED, value)
    context.count(_JUDGED, value)
    return {"resolved": flag, INFERRED: "acc"}


def _conclude(context: Context) -> Iterator[str]:
    n_without = context.seen.get(_WITHOUT)
    if n_without and context.seen.get(_JUDGED):
        yield f"{counted(n_without, 'row has', 'rows have')} no acc, which others have: by score"
    if n_unread := context.seen.get(_UNREAD):
        is_what = counted(n_unread, "row is neither true nor false", "rows are neither true nor false")
        yield f"acc of {is_what} ({context.firsts[_UNREAD]}), and not used: by score"
    if n_between := context.seen.get(_SHAPED):
        lies = counted(n_between, "row lies", "rows lie")
        yield (
            f"acc of {lies} between 0 and the pass threshold {context.pass_threshold:g} ({context.firsts[_SHAPED]}, …): "
            "such attempts count as failed: set `--pass-threshold`, or map a verdict with `--field resolved=PATH`"
        )


def _detect(sample: Sample) -> str | None:
    # Rows without their step are told by the name that the writer gives the file of a step.
    is_step = sample.name.partition(".")[0].isdecimal()
    return has("input", "output", "score", *(() if is_step else ("step",)))(sample)


FORMAT = row_format(
    "verl",
    "verl rollouts, v0 and v1 trainer",
    "<rollout_data_dir>/<step>.jsonl, one response (v1: one segment) a line",
    _detect,
    _verl,
    {
        "group_id": "uid without its last two numbers (v1), else equal input",
        "trajectory_id": "uid without its last number (v1), else file and line",
        "segment": "the last number of uid (v1)",
        "reward": "score",
        "step": "step, else the file's name",
        "resolved": "resolved, else acc: true, false, 1, 0, and other numbers by --pass-threshold",
        "messages": "input and output, split at the chat template or at bare role names",
        "n_turns": "n_turns, else the replies of an output that could be split",
    },
    keys=("output", "score"),
    conclude=_conclude,
)
