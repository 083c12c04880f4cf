"""TRL's completions: one a row, a column for each reward function.

The reward is their sum. Which of them tells a pass is not written: where one alone is 0 or 1 in every row a note names it.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from gagar_cli.io.formats.base import Context, Lift, Record, known
from gagar_cli.io.formats.parts import prompt_key
from gagar_cli.io.formats.rows import RowPlace, has, is_named, row_format
from gagar_cli.io.formats.values import flag_or_none, named_rewards, reward_of, total
from gagar_cli.io.records import CANONICAL_FIELDS, MISSING
from gagar_cli.io.streams import show_path

_NO_REWARDS = {*CANONICAL_FIELDS} - {"reward"}
_PART = "part of the reward"
_GRADED = "graded part"
_JUDGED = "has a verdict"


def _trl(lift: Lift, place: RowPlace) -> Record:
    prompt, completion = _pruned(lift.take("prompt", MISSING)), _pruned(lift.take("completion"))
    advantage = lift.take("advantage")
    step = lift.integer("step")
    numbers = named_rewards({name: value for name, value in lift.rest.items() if name not in _NO_REWARDS})
    _note_parts(numbers, place.context)
    if is_named(lift, "resolved"):
        place.context.seen[_JUDGED] = 1
    valid = [value for value in numbers.values() if value == value]
    return {
        "group_id": prompt_key(prompt, "prompt", place.context),
        "group_id_source": "equal_prompt",
        "trajectory_id": place.attempt_id,
        "reward": total(valid) if numbers else reward_of(lift.peek("reward")),
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


def _note_parts(numbers: Mapping[str, float], context: Context) -> None:
    for name, value in numbers.items():
        context.seen[_PART, name] = context.seen.get((_PART, name), 0) + 1
        if value == value and flag_or_none(value) is None:
            context.seen[_GRADED, name] = 1


def _conclude(context: Context) -> Iterator[str]:
    """What the reward is made of, and what may tell a pass, unless that is settled."""
    names = [key[1] for key in context.seen if isinstance(key, tuple) and key[0] == _PART]
    if len(names) < 2 or "reward" in context.fields:
        return
    told = f"the reward is the sum of {', '.join(map(show_path, names))}"
    if _JUDGED in context.seen or "resolved" in context.fields:
        yield told
        return
    told += ": an attempt passes where the sum reaches --pass-threshold, whichever part that comes from"
    verdicts = [name for name in names if (_GRADED, name) not in context.seen]
    if len(verdicts) == 1:
        name = show_path(verdicts[0])
        yield f"{told}; {name} alone is 0 or 1 in every row: `--field resolved=rewards.{name}` makes it the verdict"
    else:
        yield f"{told}; `--field resolved=rewards.NAME` makes a part of 0 or 1 the verdict, `--field reward=rewards.NAME` one the reward"


FORMAT = row_format(
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
    conclude=_conclude,
)
