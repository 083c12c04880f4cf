"""slime: advantages in place of its own reward normalisation.

    --custom-reward-post-process-path slime_rewards.post_process_rewards --advantage-estimator grpo

slime hands over all samples of a step and trains on the second list as it is, so this returns advantages. `metadata` of a
sample holds what the grader is to see (`model_patch`, `messages`, …), put there by the rollout function.
"""

from gagar_step import redistribute_step


def post_process_rewards(args, samples):
    """Raw rewards for the logs, and what is trained on."""
    raw = [sample.get_reward_value(args) for sample in samples]
    records = [
        {
            "group_id": str(sample.group_index),
            "trajectory_id": str(sample.index),
            "reward": reward,
            "infra_failure": sample.status.value == "aborted",
            "messages": [{"role": "assistant", "content": sample.response}],
            **sample.metadata,
        }
        for sample, reward in zip(samples, raw, strict=True)
    ]
    return raw, [credit.advantage or 0.0 for credit in redistribute_step(records)]
