"""slime: advantages in place of its own reward normalisation.

    --custom-reward-post-process-path slime_rewards.post_process_rewards --advantage-estimator grpo

slime hands over all samples of a step and trains on the second list as it is, so this returns advantages. `metadata` of a
sample holds what the grader is to see (`model_patch`, `messages`, …), put there by the rollout function.
"""

from gagar_step import redistribute_step, with_facts


def post_process_rewards(args, samples):
    """Raw rewards for the logs, and what is trained on."""
    raw = [sample.get_reward_value(args) for sample in samples]
    records = {}
    runs = []
    for sample, reward in zip(samples, raw, strict=True):
        # One run of an agent may be several samples: they are one attempt, and all get its credit.
        run = getattr(sample, "rollout_id", None)
        key = (str(sample.group_index), str(sample.index if run is None else run))
        earlier = records.get(key, {"messages": [], "infra_failure": False})
        said = [*earlier["messages"], {"role": "assistant", "content": sample.response}]
        is_broken = sample.status.value in ("aborted", "failed") or sample.remove_sample
        record = {"group_id": key[0], "trajectory_id": key[1], "reward": reward, "messages": said}
        record["infra_failure"] = earlier["infra_failure"] or is_broken
        records[key] = with_facts(record, sample.metadata)
        runs.append(key)
    given = dict(zip(records, redistribute_step(list(records.values())), strict=True))
    return raw, [given[key].advantage or 0.0 for key in runs]
