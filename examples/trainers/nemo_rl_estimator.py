"""NeMo-RL: an advantage estimator that redistributes the rewards of a step.

    import nemo_rl_estimator; nemo_rl_estimator.install()      # before grpo.setup, in your copy of run_grpo.py
    grpo.adv_estimator: {name: grpo, use_leave_one_out_baseline: false, normalize_rewards: false}

Both options are needed: NeMo-RL's default leaves each attempt out of its own mean and divides by the deviation.
"""

from gagar_step import redistribute_rewards
from nemo_rl.algorithms import advantage_estimator


class GagarAdvantageEstimator(advantage_estimator.GRPOAdvantageEstimator):
    """GRPO over other rewards."""

    def __init__(self, estimator_config, loss_config):
        super().__init__(estimator_config, loss_config)
        if self.use_leave_one_out_baseline or self.normalize_rewards:
            raise ValueError("set use_leave_one_out_baseline and normalize_rewards to false")

    def compute_advantage(self, prompt_ids, rewards, mask, valid_mask=None, **kwargs):
        """Advantages of shape [batch_size, seq_len]."""
        logs = (kwargs.get("repeated_batch") or {}).get("message_log")
        prompts = [tuple(ids) for ids in prompt_ids.tolist()]
        groups = {prompt: str(number) for number, prompt in enumerate(dict.fromkeys(prompts))}
        valid = [True] * len(prompts) if valid_mask is None else [bool(each) for each in valid_mask.tolist()]
        records = []
        for row, (prompt, reward) in enumerate(zip(prompts, rewards.tolist(), strict=True)):
            record = {"group_id": groups[prompt], "trajectory_id": str(row), "reward": reward}
            record["infra_failure"] = not valid[row]
            if logs is not None:
                record["messages"] = [
                    {"role": turn["role"], "content": turn["content"]} for turn in logs[row]
                ]
            records.append(record)
        made = rewards.new_tensor(redistribute_rewards(records))
        return super().compute_advantage(prompt_ids, made, mask, valid_mask=valid_mask, **kwargs)


def install():
    """Take the place of NeMo-RL's GRPO."""
    from nemo_rl.algorithms import grpo

    advantage_estimator.GRPOAdvantageEstimator = GagarAdvantageEstimator
    grpo.GRPOAdvantageEstimator = GagarAdvantageEstimator
