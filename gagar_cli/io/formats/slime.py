"""slime's rollout samples, one a line: what `gagar convert --unsafe-pickle` makes of a `.pt` dump, or a trainer wrote itself.

One run of an agent may be several samples with the same `rollout_id`: its segments. A sample that is to be removed, was
aborted or failed is invalid. Neither the patch nor the test output is kept by the trainer.
"""

from collections.abc import Mapping
from typing import Any

from gagar_cli.io.formats.base import Lift, Record, known
from gagar_cli.io.formats.parts import prompt_key, text_or_none
from gagar_cli.io.formats.rows import RowPlace, has, row_format
from gagar_cli.io.formats.values import flag_of, named_rewards, reward_of
from gagar_cli.io.lookups import MISSING

STEP = "dump_rollout_id"
"""The number of the dump, which is the training step: put into every sample on conversion."""
_BROKEN = ("aborted", "failed")
_UNNAMED = object()


def _sample(lift: Lift, place: RowPlace) -> Record:
    prompt, response = lift.take("prompt", MISSING), lift.take("response")
    group, run, index = lift.take("group_index"), lift.take("rollout_id"), lift.take("index")
    status = lift.text("status")
    reason = text_or_none(lift.peek("metadata.abort_reason"))
    reward = lift.take("reward")
    parts = named_rewards(reward) if isinstance(reward, Mapping) else {}
    # Null is not evaluated, whatever the reward says; without the name nobody graded.
    is_graded = lift.peek("metadata.grading_solved", _UNNAMED) is not _UNNAMED
    resolved = flag_of(lift.take("metadata.grading_solved"), "metadata.grading_solved")
    is_broken = status in _BROKEN
    return {
        "group_id": str(group) if group is not None else prompt_key(prompt, "prompt", place.context),
        "group_id_source": "field:group_index" if group is not None else "equal_prompt",
        "trajectory_id": place.attempt_id if run is None and index is None else str(index if run is None else run),
        "messages": place.log(prompt, response),
        **_reward(reward, parts, resolved),
        **({"resolved": resolved} if is_graded else {}),
        **known(
            segment=_segment(place, group, run),
            step=lift.integer(STEP),
            instance_id=text_or_none(lift.peek("metadata.instance_id")),
            rewards=parts or None,
            exit_status=status,
            is_truncated=status == "truncated" if status else None,
            infra_failure=True if is_broken else None,
            infra_failure_reason=reason or status if is_broken else None,
            mask_sample=lift.flag("remove_sample"),
            n_output_tokens=lift.integer("response_length"),
        ),
    }  # fmt: skip


def _reward(reward: Any, parts: Mapping[str, float], resolved: bool | None) -> Record:
    """The one reward. Of several named ones a verdict speaks for; without it somebody has to choose: they stay an object."""
    if len(parts) > 1:
        return {"reward": dict(parts)} if resolved is None else {}
    is_unscored = isinstance(reward, Mapping) and all(each is None for each in reward.values())
    return {"reward": next(iter(parts.values())) if parts else reward_of(None if is_unscored else reward)}


def _segment(place: RowPlace, group: Any, run: Any) -> int | None:
    """Which part of its run a sample is, in the order of the file; None for the first."""
    if run is None:
        return None
    seen = place.context.seen
    key = (str(group), str(run))
    seen[key] = seen.get(key, -1) + 1
    return seen[key] or None


FORMAT = row_format(
    "slime",
    "slime rollout samples",
    "lines of samples; a `.pt` dump becomes them by `gagar convert --unsafe-pickle`",
    has("group_index", "response", "tokens", "status", container="lines"),
    _sample,
    {
        "group_id": "group_index, else equal prompt",
        "trajectory_id": "rollout_id, else index",
        "segment": "place among the samples of one rollout_id",
        "step": f"{STEP}, the dump's own number",
        "reward": "reward; of several named ones the one that `--format slime --field reward=rewards.NAME` says",
        "resolved": "metadata.grading_solved",
        "messages": "prompt, response",
        "mask_sample": "remove_sample",
        "infra_failure": "status aborted, failed",
        "is_truncated": "status truncated",
    },
    keys=("response", "reward"),
)
